"""S2, S3 and S4 of the field cases, as design.md reads them: the races of a steer, on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.profiles import GENERIC_AGENT
from tests.core.ledger import check
from tests.core.reach import kinds, texts
from tests.core.script import Json, Talk, cancel, chunk, ended, error, prompt
from tests.core.steer_talk import asked, reasons, said, steers, told, working


# -- S2: a steer at the turn's end ------------------------------------------------------------
def steer_at_the_end(**profile: Any) -> tuple[Talk, Json]:
    """1 runs, and the agent has 2 as a steer."""
    talk = working(evolve(GENERIC_AGENT, **profile))
    talk.client(prompt(2, "fix"))
    (steer,) = talk.got()
    return talk, steer


def test_s2_in_all_the_steer_asks_for_prompt_required() -> None:
    """Field case 19: without it the agent starts a turn that nobody owns."""
    _, steer = steer_at_the_end()

    assert {"idleBehavior": "promptRequired"} == steer["params"]["_meta"]["steering"]


def test_s2a_prompt_required_behind_the_end_becomes_a_prompt_once() -> None:
    """2 is answered by the agent's own response to it."""
    talk, _ = steer_at_the_end()
    talk.agent(ended(1), said(2, "promptRequired"))

    assert ["fix"] == texts(talk.got())
    talk.agent(chunk("fixed"), ended(2))

    assert [(1, "end_turn"), "fixed", (2, "end_turn")] == kinds(talk.seen())
    check(talk)


@pytest.mark.parametrize("listed", [True, False])
def test_s2b_an_error_is_a_refusal_only_where_the_profile_lists_its_code(listed: bool) -> None:
    """Field cases 21 and 22: the text of an error says nothing; -32600 has no data here."""
    talk, _ = steer_at_the_end(steer_refusals=frozenset({-32600} if listed else ()))
    talk.agent(ended(1), error(2, -32600, "no active turn"))

    if listed:
        assert ["fix"] == texts(talk.got())
        talk.agent(chunk("fixed"), ended(2))
        assert [(1, "end_turn"), "fixed", (2, "end_turn")] == kinds(talk.seen())
    else:
        assert [(1, "end_turn"), (2, "delivery-unknown")] == kinds(talk.seen())
        talk.wait(400.0)
        assert [] == talk.got()
    check(talk)


def test_s2c_a_started_turn_belongs_to_the_steer_and_3_goes_after_it() -> None:
    """The quiet time of the scenario is 10 s."""
    talk = working(answer_quiet_s=10.0)
    talk.client(prompt(2, "fix"))
    talk.agent(ended(1), said(2, "startedNewTurn"), chunk("n"))
    talk.client(prompt(3, "three"))
    talk.got()
    talk.wait(9.0)

    assert [] == talk.got()
    talk.wait(1.5)
    seen = talk.seen()

    assert {"completion": "inferred"} == told(seen, 2)
    assert "n" in kinds(seen)
    assert ["three"] == texts(talk.got())
    talk.agent(chunk("x"), ended(3))
    check(talk)


def test_s2d_injected_with_work_is_shared() -> None:
    """1 first, then 2."""
    talk, _ = steer_at_the_end()
    talk.agent(said(2, "injected"), chunk("n"), ended(1))
    seen = talk.seen()

    assert ["n", (1, "end_turn"), (2, "end_turn")] == kinds(seen)
    assert {"completion": "shared"} == told(seen, 2)
    check(talk)


def test_s2e_injected_behind_the_end_with_nothing_else_is_unknown() -> None:
    """Design: `delivery-unknown` where the owner was answered before."""
    talk, _ = steer_at_the_end()
    talk.agent(ended(1), said(2, "injected"))
    talk.wait(400.0)

    assert {"kind": "delivery-unknown"} == told(talk.seen(), 2)
    assert [] == talk.got()
    check(talk)


def test_s2e_injected_before_the_end_with_nothing_else_is_unproven() -> None:
    """Design: `shared` with `delivery: "unproven"` where the owner is answered after it."""
    talk, _ = steer_at_the_end()
    talk.agent(said(2, "injected"), ended(1))

    assert {"completion": "shared", "delivery": "unproven"} == told(talk.seen(), 2)
    check(talk)


# -- S3: a cancel overtakes a steer -----------------------------------------------------------
def test_s3_a_cancelled_steer_never_becomes_a_prompt() -> None:
    """Field cases 14 and 25; the record says `cancelled` and has the text."""
    talk = asked()
    talk.client(cancel())

    assert ["session/cancel"] == [line["method"] for line in talk.got()]
    talk.agent(ended(1, "cancelled"), said(2, "promptRequired"))

    assert [(1, "cancelled"), (2, "cancelled")] == kinds(talk.seen())
    talk.wait(400.0)

    assert [] == talk.got()
    assert ("cancelled", "cancelled before it was sent") in reasons(talk, 3)
    check(talk)


def test_s3_a_restart_between_the_answers_dispatches_nothing() -> None:
    """Its fate died with the agent: it may have run, and the next process never hears of it."""
    talk = asked()
    talk.client(cancel())
    talk.got()
    talk.agent(ended(1, "cancelled"))
    talk.die()
    talk.wait(100.0)

    assert [(1, "cancelled"), (2, "agent-exited")] == kinds(talk.seen())
    assert [] == talk.got()


def test_s3_a_prompt_behind_the_cancel_is_fresh() -> None:
    """It is delivered, once, when the cancelled turn has ended."""
    talk = working()
    talk.client(cancel(), prompt(2, "fix"))
    talk.agent(ended(1, "cancelled"))

    assert ["fix"] == texts(talk.got())
    talk.agent(chunk("fixed"), ended(2))
    check(talk)


# -- S4: an unknown outcome is never sent again -------------------------------------------------
def test_s4_1_silence_is_unknown_and_a_late_word_only_corrects_the_record() -> None:
    """Field cases 12 and 15: after the first byte there is one attempt."""
    talk = asked()
    talk.wait(10.0)

    assert [(2, "delivery-unknown")] == kinds(talk.seen())
    talk.agent(said(2, "injected"))

    assert ("started", "late verdict: injected") in reasons(talk, 3)
    talk.agent(chunk("x"), ended(1))
    talk.wait(400.0)

    assert ["x", (1, "end_turn")] == kinds(talk.seen())
    assert [] == talk.got()
    check(talk)


def test_s4_2_what_failed_before_any_byte_is_delivered_once_later() -> None:
    """The agent took its leave before the write: the prompt waits for the next one."""
    talk = working()
    talk.disk = False
    talk.client(prompt(2, "fix"))
    talk.deaf()
    talk.persisted()

    assert [] == steers(talk.got())
    talk.die()
    head = talk.bridge.sessions["s1"].head()

    assert head is not None
    assert "fix" == head.text
