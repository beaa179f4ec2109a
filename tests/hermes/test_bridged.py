"""Real Hermes behind the bridge: what the client saw, in order, and what reached the model.

Every test drives a process of `acpbridge run -- hermes acp` as a client would. Ids of requests
and sessions are the client's own throughout. Nothing sleeps: gates in the model, a fence
through the agent and frames on the wire say when the next step is due.
"""

from __future__ import annotations

import pytest

from tests.hermes.conftest import Open
from tests.hermes.model import ModelServer
from tests.hermes.peer import Peer
from tests.hermes.processes import wait_gone
from tests.hermes.record import Sent
from tests.hermes.script import script
from tests.hermes.signals import Signal

pytestmark = [pytest.mark.hermes, pytest.mark.process]

RECEIPTS = ("Queued for the next turn", "Redirected the active turn")


def check(peer: Peer, *prompts: Sent) -> None:
    """What holds in every scenario: one answer each, honest texts, the client's session id."""
    for sent in prompts:
        assert len(peer.answers(sent)) == 1, sent
    seen = [one for one in peer.frames if one.sender == "agent"]
    assert not [one for one in seen if any(text in str(one.body) for text in RECEIPTS)]
    known = {one.session for one in peer.frames if one.sender == "client"}
    opened = {one.body["result"]["sessionId"] for one in seen if _opens(one.body)}
    assert {one.session for one in seen if one.session} <= known | opened
    assert not peer.noise


def _opens(body: dict[str, object]) -> bool:
    result = body.get("result")
    return isinstance(result, dict) and "sessionId" in result


async def test_simple_turn(open_hermes: Open, model: ModelServer) -> None:
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    text = script("one", ["think", "hm"], ["say", "Hello "], ["say", "world."])
    sent = await peer.prompt(session, text)
    answer = await peer.answer(sent)

    assert peer.story(session) == ["thinks hm", "says Hello world.", "answers one: end_turn"]
    assert answer.body["result"]["usage"]["totalTokens"] > 0
    assert "_meta" not in answer.body["result"], "the agent's own response needs no tag"
    assert model.prompts() == [text]
    assert peer.agent_pid() != peer.process.pid, "the bridge stands in front"
    check(peer, sent)


async def test_three_prompts_mid_turn_each_get_their_own_turn(
    open_hermes: Open, model: ModelServer
) -> None:
    """Two prompts in one read deadlock a bare Hermes 0.19 for ever; here they just wait."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    texts = [script("one", ["say", "A0 "], ["gate", "g"], ["say", "A1"])]
    texts += [script(name, ["say", name.upper()]) for name in ("two", "three", "four")]
    first = await peer.prompt(session, texts[0])
    await peer.wait_text("A0")
    frames, waiting = zip(*(peer.prompt_frame(session, text) for text in texts[1:]), strict=True)
    await peer.send_many(*frames)
    await peer.fence()
    assert peer.story(session) == ["says A0 "]
    assert model.prompts() == texts[:1]

    model.release("g")
    await peer.answer(waiting[-1])

    assert peer.story(session) == [
        "says A0 A1",
        "answers one: end_turn",
        "says TWO",
        "answers two: end_turn",
        "says THREE",
        "answers three: end_turn",
        "says FOUR",
        "answers four: end_turn",
    ]
    assert model.prompts() == texts
    check(peer, first, *waiting)


async def test_cancel_with_a_queue(open_hermes: Open, model: ModelServer) -> None:
    """Hermes would still run what it queued; the bridge never gave it away."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    text = script("one", ["say", "A"], ["gate", "never"])
    after = script("four", ["say", "D"])
    first = await peer.prompt(session, text)
    await peer.wait_text("A")
    second = await peer.prompt(session, script("two", ["say", "B"]))
    third = await peer.prompt(session, script("three", ["say", "C"]))
    await peer.fence()
    await peer.cancel(session)
    await peer.answer(first)
    fourth = await peer.prompt(session, after)
    await peer.answer(fourth)

    assert peer.story(session) == [
        "says A",
        "answers two: cancelled",
        "answers three: cancelled",
        "answers one: cancelled",
        "says D",
        "answers four: end_turn",
    ]
    assert model.prompts() == [text, after]
    check(peer, first, second, third, fourth)


async def test_cancel_during_a_tool_then_a_prompt_that_really_runs(
    open_hermes: Open, model: ModelServer
) -> None:
    """The cancel wedges the session in Hermes; the client must not notice, nor its id change."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    before = script("zero", ["say", "Z"])
    await peer.answer(await peer.prompt(session, before))
    with Signal(peer.home.work / "started") as started:
        command = {"command": f"echo > {started.path}; sleep 20"}
        text = script("one", ["tool", "terminal", command], ["say", "never"])
        first = await peer.prompt(session, text)
        await started.wait()
    await peer.cancel(session)
    await peer.answer(first)
    after = [script("two", ["say", "B"]), script("three", ["say", "C"])]
    second = await peer.prompt(session, after[0])
    await peer.answer(second)
    third = await peer.prompt(session, after[1])
    await peer.answer(third)

    told = peer.story(session)
    assert told[2].startswith("calls terminal: echo >")
    assert told[:2] + told[3:] == [
        "says Z",
        "answers zero: end_turn",
        "answers one: cancelled",
        "says B",
        "answers two: end_turn",
        "says C",
        "answers three: end_turn",
    ]
    assert model.prompts() == [before, text, *after]
    assert before in model.asked[-1].user_texts, "the conversation goes on, it does not begin anew"
    check(peer, first, second, third)


@pytest.mark.parametrize("is_one_write", [False, True])
async def test_cancel_just_after_a_turn_ended(
    open_hermes: Open, model: ModelServer, is_one_write: bool
) -> None:
    """In Hermes a cancel that finds no turn poisons the next prompt."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    texts = [script("one", ["say", "A"]), script("two", ["say", "B"])]
    first = await peer.prompt(session, texts[0])
    await peer.answer(first)
    body, second = peer.prompt_frame(session, texts[1])
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
    if is_one_write:
        await peer.send_many(cancel, body)
    else:
        await peer.send_many(cancel)
        await peer.fence()
        await peer.send_many(body)
    await peer.answer(second)

    assert peer.story(session) == [
        "says A",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
    ]
    assert model.prompts() == texts
    check(peer, first, second)


async def test_permission_with_a_prompt_waiting(open_hermes: Open, model: ModelServer) -> None:
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    tool = ["tool", "terminal", {"command": "rm -rf ./build"}]
    texts = [script("one", ["say", "removing"], tool, ["say", "removed"])]
    texts += [script("two", ["say", "B"])]
    first = await peer.prompt(session, texts[0])
    asked = await peer.wait_for(lambda one: one.body.get("method") == "session/request_permission")
    second = await peer.prompt(session, texts[1])
    await peer.fence()
    assert peer.story(session)[-1] == "asks session/request_permission"

    outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    await peer.reply(asked.body, outcome)
    await peer.answer(second)

    assert peer.story(session) == [
        "says removing",
        "calls terminal: rm -rf ./build",
        "asks session/request_permission",
        "says \n\nremoved",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
    ]
    assert model.prompts() == texts
    check(peer, first, second)


async def test_two_sessions_do_not_wait_for_each_other(
    open_hermes: Open, model: ModelServer
) -> None:
    peer = await open_hermes("bridged")
    left, right = await peer.new_session(), await peer.new_session()
    texts = [
        script("left", ["say", "L0 "], ["gate", "g"], ["say", "L1"]),
        script("right", ["say", "R"]),
        script("left again", ["say", "LL"]),
    ]
    first = await peer.prompt(left, texts[0])
    await peer.wait_text("L0")
    second = await peer.prompt(right, texts[1])
    third = await peer.prompt(left, texts[2])
    await peer.answer(second)
    assert peer.story(left) == ["says L0 "]

    model.release("g")
    await peer.answer(third)

    assert peer.story(right) == ["says R", "answers right: end_turn"]
    assert peer.story(left) == [
        "says L0 L1",
        "answers left: end_turn",
        "says LL",
        "answers left again: end_turn",
    ]
    assert model.prompts() == texts
    check(peer, first, second, third)


async def test_provider_error_is_the_answer_and_the_next_prompt_runs(
    open_hermes: Open, model: ModelServer
) -> None:
    """Hermes answers a failed call with prose and a bare end_turn: real, though it looks fake.

    It retries three times by itself, for some eight seconds in all.
    """
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    texts = [script("one", ["status", 500, "boom"]), script("two", ["say", "B"])]
    first = await peer.prompt(session, texts[0])
    await model.wait_asked(lambda asked: asked.text == texts[0])
    second = await peer.prompt(session, texts[1])
    answer = await peer.answer(first)
    await peer.answer(second)

    assert peer.story(session) == [
        "says API call failed after 3 retries: HTTP 500: boom",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
    ]
    assert answer.body["result"] == {"stopReason": "end_turn"}
    assert model.prompts() == [texts[0]] * 3 + [texts[1]]
    check(peer, first, second)


@pytest.mark.slow
async def test_provider_that_is_silent_for_25_s(open_hermes: Open, model: ModelServer) -> None:
    """Silence is no end: no watchdog of ours fires, and the waiting prompt goes on waiting."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    texts = [script("one", ["say", "A0 "], ["sleep", 25], ["say", "A1"])]
    texts += [script("two", ["say", "B"])]
    first = await peer.prompt(session, texts[0])
    await peer.wait_text("A0")
    second = await peer.prompt(session, texts[1])
    end = await peer.wait_text("A1")
    await peer.answer(second)

    # From the write of the prompt, since the first words may be seen late.
    assert end.at_s - first.at_s > 25
    assert peer.story(session) == [
        "says A0 A1",
        "answers one: end_turn",
        "says B",
        "answers two: end_turn",
    ]
    assert model.prompts() == texts
    check(peer, first, second)


async def test_agent_killed_mid_turn_with_a_queue_of_two(
    open_hermes: Open, model: ModelServer
) -> None:
    """The running prompt may have run, and is told so; the waiting ones lose nothing."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    texts = [
        script("zero", ["say", "Z"]),
        script("one", ["say", "A"], ["gate", "never"]),
        script("two", ["say", "B"]),
        script("three", ["say", "C"]),
    ]
    await peer.answer(await peer.prompt(session, texts[0]))
    first = await peer.prompt(session, texts[1])
    await peer.wait_text("A")
    second = await peer.prompt(session, texts[2])
    third = await peer.prompt(session, texts[3])
    await peer.fence()
    killed = peer.kill_agent()
    await wait_gone(killed, within_s=30)
    error = (await peer.answer(first)).body["error"]
    await peer.answer(third)

    assert -32069 <= error["code"] <= -32050
    assert error["data"]["acpbridge"]["kind"] == "agent-exited"
    assert "may have run" in error["message"]
    assert peer.story(session) == [
        "says Z",
        "answers zero: end_turn",
        "says A",
        f"answers one: error {error['code']}",
        "says B",
        "answers two: end_turn",
        "says C",
        "answers three: end_turn",
    ]
    assert model.prompts() == texts
    assert texts[0] in model.asked[-1].user_texts, "the restarted agent knows the conversation"
    assert peer.agent_pid() != killed
    check(peer, first, second, third)
