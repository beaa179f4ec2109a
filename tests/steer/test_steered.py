"""The main job on real steering agents: a prompt sent mid-turn changes the running turn.

The client knows no steering: it sends plain prompts, and each is answered once and truly.
"""

from __future__ import annotations

import pytest

from tests.hermes.record import Body, Sent
from tests.hermes.script import script
from tests.steer.conftest import COPY, Open
from tests.steer.edge import run_edge
from tests.steer.home import Name, shell_step
from tests.steer.model import SteerModel
from tests.steer.talk import HELD, LEFT, SteerPeer, allowing

pytestmark = [pytest.mark.steer, pytest.mark.process]

EDGE_STEERS = 15


def ours(result: Body) -> Body:
    """What the bridge says of an answer in its own name; empty if nothing."""
    found = (result.get("_meta") or {}).get("acpbridge") or {}
    assert isinstance(found, dict), result
    return found


def outcomes(peer: SteerPeer, outcome: str) -> int:
    """How often the agent itself gave a steer this outcome."""
    return (peer.home.root / COPY).read_bytes().count(f'"outcome":"{outcome}"'.encode())


def check(peer: SteerPeer, *prompts: Sent) -> None:
    """What holds in every scenario: one answer each, none of the bridge's own ids shown."""
    for sent in prompts:
        assert len(peer.answers(sent)) == 1, sent
    asked = {seen.body.get("id") for seen in peer.frames if seen.sender == "client"}
    answered = {
        seen.body["id"]
        for seen in peer.frames
        if seen.sender == "agent" and "method" not in seen.body
    }
    assert answered <= asked, "the answer to a steer of the bridge is the bridge's"
    assert not peer.noise


async def test_a_prompt_mid_turn_changes_the_running_turn(
    open_agent: Open, model: SteerModel
) -> None:
    """R1, R8, R14: both are answered at the turn's end, the second as sharing it."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    second = await peer.prompt(session, LEFT)
    results = [await peer.result(first), await peer.result(second)]

    assert peer.told(session) == [
        "says A0 B0 B1",
        "answers one: end_turn",
        "answers left: end_turn",
    ]
    assert [asked.texts for asked in model.asked] == [[HELD], [HELD, LEFT]]
    assert await model.wholes() == [False, True], "the gate was never opened"
    assert ours(results[0]) == {}, "the owner's response is the agent's own"
    assert ours(results[1]) == {"completion": "shared"}
    check(peer, first, second)


async def test_three_prompts_mid_turn_are_steered_in_order(
    open_agent: Open, model: SteerModel
) -> None:
    """R14: one at a time, I5: nothing overtakes; the last one's answer is the turn's."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    # Behind a gate, so that the turn cannot end before the next one is there; each cuts the last.
    texts = [script(word, ["say", f"{word}."], ["gate", "g"]) for word in ("left", "right")]
    texts += [script("stop", ["say", "Stopped."])]
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    frames, waiting = zip(*(peer.prompt_frame(session, text) for text in texts), strict=True)
    await peer.send_many(*frames)
    results = [await peer.result(sent) for sent in waiting]

    assert outcomes(peer, "injected") == len(texts)
    assert {str(ours(result).get("completion")) for result in results} == {"shared"}
    assert model.asked[-1].texts == [HELD, *texts]
    assert peer.told(session)[-5].endswith("Stopped.")
    assert [line.partition(":")[0] for line in peer.told(session)[-4:]] == [
        "answers one",
        "answers left",
        "answers right",
        "answers stop",
    ]
    check(peer, first, *waiting)


async def test_an_idle_prompt_is_a_plain_prompt(open_agent: Open, model: SteerModel) -> None:
    """R1: nothing is steered where nothing runs, and nothing is tagged."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    texts = [script("one", ["say", "A"]), script("two", ["say", "B"])]
    sent = [await peer.prompt(session, texts[0])]
    await peer.answer(sent[0])
    sent.append(await peer.prompt(session, texts[1]))
    result = await peer.result(sent[1])

    assert ours(result) == {}
    assert [asked.texts for asked in model.asked] == [texts[:1], texts]
    assert [outcomes(peer, word) for word in ("injected", "promptRequired")] == [0, 0]
    check(peer, *sent)


async def test_a_prompt_may_ask_to_be_queued(open_agent: Open, model: SteerModel) -> None:
    """R2: the policy of one prompt, in its own ``_meta``."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    body, second = peer.prompt_frame(session, LEFT)
    body["params"]["_meta"] = {"acpbridge": {"midturn": "queue"}}
    await peer.send_many(body)
    await peer.fence()

    assert peer.told(session) == ["says A0 "]

    model.release("g")
    await peer.answer(second)

    assert peer.told(session) == [
        "says A0 A1",
        "answers one: end_turn",
        "says B0 B1",
        "answers left: end_turn",
    ]
    assert outcomes(peer, "injected") == 0
    check(peer, first, second)


async def test_a_steered_prompt_shares_the_cancel(open_agent: Open, model: SteerModel) -> None:
    """R15: written before the cancel, so cancelled with the owner; the next prompt runs."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    texts = [script("left", ["say", "B0 "], ["gate", "never"]), script("three", ["say", "C"])]
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    second = await peer.prompt(session, texts[0])
    await peer.wait_text("B0 ")
    await peer.cancel(session)
    results = [await peer.result(first), await peer.result(second)]
    third = await peer.prompt(session, texts[1])
    await peer.answer(third)

    assert [result["stopReason"] for result in results] == ["cancelled", "cancelled"]
    assert ours(results[1])["completion"] == "shared"
    assert peer.told(session)[-2:] == ["says C", "answers three: end_turn"]
    assert model.times(texts[1]) == 1
    check(peer, first, second, third)


async def test_nothing_is_steered_after_a_cancel(open_agent: Open, model: SteerModel) -> None:
    """R14: in one write with the cancel, a bare claude would run it as an ownerless turn."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")
    body, second = peer.prompt_frame(session, LEFT)
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
    await peer.send_many(cancel, body)
    results = [await peer.result(first), await peer.result(second)]

    assert [result["stopReason"] for result in results] == ["cancelled", "end_turn"]
    assert ours(results[1]) == {}
    assert peer.told(session)[-2:] == ["says B0 B1", "answers left: end_turn"]
    assert outcomes(peer, "injected") == 0
    assert model.times(LEFT) == 1
    check(peer, first, second)


async def test_a_steer_beside_an_open_permission(
    open_agent: Open, name: Name, model: SteerModel
) -> None:
    """The card stays open at the client, and the one turn answers both."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    tool = shell_step(name, "touch made.txt")
    first = await peer.prompt(session, script("one", ["say", "A0 "], tool, ["say", "A1"]))
    asked = await peer.wait_for(lambda one: one.body.get("method") == "session/request_permission")
    second = await peer.prompt(session, LEFT)
    await peer.fence()

    assert not peer.answers(first)
    assert not peer.answers(second)

    await peer.reply(asked.body, allowing(asked.body))
    await peer.answer(first)
    result = await peer.result(second)

    assert ours(result)["completion"] == "shared"
    assert peer.told(session)[-3].endswith("B0 B1")
    assert (peer.home.work / "made.txt").exists()
    assert model.times(LEFT) == 1
    check(peer, first, second)


async def test_a_steer_of_the_clients_own_passes(open_agent: Open, model: SteerModel) -> None:
    """It is answered by the agent, and the bridge's picture of the turn stays right."""
    peer = await open_agent("bridged", "--midturn", "auto")
    session = await peer.new_session()
    after = script("two", ["say", "C"])
    first = await peer.prompt(session, HELD)
    await peer.wait_text("A0 ")

    assert await peer.result(await peer.steer(session, LEFT)) == {"outcome": "injected"}

    await peer.answer(first)
    second = await peer.prompt(session, after)
    await peer.answer(second)

    assert peer.told(session) == [
        "says A0 B0 B1",
        "answers one: end_turn",
        "says C",
        "answers two: end_turn",
    ]
    assert [asked.texts for asked in model.asked] == [[HELD], [HELD, LEFT], [HELD, LEFT, after]]
    check(peer, first, second)


async def test_steers_at_the_turns_edge(open_agent: Open, model: SteerModel) -> None:
    """None lost, none twice, each answer true; `python -m tests.steer` runs 200 of them."""
    peer = await open_agent("bridged", "--midturn", "auto")
    # Three of this seed's offsets are far behind the turn's end as it was measured, six before it.
    report = await run_edge(peer, model, EDGE_STEERS, seed=36, through_bridge=True)

    assert report.faults == []
