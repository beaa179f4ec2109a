"""Field scenarios of a turn, as they were told: S1, S8, S9 (knowledge of the field, by number)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.as_written import AS_WRITTEN
from tests.core.ledger import check, ledger
from tests.core.reach import forget, idle, kinds, obey, tags, texts
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    prompt,
    usage,
    wedge,
)

BUSY = {"reason": "session_busy"}


def opened(agent: str = "hermes", **policy: Any) -> Talk:
    talk = Talk(agent, **policy)
    idle(talk)
    return talk


# -- S1: an acknowledgement is not a completion --------------------------------------------------
@pytest.mark.parametrize("agent", ["generic", "hermes", "claude", "codex"])
def test_s1_a_the_bridge_owns_the_queue(agent: str) -> None:
    """Cases 01, 04, 11: prompt 2 waits where nothing can lose it, and has a turn of its own."""
    talk = opened(agent)
    talk.client(prompt(1, "one"))
    talk.agent(chunk("o"))
    talk.client(prompt(2, "two"))
    forget(talk)
    talk.wait(5.0)

    assert [] == talk.seen() + talk.got()
    talk.agent(ended(1))
    assert [(1, "end_turn")] == kinds(talk.seen())
    assert ["two"] == texts(talk.got())
    talk.agent(chunk("t"), ended(2))
    assert ["t", (2, "end_turn")] == kinds(talk.seen())
    check(talk)


def test_s1_b_a_prompt_that_an_ownerless_turn_takes_in_is_answered_at_its_end() -> None:
    """Case 26: "Redirected …" into a turn that nobody owns: no answer at the notice."""
    talk = opened()
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False))
    forget(talk)
    talk.wait(1.0)

    assert [] == talk.seen()
    talk.agent(chunk("real"), usage())
    talk.wait(1.0)
    said = talk.seen()
    assert ["real", "usage_update", (2, "end_turn")] == kinds(said)
    assert ["marked"] == tags(said)
    check(talk)


def test_s1_b_beside_an_owner_both_end_with_its_response() -> None:
    """As written by a client that did not wait: the owner first, then what it took in."""
    talk = opened()
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(1, "one"))
    talk.agent(chunk("o"))
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False))
    forget(talk)
    talk.agent(chunk("real"), ended(1))
    said = talk.seen()

    assert ["real", (1, "end_turn"), (2, "end_turn")] == kinds(said)
    assert ["response", "shared"] == tags(said)
    check(talk)


def test_s1_c_a_prompt_that_the_agent_drains_is_answered_at_its_segment_s_end() -> None:
    """Case 01: the agent's queue runs it in a turn that nobody owns, behind its echo."""
    talk = opened()
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(2, usage=False), chunk("of another turn"))
    forget(talk)
    talk.agent(echo("two"), chunk("t"), usage())
    talk.wait(1.0)
    said = talk.seen()

    assert ["two", "t", "usage_update", (2, "end_turn")] == kinds(said)
    assert ["drained"] == tags(said)
    check(talk)


def test_s1_c_inside_an_owner_s_request_its_response_ends_both() -> None:
    """Tape mid-turn-prompt: one response for everything; the owner keeps its own bytes."""
    talk = opened()
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(1, "one"))
    talk.agent(chunk("o"))
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(2, usage=False), echo("two"), chunk("t"), ended(1))
    said = talk.seen()

    assert [(1, "end_turn"), (2, "end_turn")] == kinds(said)[-2:]
    assert ["response", "drained"] == tags(said)
    check(talk)


@pytest.mark.parametrize("worked", [True, False])
@pytest.mark.parametrize("cancelled", [True, False])
def test_s1_d_a_session_that_only_says_queued_is_wedged_and_recovered(
    worked: bool, cancelled: bool
) -> None:
    """Case 02: the error leaves the agent's "running" flag set; prompt 2 runs once, elsewhere."""
    talk = opened()
    talk.client(prompt(1, "one"))
    talk.agent(*[chunk("o")] if worked else [])
    if cancelled:
        talk.wait(0.2)
        talk.client(cancel())
    talk.agent(wedge(1))
    taken_back = not worked and not cancelled
    forget(talk)
    talk.client(prompt(2, "two"))
    if not taken_back:
        # Whatever the old process says to a prompt now, it must not have got it.
        assert [] == texts(talk.got())
    talk.die()
    first = obey(talk)

    assert (["one"] if taken_back else ["two"]) == texts(first)
    if taken_back:
        talk.agent(chunk("o"), ended(1))
    talk.agent(chunk("t"), ended(2))
    assert [(2, "end_turn")] == kinds(talk.seen())[-1:]
    writes = ledger(talk).writes()
    assert (2 if taken_back else 1, 1) == (writes["one"], writes["two"])


def test_s1_d_without_that_evidence_a_receipt_is_a_turn_that_we_do_not_see() -> None:
    """R24: wait, show it, never restart unasked; and never report success."""
    talk = opened()
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(2, usage=False))
    talk.wait(3600.0)

    assert [] == talk.stops
    check(talk, still_open=(2,))


# -- S8: trailing chunks and invisible turns ------------------------------------------------------
def test_s8_1_a_banner_behind_the_opening_is_no_turn() -> None:
    """Case 73: forwarded, and nothing waits for its end."""
    talk = Talk("hermes")
    talk.initialize()
    talk.new()
    talk.agent(chunk("Welcome"))
    talk.client(prompt(1, "one"))

    assert ["Welcome"] == kinds(talk.seen())[-1:]
    assert ["one"] == texts(talk.got())


@pytest.mark.parametrize("agent", ["generic", "hermes", "claude", "codex"])
def test_s8_2_the_tail_of_an_answer_is_not_lost(agent: str) -> None:
    """Case 71: b comes 20 ms after its answer; it is shown in the agent's order."""
    talk = opened(agent)
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), ended(1))
    talk.wait(0.02)
    talk.agent(chunk("b"))
    said = kinds(talk.seen())

    assert ["a", (1, "end_turn"), "b"] == said
    check(talk)


def test_s8_2_codeg_gets_the_tail_before_the_answer() -> None:
    """Case 71: a client that closes its stream with the answer gets it a moment later."""
    talk = Talk("hermes", "codeg")
    idle(talk)
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), ended(1))
    talk.wait(0.02)
    talk.agent(chunk("b"))
    talk.wait(1.0)

    assert ["a", "b", (1, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_s8_3_an_agent_that_serialises_gets_the_prompt_beside_its_own_work(agent: str) -> None:
    """Case 74: background work does not block the person."""
    talk = opened(agent)
    talk.wait(30.0)
    talk.agent(chunk("bg1"), chunk("bg2"))
    talk.client(prompt(2, "two"))

    assert ["two"] == texts(talk.got())
    talk.agent(chunk("x"), ended(2))
    assert ["bg1", "bg2", "x", (2, "end_turn")] == kinds(talk.seen())
    check(talk)


def test_s8_3_an_agent_that_a_prompt_disturbs_is_waited_for() -> None:
    """Case 74: the same for one whose background work a prompt would redirect or kill."""
    talk = opened("generic")
    talk.wait(30.0)
    talk.agent(chunk("bg1"), chunk("bg2"))
    talk.client(prompt(2, "two"))
    talk.wait(59.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize(("agent", "quiet_s"), [("generic", 60.0), ("hermes", 60.0)])
def test_s8_4_silence_closes_it(agent: str, quiet_s: float) -> None:
    """Case 74: with no marker at all, it never blocks for ever."""
    talk = opened(agent)
    talk.agent(chunk("bg1"))
    talk.wait(quiet_s)
    talk.client(prompt(2, "two"))

    assert ["two"] == texts(talk.got())


def test_s8_5_an_empty_answer_before_the_real_one_is_held() -> None:
    """Cases 31, 32: the real text comes 200 ms later; its end is the answer."""
    talk = opened("generic")
    talk.client(prompt(3, "three"))
    forget(talk)
    talk.agent(ended(3, usage=False))
    talk.wait(0.2)
    talk.agent(chunk("real"))
    talk.wait(60.0)
    said = talk.seen()

    assert ["real", (3, "end_turn")] == kinds(said)
    assert ["inferred"] == tags(said)
    check(talk)


def test_s8_5_without_the_grace_the_real_text_is_shown_late() -> None:
    """Case 32: belongs to prompt 3, never to prompt 4."""
    talk = opened("generic", empty_grace_s=0.0)
    talk.client(prompt(3, "three"))
    forget(talk)
    talk.agent(ended(3, usage=False))
    talk.wait(0.2)
    talk.agent(chunk("real"))
    talk.client(prompt(4, "four"))
    talk.wait(1.0)

    assert [(3, "end_turn"), "real"] == kinds(talk.seen())
    assert ["four"] == texts(talk.got())
    check(talk, still_open=(4,))


# -- S9: busy at the boundary ----------------------------------------------------------------------
def test_s9_a_prompt_that_meets_a_busy_agent_goes_when_it_is_free() -> None:
    """Cases 05, 07: no error, at most one attempt open, the third is accepted."""
    talk = opened("generic")
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), ended(1))
    talk.client(prompt(2, "two"), prompt(3, "three"))
    talk.agent(error(2, -32603, "busy", BUSY))
    talk.wait(0.25)
    talk.agent(error(2, -32603, "busy", BUSY))
    forget(talk)
    talk.wait(0.49)

    assert [] == talk.got() + talk.seen()
    talk.wait(0.01)
    assert ["two"] == texts(talk.got())
    talk.agent(chunk("t"), ended(2))
    assert ["three"] == texts(talk.got())
    talk.agent(chunk("u"), ended(3))
    assert ["t", (2, "end_turn"), "u", (3, "end_turn")] == kinds(talk.seen())
    assert {"one": 1, "two": 3, "three": 1, "hello": 1} == ledger(talk).writes()


def test_s9_5_a_cancel_during_the_wait_ends_it() -> None:
    """Case 05: "stop on cancel": no further attempt."""
    talk = opened("generic")
    talk.client(prompt(2, "two"), prompt(3, "three"))
    talk.agent(error(2, -32603, "busy", BUSY))
    forget(talk)
    talk.client(cancel())
    talk.wait(1000.0)

    assert [(2, "cancelled"), (3, "cancelled")] == kinds(talk.seen())
    assert [] == talk.got()


def test_s9_6_the_attempts_are_counted_and_end() -> None:
    """Case 05: no hot loop: some 60 attempts in 300 s, then the agent's own error."""
    talk = opened("generic", wait_notice=False)
    talk.client(prompt(2, "two"))
    attempts = 0
    while texts(talk.got()):
        attempts += 1
        talk.agent(error(2, -32603, "busy", BUSY))
        talk.wait(5.0)

    assert 60 <= attempts <= 66
    assert [(2, -32603)] == kinds(talk.seen())
    assert ["accepted", "answered"] == [talk.persists[0].state, talk.persists[-1].state]


def test_s9_an_answer_that_came_late_is_still_one_answer() -> None:
    """Case 06: what is no answer to anything open is dropped and counted."""
    talk = opened("generic")
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), ended(1), ended(1), answer("never asked", {}))

    assert 2 == talk.count("unknown_answer_dropped")
    check(talk)
