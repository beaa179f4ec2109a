"""Two prompts of ours at the agent at once: no user gets there before steering does (I4, R14).

The client of a tape wrote without waiting (`as_written.py`); what the core does with the answers
must be right already.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.as_written import AS_WRITTEN
from tests.core.reach import at, kinds, tags
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Talk,
    cancel,
    chunk,
    echo,
    ended,
    error,
    prompt,
    usage,
    wedge,
)


def both(place: str = "working") -> Talk:
    """Prompt 1 stands at a place, prompt 2 is written beside it."""
    talk = at(place, wait_notice=False)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.got()
    return talk


def phase(talk: Talk) -> str:
    return talk.bridge.sessions["s1"].phase.value


def test_the_owner_s_answer_leaves_the_other_open() -> None:
    """R8: 1: each is answered by its own response."""
    talk = both()
    talk.agent(ended(1))

    assert "running" == phase(talk)
    talk.agent(chunk("b"), ended(2))
    assert [(1, "end_turn"), "b", (2, "end_turn")] == kinds(talk.seen())
    assert "idle" == phase(talk)


def test_a_kept_prompt_outlives_the_owner_s_answer() -> None:
    """R10: it waits for its own echo, however the turn before it ended."""
    talk = both()
    talk.agent(chunk(QUEUED), ended(2, usage=False), ended(1))

    assert "held" == phase(talk)
    talk.wait(100.0)
    assert [(1, "end_turn")] == kinds(talk.seen())
    talk.agent(echo("two"), chunk("b"), usage())
    talk.wait(1.0)
    said = talk.seen()
    assert (2, "end_turn") in kinds(said)
    assert ["drained"] == tags(said)


def test_a_segment_waits_for_the_owner_s_response_and_not_for_silence() -> None:
    """R9: "the outer response if there is one"."""
    talk = both()
    talk.agent(chunk(QUEUED), ended(2, usage=False), echo("two"), chunk("b"), usage())
    talk.wait(600.0)

    assert ["two", "b", "usage_update"] == kinds(talk.seen())
    talk.agent(ended(1))
    assert [(1, "end_turn"), (2, "end_turn")] == kinds(talk.seen())


def test_a_segment_inside_a_request_ends_at_the_next_echo() -> None:
    """R9, tape mid-turn-three-prompts: "first to come"."""
    talk = both()
    talk.client(prompt(3, "three"))
    talk.agent(chunk(QUEUED), ended(3, usage=False))
    talk.agent(echo("three"), chunk("c"), echo("another"))

    assert [(3, "end_turn")] == kinds(talk.seen())[-2:-1]


def test_what_was_redirected_into_an_owner_s_turn_ends_with_it_alone() -> None:
    """R10: an echo inside the owner's request does not end what was put into it."""
    talk = both()
    talk.agent(chunk(REDIRECTED), ended(2, usage=False), chunk("b"), echo("another"), chunk("c"))

    assert (2, "end_turn") not in kinds(talk.seen())
    talk.agent(ended(1))
    said = talk.seen()
    assert [(1, "end_turn"), (2, "end_turn")] == kinds(said)
    assert ["response", "shared"] == tags(said)


def test_a_redirected_prompt_without_work_outlives_another_s_quiet_segment() -> None:
    """R10: until the first work after its receipt nothing of it is inferred."""
    talk = at("kept", wait_notice=False)
    talk.agent(echo("one"))
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False))
    talk.wait(600.0)

    assert (2, "end_turn") not in kinds(talk.seen())
    assert "held" == phase(talk)
    talk.agent(chunk("b"), usage())
    talk.wait(1.0)
    assert (2, "end_turn") in kinds(talk.seen())


def test_a_refused_one_goes_back_and_the_other_stays_held() -> None:
    """R7: the back-off of one changes nothing for what the agent keeps."""
    talk = both("kept")
    talk.agent(error(2, -32000, "busy", {"reason": "session_busy"}))

    assert "held" == phase(talk)
    assert [] == talk.seen()


@pytest.mark.parametrize("text", [QUEUED, REDIRECTED])
def test_a_cancel_answers_the_one_by_its_receipt_and_the_other_by_its_response(text: str) -> None:
    """R19: both are cancelled; what has a response of its own waits for it."""
    talk = both()
    talk.client(cancel())
    talk.agent(chunk(text), ended(2, usage=False))

    assert [(2, "cancelled")] == kinds(talk.seen())
    assert "cancelling" == phase(talk)
    talk.agent(ended(1, "cancelled"))
    assert [(1, "cancelled")] == kinds(talk.seen())


@pytest.mark.parametrize(
    "answers",
    [
        lambda talk: talk.agent(ended(2)),
        lambda talk: talk.agent(chunk(QUEUED), ended(2, usage=False)),
        lambda talk: talk.agent(chunk("x"), ended(2, usage=False)),
    ],
)
@pytest.mark.parametrize("place", ["running", "working"])
def test_a_session_that_one_of_them_shows_to_be_wedged_stays_wedged(
    place: str, answers: Callable[[Talk], None]
) -> None:
    """R24: what the other is answered does not mend it."""
    talk = both(place)
    talk.agent(wedge(1))
    answers(talk)
    talk.wait(5.0)

    assert "wedged" == phase(talk)
