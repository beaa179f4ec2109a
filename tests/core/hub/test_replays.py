"""A load that the log answers, and one that had to wait for the agent."""

from __future__ import annotations

from typing import Any

from tests.core.hub.crowd import EVENTS, Crowd, load, methods, resume, words
from tests.core.hub.loaded import COMMANDS, LOADED, greeted, loaded, replayed, turn
from tests.core.script import (
    answer,
    chunk,
    echo,
    ended,
    new_result,
    notify,
    permission,
    prompt,
    request,
    tool,
)


# -- by the log -------------------------------------------------------------------------------
def test_history_and_log_are_the_whole_conversation_once() -> None:
    crowd = loaded(1, echo("old"), chunk("history"))
    turn(crowd, 1, chunk("new "), chunk("words"), tool())
    crowd.say(2, load("m"))
    crowd.say(3, load("m"))
    expected = [
        "user_message_chunk", "agent_message_chunk",
        "user_message_chunk", "agent_message_chunk", "tool_call", "=m",
    ]  # fmt: skip
    plain = crowd.hears(2)
    assert methods(plain) == expected
    assert words(plain) == "historynew words"
    assert plain[-1]["result"] == LOADED
    seen = crowd.hears(3)
    assert methods(seen) == [*expected[:-1], "_acpbridge/turn_ended", "=m"]
    assert [frame["params"]["_meta"]["acpbridge"].get("seq") for frame in seen[:-1]] == [
        None, None, 1, 3, 4, 5,
    ]  # fmt: skip
    assert crowd.got() == []
    crowd.agent(chunk("live"))
    assert words(crowd.hears(2)) == words(crowd.hears(3)) == "live"


def test_a_load_while_a_turn_runs_is_answered_and_the_turn_goes_on() -> None:
    """S12.4: and a cancel behind it still reaches the turn."""
    crowd = greeted(None, None)
    crowd.start(1)
    wire = crowd.prompted(1, "p")
    crowd.agent(chunk("a"), permission(9))
    crowd.say(2, load("l"))
    assert methods(crowd.hears(2)) == [
        "user_message_chunk", "agent_message_chunk", "=l", "session/request_permission",
    ]  # fmt: skip
    crowd.say(2, notify("session/cancel", {"sessionId": "s1"}))
    assert "session/cancel" in [frame.get("method") for frame in crowd.got()]
    crowd.agent(ended(wire, "cancelled"))
    assert methods(crowd.hears(1))[-1:] == ["=p"]


def test_a_load_is_partial_while_a_turn_runs_and_the_log_does_not_reach_back() -> None:
    crowd = greeted(None, None, log_events_max=1)
    crowd.start(1)
    crowd.prompted(1, "p")
    crowd.agent(tool("a"), tool("b"), chunk("now"))
    crowd.say(2, load("l"))
    heard = crowd.hears(2)
    assert methods(heard) == ["tool_call", "agent_message_chunk", "=l"]
    assert replayed(heard) == "partial"
    assert crowd.got() == []


def test_text_alone_that_was_dropped_is_a_hole_too() -> None:
    crowd = greeted(None, None, log_text_bytes_max=2_000)
    crowd.start(1)
    turn(crowd, 1, chunk("a" * 900), tool(), chunk("b" * 900))
    crowd.say(2, load("l"))
    assert crowd.took("session/load")


def test_a_forked_session_has_a_past_that_only_the_agent_knows() -> None:
    crowd = greeted(None, None)
    crowd.start(1)
    crowd.say(1, request("f", "session/fork", {"sessionId": "s1", "cwd": "/w"}))
    crowd.agent(answer(crowd.took("session/fork")["id"], new_result("s2")))
    crowd.say(2, load("l", "s2"))
    assert crowd.took("session/load")["params"]["sessionId"] == "s2"


# -- it waits for the agent --------------------------------------------------------------------
def unanswered(**policy: Any) -> Crowd:
    """A session whose opening nobody has seen the answer of, with a turn of client 1."""
    crowd = greeted(None, None, EVENTS, **policy)
    crowd.prompted(1, "p")
    crowd.agent(chunk("live "))
    crowd.hears(1)
    return crowd


def test_a_load_that_waits_for_a_turn_says_nothing_twice() -> None:
    """The turn stands in the agent's history by then."""
    crowd = unanswered()
    crowd.say(2, load("l"))
    assert crowd.got() == []
    crowd.agent(tool("t"), ended(next(iter(crowd.bridge.pending)).decode().strip('"')))
    assert crowd.raw(2) == []
    wire = crowd.took("session/load")["id"]
    crowd.agent(echo("hello"), chunk("live "), COMMANDS, tool("t"), answer(wire, LOADED))
    assert methods(crowd.hears(2)) == [
        "user_message_chunk", "agent_message_chunk", "tool_call", "available_commands_update", "=l",
    ]  # fmt: skip


def test_a_resume_that_waits_for_a_turn_says_what_it_has_missed_since() -> None:
    crowd = unanswered()
    crowd.say(2, resume("r"))
    crowd.agent(tool("t"), ended(next(iter(crowd.bridge.pending)).decode().strip('"')))
    crowd.agent(answer(crowd.took("session/resume")["id"], LOADED))
    assert methods(crowd.hears(2)) == ["=r", "tool_call"]


def test_a_notice_while_a_load_is_open_is_no_history() -> None:
    """It is said to whoever waits for the load, and not to its asker."""
    crowd = greeted(None, None)
    crowd.say(1, prompt("p"))
    crowd.agent(ended(crowd.took("session/prompt")["id"]))
    crowd.wait(1.0)
    crowd.say(2, load("l"))
    wire = crowd.took("session/load")["id"]
    crowd.say(1, prompt("q"))
    crowd.hears(1)
    crowd.wait(3.0)
    assert methods(crowd.hears(1)) == ["agent_thought_chunk"]
    assert crowd.hears(2) == []
    crowd.agent(answer(wire, LOADED))
    assert methods(crowd.hears(2))[:2] == ["agent_thought_chunk", "=l"]


def test_a_resume_says_where_the_log_does_not_reach_back_to_what_was_seen() -> None:
    crowd = greeted(None, None, log_events_max=1)
    crowd.start(1)
    crowd.prompted(1, "p")
    crowd.go(1)
    crowd.agent(tool("a"), tool("b"))
    crowd.say(2, resume("r"))
    heard = crowd.hears(2)
    assert methods(heard) == ["=r", "tool_call"]
    assert replayed(heard[:1]) == "partial"
