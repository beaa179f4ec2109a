"""Real Hermes without the bridge: the problem, shown, so that its cure can be believed.

If one of these fails after an update of Hermes, the bridge's profile may be out of date.
"""

from __future__ import annotations

import pytest

from tests.hermes.conftest import Open
from tests.hermes.model import ModelServer
from tests.hermes.record import Body
from tests.hermes.script import script
from tests.hermes.signals import Signal

pytestmark = pytest.mark.hermes

TRIES, TRIES_MAX = 5, 20
FAKE_MAX_S = 0.020


async def test_mid_turn_prompt_gets_a_fake_completion(
    open_hermes: Open, model: ModelServer
) -> None:
    """A client that believes this answer closes a conversation that has not even begun.

    The best of several tries counts: the bound is about Hermes, not about a loaded machine.
    """
    peer = await open_hermes("direct")
    session = await peer.new_session()
    waits_s: list[float] = []
    expected: list[str] = []
    for turn in range(TRIES_MAX):
        gate, first, second = f"gate {turn}", f"long {turn}", f"mid {turn}"
        text = script(second, ["say", f"B{turn}"])
        long = await peer.prompt(
            session, script(first, ["say", f"A{turn}"], ["gate", gate], ["say", " end"])
        )
        await peer.wait_text(f"A{turn}")
        mid = await peer.prompt(session, text)
        answer = await peer.answer(mid)
        waits_s.append(answer.at_s - mid.at_s)

        assert answer.body["result"] == {"stopReason": "end_turn"}
        assert model.prompts()[-1] != text, "the model has not been asked yet"

        model.release(gate)
        await peer.answer(long)
        expected += [
            f"says A{turn}Queued for the next turn. (1 queued)",
            f"answers {second}: end_turn",
            "says  end",
            f"user {text}",
            f"says B{turn}",
            f"answers {first}: end_turn",
        ]
        if len(waits_s) >= TRIES and min(waits_s) < FAKE_MAX_S:
            break

    assert min(waits_s) < FAKE_MAX_S, waits_s
    assert expected == peer.story(session)


async def test_a_cancel_during_a_tool_wedges_the_session(
    open_hermes: Open, model: ModelServer
) -> None:
    """After it every prompt is acknowledged and none is run."""
    peer = await open_hermes("direct")
    session = await peer.new_session()
    with Signal(peer.home.work / "started") as started:
        command = {"command": f"echo > {started.path}; sleep 20"}
        first = await peer.prompt(session, script("one", ["tool", "terminal", command]))
        await started.wait()
    await peer.cancel(session)
    error: Body = (await peer.answer(first)).body["error"]
    second = await peer.prompt(session, script("two", ["say", "never"]))

    assert error["code"] == -32603
    assert error["data"]["details"] == "'NoneType' object has no attribute 'startswith'"
    assert (await peer.answer(second)).body["result"] == {"stopReason": "end_turn"}
    assert peer.story(session)[-2:] == [
        "says Queued for the next turn. (1 queued)",
        "answers two: end_turn",
    ]
    assert [script("one", ["tool", "terminal", command])] == model.prompts()
