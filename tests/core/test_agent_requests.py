"""What the agent asks the client: cards, files, terminals, and their ids (R17, R22; S7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, obey
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    ended,
    error,
    notify,
    permission,
    prompt,
    request,
)

ALLOW = {"outcome": {"outcome": "selected", "optionId": "a"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def elicitation(id_: Any, session: str = "s1") -> Json:
    return request(id_, "elicitation/create", {"sessionId": session, "message": "which?"})


def read_file(id_: Any, session: str = "s1") -> Json:
    return request(id_, "fs/read_text_file", {"sessionId": session, "path": "/w/a"})


def asking(*frames: Json, **policy: Any) -> Talk:
    """Prompt 1 works and the agent has asked these things."""
    talk = Talk("generic", **policy)
    reach.working(talk)
    talk.agent(*frames)
    talk.got()
    return talk


def results(talk: Talk) -> dict[Any, Any]:
    """What the agent was answered, by id."""
    return {
        line["id"]: line.get("result", line.get("error"))
        for line in talk.got()
        if "method" not in line
    }


# -- passed through -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "id_", [b"0", b"-3", b"1.0", b"1e2", b'"9"', b'"\\u00e9"', b"9007199254740993", b"null", b'""'],
    ids=repr,
)  # fmt: skip
def test_an_id_of_any_kind_comes_back_as_it_was_written(id_: bytes) -> None:
    """Ids are kept by their own JSON text; 1 and 1.0 and "1" are three (field case 107)."""
    head = b'{"jsonrpc":"2.0","id":' + id_
    line = head + b',"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/w/a"}}'
    talk = Talk("generic")
    reach.working(talk)
    talk.agent(line)
    reply = head + b',"result":{"content":"x"}}'

    talk.client(reply)

    assert [line] == talk.client_lines
    assert [reply] == talk.agent_lines


def test_both_sides_may_use_the_same_ids() -> None:
    """Hermes counts from 0 in a space of its own, the client counts from 0 in another."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(prompt(0, "one"))
    forget(talk)

    talk.agent(permission(0))
    talk.client(answer(0, ALLOW))
    talk.agent(ended(0))

    assert ["session/request_permission", (0, "end_turn")] == kinds(talk.seen())
    assert {0: ALLOW} == results(talk)


def test_an_error_is_an_answer_too() -> None:
    talk = asking(read_file(4))

    talk.client(error(4, -32002, "no such file"))

    assert {4: {"code": -32002, "message": "no such file"}} == results(talk)


def test_a_request_without_or_of_an_unknown_session_is_passed_on_and_answered() -> None:
    """Field case 80: a child session's permission must never be dropped."""
    talk = Talk("generic")
    reach.working(talk)

    talk.agent(permission(7, "child"), request(8, "_vendor/ask", {}))
    talk.client(answer(8, {}), answer(7, ALLOW))

    assert ["session/request_permission", "_vendor/ask"] == kinds(talk.seen())
    assert {7: ALLOW, 8: {}} == results(talk)


def test_an_answer_that_nobody_waits_for_is_dropped_and_counted() -> None:
    talk = asking()

    talk.client(answer(77, ALLOW))

    assert ({}, 1) == (results(talk), talk.count("late_client_answer_dropped"))


def test_a_second_answer_is_dropped_and_counted() -> None:
    talk = asking(permission(7))

    talk.client(answer(7, ALLOW), answer(7, CANCELLED))

    assert ({7: ALLOW}, 1) == (results(talk), talk.count("late_client_answer_dropped"))


@pytest.mark.parametrize("line", [
    b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"},"id":null}',
    b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}',
])  # fmt: skip
def test_error_frames_without_an_id_are_tolerated(line: bytes) -> None:
    """Codeg answers so to what it cannot read (codeg.md, section 7); field case 62."""
    talk = asking()

    talk.client(line)

    assert ([], []) == (talk.got(), talk.seen())
    assert 1 == talk.count("idless_error_from_client")


# -- a cancel (R17) -----------------------------------------------------------------------------
def test_a_cancel_answers_open_permissions_and_elicitations() -> None:
    """R17: a turn that waits for a card would never end (field case 76)."""
    talk = asking(permission(9), elicitation("e"), read_file(10))
    talk.seen()

    talk.client(cancel())

    lines = talk.got()
    assert {9, "e"} == {line["id"] for line in lines if "method" not in line}
    assert {9: CANCELLED, "e": {"action": "cancel"}} == {
        line["id"]: line["result"] for line in lines if "id" in line
    }
    withdrawn = [line["params"]["requestId"] for line in talk.seen()]
    assert [9, "e"] == withdrawn


def test_the_clients_own_later_answer_is_dropped_and_counted() -> None:
    """R17, S7: an old card must not approve anything."""
    talk = asking(permission(9))
    talk.client(cancel())
    talk.got()

    talk.client(answer(9, ALLOW))

    assert ({}, 1) == (results(talk), talk.count("late_client_answer_dropped"))


def test_a_file_request_of_the_cancelled_turn_is_still_the_clients_to_answer() -> None:
    """Only what a person is asked is answered by a cancel."""
    talk = asking(read_file(10))
    talk.client(cancel())
    talk.got()

    talk.client(answer(10, {"content": "x"}))

    assert {10: {"content": "x"}} == results(talk)


def test_a_cancel_answers_only_its_own_sessions_requests() -> None:
    talk = asking(permission(9), permission(10, "s2"))
    forget(talk)

    talk.client(cancel())

    assert {9: CANCELLED} == results(talk)


def test_what_the_agent_asks_after_the_cancel_is_answered_by_it() -> None:
    """R17: the request crossed the cancel; no card for a turn that the client has stopped."""
    talk = Talk("generic")
    reach.cancelling(talk)

    talk.agent(permission(9), elicitation("e"), read_file(10))

    assert {9: CANCELLED, "e": {"action": "cancel"}} == results(talk)
    assert ["fs/read_text_file"] == kinds(talk.seen())
    assert 2 == talk.count("asked_after_cancel")


def test_the_next_turns_permission_is_shown_again() -> None:
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.agent(ended(1, "cancelled"))
    talk.client(prompt(2, "two"))
    talk.seen()

    talk.agent(permission(9))

    assert ["session/request_permission"] == kinds(talk.seen())


def test_an_agent_that_reuses_an_id_never_gets_the_old_cards_answer() -> None:
    """R17, R22 in one process: the client still has card 9 of the cancelled turn open."""
    talk = asking(permission(9))
    talk.client(cancel())
    talk.agent(ended(1, "cancelled"))
    talk.client(prompt(2, "two"))
    forget(talk)
    talk.agent(permission(9))
    (card,) = talk.seen()

    talk.client(answer(9, ALLOW))
    early = results(talk)
    talk.client(answer(card["id"], CANCELLED))

    assert card["id"] != 9
    assert ({}, {9: CANCELLED}) == (early, results(talk))


def test_two_open_requests_of_one_id_are_two_cards() -> None:
    """An agent must not do it; the client would mix them up if we passed it on."""
    talk = asking(permission(9))
    forget(talk)
    talk.agent(elicitation(9))
    (second,) = talk.seen()

    talk.client(answer(second["id"], {"action": "accept"}), answer(9, ALLOW))

    assert [{"action": "accept"}, ALLOW] == [line["result"] for line in talk.got()]


def test_no_more_than_a_bounded_number_of_settled_requests_is_remembered() -> None:
    """I9: a client that never answers a withdrawn card must not cost memory for ever."""
    talk = Talk("generic")
    reach.idle(talk)
    for number in range(400):
        talk.client(prompt(f"p{number}"))
        talk.agent(permission(number), chunk("a"))
        talk.client(cancel())
        talk.agent(ended(f"p{number}", "cancelled"))

    assert 256 == len(talk.bridge.requests)


# -- the agent takes it back --------------------------------------------------------------------
def withdrawn(id_: Any) -> Json:
    return notify("$/cancel_request", {"requestId": id_})


def test_the_agents_withdrawal_reaches_the_client() -> None:
    talk = asking(permission(9))
    forget(talk)

    talk.agent(withdrawn(9))
    talk.client(error(9, -32800, "cancelled"))

    assert [{"requestId": 9}] == [line["params"] for line in talk.seen()]
    assert {9: {"code": -32800, "message": "cancelled"}} == results(talk)


def test_a_withdrawn_request_is_withdrawn_once_by_a_later_cancel() -> None:
    """R17: the agent gets its answer, the client has heard it already."""
    talk = asking(permission(9))
    talk.agent(withdrawn(9))
    forget(talk)

    talk.client(cancel())

    assert ({9: CANCELLED}, []) == (results(talk), talk.seen())


def test_a_withdrawal_of_what_we_have_answered_goes_nowhere() -> None:
    talk = asking(permission(9))
    talk.client(cancel())
    forget(talk)

    talk.agent(withdrawn(9))

    assert [] == talk.seen()


def test_a_withdrawal_of_something_unknown_passes_as_it_came() -> None:
    """I7: no rule names it; the client may know."""
    line = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{ "requestId":[1] }}'
    talk = asking()
    talk.client_lines.clear()

    talk.agent(line, withdrawn(55), notify("$/cancel_request", {}))

    assert 3 == len(talk.client_lines)
    assert line == talk.client_lines[0]


# -- after a restart (R22) ----------------------------------------------------------------------
def restarted(*frames: Json) -> Talk:
    """The agent died over a permission; the new process works on prompt 2 and asks `frames`."""
    talk = asking(permission(0))
    forget(talk)
    talk.die()
    talk.client(prompt(2, "two"))
    obey(talk)
    talk.agent(chunk("b"), *frames)
    return talk


def test_the_dead_agents_requests_are_withdrawn() -> None:
    talk = asking(permission(0), read_file(1))
    forget(talk)

    talk.die()

    gone = [line["params"]["requestId"] for line in talk.seen() if "params" in line]
    assert [0, 1] == gone


def test_an_old_card_never_approves_a_new_processs_request() -> None:
    """R22: agent request ids are spliced per run, so 0 of run 1 is not 0 of run 2."""
    talk = restarted(permission(0))
    (card,) = [line for line in talk.seen() if line.get("method") == "session/request_permission"]
    forget(talk)

    talk.client(answer(0, ALLOW))
    early = results(talk)
    talk.client(answer(card["id"], CANCELLED))

    assert card["id"] != 0
    assert ({}, {0: CANCELLED}) == (early, results(talk))


@pytest.mark.parametrize("pair", [(0, "0"), (1, 1.0), ("a", None), ('q"', "q'")], ids=repr)
def test_different_ids_of_the_new_process_stay_different(pair: tuple[Any, Any]) -> None:
    talk = restarted(permission(pair[0]), permission(pair[1]))
    cards = [
        line["id"] for line in talk.seen() if line.get("method") == "session/request_permission"
    ]
    talk.got()

    talk.client(answer(cards[1], {"n": 2}), answer(cards[0], {"n": 1}))

    lines = talk.got()
    assert [json.dumps(pair[1]), json.dumps(pair[0])] == [json.dumps(line["id"]) for line in lines]
    assert [2, 1] == [line["result"]["n"] for line in lines]


def test_a_withdrawal_of_the_new_process_names_the_card_that_the_client_has() -> None:
    talk = restarted(permission(0))
    (card,) = [line for line in talk.seen() if line.get("method") == "session/request_permission"]

    talk.agent(withdrawn(0))

    assert [card["id"]] == [line["params"]["requestId"] for line in talk.seen()]


# -- the client leaves --------------------------------------------------------------------------
def test_when_the_client_leaves_everything_open_is_answered() -> None:
    """Nobody can answer any more: people's questions are cancelled, the rest is an error."""
    talk = asking(permission(0), elicitation(1), read_file(2))

    talk.leave()

    told = results(talk)
    assert (CANCELLED, {"action": "cancel"}) == (told[0], told[1])
    assert -32800 == told[2]["code"]


def test_what_is_asked_after_the_client_left_is_answered_at_once() -> None:
    talk = asking(on_disconnect="finish")
    talk.leave()

    talk.agent(permission(0), read_file(2))

    told = results(talk)
    assert (CANCELLED, -32800) == (told[0], told[2]["code"])
    assert [] == talk.seen()


def test_a_card_that_a_cancel_has_answered_is_not_withdrawn_again_by_a_death() -> None:
    """R17, R22: the client hears of each withdrawal once."""
    talk = asking(permission(9))
    talk.client(cancel())
    forget(talk)

    talk.die()

    assert [(1, "agent-exited")] == kinds(talk.seen())
