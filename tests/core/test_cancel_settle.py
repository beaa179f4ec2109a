"""How a cancelled turn ends, and what happens when it does not (R16, R18, R19)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, obey, texts
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    cancel,
    chunk,
    echo,
    ended,
    error,
    permission,
    prompt,
    tool,
    usage,
    wedge,
)


def phase(talk: Talk) -> str:
    return talk.bridge.sessions["s1"].phase.value


# -- the ends of a cancelled turn ---------------------------------------------------------------
@pytest.mark.parametrize("last", [ended(1, "cancelled"), ended(1), error(1, -32000)], ids=str)
def test_it_ends_with_the_real_response_however_late(last: Json) -> None:
    """R18, field case 64: the agent may take its time; the next prompt waits for it."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.client(prompt(2, "two"))

    talk.wait(25.0)
    early = talk.got()
    talk.agent(last)

    assert [] == early
    assert ["two"] == texts(talk.got())


def test_an_ownerless_turn_ends_with_its_marker() -> None:
    """R18, R9: Hermes' usage update after content, then a second of silence."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel(), prompt(2, "two"))

    talk.agent(chunk("last words"), usage())
    talk.wait(0.9)
    early = texts(talk.got())
    talk.wait(0.2)

    assert [] == early
    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("agent", ["hermes", "generic", "claude"])
def test_an_ownerless_turn_ends_with_five_seconds_of_silence(agent: str) -> None:
    """R18: `wait_quiet` counts from the last work, also where a minute would be waited uncancelled.

    The clock of the uncancelled turn may be running already; it must not hold the end back.
    """
    talk = Talk(agent)
    reach.ownerless(talk)
    talk.wait(1.0)
    talk.client(cancel(), prompt(2, "two"))

    talk.wait(3.0)
    talk.agent(chunk("still here"))
    talk.wait(4.9)
    early = texts(talk.got())
    talk.wait(0.2)

    assert [] == early
    assert ["two"] == texts(talk.got())


def test_an_open_tool_call_does_not_delay_the_end_of_a_cancelled_turn() -> None:
    """R6: Hermes never closes the last tool of a cancelled turn."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.agent(tool("t1"))
    talk.client(cancel(), prompt(2, "two"))

    talk.wait(5.1)

    assert ["two"] == texts(talk.got())


def test_a_card_that_the_cancel_has_answered_does_not_delay_it_either() -> None:
    """R6, R17: it is open at the client perhaps, but nobody waits for it any more."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.agent(permission(9))
    talk.client(cancel(), prompt(2, "two"))

    talk.wait(5.1)

    assert ["two"] == texts(talk.got())


# -- it does not end ----------------------------------------------------------------------------
def test_a_turn_that_does_not_end_is_wedged_after_half_a_minute() -> None:
    """R18: the client must not wait for ever, and must not be told that it is over."""
    talk = Talk("generic")
    reach.cancelling(talk)

    talk.wait(29.4)
    early = talk.seen()
    talk.wait(0.2)

    assert [] == early
    assert [(1, "wedged")] == kinds(talk.seen())
    assert ("wedged", 0) == (phase(talk), len(talk.stops))


def test_the_next_prompt_recovers_it_by_a_restart() -> None:
    """R18, R24, the variant of S5: nothing is restarted before somebody needs it."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.wait(30.0)
    talk.seen()

    talk.client(prompt(2, "two"))
    sent = obey(talk)
    talk.agent(chunk("b"), ended(2))

    assert ["two"] == texts(sent)
    assert ["b", (2, "end_turn")] == kinds(talk.seen())
    assert (1, 2) == (len(talk.stops), talk.bridge.run)


def test_a_prompt_that_waits_recovers_it_at_once() -> None:
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.client(prompt(2, "two"))

    talk.wait(30.0)

    assert ["two"] == texts(obey(talk))


def test_the_late_answer_makes_the_session_whole_again() -> None:
    """R18: it was slow and not stuck; the client has its one response already (I1)."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.wait(30.0)
    talk.seen()

    talk.agent(ended(1, "cancelled"))
    talk.client(prompt(2, "two"))

    assert [] == talk.seen()
    assert ["two"] == texts(talk.got())
    assert ([], 1) == (talk.stops, talk.count("late_answer_dropped"))


def test_the_late_answer_may_come_while_the_agent_is_being_stopped() -> None:
    """R24: then the restart goes on, and the prompt runs once, in the new process."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.wait(30.0)
    talk.client(prompt(2, "two"))

    talk.agent(ended(1, "cancelled"))
    sent = obey(talk)

    assert ["two"] == texts(sent)
    assert (1, 2) == (len(talk.stops), talk.bridge.run)


def test_an_ownerless_turn_that_does_not_end_is_wedged_too() -> None:
    """R18: it works on and on; no response is owed, and the next prompt recovers it."""
    talk = Talk("generic")
    reach.ownerless(talk)
    talk.client(cancel())
    for _ in range(31):
        talk.wait(1.0)
        talk.agent(chunk("."))

    assert "wedged" == phase(talk)
    assert [] == [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]


def test_what_a_wedged_turn_still_says_is_shown_and_counts_for_nothing() -> None:
    """I6: no frame is lost; R24: it is no work of any turn."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.wait(30.0)
    talk.seen()

    talk.agent(chunk("still"), tool("t1"), echo("x"), usage())

    assert ["still", "tool_call", "x", "usage_update"] == kinds(talk.seen())
    assert "wedged" == phase(talk)


def test_a_settled_turn_leaves_no_clock_behind() -> None:
    """The settle clock of one turn must not wedge the next."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.agent(ended(1, "cancelled"))
    talk.client(prompt(2, "two"))
    talk.agent(chunk("b"))

    talk.wait(300.0)

    assert "running" == phase(talk)


# -- a receipt meets a cancel -------------------------------------------------------------------
def receipted(text: str) -> Talk:
    """The prompt met a turn that nobody saw, and was cancelled before the receipt came."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.client(cancel(), prompt(2, "two"))
    talk.wait(0.01)
    talk.agent(chunk(text), ended(1, usage=False))
    return talk


@pytest.mark.parametrize("text", [QUEUED, REDIRECTED], ids=["queued", "redirected"])
def test_a_cancel_that_waited_reaches_the_turn_that_the_receipt_names(text: str) -> None:
    """R16, R18: that turn runs, unseen; the next prompt goes when it is over, not into it."""
    talk = receipted(text)

    assert [(1, "cancelled")] == kinds(talk.seen())
    talk.wait(0.1)
    assert ["session/cancel"] == kinds(talk.got())
    talk.wait(4.8)
    assert [] == talk.got()
    talk.wait(0.2)
    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("text", [QUEUED, REDIRECTED], ids=["queued", "redirected"])
def test_a_receipt_is_never_the_answer_to_a_cancelled_prompt(text: str) -> None:
    talk = receipted(text)

    assert [] == [kind for kind in kinds(talk.seen()) if kind in (text, (1, "end_turn"))]


# -- ghosts (R19) -------------------------------------------------------------------------------
def ghost(client: str = "generic") -> Talk:
    """Prompt 1 was kept by the agent and cancelled; its echo has just appeared."""
    talk = Talk("hermes", client)
    reach.kept(talk)
    talk.client(cancel())
    talk.wait(0.5)
    forget(talk)
    talk.agent(echo("one"), chunk("ghost"))
    return talk


def test_a_cancelled_prompt_that_runs_after_all_is_cancelled_and_hidden() -> None:
    """R19: once more, and nothing of it is shown (tape cancel-with-queued)."""
    talk = ghost()
    talk.wait(0.1)

    assert ["session/cancel"] == kinds(talk.got())
    assert [] == talk.seen()
    assert 1 == talk.count("cancelled_prompt_ran")
    assert 2 == talk.count("cancelled_work_withheld")


def test_what_trails_a_ghost_is_hidden_too() -> None:
    talk = ghost()
    talk.agent(usage())
    talk.wait(1.1)
    forget(talk)

    talk.agent(chunk("ghost's tail"))

    assert [] == talk.seen()


def test_the_prompt_after_a_ghost_is_shown() -> None:
    talk = ghost()
    talk.client(prompt(2, "two"))
    talk.agent(usage())
    talk.wait(1.1)
    talk.agent(chunk("mine"), ended(2))

    assert ["mine", (2, "end_turn")] == kinds(talk.seen())[-2:]


def test_each_ghost_is_cancelled_once() -> None:
    """Two were kept: two echoes, two cancels, and the outer turn ends as the agent says."""
    talk = Talk("hermes")
    reach.kept(talk)
    talk.bridge.sessions["s1"].ghosts.append("other")
    talk.client(cancel())
    talk.wait(0.5)
    forget(talk)

    talk.agent(echo("other"), chunk("x"))
    talk.wait(0.1)
    talk.agent(echo("one"), chunk("y"), chunk("z"))
    talk.wait(0.1)

    assert ["session/cancel", "session/cancel"] == kinds(talk.got())
    assert [] == talk.seen()


def test_a_segment_of_somebody_else_behind_a_ghost_is_shown() -> None:
    """I6: only what the client has cancelled is hidden."""
    talk = ghost()

    talk.agent(echo("another surface"), chunk("shown"))

    assert ["another surface", "shown"] == kinds(talk.seen())


def test_a_ghost_inside_another_turn_does_not_take_that_turns_answer() -> None:
    """Hermes drains its queue inside the next prompt's request: that one is answered as it is."""
    talk = Talk("hermes")
    reach.kept(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("mine"))
    forget(talk)

    talk.agent(echo("one"), chunk("ghost"))
    talk.wait(0.1)
    talk.agent(ended(2))

    assert ["session/cancel"] == kinds(talk.got())
    assert [(2, "end_turn")] == kinds(talk.seen())


def test_the_text_of_a_ghost_runs_again_if_the_client_sends_it_again() -> None:
    """The same words in a new prompt are a new prompt: its own echo is no ghost's."""
    talk = Talk("hermes")
    reach.kept(talk)
    talk.client(cancel())
    talk.wait(6.0)
    forget(talk)

    talk.client(prompt(2, "one"))
    talk.agent(chunk("a"), ended(2))

    assert ["a", (2, "end_turn")] == kinds(talk.seen())


def test_a_permission_that_a_ghost_asks_for_is_refused_unseen() -> None:
    """R17, R19: nobody must be asked for the sake of a cancelled prompt."""
    talk = ghost()
    forget(talk)

    talk.agent(permission(5))

    assert [] == talk.seen()
    answers = [line for line in talk.got() if line.get("id") == 5]
    assert [{"outcome": {"outcome": "cancelled"}}] == [line["result"] for line in answers]


def test_ghosts_are_forgotten_with_the_agent() -> None:
    """After a restart nothing is queued there."""
    talk = Talk("hermes")
    reach.kept(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.die()
    talk.client(prompt(2, "one"))
    obey(talk)
    forget(talk)

    talk.agent(echo("one"), chunk("a"), ended(2))

    assert ["one", "a", (2, "end_turn")] == kinds(talk.seen())


def test_a_late_answer_that_says_that_it_is_stuck_does_not_make_it_whole() -> None:
    """R24: Hermes ends a cancelled turn with the very error that leaves the session wedged."""
    talk = Talk("hermes")
    reach.cancelling(talk)
    talk.wait(30.0)
    forget(talk)

    talk.agent(wedge(1))
    talk.client(prompt(2, "two"))

    assert ([], 1, "wedged") == (talk.seen(), len(talk.stops), phase(talk))
