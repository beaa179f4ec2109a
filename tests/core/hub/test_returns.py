"""Clients that come back: S11, the cursor, the log, and what was asked meanwhile."""

from __future__ import annotations

from tests.core.hub.crowd import EVENTS, OBSERVES, Crowd, load, methods, place, resume, since, words
from tests.core.script import answer, chunk, ended, permission, prompt, tool

ALLOW = {"outcome": {"outcome": "selected", "optionId": "a"}}


def test_a_client_that_left_mid_turn_gets_exactly_what_it_missed() -> None:
    crowd = Crowd()
    crowd.greet(1, EVENTS)
    crowd.start(1)
    wire = crowd.prompted(1, "p1", _meta={"acpbridge": {"promptKey": "k1"}})
    crowd.agent(tool("t1"), tool("t2"))
    before = crowd.hears(1)
    assert [place(frame)["seq"] for frame in before] == [2, 3], "1 is its own message"
    crowd.agent(permission(9))
    (card,) = crowd.hears(1)
    assert place(card)["seq"] == 3
    crowd.go(1)
    crowd.agent(tool("t3"))
    assert crowd.got() == [], "no cancel, no answer"

    crowd.greet(2, EVENTS)
    crowd.say(2, since("e", {"epoch": Crowd.nonce, "seq": 2}))
    replay, shown = crowd.hears(2)
    assert [place(frame)["seq"] for frame in replay["result"]["frames"]] == [3, 4]
    assert replay["result"]["latestSeq"] == 4
    assert not replay["result"]["truncated"]
    assert (shown["id"], shown["method"]) == (9, "session/request_permission")

    crowd.greet(3)
    crowd.say(3, load("l"))
    assert methods(crowd.hears(3)) == [
        "user_message_chunk", "tool_call", "tool_call", "tool_call", "=l",
        "session/request_permission",
    ]  # fmt: skip

    crowd.say(3, answer(9, ALLOW))
    assert [frame.get("result") for frame in crowd.got()] == [ALLOW]
    assert methods(crowd.hears(2)) == ["$/cancel_request"]
    crowd.say(2, answer(9, ALLOW))
    assert crowd.got() == []
    assert crowd.count("late_client_answer_dropped") == 1

    crowd.agent(chunk("done"), ended(wire))
    crowd.wait(1.0)
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "_acpbridge/turn_ended"]
    assert methods(crowd.hears(3)) == ["agent_message_chunk"]

    crowd.say(2, prompt("p1", "next"))
    crowd.agent(ended(crowd.took("session/prompt")["id"]))
    crowd.wait(1.0)
    assert methods(crowd.hears(2))[-1:] == ["=p1"]


def test_a_resume_says_nothing_old_but_what_nobody_saw() -> None:
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    crowd.prompted(1, "p1")
    crowd.agent(chunk("seen "))
    assert words(crowd.hears(1)) == "seen "
    crowd.go(1)
    crowd.agent(chunk("unseen "), chunk("too"))
    crowd.greet(2)
    crowd.say(2, resume("r"))
    heard = crowd.hears(2)
    assert heard[0]["id"] == "r"
    assert "sessionId" not in heard[0]["result"]
    assert words(heard) == "unseen too"
    crowd.agent(chunk(" live"))
    assert words(crowd.hears(2)) == " live"
    assert crowd.got() == []


def test_what_only_an_observer_saw_was_seen_by_nobody() -> None:
    """Whoever watches in a terminal must not take from a client what it comes back for."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    crowd.greet(2, OBSERVES)
    crowd.say(2, since("e"))
    crowd.prompted(1, "p1")
    crowd.agent(chunk("seen "))
    crowd.go(1)
    crowd.agent(chunk("unseen "), chunk("too"))
    crowd.hears(2)
    crowd.greet(3, OBSERVES)
    for _ in range(2):
        crowd.say(3, resume("o"))
    assert words(crowd.hears(3)) == "unseen too"
    crowd.go(2)
    crowd.greet(4)
    crowd.say(4, resume("r"))
    assert words(crowd.hears(4)) == "unseen too"
    crowd.go(3)
    crowd.greet(5)
    crowd.say(5, resume("r"))
    assert words(crowd.hears(5)) == "", "4 follows, and has seen it"
