"""Clients leave: their turns go on, their answers are kept, nothing is sent to them."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.events import KeptPrompt, SessionAbandoned
from tests.core.hub.crowd import EVENTS, OBSERVES, Crowd, load, methods, resume, since, words
from tests.core.script import (
    Json,
    answer,
    cancel,
    chunk,
    ended,
    new_result,
    permission,
    prompt,
    request,
    tool,
)

DONE = KeptPrompt(9, "settled", "done", answer=b'{"stopReason":"end_turn"}')


def keyed(id_: object, key: str = "k") -> Json:
    return prompt(id_, _meta={"acpbridge": {"promptKey": key}})


def alone(**policy: Any) -> tuple[Crowd, object]:
    """One client whose turn runs, and the id of its prompt at the agent."""
    crowd = Crowd(**policy)
    crowd.greet(1)
    crowd.start(1)
    crowd.say(1, keyed("p"))
    wire = crowd.took("session/prompt")["id"]
    crowd.agent(chunk("a"))
    return crowd, wire


def states(crowd: Crowd) -> list[str]:
    return [one.state for one in crowd.persists]


def test_a_turn_goes_on_without_its_client_and_its_answer_is_kept() -> None:
    """`settled` and not `answered`: the next bridge still owes it."""
    crowd, wire = alone()
    crowd.say(1, request("l", "session/list", {}), prompt("q", "queued"))
    crowd.go(1)
    crowd.hears(1)
    crowd.got()
    crowd.agent(chunk("b"), ended(wire))
    second = crowd.took("session/prompt")["id"]
    crowd.agent(chunk("c"), ended(second))
    assert crowd.lines == {}
    assert "answered" not in states(crowd)
    assert states(crowd).count("settled") == 2
    assert len(crowd.bridge.unheard) == 1, "the list is open still"


def test_the_result_is_given_to_whoever_asks_with_the_key() -> None:
    crowd, wire = alone()
    crowd.go(1)
    crowd.agent(ended(wire))
    crowd.keys["k"] = DONE
    crowd.greet(2)
    crowd.say(2, keyed("again"))
    assert crowd.hears(2)[-1] == answer("again", {"stopReason": "end_turn"})
    assert crowd.got() == []


def test_the_running_answer_is_shared_with_whoever_asks_with_the_key() -> None:
    """And it has been heard then, though not by the one who asked first."""
    crowd, wire = alone()
    crowd.go(1)
    crowd.greet(2)
    crowd.say(2, keyed("again"))
    assert crowd.got() == []
    crowd.agent(ended(wire))
    assert methods(crowd.hears(2)) == ["=again"]
    assert "answered" in states(crowd)
    assert not crowd.bridge.unheard


def test_an_answer_that_both_have_left_is_kept() -> None:
    crowd, wire = alone()
    crowd.greet(2)
    crowd.say(2, keyed("again"))
    crowd.go(1, 2)
    crowd.agent(ended(wire))
    assert "answered" not in states(crowd)


def test_one_of_two_who_waits_hears_the_answer() -> None:
    crowd, wire = alone()
    crowd.greet(2)
    crowd.say(2, keyed("again"))
    crowd.go(2)
    crowd.hears(1)
    crowd.agent(ended(wire))
    assert methods(crowd.hears(1)) == ["=p"]
    assert "answered" in states(crowd)


def test_what_one_missed_alone_is_nobody_s_news_where_another_was_there() -> None:
    crowd, _ = alone()
    crowd.greet(2)
    crowd.say(2, load("l"))
    crowd.go(1)
    crowd.agent(chunk("b"))
    assert words(crowd.hears(2)) == "ab"
    crowd.greet(3)
    crowd.say(3, resume("r"))
    assert methods(crowd.hears(3)) == ["=r"]


def test_the_others_go_on() -> None:
    crowd, wire = alone()
    crowd.greet(2, EVENTS)
    crowd.say(2, since("e"))
    crowd.hears(2)
    crowd.go(1)
    crowd.agent(chunk("b"), ended(wire))
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "_acpbridge/turn_ended"]


# -- orphans ----------------------------------------------------------------------------------
def test_what_the_agent_asks_waits_for_the_grace_and_the_turn_goes_on() -> None:
    crowd, wire = alone()
    crowd.agent(permission(9))
    crowd.go(1)
    crowd.wait(119.0)
    assert crowd.got() == []
    crowd.wait(2.0)
    assert crowd.got() == [answer(9, {"outcome": {"outcome": "cancelled"}})]
    crowd.agent(chunk("on"), permission(10))
    assert crowd.got() == [answer(10, {"outcome": {"outcome": "cancelled"}})]
    crowd.agent(ended(wire))
    crowd.greet(2)
    crowd.say(2, load("l"))
    assert methods(crowd.hears(2))[-1] == "=l", "no ghost of what is settled"
    assert states(crowd)[-1] == "settled"


def test_with_orphan_cancel_the_turn_and_its_queue_end_after_the_grace() -> None:
    crowd, wire = alone(orphan="cancel")
    crowd.say(1, prompt("q", "queued"))
    crowd.go(1)
    crowd.wait(121.0)
    assert [frame["method"] for frame in crowd.got()] == ["session/cancel"]
    crowd.agent(ended(wire, "cancelled"))
    assert crowd.got() == []
    assert "cancelled" in states(crowd)


def test_a_return_disarms_the_grace() -> None:
    crowd, _ = alone()
    crowd.agent(permission(9))
    crowd.go(1)
    crowd.wait(60.0)
    crowd.greet(2, OBSERVES)
    crowd.say(2, load("l"))
    assert ("orphan", "s1") in crowd.timers, "an observer answers nothing"
    crowd.greet(3)
    crowd.say(3, load("l"))
    assert ("orphan", "s1") not in crowd.timers
    crowd.wait(600.0)
    assert crowd.got() == []
    crowd.go(3)
    assert ("orphan", "s1") in crowd.timers


def test_who_returns_after_the_grace_is_asked_again() -> None:
    crowd, _ = alone()
    crowd.go(1)
    crowd.wait(121.0)
    crowd.greet(2)
    crowd.say(2, resume("r"))
    crowd.agent(permission(9))
    assert "session/request_permission" in methods(crowd.hears(2))


def test_a_session_at_rest_has_no_grace() -> None:
    crowd, wire = alone()
    crowd.agent(ended(wire))
    crowd.wait(1.0)
    crowd.go(1)
    assert ("orphan", "s1") not in crowd.timers


def test_a_turn_that_ends_within_the_grace_leaves_nothing_to_abandon() -> None:
    crowd, wire = alone()
    crowd.go(1)
    crowd.agent(ended(wire))
    crowd.wait(200.0)
    assert crowd.count("session_abandoned") == 0
    crowd.agent(permission(9))
    assert ("orphan", "s1") in crowd.timers


def test_a_question_without_a_turn_waits_for_the_grace_too() -> None:
    crowd, wire = alone()
    crowd.agent(ended(wire))
    crowd.wait(1.0)
    crowd.go(1)
    crowd.agent(request(9, "_vendor/knows", {"sessionId": "s1"}))
    assert crowd.got() == []
    crowd.wait(121.0)
    assert [frame["error"]["code"] for frame in crowd.got()] == [-32800]


def test_the_grace_of_a_session_that_is_over_ends_nothing() -> None:
    crowd, _ = alone(orphan="cancel")
    crowd.go(1)
    del crowd.hub.conversations["s1"]
    crowd.wait(121.0)
    assert crowd.got() == []
    crowd.feed(SessionAbandoned("s9", cancels=True))
    assert crowd.count("session_abandoned") == 0


def test_the_grace_of_a_session_that_was_opened_anew_is_its_own() -> None:
    crowd, _ = alone()
    crowd.go(1)
    crowd.hub.conversations["s1"].is_orphaned = False
    crowd.wait(121.0)
    assert crowd.count("session_abandoned") == 0


# -- the daemon's own end ---------------------------------------------------------------------
def test_a_daemon_without_a_client_ends_after_idle_exit() -> None:
    crowd = Crowd(idle_exit_s=30.0)
    crowd.wait(31.0)
    assert [one.run for one in crowd.stops] == [1]


def test_a_client_that_comes_keeps_it() -> None:
    crowd = Crowd(idle_exit_s=30.0)
    crowd.wait(29.0)
    crowd.join(1)
    crowd.wait(100.0)
    assert crowd.stops == []
    crowd.go(1)
    crowd.wait(31.0)
    assert [one.run for one in crowd.stops] == [1]


def test_a_turn_keeps_it_too() -> None:
    crowd, wire = alone(idle_exit_s=30.0)
    crowd.go(1)
    crowd.wait(100.0)
    assert crowd.stops == []
    crowd.agent(ended(wire))
    crowd.wait(62.0)
    assert len(crowd.stops) == 1


def test_an_idle_clock_that_has_run_out_meanwhile_ends_nothing() -> None:
    crowd = Crowd(idle_exit_s=30.0)
    crowd.join(1)
    crowd.timers["idle", ""] = crowd.now
    crowd.wait(1.0)
    assert crowd.stops == []


def test_without_idle_exit_it_stays() -> None:
    crowd, _ = alone()
    crowd.go(1)
    assert ("idle", "") not in crowd.timers


# -- the agent's life -------------------------------------------------------------------------
def test_an_agent_that_is_started_again_serves_both() -> None:
    """R22: open requests are answered, what is queued goes to the next one, cards are withdrawn."""
    crowd, _ = alone()
    crowd.greet(2, EVENTS)
    crowd.say(2, load("l"))
    crowd.say(2, prompt("q", "queued"))
    crowd.agent(permission(9))
    crowd.hears(1)
    crowd.hears(2)
    crowd.die()
    first, second = crowd.hears(1), crowd.hears(2)
    assert methods(first) == ["=p", "$/cancel_request"]
    assert first[0]["error"]["data"]["acpbridge"]["kind"] == "agent-exited"
    assert methods(second) == ["_acpbridge/turn_ended", "$/cancel_request"]
    crowd.agent(answer(crowd.took("initialize")["id"], {"protocolVersion": 1}))
    wire = crowd.took("session/new")["id"]
    crowd.agent(answer(wire, {"sessionId": "s1-b"}))
    sent = crowd.took("session/prompt")
    assert sent["params"]["sessionId"] == "s1-b"
    crowd.agent(chunk("back", "s1-b"), tool("t", "s1-b"), permission(9, "s1-b"))
    assert words(crowd.hears(1)) == words(seen := crowd.hears(2)) == "back"
    assert {frame["params"]["sessionId"] for frame in seen if "params" in frame} == {"s1"}
    crowd.agent(ended(sent["id"]))
    assert methods(crowd.hears(2)) == ["=q"]


def test_a_stop_answers_all() -> None:
    crowd, _ = alone()
    crowd.greet(2)
    crowd.say(2, prompt("q", "queued"))
    crowd.hears(1)
    crowd.hears(2)
    crowd.stop()
    crowd.die("exit status 0")
    assert methods(crowd.hears(1)) == ["=p"]
    assert methods(crowd.hears(2)) == ["=q"]
    crowd.say(2, cancel())
    assert crowd.exit_code == 0


def test_a_question_in_a_session_that_nobody_opened_here_waits_for_the_grace_too() -> None:
    crowd = Crowd()
    crowd.greet(1)
    crowd.say(1, since("e", session="s9"))
    crowd.agent(permission(9, session="s9"))
    crowd.greet(2, OBSERVES)
    crowd.say(2, since("e", session="s9"))
    crowd.hears(2)
    crowd.go(1)
    assert crowd.got() == []
    crowd.wait(121.0)
    assert crowd.got() == [answer(9, {"outcome": {"outcome": "cancelled"}})]
    assert methods(crowd.hears(2)) == ["$/cancel_request"]


@pytest.mark.parametrize("leaves_first", [True, False])
def test_a_question_of_a_session_that_is_over_goes_with_who_has_it(leaves_first: bool) -> None:
    """No grace is left for it, and who has left must not be asked, nor be taken for somebody."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.greet(2)
    crowd.start(1)
    crowd.agent(request(9, "fs/read_text_file", {"sessionId": "s1", "path": "/w/x"}))
    if leaves_first:
        crowd.go(1)
    crowd.say(2, request("d", "session/delete", {"sessionId": "s1"}))
    crowd.agent(answer(crowd.took("session/delete")["id"], {}))
    if not leaves_first:
        assert crowd.got() == []
        crowd.go(1)
    assert [(frame["id"], frame["error"]["code"]) for frame in crowd.got()] == [(9, -32800)]
    assert not crowd.hub.asks


def test_a_session_that_is_opened_anew_behind_a_grace_has_a_grace_of_its_own() -> None:
    """It was taken for abandoned, and what its agent asked was shown to nobody, for ever."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.greet(2)
    wire = crowd.prompted(1, "p")
    crowd.agent(chunk())
    crowd.say(2, request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    new = crowd.took("session/new")
    crowd.go(1, 2)
    crowd.wait(121.0)
    assert crowd.count("session_abandoned") == 1
    crowd.agent(ended(wire))
    crowd.wait(1.0)
    crowd.agent(answer(new["id"], new_result("s1")), permission(9))
    assert crowd.got() == []
    crowd.wait(121.0)
    assert crowd.got() == [answer(9, {"outcome": {"outcome": "cancelled"}})]
