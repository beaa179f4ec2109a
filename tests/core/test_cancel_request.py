"""`$/cancel_request`: one request of the client is taken back (R20)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import busy, in_session, kinds, obey, set_mode, texts
from tests.core.script import (
    QUEUED,
    Json,
    Talk,
    cancel,
    chunk,
    ended,
    error,
    notify,
    permission,
    prompt,
    request,
)


def take_back(id_: Any) -> Json:
    return notify("$/cancel_request", {"requestId": id_})


# -- $/cancel_request of a prompt ---------------------------------------------------------------
def test_a_queued_prompt_is_taken_back_alone() -> None:
    """R20: the rest of the queue and the running turn go on; the answer is the cancel's."""
    talk = busy()

    talk.client(take_back(2))
    first = kinds(talk.seen())
    talk.agent(ended(1))

    assert [(2, "cancelled")] == first
    assert ["three"] == texts(talk.got())


def test_the_running_prompt_is_taken_back_where_the_agent_honours_it() -> None:
    """R20: claude and codex do; its own answer ends it, and the queue stays."""
    talk = busy("claude")

    talk.client(take_back(1))
    asked = talk.got()
    talk.agent(chunk("late"), ended(1, "cancelled"), chunk("b"), ended(2))

    assert [{"requestId": 1}] == [line["params"] for line in asked]
    assert ["late", (1, "cancelled"), "b", (2, "end_turn")] == kinds(talk.seen())
    assert ["two", "three"] == texts(talk.got())


def test_taking_it_back_twice_says_it_once() -> None:
    talk = busy("claude")

    talk.client(take_back(1), take_back(1))

    assert ["$/cancel_request"] == kinds(talk.got())


def test_a_cancel_after_it_goes_too_and_once() -> None:
    """R16: who presses Stop must not wait out `cancel_settle` for an agent that is deaf."""
    talk = busy("claude")

    talk.client(take_back(1), cancel(), cancel())

    assert ["$/cancel_request", "session/cancel"] == kinds(talk.got())


def test_the_answer_may_be_an_error_of_that_meaning() -> None:
    """ACP: an agent may answer -32800; it is the prompt's answer as any error is."""
    talk = busy("claude")

    talk.client(take_back(1))
    talk.agent(error(1, -32800, "cancelled"))

    assert [(1, -32800)] == kinds(talk.seen())
    assert ["two"] == texts(talk.got())


def test_an_agent_that_honours_it_must_also_end_in_time() -> None:
    """R18: the settle clock runs for this cancel too."""
    talk = Talk("claude")
    reach.working(talk)

    talk.client(take_back(1))
    talk.wait(30.1)

    assert [(1, "wedged")] == kinds(talk.seen())


def test_elsewhere_it_is_a_cancel_that_leaves_the_queue() -> None:
    """R20: Hermes knows no $/cancel_request; the turn must stop all the same."""
    talk = busy("hermes")

    talk.client(take_back(1))
    talk.wait(0.1)
    asked = kinds(talk.got())
    talk.agent(ended(1, "cancelled"))

    assert ["session/cancel"] == asked
    assert [(1, "cancelled")] == kinds(talk.seen())
    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("place", ["doubted", "kept"])
def test_a_held_prompt_is_taken_back_like_a_cancel(place: str) -> None:
    """R16, R19: a doubted answer goes out as it came, a kept prompt is `cancelled`."""
    talk = Talk("hermes")
    reach.PLACES[place][1](talk)
    talk.client(prompt(2, "two"))

    talk.client(take_back(1))

    assert [(1, "end_turn" if place == "doubted" else "cancelled")] == kinds(talk.seen())
    assert talk.bridge.sessions["s1"].head() is not None or ["two"] == texts(talk.got())


def test_a_prompt_whose_intent_is_on_the_way_to_the_disk_is_taken_back() -> None:
    talk = Talk("generic")
    reach.sending(talk)
    talk.client(prompt(2, "two"))

    talk.client(take_back(1))
    talk.disk = True
    talk.persisted()

    assert [(1, "cancelled")] == kinds(talk.seen())
    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("id_", [99, "before", None], ids=["unknown", "finished", "null"])
def test_taking_back_what_is_not_open_does_nothing(id_: Any) -> None:
    """Field case 58: it must never fall back to stopping everything."""
    talk = busy("claude")

    talk.client(take_back(id_))

    assert ([], []) == (talk.seen(), talk.got())
    assert 1 == talk.count("cancel_of_unknown_request")


def test_without_a_request_id_it_does_nothing() -> None:
    talk = busy("claude")

    talk.client(notify("$/cancel_request", {}))

    assert ([], []) == (talk.seen(), talk.got())


# -- of another request -------------------------------------------------------------------------
def test_another_open_request_is_taken_back_at_the_agent_byte_for_byte() -> None:
    talk = Talk("generic")
    talk.open()
    talk.client(set_mode("m"))
    line = b'{"jsonrpc":"2.0", "method":"$/cancel_request","params":{"requestId":"m"} }'
    talk.agent_lines.clear()

    talk.client(line)

    assert [line] == talk.agent_lines


def test_it_names_the_id_that_the_agent_knows() -> None:
    """R26: a reused id has a private one toward the agent; the older request is meant first."""
    talk = Talk("claude")
    reach.working(talk)
    talk.client(set_mode(1), set_mode(2.0))
    private = [line["id"] for line in talk.got()]

    talk.client(take_back(2.0), take_back(1))

    assert [{"requestId": private[1]}, {"requestId": 1}] == [line["params"] for line in talk.got()]


def test_it_does_not_overtake_its_request_in_the_gap_around_a_cancel() -> None:
    """R16: the request waits 20 ms; taken back before it is written it would run."""
    talk = Talk("hermes")
    reach.working(talk)

    talk.client(cancel(), set_mode("m"), take_back("m"))
    talk.wait(0.05)

    assert ["session/cancel", "session/set_mode", "$/cancel_request"] == kinds(talk.got())


def test_a_request_that_waits_for_the_agent_is_taken_back_unsent() -> None:
    """The agent is being started again: there is nothing to forward, but an answer to give."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(request("n", "session/new", {"cwd": "/w"}), set_mode("m"))
    reach.initialized(talk)

    talk.client(take_back("m"))
    sent = kinds(obey(talk))

    assert ("m", -32800) in kinds(talk.seen())
    assert "session/set_mode" not in sent


def test_a_request_that_waits_in_the_front_hall_is_taken_back_unsent() -> None:
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(request("n", "session/new", {"cwd": "/w"}))

    talk.client(take_back("n"))

    assert [("n", -32800)] == kinds(talk.seen())
    reach.initialized(talk)
    assert [] == talk.got()


def test_a_load_that_waits_for_a_turn_is_taken_back_unsent() -> None:
    """R4, R20."""
    talk = Talk("generic")
    reach.working(talk)
    talk.client(in_session("L", "session/load"), prompt(2, "two"))

    talk.client(take_back("L"))
    talk.agent(ended(1))

    assert [("L", -32800), (1, "end_turn")] == kinds(talk.seen())
    assert ["session/prompt"] == kinds(talk.got())


def test_a_receipt_is_no_answer_to_a_take_back() -> None:
    """R10 in the hold: the text may come between the take-back and the answer."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.client(take_back(1))
    talk.wait(0.2)

    talk.agent(chunk(QUEUED), ended(1, usage=False))

    assert [(1, "cancelled")] == kinds(talk.seen())


def test_it_takes_back_the_older_of_two_requests_with_one_id() -> None:
    """R26: a load waits under the id of a setting that is open at the agent."""
    talk = Talk("generic")
    reach.working(talk)
    talk.client(set_mode(7), in_session(7, "session/load"))
    talk.got()

    talk.client(take_back(7))
    talk.agent(error(7, -32800))
    talk.client(take_back(7))

    assert ["$/cancel_request"] == kinds(talk.got())
    assert [(7, -32800), (7, -32800)] == kinds(talk.seen())


def test_it_answers_the_cards_of_the_turn_as_a_cancel_does() -> None:
    """R17: the agent cannot end a turn that waits for a person."""
    talk = Talk("claude")
    reach.working(talk)
    talk.agent(permission(9))

    talk.client(take_back(1))

    assert [9, None] == [line.get("id") for line in talk.got()]
