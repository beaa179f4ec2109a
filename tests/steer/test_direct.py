"""The real steering agents without the bridge: what the bridge's promises are measured against.

If one of these fails after an update of an agent, the bridge's profile may be out of date.
"""

from __future__ import annotations

import pytest

from tests.hermes.record import Seen
from tests.hermes.script import script
from tests.hermes.signals import Signal
from tests.steer.conftest import Open
from tests.steer.home import PACKAGES, VERSIONS, Name, shell_step
from tests.steer.model import SteerModel
from tests.steer.talk import HELD, LEFT, allowing

pytestmark = pytest.mark.steer


def ends_detached_turn(name: Name, seen: Seen) -> bool:
    """The only sign of the end of a turn that no request owns."""
    if name == "claude":
        return seen.kind == "usage_update" and "cost" in seen.update
    codex = (seen.update.get("_meta") or {}).get("codex", {})
    return bool(codex.get("threadStatus") == {"type": "idle"})


async def test_steering_is_advertised(open_agent: Open, name: Name) -> None:
    peer = await open_agent("direct")
    result = peer.frames[-1].body["result"]

    assert result["agentInfo"]["name"] == PACKAGES[name]
    assert result["agentInfo"]["version"] == VERSIONS[name]
    assert result["_meta"]["steering"]["supported"] is True


async def test_simple_prompt(open_agent: Open, model: SteerModel) -> None:
    peer = await open_agent("direct")
    session = await peer.new_session()
    text = script("one", ["say", "Hello "], ["say", "world."])
    result = await peer.result(await peer.prompt(session, text))

    assert peer.told(session) == ["says Hello world.", "answers one: end_turn"]
    assert result["usage"]["totalTokens"] > 0
    assert [asked.texts for asked in model.asked] == [[text]]
    assert await model.wholes() == [True]
    assert not model.strays
    assert not peer.noise


async def test_a_steer_changes_the_running_turn(
    open_agent: Open, name: Name, model: SteerModel
) -> None:
    """The generation is cut, the steer is answered, and the one response comes after that."""
    peer = await open_agent("direct")
    session = await peer.new_session()
    owner = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")

    assert await peer.steered(session, LEFT) == "injected"
    assert not peer.answers(owner)

    await peer.answer(owner)

    assert peer.told(session) == ["says A0 B0 B1", "answers one: end_turn"]
    assert [asked.texts for asked in model.asked] == [[HELD], [HELD, LEFT]]
    assert await model.wholes() == [False, True]
    # codex forgets what the client has seen of the cut answer; claude keeps it.
    assert model.asked[1].remembered == {"claude": "A0 ", "codex": ""}[name]
    assert not [seen for seen in peer.frames if seen.kind == "user_message_chunk"]


async def test_a_steer_during_a_tool_waits_for_the_tool(
    open_agent: Open, name: Name, model: SteerModel
) -> None:
    """Its text reaches the model with the tool's result, in one call."""
    peer = await open_agent("direct")
    session = await peer.new_session()
    peer.on_permission = allowing
    go = peer.home.work / "go"
    with Signal(peer.home.work / "started") as started:
        # The tool runs until this test writes to the pipe.
        run = f"mkfifo {go}; echo > {started.path}; read line < {go}; echo over"
        text = script("one", ["say", "A0 "], shell_step(name, run), ["say", "never"])
        owner = await peer.prompt(session, text)
        await started.wait()

    assert await peer.steered(session, LEFT) == "injected"
    assert len(model.asked) == 1

    go.write_text("on\n")
    await peer.answer(owner)

    told = peer.told(session)
    assert told[0] == "says A0 "
    assert told[-2:] == ["says B0 B1", "answers one: end_turn"]
    assert [asked.texts for asked in model.asked] == [[text], [text, LEFT]]
    assert [item for item in model.asked[1].items if item.kind == "result" and "over" in item.text]


async def test_an_idle_steer_that_opts_in_consumes_nothing(
    open_agent: Open, model: SteerModel
) -> None:
    peer = await open_agent("direct")
    session = await peer.new_session()
    required = {"outcome": "promptRequired", "reason": "noRunningTurn"}
    texts = [script("one", ["say", "A"]), script("two", ["say", "C"])]

    assert await peer.result(await peer.steer(session, LEFT)) == required

    await peer.answer(await peer.prompt(session, texts[0]))

    assert await peer.result(await peer.steer(session, LEFT)) == required

    await peer.answer(await peer.prompt(session, texts[1]))

    assert peer.told(session) == [
        "says A",
        "answers one: end_turn",
        "says C",
        "answers two: end_turn",
    ]
    assert [asked.texts for asked in model.asked] == [texts[:1], texts]


async def test_an_idle_steer_without_the_opt_in_runs_a_turn_that_nobody_owns(
    open_agent: Open, name: Name, model: SteerModel
) -> None:
    peer = await open_agent("direct")
    session = await peer.new_session()
    steer = await peer.steer(session, LEFT, opts_in=False)

    assert await peer.result(steer) == {"outcome": "startedNewTurn"}

    shown = await peer.wait_text("B1")
    await peer.wait_for(lambda seen: ends_detached_turn(name, seen), after=shown, what="its end")
    after = script("one", ["say", "A"])
    await peer.answer(await peer.prompt(session, after))

    assert peer.told(session) == ["says B0 B1A", "answers one: end_turn"]
    assert len(peer.answers(steer)) == 1
    assert [asked.texts for asked in model.asked] == [[LEFT], [LEFT, after]]


async def test_a_second_prompt_waits_for_the_first_ones_end(
    open_agent: Open, model: SteerModel
) -> None:
    peer = await open_agent("direct")
    session = await peer.new_session()
    second_text = script("two", ["say", "B"])
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    second = await peer.prompt(session, second_text)
    await peer.fence()

    assert not peer.answers(first)
    assert not peer.answers(second)

    model.release("g")
    await peer.answer(second)

    assert peer.told(session) == [
        "says A0 A1",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
    ]
    assert [asked.texts for asked in model.asked] == [[HELD], [HELD, second_text]]


async def test_two_waiting_prompts(open_agent: Open, name: Name, model: SteerModel) -> None:
    """Claude folds them into one call and answers the first of them by no turn at all."""
    peer = await open_agent("direct")
    session = await peer.new_session()
    texts = [script("two", ["say", "B"]), script("three", ["say", "C"])]
    await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    frames, waiting = zip(*(peer.prompt_frame(session, text) for text in texts), strict=True)
    await peer.send_many(*frames)
    await peer.fence()
    model.release("g")
    for sent in waiting:
        await peer.answer(sent)

    begin, end = ["says A0 A1", "answers one: end_turn"], ["says C", "answers three: end_turn"]
    folded = ["answers two: end_turn"]
    honest = ["says B", "answers two: end_turn"]
    assert peer.told(session) == begin + (folded if name == "claude" else honest) + end
    calls = [[HELD], [HELD, texts[0]], [HELD, *texts]]
    assert [asked.texts for asked in model.asked] == (
        [calls[0], calls[2]] if name == "claude" else calls
    )


async def test_cancel_mid_turn(open_agent: Open, model: SteerModel) -> None:
    peer = await open_agent("direct")
    session = await peer.new_session()
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    await peer.cancel(session)
    result = await peer.result(first)
    after = script("two", ["say", "B"])
    await peer.answer(await peer.prompt(session, after))

    assert result["stopReason"] == "cancelled"
    assert await model.wholes() == [False, True], "the first generation was cut"
    assert [line for line in peer.told(session) if line != "says A0 "] == [
        "answers one: cancelled",
        "says B",
        "answers two: end_turn",
    ]
    assert model.times(after) == 1


async def test_cancel_with_a_prompt_waiting(
    open_agent: Open, name: Name, model: SteerModel
) -> None:
    """Claude cancels both; in codex the waiting one runs all the same."""
    peer = await open_agent("direct")
    session = await peer.new_session()
    text = script("two", ["say", "B"])
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    second = await peer.prompt(session, text)
    await peer.fence()
    await peer.cancel(session)
    results = [await peer.result(first), await peer.result(second)]

    expected = {"claude": ["cancelled", "cancelled"], "codex": ["cancelled", "end_turn"]}
    assert [result["stopReason"] for result in results] == expected[name]
    assert (model.times(text) == 1) == (name == "codex")
