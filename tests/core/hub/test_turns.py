"""A prompt of one client: shown to the others, answered to its owner, ended for all."""

from __future__ import annotations

import pytest

from acpbridge.core.events import Recovered
from tests.core.hub.crowd import EVENTS, Crowd, load, methods, place, since, words
from tests.core.left import LEFT
from tests.core.script import (
    CAPABILITIES,
    Json,
    answer,
    chunk,
    ended,
    error,
    prompt,
    request,
    tool,
    update,
)

TEXT = {"type": "text", "text": "look"}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}


def three() -> Crowd:
    """One that opened the session, one that follows as it is, one that follows with events."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    crowd.greet(2)
    crowd.say(2, load("l"))
    crowd.greet(3, EVENTS)
    crowd.say(3, since("e"))
    for number in (1, 2, 3):
        crowd.hears(number)
    return crowd


def test_a_prompt_is_shown_to_the_others_block_by_block() -> None:
    crowd = three()
    params = {"sessionId": "s1", "prompt": [TEXT, IMAGE]}
    crowd.say(1, request("p", "session/prompt", params))
    shown = [update("user_message_chunk", content=one) for one in (TEXT, IMAGE)]
    assert crowd.hears(1) == []
    assert crowd.hears(2) == shown
    seen = crowd.hears(3)
    assert [place(frame)["seq"] for frame in seen] == [1, 2]
    assert [frame["params"]["update"]["content"] for frame in seen] == [TEXT, IMAGE]


@pytest.mark.parametrize("blocks", [[], "words", None])
def test_a_prompt_without_blocks_is_shown_as_nothing(blocks: object) -> None:
    crowd = three()
    crowd.say(1, request("p", "session/prompt", {"sessionId": "s1", "prompt": blocks}))
    crowd.say(2, request("p", "session/prompt", {"sessionId": "s1"}))
    assert crowd.raw(2) == crowd.raw(3) == []
    crowd.agent(chunk(), ended(crowd.took("session/prompt")["id"]))
    assert crowd.took("session/prompt")


def test_a_queued_prompt_is_shown_when_it_goes() -> None:
    crowd = three()
    wire = crowd.prompted(1, "p1", "first")
    crowd.say(2, prompt("p2", "second"))
    crowd.hears(3)
    crowd.agent(chunk("done"), ended(wire))
    shown = crowd.hears(3)
    assert methods(shown) == [
        "agent_message_chunk", "_acpbridge/turn_ended", "user_message_chunk",
    ]  # fmt: skip
    first, end, second = (place(frame)["traceId"] for frame in shown)
    assert first == end != second


def test_the_response_goes_to_its_owner_alone() -> None:
    crowd = three()
    wire = crowd.prompted(2, 1)
    for number in (1, 2, 3):
        crowd.hears(number)
    crowd.agent(chunk("words"), ended(wire))
    assert methods(crowd.hears(1)) == ["agent_message_chunk"]
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "=1"]
    seen = crowd.hears(3)
    assert methods(seen) == ["agent_message_chunk", "_acpbridge/turn_ended"]
    assert seen[1]["params"]["sessionId"] == "s1"
    assert seen[1]["params"]["result"] == ended(1)["result"]
    assert "traceId" in place(seen[1])


def test_a_turn_that_failed_ends_for_the_others_with_its_error() -> None:
    crowd = three()
    wire = crowd.prompted(1, 1)
    crowd.hears(3)
    crowd.agent(error(wire, -32603, "no model"))
    (seen,) = crowd.hears(3)
    assert seen["params"]["error"] == {"code": -32603, "message": "no model"}


def test_an_owner_with_events_is_told_of_its_end_by_its_response_alone() -> None:
    crowd = three()
    wire = crowd.prompted(3, 1)
    assert crowd.hears(3) == []
    crowd.agent(chunk("x"), ended(wire))
    assert methods(crowd.hears(3)) == ["agent_message_chunk", "=1"]


def test_a_prompt_that_never_went_ends_nothing() -> None:
    crowd = three()
    crowd.prompted(1, 1)
    crowd.say(2, prompt(2, _meta={"acpbridge": {"midturn": "reject"}}))
    crowd.hears(1)
    assert methods(crowd.hears(3)) == ["user_message_chunk"]
    assert crowd.hears(2)[-1]["error"]["data"]["acpbridge"]["kind"] == "busy"


def test_a_stream_goes_to_all_who_follow() -> None:
    crowd = three()
    crowd.prompted(1, 1)
    crowd.agent(chunk("a"), chunk("b"))
    crowd.agent(*[chunk(letter) for letter in "cdefg"])
    assert crowd.count("unexpected_event") == 0
    assert words(crowd.hears(1)) == words(crowd.hears(2)) == "abcdefg"
    seen = crowd.hears(3)
    assert words(seen) == "abcdefg"
    assert [place(frame)["seq"] for frame in seen] == list(range(1, 9))
    assert len({place(frame)["traceId"] for frame in seen}) == 1


def test_a_client_that_does_not_follow_hears_nothing() -> None:
    crowd = three()
    crowd.greet(4)
    wire = crowd.prompted(1, 1)
    crowd.agent(chunk("a"), tool(), ended(wire))
    assert crowd.raw(4) == []


def test_what_names_no_session_goes_to_all_who_are_there() -> None:
    crowd = three()
    crowd.join(4)
    note = {"jsonrpc": "2.0", "method": "_agent/news", "params": {}}
    crowd.agent(note)
    assert [crowd.hears(number) for number in (1, 2, 3, 4)] == [[note], [note], [note], []]


def test_a_steered_prompt_is_shown_once() -> None:
    crowd = Crowd("claude")
    crowd.join(1)
    crowd.say(1, request("i", "initialize", {"protocolVersion": 1}))
    result: Json = {
        "protocolVersion": 1,
        "agentInfo": {"name": "@agentclientprotocol/claude-agent-acp", "version": "0.101.0"},
        "agentCapabilities": CAPABILITIES,
        "_meta": {"steering": {"supported": True}},
    }
    crowd.agent(answer(crowd.took("initialize")["id"], result))
    crowd.start(1)
    crowd.greet(2)
    crowd.say(2, load("l"))
    wire = crowd.prompted(1, 1, "first")
    crowd.agent(chunk("x"))
    crowd.hears(2)
    crowd.say(1, prompt(2, "second"))
    steer = crowd.took("_session/steering")["id"]
    assert methods(crowd.hears(2)) == ["user_message_chunk"]
    crowd.agent(answer(steer, {"outcome": "promptRequired"}), ended(wire))
    assert crowd.took("session/prompt")
    assert methods(crowd.hears(2)) == []


def test_a_prompt_that_is_taken_back_is_shown_once() -> None:
    crowd = three()
    wire = crowd.prompted(1, 1)
    assert methods(crowd.hears(2)) == ["user_message_chunk"]
    crowd.die()
    crowd.hears(2)
    crowd.say(1, prompt(3, "again"))
    assert wire
    assert crowd.count("agent_restarting") == 1


def test_what_an_undelivered_prompt_says_is_shown_to_all() -> None:
    """Nobody wrote it in this run: its writer may be anybody."""
    crowd = Crowd(undelivered="send")
    crowd.known["s1"] = Recovered("s1", kept=(LEFT,))
    crowd.greet(1)
    crowd.say(1, load("l"))
    crowd.agent(answer(crowd.took("session/load")["id"], {}))
    crowd.wait(1.0)
    wire = crowd.took("session/prompt")["id"]
    assert methods(crowd.hears(1)) == ["=l", "user_message_chunk"]
    crowd.agent(chunk("x"), ended(wire))
    assert methods(crowd.hears(1)) == ["agent_message_chunk"]
