"""An agent that says nothing of a steer, says it too late, or dies over it (R14, R22, S4)."""

from __future__ import annotations

import pytest

from tests.core.ledger import check
from tests.core.reach import forget, kinds, texts
from tests.core.script import Json, chunk, ended, prompt
from tests.core.steer_talk import STEERING, asked, reasons, said, steers, working


# -- silence -------------------------------------------------------------------------------------
def test_a_silent_agent_leaves_it_unknown_after_ten_seconds() -> None:
    """S4.1: the text is not written again, and the owner's turn goes on."""
    talk = asked()
    talk.wait(9.9)

    assert [] == talk.seen()
    talk.wait(0.2)
    (line,) = talk.seen()

    assert "delivery-unknown" == line["error"]["data"]["acpbridge"]["kind"]
    assert "no answer in 10 s" in line["error"]["message"]
    talk.agent(chunk("x"), ended(1))

    assert ["x", (1, "end_turn")] == kinds(talk.seen())
    assert [] == talk.got()


def test_what_waited_behind_a_silent_steer_waits_for_the_turns_end() -> None:
    """R14: one at a time; the silent one is still at the agent."""
    talk = asked()
    talk.client(prompt(3, "three"))
    talk.wait(11.0)

    assert [] == talk.got()
    talk.agent(ended(1))

    assert ["three"] == texts(talk.got())


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (said(2, "injected"), "started"),
        (said(2, "startedNewTurn"), "started"),
        (said(2, "promptRequired"), "refused"),
        (said(2, "failed"), "unknown"),
    ],
    ids=str,
)
def test_a_late_verdict_corrects_the_record_and_nothing_else(verdict: Json, state: str) -> None:
    """R14: the client has its answer; the journal learns the truth."""
    talk = asked()
    talk.wait(11.0)
    forget(talk)
    talk.agent(verdict)

    assert [] == talk.seen()
    assert [] == talk.got()
    outcome = verdict["result"]["outcome"]
    assert [(state, f"late verdict: {outcome}")] == reasons(talk, 3)
    assert 1 == talk.count("late_steer_verdict")


def test_after_a_late_verdict_the_session_is_steered_again() -> None:
    """The agent owes nothing any more."""
    talk = asked()
    talk.wait(11.0)
    talk.agent(said(2, "injected"))
    talk.client(prompt(3, "three"))

    assert ["three"] == steers(talk.got())


# -- death ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("verdict", [[], [said(2, "injected")]], ids=["open", "injected"])
def test_an_agent_that_dies_may_have_run_it(verdict: list[Json]) -> None:
    """R22: one answer each, "may have run", and never sent to the next process."""
    talk = asked()
    talk.agent(*verdict)
    forget(talk)
    talk.die()
    seen = talk.seen()

    assert [(1, "agent-exited"), (2, "agent-exited")] == kinds(seen)
    assert "may have run" in seen[1]["error"]["message"]
    assert ("unknown", "the agent ended: killed by SIGKILL") in reasons(talk, 3)
    talk.wait(100.0)

    assert [] == talk.got()
    check(talk)


def test_a_steer_that_was_never_written_goes_to_the_next_agent() -> None:
    """S4.2: before the first byte nothing can have run."""
    talk = working()
    talk.disk = False
    talk.client(prompt(2, "two"))
    talk.die()

    assert [(1, "agent-exited")] == kinds(talk.seen())
    head = talk.bridge.sessions["s1"].head()
    assert head is not None
    assert "two" == head.text
    assert [] == [line for line in talk.got() if line["method"] == STEERING]


def test_a_turn_of_its_own_that_shows_nothing_is_told_of() -> None:
    """I10: the owner has been answered, so nothing visible runs; it says what it waits for."""
    talk = asked()
    talk.agent(said(2, "startedNewTurn"), ended(1))
    forget(talk)
    talk.wait(2.1)

    (notice,) = talk.seen()
    assert "agent_thought_chunk" == notice["params"]["update"]["sessionUpdate"]
    assert "waiting for what comes of it" in notice["params"]["update"]["content"]["text"]
