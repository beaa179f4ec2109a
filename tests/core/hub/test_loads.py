"""`session/load` and `session/resume` by the agent, and how a session begins."""

from __future__ import annotations

import pytest

from tests.core.hub.crowd import EVENTS, load, methods, place, resume, since, words
from tests.core.hub.loaded import COMMANDS, LOADED, greeted, loaded, turn
from tests.core.script import (
    answer,
    chunk,
    echo,
    ended,
    error,
    new_result,
    notify,
    prompt,
    request,
    tool,
)


# -- by the agent -----------------------------------------------------------------------------
def test_history_is_for_its_asker_alone_flagged_and_no_event() -> None:
    """S12: h1, commands, h2, the result, and then what is live."""
    crowd = greeted(EVENTS, None, EVENTS)
    crowd.say(3, since("e"))
    crowd.hears(3)
    crowd.say(1, load("l"))
    crowd.agent(echo("h1"), COMMANDS, chunk("h2"))
    crowd.agent(answer(crowd.took("session/load")["id"], LOADED))
    heard = crowd.hears(1)
    assert methods(heard) == [
        "user_message_chunk", "agent_message_chunk", "available_commands_update", "=l",
    ]  # fmt: skip
    for frame in heard[:2]:
        assert frame["params"]["_meta"] == {"acpbridge": {"history": True}}
    assert place(heard[2])["seq"] == 1
    assert methods(crowd.hears(3)) == ["available_commands_update"]
    crowd.agent(tool())
    assert [place(frame)["seq"] for frame in crowd.hears(1)] == [2]
    assert [place(frame)["seq"] for frame in crowd.hears(3)] == [2]
    assert crowd.hub.log.stats().events == 2


def test_a_plain_client_gets_the_agent_s_own_bytes_of_history() -> None:
    crowd = greeted(None)
    crowd.say(1, load("l"))
    line = b'{"jsonrpc":"2.0", "method":"session/update","params":{"sessionId":"s1",'
    line += b'"update":{"sessionUpdate":"plan","entries":[1e2]}}}'
    crowd.agent(line)
    assert crowd.raw(1) == [line]


def test_a_load_that_fails_ends_the_window() -> None:
    """S12.2: what comes next is live."""
    crowd = greeted(None, EVENTS)
    crowd.say(1, load("l"))
    crowd.agent(echo("h1"), error(crowd.took("session/load")["id"], -32603, "damaged"))
    assert [methods(crowd.hears(1))[0], len(crowd.hub.conversations)] == ["user_message_chunk", 1]
    crowd.say(2, since("e"))
    crowd.hears(2)
    crowd.agent(tool())
    assert [place(frame)["seq"] for frame in crowd.hears(2)] == [1]
    assert crowd.hears(1) == [], "it does not follow what it could not load"


def test_the_agent_s_end_within_the_window_fails_the_load() -> None:
    """S12.3."""
    crowd = greeted(None, None)
    crowd.say(1, load("l"))
    crowd.agent(echo("h1"))
    crowd.die()
    assert crowd.hears(1)[-1]["error"]["data"]["acpbridge"]["kind"] == "agent-exited"
    assert crowd.hub.conversations["s1"].loads == []


def test_windows_are_per_session() -> None:
    """S12.5: two loads at once, of two sessions, of two clients."""
    crowd = greeted(None, None)
    crowd.say(1, load("l", "a"))
    crowd.say(2, load("l", "b"))
    first, second = (frame["id"] for frame in crowd.got())
    crowd.agent(chunk("of a", "a"), chunk("of b", "b"), answer(second, LOADED), chunk("more", "a"))
    assert words(crowd.hears(1)) == "of amore"
    assert words(crowd.hears(2)) == "of b"
    crowd.agent(answer(first, LOADED))
    assert methods(crowd.hears(1)) == ["=l"]


def test_two_loads_of_one_session_at_once_ask_the_agent_once() -> None:
    crowd = greeted(None, EVENTS, None, None)
    crowd.say(1, load("l"))
    crowd.say(2, load("l"))
    crowd.say(3, resume("r"))
    crowd.say(4, load("l"))
    crowd.agent(echo("asked"), chunk("said"))
    wire = crowd.took("session/load")["id"]
    assert crowd.raw(2) == crowd.raw(3) == []
    crowd.go(4)
    crowd.agent(answer(wire, LOADED))
    assert methods(crowd.hears(1)) == ["user_message_chunk", "agent_message_chunk", "=l"]
    second = crowd.hears(2)
    assert methods(second) == ["user_message_chunk", "agent_message_chunk", "=l"]
    assert second[0]["params"]["_meta"] == {"acpbridge": {"history": True}}
    assert methods(crowd.hears(3)) == ["=r"]
    assert crowd.got() == []


def test_the_next_one_asks_where_the_first_has_failed() -> None:
    crowd = greeted(None, None, None)
    for number in (1, 2, 3):
        crowd.say(number, load("l"))
    crowd.agent(error(crowd.took("session/load")["id"], -32603, "damaged"))
    assert methods(crowd.hears(1)) == ["=l"]
    crowd.agent(answer(crowd.took("session/load")["id"], LOADED))
    assert methods(crowd.hears(2)) == methods(crowd.hears(3)) == ["=l"]


def test_a_load_of_one_that_has_left_serves_those_who_wait() -> None:
    crowd = greeted(None, None)
    crowd.say(1, load("l"))
    crowd.say(2, load("l"))
    wire = crowd.took("session/load")["id"]
    crowd.go(1)
    crowd.agent(chunk("history"), answer(wire, LOADED))
    assert words(crowd.hears(2)) == "history"
    assert crowd.got() == []


def test_too_much_history_is_passed_on_and_not_kept() -> None:
    crowd = loaded(1, chunk("x" * 200), chunk("y" * 200), chunk("z"), history_bytes_max=400)
    assert crowd.hub.conversations["s1"].history is None
    crowd.say(2, load("m"))
    crowd.agent(chunk("again"), answer(crowd.took("session/load")["id"], LOADED))
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "=m"]


def test_a_load_by_the_agent_says_nothing_twice() -> None:
    """What nobody saw stands in the agent's history; the log is not said beside it."""
    crowd = greeted(None, None, log_events_max=1)
    crowd.start(1)
    wire = crowd.prompted(1, "p")
    crowd.go(1)
    crowd.agent(tool("a"), tool("b"), chunk("unseen"), ended(wire))
    crowd.wait(1.0)
    crowd.say(2, load("l"))
    replay = (echo("hello"), tool("a"), COMMANDS, tool("b"), COMMANDS, chunk("unseen"))
    crowd.agent(*replay, answer(crowd.took("session/load")["id"], LOADED))
    heard = crowd.hears(2)
    assert words(heard) == "unseen"
    assert methods(heard)[-2:] == ["available_commands_update", "=l"]
    assert methods(heard).count("tool_call") == 2


def test_a_follower_that_loads_again_hears_what_is_no_history_once() -> None:
    crowd = loaded(1, chunk("x" * 500), history_bytes_max=400)
    crowd.say(1, load("m"))
    crowd.agent(COMMANDS, answer(crowd.took("session/load")["id"], LOADED))
    assert methods(crowd.hears(1)) == ["available_commands_update", "=m"]


def test_a_resume_by_the_agent_brings_what_others_were_told_meanwhile() -> None:
    crowd = greeted(None, EVENTS)
    crowd.say(2, since("e"))
    crowd.hears(2)
    crowd.say(1, resume("r"))
    crowd.agent(COMMANDS, answer(crowd.took("session/resume")["id"], LOADED))
    assert methods(crowd.hears(1)) == ["=r", "available_commands_update"]
    assert methods(crowd.hears(2)) == ["available_commands_update"]
    crowd.say(2, load("l"))
    assert crowd.took("session/load"), "a resume shows nothing of the past"


def test_a_load_that_finds_nothing_is_told_as_what_it_is() -> None:
    crowd = greeted(None)
    crowd.say(1, load("l"))
    crowd.agent(answer(crowd.took("session/load")["id"], None))
    assert crowd.hears(1) == [answer("l", None)]
    assert crowd.hub.conversations["s1"].result == b"{}"


def test_a_replay_that_fails_falls_back_to_live_and_says_so() -> None:
    crowd = loaded(1, chunk("x" * 500), history_bytes_max=400)
    crowd.say(2, load("m"))
    crowd.agent(COMMANDS, error(crowd.took("session/load")["id"], -32603, "busy disk"))
    heard = crowd.hears(2)
    assert methods(heard) == ["=m", "available_commands_update"]
    assert heard[0]["result"] == LOADED | {"_meta": {"acpbridge": {"replay": "failed"}}}
    crowd.agent(chunk("live"))
    assert words(crowd.hears(2)) == "live"
    assert crowd.count("replay_failed") == 1


def test_a_load_that_its_client_takes_back_is_no_failed_replay() -> None:
    crowd = loaded(1, chunk("x" * 500), history_bytes_max=400)
    crowd.say(2, load("m"))
    wire = crowd.took("session/load")["id"]
    crowd.say(2, notify("$/cancel_request", {"requestId": "m"}))
    crowd.agent(error(wire, -32800, "cancelled"))
    assert crowd.hears(2) == [error("m", -32800, "cancelled")]
    crowd.agent(chunk("live"))
    assert crowd.hears(2) == []


def test_a_replay_that_fails_for_one_that_has_left_concerns_nobody() -> None:
    crowd = loaded(1, chunk("x" * 500), history_bytes_max=400)
    crowd.say(2, load("m"))
    wire = crowd.took("session/load")["id"]
    crowd.go(2)
    crowd.agent(error(wire, -32603, "busy disk"))
    assert crowd.count("replay_failed") == 0


# -- a session begins -------------------------------------------------------------------------
def test_what_the_agent_says_of_a_session_before_it_names_it_comes_before_its_answer() -> None:
    """I6."""
    crowd = greeted(None, EVENTS)
    crowd.say(2, request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    wire = crowd.took("session/new")["id"]
    crowd.agent(COMMANDS, answer(wire, new_result("s1")))
    heard = crowd.hears(2)
    assert methods(heard) == ["available_commands_update", "=n"]
    assert place(heard[0])["seq"] == 1
    assert crowd.hears(1) == []


def test_a_session_opened_for_one_that_has_left_is_followed_by_nobody() -> None:
    crowd = greeted(None, None)
    crowd.say(1, request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    wire = crowd.took("session/new")["id"]
    crowd.go(1)
    crowd.agent(answer(wire, new_result("s1")))
    assert crowd.hub.conversations["s1"].followers == ()
    crowd.say(2, load("l"))
    assert methods(crowd.hears(2)) == ["=l"]


@pytest.mark.parametrize("result", [None, {}, {"sessionId": ""}, {"sessionId": 5}])
def test_an_answer_without_a_session_opens_none(result: object) -> None:
    crowd = greeted(None)
    crowd.say(1, request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    crowd.agent(answer(crowd.took("session/new")["id"], result))
    assert methods(crowd.hears(1)) == ["=n"]
    assert crowd.hub.conversations == {}


def test_a_session_that_the_agent_opens_anew_ends_quietly() -> None:
    crowd = greeted(None, EVENTS)
    crowd.start(1)
    turn(crowd, 1, tool())
    crowd.say(2, since("e"))
    crowd.hears(2)
    crowd.start(2)
    assert crowd.count("session_superseded") == 1
    assert crowd.hears(1) == []
    turn(crowd, 2, chunk("x"))
    crowd.say(1, load("l"))
    assert methods(crowd.hears(1)) == ["user_message_chunk", "agent_message_chunk", "=l"]


def test_loads_that_wait_outlive_a_session_that_is_opened_anew() -> None:
    crowd = loaded(1, chunk("x" * 500), history_bytes_max=400)
    crowd.say(1, load("m"))
    crowd.say(2, load("m"))
    loading = crowd.took("session/load")["id"]
    crowd.say(3, request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    opening = crowd.took("session/new")["id"]
    crowd.agent(answer(opening, new_result("s1")), answer(loading, LOADED))
    assert methods(crowd.hears(1)) == ["=m"]
    crowd.agent(answer(crowd.took("session/load")["id"], LOADED))
    assert methods(crowd.hears(2)) == ["=m"]


def test_a_load_waits_out_a_dead_agent() -> None:
    crowd = loaded(1, chunk("history"))
    crowd.prompted(1, "p")
    crowd.die()
    crowd.hears(1)
    crowd.say(2, load("m"))
    crowd.agent(answer(crowd.took("initialize")["id"], {"protocolVersion": 1}))
    wire = crowd.took("session/load")["id"]
    crowd.agent(chunk("history"), answer(wire, LOADED))
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "=m"]


def test_a_prompt_in_a_session_that_nobody_opened_here() -> None:
    crowd = greeted(None)
    crowd.say(1, prompt("p", session="s9"))
    crowd.agent(chunk("x", "s9"), ended(crowd.took("session/prompt")["id"]))
    assert methods(crowd.hears(1)) == ["agent_message_chunk", "=p"]


def test_what_waits_for_a_load_has_a_limit() -> None:
    """I9: `queue_prompts_max`, beside the one that is at the agent."""
    crowd = greeted(None, None, queue_prompts_max=2)
    crowd.say(1, load("a"))
    crowd.say(2, load("b"), load("c"), load("d"))
    (refused,) = crowd.hears(2)
    assert refused["id"] == "d"
    assert refused["error"]["data"]["acpbridge"]["kind"] == "queue-full"
    assert "queue_prompts_max" in refused["error"]["message"]
    crowd.agent(answer(crowd.took("session/load")["id"], LOADED))
    assert methods(crowd.hears(1)) == ["=a"]
    assert methods(crowd.hears(2)) == ["=b", "=c"]
