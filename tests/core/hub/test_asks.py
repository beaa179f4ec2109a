"""What the agent asks: permission of all, files and terminals of the turn's owner alone."""

from __future__ import annotations

import pytest

from acpbridge.core.hub.outward import ASKS_MAX
from tests.core.hub.crowd import EVENTS, OBSERVES, Crowd, load, methods, place, since
from tests.core.script import (
    Json,
    answer,
    cancel,
    chunk,
    ended,
    notify,
    permission,
    prompt,
    request,
)

ALLOW = {"outcome": {"outcome": "selected", "optionId": "a"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
READ = "fs/read_text_file"
PERMISSION = "session/request_permission"
ONES = ("fs/read_text_file", "fs/write_text_file", "terminal/create", "_vendor/knows")


def asking(method: str, id_: object = 9, session: str = "s1") -> Json:
    return request(id_, method, {"sessionId": session, "path": "/w/x"})


def withdrawn(id_: object = 9) -> Json:
    return notify("$/cancel_request", {"requestId": id_})


def crowded(*metas: Json | None) -> Crowd:
    """Client 1 opened the session and owns a turn; each of the others follows."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    for number, meta in enumerate(metas, 2):
        crowd.greet(number, meta)
        crowd.say(number, load("l"))
    crowd.prompted(1, "p")
    crowd.agent(chunk())
    for number in range(1, len(metas) + 2):
        crowd.hears(number)
    return crowd


@pytest.mark.parametrize("method", ONES)
def test_what_a_client_has_to_do_goes_to_the_owner_of_the_turn(method: str) -> None:
    crowd = crowded(None, EVENTS)
    crowd.agent(asking(method))
    assert methods(crowd.hears(1)) == [method]
    assert crowd.raw(2) == crowd.raw(3) == []
    crowd.say(2, answer(9, {}))
    assert crowd.got() == []
    crowd.say(1, answer(9, {"content": "x"}))
    assert crowd.got() == [answer(9, {"content": "x"})]
    assert crowd.raw(2) == crowd.raw(3) == []


def test_it_goes_to_another_where_the_owner_has_left() -> None:
    crowd = crowded(OBSERVES, None, EVENTS)
    crowd.agent(asking(READ))
    crowd.go(1)
    assert crowd.raw(2) == []
    assert methods(crowd.hears(3)) == [READ]
    crowd.agent(asking(READ, 10))
    crowd.go(3)
    assert [place(frame)["epoch"] for frame in crowd.hears(4)] == [Crowd.nonce] * 2
    crowd.say(4, answer(9, {}), answer(10, {}))
    assert crowd.got() == [answer(9, {}), answer(10, {})]


def test_it_goes_to_nobody_beside_the_owner_who_comes_meanwhile() -> None:
    """Two clients that open the same terminal would be two terminals."""
    crowd = crowded(None)
    crowd.agent(asking("terminal/create"))
    crowd.greet(3)
    crowd.say(3, load("l"))
    assert "terminal/create" not in methods(crowd.hears(3))


def test_it_waits_for_one_who_comes_where_nobody_is_there() -> None:
    crowd = crowded()
    crowd.go(1)
    crowd.agent(asking(READ))
    crowd.greet(2, OBSERVES)
    crowd.say(2, load("l"))
    assert READ not in methods(crowd.hears(2))
    crowd.greet(3)
    crowd.say(3, load("l"))
    assert methods(crowd.hears(3))[-1] == READ
    crowd.say(3, answer(9, {"content": ""}))
    assert crowd.got() == [answer(9, {"content": ""})]


@pytest.mark.parametrize("method", ["session/request_permission", "elicitation/create"])
def test_what_a_person_decides_goes_to_all_and_the_first_answer_wins(method: str) -> None:
    crowd = crowded(None, EVENTS)
    crowd.agent(asking(method))
    for number in (1, 2, 3):
        assert methods(crowd.hears(number)) == [method]
    crowd.say(2, answer(9, ALLOW))
    assert crowd.got() == [answer(9, ALLOW)]
    assert crowd.hears(1) == crowd.hears(3) == [withdrawn()]
    assert crowd.raw(2) == []
    crowd.say(1, answer(9, CANCELLED))
    crowd.say(3, answer(9, CANCELLED))
    assert crowd.got() == []
    assert crowd.count("late_client_answer_dropped") == 2


def test_an_error_is_an_answer_too() -> None:
    crowd = crowded(None)
    crowd.agent(permission(9))
    crowd.hears(1)
    refused = {"jsonrpc": "2.0", "id": 9, "error": {"code": -32603, "message": "no"}}
    crowd.say(2, refused)
    assert crowd.got() == [refused]
    assert crowd.hears(1) == [withdrawn()]


def test_a_client_that_does_not_know_the_question_does_not_answer_for_the_others() -> None:
    """Most clients know no elicitation, and say so at once, before any person can."""
    crowd = crowded(None, OBSERVES)
    crowd.agent(asking("elicitation/create"))
    unknown = {"jsonrpc": "2.0", "id": 9, "error": {"code": -32601, "message": "what?"}}
    for number in (1, 2, 3):
        crowd.hears(number)
    crowd.say(2, unknown)
    assert crowd.got() == []
    assert crowd.raw(1) == []
    crowd.say(2, answer(9, ALLOW))
    assert crowd.got() == []
    crowd.say(1, unknown)
    assert crowd.got() == [unknown]
    assert crowd.raw(2) == []
    assert crowd.hears(3) == [withdrawn()]


def test_an_observer_sees_it_and_what_it_answers_is_dropped() -> None:
    crowd = crowded(OBSERVES)
    crowd.greet(3, {"acpbridge": {"observe": True}})
    crowd.say(3, load("l"))
    crowd.hears(3)
    crowd.agent(permission(9))
    assert methods(crowd.hears(2)) == methods(crowd.hears(3)) == ["session/request_permission"]
    crowd.say(2, answer(9, ALLOW))
    assert crowd.got() == []
    crowd.say(1, answer(9, ALLOW))
    assert crowd.hears(2) == crowd.hears(3) == [withdrawn()]


def test_an_open_permission_is_shown_once_to_each_who_comes() -> None:
    crowd = crowded()
    crowd.agent(permission(9))
    crowd.go(1)
    assert crowd.got() == [], "nothing is denied while nobody is there"
    for number, meta in ((2, EVENTS), (3, None), (4, OBSERVES)):
        crowd.greet(number, meta)
        crowd.say(number, since("e"), since("f"))
        assert methods(crowd.hears(number)).count("session/request_permission") == 1
    crowd.say(3, answer(9, ALLOW))
    assert crowd.hears(2) == crowd.hears(4) == [withdrawn()]
    crowd.greet(5)
    crowd.say(5, load("l"))
    assert "session/request_permission" not in methods(crowd.hears(5))


def test_a_cancel_withdraws_it_from_all() -> None:
    """R17: and what is said later is counted."""
    crowd = crowded(EVENTS)
    crowd.agent(permission(9), asking(READ, 10))
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(1, cancel())
    assert answer(9, CANCELLED) in crowd.got()
    assert crowd.hears(1) == crowd.hears(2) == [withdrawn()]
    crowd.say(2, answer(9, ALLOW))
    assert crowd.got() == []


def test_what_the_agent_takes_back_is_withdrawn_from_all() -> None:
    crowd = crowded(EVENTS)
    crowd.agent(permission(9))
    crowd.hears(1)
    crowd.hears(2)
    crowd.agent(withdrawn(), withdrawn(77), notify("$/cancel_request", {}))
    assert crowd.hears(1) == crowd.hears(2) == [withdrawn()]
    assert crowd.count("withdrawal_of_nothing") == 2


def test_a_question_of_no_session_goes_to_those_who_are_there_and_may_answer() -> None:
    crowd = crowded(OBSERVES, None)
    crowd.join(4)
    crowd.agent(request(9, "elicitation/create", {}), request(10, "_vendor/who", {}))
    assert methods(crowd.hears(1)) == ["elicitation/create", "_vendor/who"]
    assert methods(crowd.hears(3)) == ["elicitation/create"]
    assert crowd.raw(2) == crowd.raw(4) == []
    crowd.go(1)
    refused = crowd.got()
    assert [frame["error"]["code"] for frame in refused] == [-32800]
    crowd.go(3)
    assert crowd.got() == [answer(9, {"action": "cancel"})]


def test_a_question_of_no_session_is_answered_where_nobody_is_there() -> None:
    """Nobody could come back to it: the agent is not left waiting."""
    crowd = crowded()
    crowd.go(1)
    crowd.agent(request(9, "elicitation/create", {}), request(10, "_vendor/who", {}))
    first, second = crowd.got()
    assert first == answer(9, {"action": "cancel"})
    assert second["error"]["code"] == -32800


def test_a_question_of_a_session_that_nobody_knows_may_concern_anybody() -> None:
    """Field case 80: a child session's permission must not hang its parent's turn."""
    crowd = crowded(None)
    crowd.agent(permission(9, "child"))
    assert methods(crowd.hears(1)) == methods(crowd.hears(2)) == ["session/request_permission"]
    crowd.say(2, answer(9, ALLOW))
    assert crowd.got() == [answer(9, ALLOW)]
    crowd.say(2, since("e", session="child"))
    crowd.hears(1)
    crowd.hears(2)
    crowd.agent(permission(10, "child"))
    assert crowd.raw(1) == []
    assert methods(crowd.hears(2)) == ["session/request_permission"]


def test_who_prompts_is_shown_what_the_turn_before_waits_for() -> None:
    """Else its own message would wait for ever, behind a question that it never saw."""
    crowd = crowded()
    crowd.agent(permission(9), chunk("unseen"))
    crowd.hears(1)
    crowd.go(1)
    crowd.agent(chunk(" too"))
    crowd.greet(2)
    crowd.say(2, prompt("q"))
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "session/request_permission"]


def test_who_closes_for_itself_has_no_say_any_more() -> None:
    crowd = crowded(None)
    crowd.agent(permission(9), asking(READ, 10))
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(1, request("c", "session/close", {"sessionId": "s1"}))
    assert methods(crowd.hears(1)) == ["=c"]
    assert methods(crowd.hears(2)) == [READ]
    crowd.say(1, answer(9, ALLOW))
    assert crowd.got() == []


def ghosts(count: int) -> Crowd:
    """A client profile that is told of no withdrawal leaves the asks of a cancelled turn behind."""
    crowd = Crowd(client="codeg")
    crowd.greet(1)
    crowd.start(1)
    wire = crowd.prompted(1, "p")
    crowd.agent(chunk(), *[permission(number) for number in range(count)])
    crowd.say(1, cancel())
    crowd.agent(ended(wire, "cancelled"))
    crowd.wait(5.0)
    assert len(crowd.hub.asks) == count, "nobody was told of their end"
    return crowd


def test_the_places_of_asks_that_are_over_are_used_again() -> None:
    crowd = ghosts(ASKS_MAX - 1)
    crowd.agent(chunk(), permission(100))
    assert len(crowd.hub.asks) == ASKS_MAX
    crowd.agent(permission(101))
    assert list(crowd.hub.asks) == [b"100", b"101"]


def test_asks_that_are_over_are_shown_to_nobody() -> None:
    crowd = ghosts(5)
    crowd.agent(chunk(), permission(100))
    crowd.greet(2)
    crowd.say(2, load("l"))
    cards = [frame["id"] for frame in crowd.hears(2) if frame.get("method") == PERMISSION]
    assert cards == [100]
    assert list(crowd.hub.asks) == [b"100"]


def test_asks_that_are_over_begin_no_grace() -> None:
    crowd = ghosts(1)
    crowd.go(1)
    assert ("orphan", "s1") not in crowd.timers


def test_an_ask_of_another_session_is_not_shown_here() -> None:
    crowd = crowded()
    crowd.start(1, "s2")
    crowd.agent(permission(9), permission(10, "s2"))
    crowd.greet(2)
    crowd.say(2, load("l", "s2"))
    cards = [frame["id"] for frame in crowd.hears(2) if frame.get("method") == PERMISSION]
    assert cards == [10]
