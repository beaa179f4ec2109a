"""A cancel that crosses its turn's end: the next prompt must not pay for it (R21)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, texts
from tests.core.script import Json, Talk, cancel, chunk, ended, permission, prompt, tool


def crossed(agent: str = "hermes", client: str = "generic", stop: str = "end_turn") -> Talk:
    """The cancel of turn 1 was sent and the turn ended by itself; prompt 2 is at the agent."""
    talk = Talk(agent, client)
    reach.working(talk)
    talk.client(cancel())
    talk.wait(0.05)
    talk.agent(ended(1, stop))
    talk.wait(0.2)
    talk.client(prompt(2, "two"), prompt(3, "three"))
    forget(talk)
    return talk


def test_an_unasked_cancelled_is_that_cancels_doing() -> None:
    """R21: nothing ran; the prompt is taken back and written once more, and then it runs."""
    talk = crossed()

    talk.agent(ended(2, "cancelled"))
    again = texts(talk.got())
    talk.agent(chunk("b"), ended(2))

    assert ["two"] == again
    assert ["b", (2, "end_turn")] == kinds(talk.seen())
    assert 1 == talk.count("prompt_taken_back")


def test_it_keeps_its_place_in_front_of_the_queue() -> None:
    """I5: taken back means to the head."""
    talk = crossed()

    talk.agent(ended(2, "cancelled"), chunk("b"), ended(2))

    assert ["two", "three"] == texts(talk.got())


def test_a_second_time_it_is_the_answer() -> None:
    """R21, I3: once more, not for ever; and the reason is the agent's own."""
    talk = crossed()

    talk.agent(ended(2, "cancelled"), ended(2, "cancelled"))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert ["two", "three"] == texts(talk.got())


def test_codeg_hears_of_it_as_an_end_of_turn() -> None:
    """codeg.md 4: it has not cancelled this one, and `cancelled` would leave its row stuck."""
    talk = crossed(client="codeg")

    talk.agent(ended(2, "cancelled"), ended(2, "cancelled"))
    talk.wait(0.2)

    assert (2, "end_turn") == kinds(talk.seen())[-1]


@pytest.mark.parametrize(
    "work", [chunk("b"), tool("t2"), permission(4)], ids=["chunk", "tool", "ask"]
)
def test_with_work_it_is_the_answer(work: Json) -> None:
    """R21, I3: something ran, so it must not be written again."""
    talk = crossed()

    talk.agent(work, ended(2, "cancelled"))

    assert (2, "cancelled") == kinds(talk.seen())[-1]
    assert ["three"] == texts(talk.got())


def test_a_prompt_that_was_cancelled_itself_is_not_taken_back() -> None:
    """R16 over R21."""
    talk = crossed()
    talk.client(cancel())
    talk.wait(0.2)
    forget(talk)

    talk.agent(ended(2, "cancelled"))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert [] == texts(talk.got())


def test_only_the_first_prompt_after_it_is_protected() -> None:
    """R21: the flag is spent; another unasked `cancelled` is the agent's own business."""
    talk = crossed()
    talk.agent(chunk("b"), ended(2))
    forget(talk)

    talk.agent(ended(3, "cancelled"))

    assert [(3, "cancelled")] == kinds(talk.seen())


def test_a_turn_that_was_answered_cancelled_was_not_crossed() -> None:
    """R21: the cancel hit what it was meant for."""
    talk = crossed(stop="cancelled")

    talk.agent(ended(2, "cancelled"))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert ["three"] == texts(talk.got())


def test_other_agents_do_not_poison() -> None:
    """R21: only where the profile says so; claude forgets a late cancel."""
    talk = crossed("claude")

    talk.agent(ended(2, "cancelled"))

    assert [(2, "cancelled")] == kinds(talk.seen())


def test_a_cancel_that_was_never_sent_crosses_nothing() -> None:
    """R16: held back and dropped; the next `cancelled` cannot be its doing."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.client(cancel(), prompt(2, "two"))
    talk.agent(ended(1))
    forget(talk)

    talk.agent(ended(2, "cancelled"))

    assert [(2, "cancelled")] == kinds(talk.seen())


def test_a_restart_forgets_the_crossing() -> None:
    """A new process was never told of the old cancel."""
    talk = crossed()
    talk.die()
    reach.obey(talk)
    forget(talk)

    talk.agent(ended(3, "cancelled"))

    assert [(3, "cancelled")] == kinds(talk.seen())
    assert [] == texts(talk.got())
