"""A cancel, a close or an end meets a steer at every point of its way (R15, R16, R20, S3)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.phases import Phase
from tests.core.ledger import check
from tests.core.reach import forget, kinds, texts
from tests.core.script import (
    QUEUED,
    Json,
    Talk,
    cancel,
    chunk,
    echo,
    ended,
    error,
    notify,
    prompt,
    usage,
)
from tests.core.script import tool as tool_call
from tests.core.steer_talk import STEERING, asked, injected, reasons, said, steering, told, working

OWNER_CANCELLED = ended(1, "cancelled")


def take_back(id_: Any) -> Json:
    return notify("$/cancel_request", {"requestId": id_})


def methods(talk: Talk) -> list[str]:
    return [line["method"] for line in talk.got()]


# -- before its bytes ---------------------------------------------------------------------------
def test_a_steer_whose_bytes_have_not_gone_is_cancelled_unsent() -> None:
    """R16: it is the canceller's own, in order before what is queued, and never sent."""
    talk = Talk()
    steering(talk)
    talk.client(prompt(3, "three"), cancel())

    assert [(2, "cancelled"), (3, "cancelled")] == kinds(talk.seen())
    assert ["session/cancel"] == methods(talk)
    talk.persisted()
    talk.agent(OWNER_CANCELLED)

    assert [] == talk.got()
    check(talk)


def test_a_cancelled_steer_becomes_undelivered_if_the_client_leaves_at_once() -> None:
    """R20: a window that closes cancels first; the text is kept to be found."""
    talk = Talk()
    steering(talk)
    talk.client(cancel())
    talk.leave()

    assert ("accepted", "undelivered: the client left") in reasons(talk, 3)


def test_one_steer_taken_back_before_its_bytes_costs_nobody_else() -> None:
    """R20: the owner runs on, and the next one is steered."""
    talk = Talk()
    steering(talk)
    talk.client(prompt(3, "three"), take_back(2))

    assert [(2, "cancelled")] == kinds(talk.seen())
    talk.persisted()
    talk.persisted()

    assert [STEERING] == methods(talk)
    talk.agent(said(3, "injected"), chunk("x"), ended(1))
    check(talk)


# -- unanswered -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "order",
    [["word", "owner"], ["owner", "word"]],
    ids=["word first", "owner first"],
)
@pytest.mark.parametrize(
    ("word", "own"),
    [
        (said(2, "injected"), {"completion": "shared", "delivery": "unproven"}),
        (said(2, "promptRequired"), {}),
        (error(2, -32002), {}),
        (said(2, "failed"), {"completion": "shared", "delivery": "unproven"}),
        (error(2, -32600), {"completion": "shared", "delivery": "unproven"}),
    ],
    ids=str,
)
def test_a_cancel_behind_a_steer_cancels_both_and_sends_neither(
    word: Json, own: Json, order: list[str]
) -> None:
    """R15, S3, field cases 14 and 25: what the person stopped never starts a turn."""
    talk = asked()
    talk.client(cancel())

    assert ["session/cancel"] == methods(talk)
    for one in order:
        talk.agent(word if one == "word" else OWNER_CANCELLED)
    seen = talk.seen()

    assert {(1, "cancelled"), (2, "cancelled")} == set(kinds(seen))
    if order == ["owner", "word"] and word == said(2, "injected"):
        own = {"completion": "shared"}
    assert own == told(seen, 2)
    talk.wait(400.0)

    assert [] == talk.got()
    assert Phase.IDLE is talk.bridge.sessions["s1"].phase
    check(talk)


def test_silence_behind_a_cancel_is_answered_cancelled() -> None:
    """ACP: a cancelled prompt is never answered by an error; the record says `unknown`."""
    talk = asked()
    talk.client(cancel())
    talk.agent(OWNER_CANCELLED)
    talk.wait(10.0)

    assert {"completion": "shared", "delivery": "unproven"} == told(talk.seen(), 2)
    assert "settled" in [state for state, _ in reasons(talk, 3)]


def test_a_turn_that_a_cancelled_steer_started_is_stopped_and_hidden() -> None:
    """R19: the person stopped it before the agent began it."""
    talk = asked()
    talk.client(cancel())
    talk.agent(OWNER_CANCELLED)
    forget(talk)
    talk.agent(said(2, "startedNewTurn"), chunk("unwanted"))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert ["session/cancel"] == methods(talk)
    talk.wait(6.0)

    assert Phase.IDLE is talk.bridge.sessions["s1"].phase
    check(talk)


def test_a_turn_started_while_the_owner_is_being_cancelled_gets_no_second_cancel() -> None:
    """R16: one cancel per turn, and that one is on its way."""
    talk = asked()
    talk.client(cancel())
    forget(talk)
    talk.agent(said(2, "startedNewTurn"))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert [] == talk.got()


def test_a_cancel_behind_the_owners_answer_goes_nowhere_but_cancels_the_steer() -> None:
    """R16: a cancel while Idle would hit the next turn; the steer is cancelled all the same."""
    talk = asked()
    talk.agent(ended(1))
    talk.client(cancel())

    assert [] == talk.got()
    forget(talk)
    talk.agent(said(2, "promptRequired"))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert [] == talk.got()


def test_a_cancel_of_work_behind_the_owners_answer_cancels_the_steer() -> None:
    """What runs without an owner may be the steer: it is stopped, and the steer with it."""
    talk = asked()
    talk.agent(ended(1), tool_call())
    talk.client(cancel())

    assert ["session/cancel"] == methods(talk)
    forget(talk)
    talk.agent(said(2, "injected"))

    assert [(2, "cancelled")] == kinds(talk.seen())


def test_a_doubted_owner_goes_out_and_the_steer_is_cancelled_with_the_session() -> None:
    """R16: Held without a receipt: nothing is forwarded."""
    talk = working()
    talk.agent(ended(1))
    talk.wait(1.0)
    talk.client(prompt(3, "three"), prompt(4, "four"))
    talk.agent(ended(3, usage=False))
    forget(talk)
    talk.client(cancel())

    assert [(3, "end_turn")] == kinds(talk.seen())
    assert [] == talk.got()
    talk.agent(said(4, "injected"))

    assert [(4, "cancelled")] == kinds(talk.seen())


def test_what_joined_a_doubted_turn_ends_with_it_at_a_cancel() -> None:
    """R16: the held answer goes out at once, with all that shares it; nothing is left to cancel."""
    talk = working()
    talk.agent(ended(1))
    talk.wait(1.0)
    talk.client(prompt(3, "three"), prompt(4, "four"))
    talk.agent(ended(3, usage=False), said(4, "injected"))
    forget(talk)
    talk.client(cancel())

    assert [(3, "end_turn"), (4, "end_turn")] == kinds(talk.seen())
    assert [] == talk.got()


# -- injected ----------------------------------------------------------------------------------
def test_an_injected_prompt_shares_the_owners_cancelled() -> None:
    """R15: it was written before the cancel; it waits for the agent's own answer."""
    talk = injected()
    talk.client(cancel())

    assert [] == talk.seen()
    talk.agent(chunk("late"), OWNER_CANCELLED)
    seen = talk.seen()

    assert ["late", (1, "cancelled"), (2, "cancelled")] == kinds(seen)
    assert {"completion": "shared"} == told(seen, 2)
    check(talk)


def test_a_turn_of_its_own_is_cancelled_like_any_turn_without_an_owner() -> None:
    """R19: no response will come; the agent is told, and its marker or silence ends it."""
    talk = asked()
    talk.agent(said(2, "startedNewTurn"), ended(1), chunk("new"))
    forget(talk)
    talk.client(cancel())

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert ["session/cancel"] == methods(talk)


def test_a_turn_of_its_own_is_cancelled_beside_its_owner() -> None:
    """The owner's answer is not its end, so it does not wait for that."""
    talk = asked()
    talk.agent(said(2, "startedNewTurn"))
    talk.client(cancel())

    assert [(2, "cancelled")] == kinds(talk.seen())


@pytest.mark.parametrize("word", [None, "injected"])
def test_taking_back_a_prompt_that_is_in_the_turn_cancels_the_turn(word: str | None) -> None:
    """R20: nobody can take it out again; the queue stays."""
    talk = asked()
    if word:
        talk.agent(said(2, word))
    talk.client(prompt(3, "/three"))
    forget(talk)
    talk.client(take_back(2))

    assert ["session/cancel"] == methods(talk)
    talk.agent(OWNER_CANCELLED, *([] if word else [said(2, "injected")]))
    assert ["/three"] == texts(talk.got())


def test_a_steer_outlives_the_taking_back_of_its_owner() -> None:
    """R20: `$/cancel_request` takes one prompt; the refused steer is still wanted."""
    talk = asked("claude")
    talk.client(take_back(1))
    talk.agent(said(2, "promptRequired"), OWNER_CANCELLED)

    assert ["two"] == texts(talk.got())


def test_a_cancel_behind_the_taking_back_of_its_owner_takes_the_steer_too() -> None:
    """R16: the second word is about the whole session."""
    talk = asked("claude")
    talk.client(take_back(1), cancel())
    forget(talk)
    talk.agent(said(2, "promptRequired"))

    assert [(2, "cancelled")] == kinds(talk.seen())


def test_a_steer_into_the_turn_of_a_ghost_is_unknown() -> None:
    """R19: what the agent took for its own turn is being stopped; whether it runs nobody knows."""
    talk = Talk("hermes")
    talk.open(steering=True)
    talk.client(prompt("g", "ghost"))
    talk.agent(chunk(QUEUED), ended("g", usage=False))
    talk.wait(0.5)
    talk.client(cancel())
    talk.agent(chunk("other"), usage())
    talk.wait(6.0)
    talk.client(prompt(1, "one"), prompt(2, "two"))
    talk.agent(chunk("a"), ended(1), echo("ghost"))
    forget(talk)
    talk.agent(said(2, "injected"))

    assert {"kind": "delivery-unknown"} == told(talk.seen(), 2)
    assert Phase.CANCELLING is talk.bridge.sessions["s1"].phase


# -- the owner alone is taken back ---------------------------------------------------------------
def test_a_steer_shares_the_cancelled_of_an_owner_that_was_taken_back_alone() -> None:
    """R15, R20: `$/cancel_request` of the owner, and the agent's word about the steer behind it."""
    talk = asked("claude")
    talk.client(notify("$/cancel_request", {"requestId": 1}))
    talk.agent(OWNER_CANCELLED, said(2, "injected"))
    (line,) = [line for line in talk.seen() if line.get("id") == 2]

    assert "cancelled" == line["result"]["stopReason"]
    assert "shared" == line["result"]["_meta"]["acpbridge"]["completion"]
    assert Phase.IDLE is talk.bridge.sessions["s1"].phase


def test_a_refused_steer_outlives_an_owner_that_was_taken_back_alone() -> None:
    """R20: what the agent did not take is queued, and a `$/cancel_request` leaves the queue."""
    talk = asked("claude")
    talk.client(notify("$/cancel_request", {"requestId": 1}))
    forget(talk)
    talk.agent(OWNER_CANCELLED, said(2, "promptRequired"))

    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("first", ["owner", "steer"])
def test_the_turn_of_a_steer_is_shown_when_its_owner_alone_was_taken_back(first: str) -> None:
    """R20: Codeg hides what a cancelled turn still says; this one it has not cancelled."""
    talk = asked("claude", "codeg")
    talk.client(notify("$/cancel_request", {"requestId": 1}))
    news = [OWNER_CANCELLED, said(2, "startedNewTurn")]
    talk.agent(*(news if first == "owner" else reversed(news)))
    talk.wait(0.2)
    talk.seen()
    talk.agent(chunk("two's own answer"), usage(cost={"amount": 1}))
    talk.wait(1.5)

    assert ["two's own answer", "usage_update", (2, "end_turn")] == kinds(talk.seen())
