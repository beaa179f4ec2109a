"""session/cancel: what is answered, what is sent, and when it goes (R16, R18).

The places are those of `reach`, all with the Hermes profile, which is the pickiest about cancels.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import PLACES, in_session, kinds, obey, texts
from tests.core.script import (
    Talk,
    cancel,
    chunk,
    dumps,
    ended,
    prompt,
)

FORWARDED: dict[str, int] = {
    "idle": 0,
    "sending": 0,
    "running": 1,
    "working": 1,
    "doubted": 0,
    "kept": 1,
    "joined": 1,
    "segment": 1,
    "trailing": 0,
    "ownerless": 1,
    "cancelling": 0,
    "wedged": 0,
    "lost": 0,
    "reviving": 0,
}
"""How many cancels reach the agent when the client cancels there (R16)."""

ANSWERED: dict[str, list[Any]] = {
    "sending": [(1, "cancelled")],
    "doubted": [(1, "end_turn")],
    "kept": [(1, "cancelled")],
    "joined": [(1, "cancelled")],
    "segment": [(1, "cancelled")],
    "reviving": [(1, "cancelled")],
}
"""What the client is told at once; nothing where it is not listed."""


def at(place: str) -> Talk:
    talk = Talk("hermes")
    PLACES[place][1](talk)

    assert PLACES[place][0] == talk.bridge.sessions["s1"].phase.value, talk.show()
    return talk


def cancels(talk: Talk) -> int:
    return sum(line.get("method") == "session/cancel" for line in talk.got())


def test_every_place_is_in_the_table() -> None:
    """A new phase must say what a cancel does there."""
    assert set(PLACES) == set(FORWARDED)
    assert {phase for phase, _ in PLACES.values()} == {
        "idle", "running", "held", "trailing", "ownerless", "cancelling", "wedged", "lost"
    }  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_cancel_goes_to_the_agent_only_where_a_turn_runs(place: str) -> None:
    """R16: anywhere else it would poison the next turn of some agents (field cases 54, 55)."""
    talk = at(place)

    talk.client(cancel(), cancel())
    talk.wait(1.0)

    assert FORWARDED[place] == cancels(talk), talk.show()


@pytest.mark.parametrize("place", PLACES)
def test_a_cancel_answers_at_once_what_is_ours_to_answer(place: str) -> None:
    """R16, R19: what is open at the agent waits for its real answer, the rest does not."""
    talk = at(place)

    talk.client(cancel())

    assert ANSWERED.get(place, []) == kinds(talk.seen()), talk.show()


@pytest.mark.parametrize("place", [place for place in PLACES if place != "idle"])
def test_a_cancel_answers_the_queue_in_order_and_never_sends_it(place: str) -> None:
    """R16, field cases 53, 56, 68: the canceller's queue ends, and what comes later runs."""
    talk = at(place)
    talk.client(prompt(2, "two"), prompt(3, "three"))
    talk.seen()

    talk.client(cancel(), prompt(4, "four"))
    talk.disk = True
    talk.persisted()

    told = [kind for kind in kinds(talk.seen()) if kind[0] in (2, 3)]
    assert [(2, "cancelled"), (3, "cancelled")] == told, talk.show()
    sent = obey(talk)
    if FORWARDED[place] or place == "cancelling":
        # The turn ends as the agent ends cancelled turns; one without owner by silence.
        talk.agent(chunk("late"), *([ended(1, "cancelled")] if owns(talk) else []))
    talk.wait(6.0)
    sent += obey(talk)
    assert ["four"] == texts(sent), talk.show()


def owns(talk: Talk) -> bool:
    return bool(talk.bridge.sessions["s1"].at_agent)


@pytest.mark.parametrize("place", PLACES)
def test_a_prompt_after_a_cancel_is_answered_by_its_own_turn(place: str) -> None:
    """R18: a prompt after the cancel is a new prompt; I1: everything is answered once."""
    talk = at(place)
    before = {1} if owns(talk) or talk.bridge.sessions["s1"].queue else set()

    talk.client(cancel(), prompt(4, "four"))
    talk.disk = True
    talk.persisted()
    obey(talk)
    if owns(talk) and 4 not in open_ids(talk):
        talk.agent(ended(1, "cancelled"))
    talk.wait(6.0)
    obey(talk)
    session = talk.bridge.sessions["s1"].agent_id
    talk.agent(chunk("real", session), ended(4))

    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert (4, "end_turn") == told[-1], talk.show()
    assert before | {4} == {id_ for id_, _ in told}
    assert len(told) == len({id_ for id_, _ in told})


def open_ids(talk: Talk) -> set[int]:
    """The ids of the prompts that the agent has."""
    return {int(one.id) for one in talk.bridge.sessions["s1"].at_agent}


# -- one cancel a turn --------------------------------------------------------------------------
def test_one_cancel_per_turn_and_a_new_one_for_the_next() -> None:
    talk = Talk("hermes")
    reach.working(talk)

    talk.client(cancel(), cancel(), cancel())
    talk.wait(1.0)
    first = cancels(talk)
    talk.agent(ended(1, "cancelled"))
    talk.client(prompt(2, "two"))
    talk.agent(chunk("b"))
    talk.wait(1.0)
    talk.got()
    talk.client(cancel(), cancel())
    talk.wait(1.0)

    assert (1, 1) == (first, cancels(talk))


def test_the_cancel_of_one_session_leaves_the_others_alone() -> None:
    """R16 is about the session; field case 57: a cancel must hit the turn that runs in it."""
    talk = Talk("generic")
    talk.open()
    talk.new("s2")
    talk.wait(1.0)
    talk.client(prompt(1, "one", "s1"), prompt(2, "two", "s2"), prompt(3, "three", "s2"))
    reach.forget(talk)

    talk.client(cancel("s1"))
    talk.agent(ended(1, "cancelled"), chunk("b", "s2"), ended(2))

    assert [(1, "cancelled"), "b", (2, "end_turn")] == kinds(talk.seen())
    assert ["session/cancel", "session/prompt"] == kinds(talk.got())


def test_work_after_a_cancel_is_shown_before_its_answer() -> None:
    """S5, field case 64: the agent's last words belong to the conversation."""
    talk = Talk("generic")
    reach.cancelling(talk)

    talk.agent(chunk("late"), ended(1, "cancelled"))

    assert ["late", (1, "cancelled")] == kinds(talk.seen())


@pytest.mark.parametrize("stop", ["end_turn", "cancelled", "max_tokens", "refusal"])
def test_the_agents_stop_reason_is_not_rewritten(stop: str) -> None:
    """R21, field case 60: a turn may really have finished first."""
    talk = Talk("generic")
    reach.cancelling(talk)
    line = dumps(ended(1, stop))

    talk.agent(line)

    assert [line] == talk.client_lines


def test_a_bare_answer_to_a_cancelled_prompt_goes_out_at_once() -> None:
    """R11, R12 disbelieve an answer that nobody asked for; this one was."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.client(cancel())
    talk.wait(0.2)

    talk.agent(ended(1, usage=False))

    assert [(1, "end_turn")] == kinds(talk.seen())


def test_a_cancel_of_an_unknown_session_is_swallowed() -> None:
    """R16: nobody has prompted there."""
    talk = Talk("generic")
    talk.open()

    talk.client(cancel("nobody"))

    assert ([], 1) == (talk.got(), talk.count("cancel_swallowed"))
    assert "nobody" not in talk.bridge.sessions


def test_a_load_that_waits_in_the_queue_survives_a_cancel() -> None:
    """R4, R16: a cancel answers prompts; a load has another answer, and gets it."""
    talk = Talk("generic")
    reach.working(talk)
    talk.client(in_session("L", "session/load"))

    talk.client(prompt(2, "two"), cancel())
    talk.agent(ended(1, "cancelled"))

    assert [(2, "cancelled"), (1, "cancelled")] == kinds(talk.seen())
    assert ["session/cancel", "session/load"] == kinds(talk.got())
