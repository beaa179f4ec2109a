"""The Codeg profile: what it must not see, kept and counted (codeg.md 3, 5, 8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, in_session, kinds, obey
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    notify,
    prompt,
    tool,
    tool_update,
    update,
    usage,
)


def codeg(place: str = "idle", agent: str = "hermes", **policy: Any) -> Talk:
    talk = Talk(agent, "codeg", **policy)
    reach.PLACES[place][1](talk)
    return talk


def session(talk: Talk) -> Any:
    return talk.bridge.sessions["s1"]


# -- cancelled work -----------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["running", "working", "ownerless", "segment"])
def test_work_of_a_cancelled_turn_is_never_shown_after_the_cancel(place: str) -> None:
    """codeg.md 10.5: it has closed the turn already, and renders what comes in the next one."""
    talk = codeg(place)
    talk.client(cancel())
    talk.wait(0.2)
    forget(talk)

    talk.agent(chunk("late"), tool("t1"), tool_update("t1"), update("plan", entries=[]))

    assert [] == talk.seen()
    assert 4 == talk.count("cancelled_work_withheld")
    kept = list(session(talk).withheld.lines)[-4:]
    assert 4 == sum(b"late" in line or b"t1" in line or b"plan" in line for line in kept)


def test_nor_in_the_stream_of_the_prompt_that_waits_behind_it() -> None:
    """codeg.md 5: the next prompt comes milliseconds after the cancel."""
    talk = codeg("working")
    talk.client(cancel(), prompt(2, "two"))
    talk.wait(0.5)
    forget(talk)

    talk.agent(chunk("late"), ended(1, "cancelled"))
    talk.agent(chunk("mine"), ended(2))
    talk.wait(0.3)

    assert [(1, "cancelled"), "mine", (2, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("tail", [chunk("tail"), tool_update("t1")], ids=["chunk", "old tool"])
def test_nor_behind_its_answer_or_in_front_of_the_next_prompt(tail: Json) -> None:
    """R13: what trails a cancelled turn is that turn's, and no late content."""
    talk = codeg("working")
    talk.agent(tool("t1"))
    talk.client(cancel())
    talk.wait(0.2)
    talk.agent(ended(1, "cancelled"))
    talk.wait(0.15)
    forget(talk)

    talk.agent(tail)
    talk.client(prompt(2, "two"))
    talk.wait(0.5)

    assert [] == talk.seen()


def test_nor_after_it_was_given_up() -> None:
    """R18: wedged or not, it is the turn that the person stopped."""
    talk = codeg("cancelling")
    talk.wait(30.0)
    forget(talk)

    talk.agent(chunk("still"))
    talk.client(prompt(2, "two"))
    obey(talk)
    talk.agent(chunk("mine"))

    assert ["mine"] == [kind for kind in kinds(talk.seen()) if kind in ("still", "mine")]


def test_nor_from_a_session_that_a_fork_has_left_behind() -> None:
    """R24: the stuck turn goes on under the old id."""
    talk = codeg("cancelling")
    talk.new("s2")
    talk.client(prompt("x", "x", "s2"))
    talk.agent(chunk("x", "s2"))
    talk.wait(30.0)
    talk.client(prompt(2, "two"))
    obey(talk)
    forget(talk)

    talk.agent(chunk("still", "s1"), usage("s1"), chunk("mine", "fork-1"))

    assert ["usage_update", "mine"] == kinds(talk.seen())


def test_what_the_agent_does_by_itself_later_is_shown_again() -> None:
    """A new ownerless turn was not cancelled: it is kept for the next prompt."""
    talk = codeg("cancelling")
    talk.agent(ended(1, "cancelled"))
    talk.wait(5.0)
    talk.agent(chunk("by itself"))
    forget(talk)

    talk.client(prompt(2, "two"))

    assert ["by itself"] == kinds(talk.seen())


def test_a_doubted_answer_goes_out_without_a_word_when_it_is_cancelled() -> None:
    """R16: the person has stopped it; a "no output" notice would be a ghost message."""
    talk = codeg("doubted")

    talk.client(cancel())
    talk.wait(0.3)

    assert [(1, "end_turn")] == kinds(talk.seen())


# -- resume, load, echo -------------------------------------------------------------------------
def opening(method: str) -> Talk:
    talk = Talk("generic", "codeg")
    talk.initialize()
    talk.client(in_session("L", method, "old"))
    forget(talk)
    return talk


def test_content_between_a_resume_and_its_answer_is_withheld() -> None:
    """codeg.md 3: a resume must not replay; what came would be taken for live output."""
    talk = opening("session/resume")

    talk.agent(chunk("h1", "old"), echo("q", "old"), usage("old"), answer("L", {}))

    assert ["usage_update", ("L", "ok")] == kinds(talk.seen())
    assert 2 == talk.count("resume_content_withheld")
    assert 2 == len(talk.bridge.sessions["old"].withheld.lines)


def test_the_content_of_a_load_is_shown() -> None:
    """It drains a replay itself, and its custom agents record it."""
    talk = opening("session/load")

    talk.agent(chunk("h1", "old"), echo("q", "old"), answer("L", {}))

    assert ["h1", "q", ("L", "ok")] == kinds(talk.seen())


def test_a_live_echo_is_withheld() -> None:
    """codeg.md 8: it would record the person's message twice."""
    talk = codeg("working")

    talk.agent(echo("somebody"), chunk("a"))

    assert ["a"] == kinds(talk.seen())
    assert 1 == talk.count("echo_withheld")


def test_taking_back_the_running_prompt_hides_its_work_as_a_cancel_does() -> None:
    """R20: for the person it is the same button."""
    talk = codeg("working", agent="claude")
    talk.client(notify("$/cancel_request", {"requestId": 1}))
    forget(talk)

    talk.agent(chunk("late"), ended(1, "cancelled"))
    talk.wait(0.2)

    assert [(1, "cancelled")] == kinds(talk.seen())


def test_a_ghost_hides_itself_and_not_the_turn_that_it_runs_in() -> None:
    """R19: the prompt around it is open, and nobody has cancelled that one."""
    talk = codeg("kept")
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("mine"), echo("one"), chunk("ghost"), echo("other"), chunk("shown"))

    shown = [kind for kind in kinds(talk.seen()) if kind in ("mine", "ghost", "shown")]
    assert ["mine", "shown"] == shown
