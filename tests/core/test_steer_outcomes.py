"""What the agent did with a steer, and what its prompt is told: the table of R14, both orders."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.core.events import AgentGarbled
from acpbridge.core.phases import Phase
from acpbridge.profiles import agent_named
from acpbridge.wire.lines import Oversize
from tests.core.ledger import check
from tests.core.reach import forget, kinds, tags, texts
from tests.core.script import (
    Json,
    Talk,
    answer,
    chunk,
    ended,
    error,
    prompt,
    tool,
    tool_update,
    usage,
)
from tests.core.steer_talk import asked, injected, reasons, said, steers, told, working

UNKNOWN_WORDS = "what became of it is unknown"


def phase(talk: Talk) -> Phase:
    return talk.bridge.sessions["s1"].phase


# -- injected ------------------------------------------------------------------------------------
def test_an_injected_prompt_ends_with_its_owner() -> None:
    """R8: 2; the work came after the agent's word, so nothing is unproven."""
    talk = injected()
    talk.agent(chunk("b"), ended(1))
    seen = talk.seen()

    assert ["b", (1, "end_turn"), (2, "end_turn")] == kinds(seen)
    assert ["response", "shared"] == tags(seen)
    assert {"completion": "shared"} == told(seen, 2)
    check(talk)


def test_an_injected_prompt_without_work_after_it_is_unproven() -> None:
    """Codex: the text lies in its history, and nothing answers it (7 of 120 at a turn's edge)."""
    talk = asked()
    talk.agent(chunk("before the word"), said(2, "injected"), ended(1))
    seen = talk.seen()

    assert {"completion": "shared", "delivery": "unproven"} == told(seen, 2)
    check(talk)


@pytest.mark.parametrize("stop", ["max_tokens", "cancelled", "refusal"])
def test_it_shares_the_owners_stop_reason(stop: str) -> None:
    """Field case 27. Codex ends a turn `cancelled` when a permission is rejected."""
    talk = injected()
    talk.agent(chunk("b"), ended(1, stop))

    assert ["b", (1, stop), (2, stop)] == kinds(talk.seen())


def test_an_owner_that_fails_leaves_it_unknown() -> None:
    """Field case 27: the real error is the owner's; whether the other one ran nobody knows."""
    talk = injected()
    talk.agent(chunk("b"), error(1, -32603, "boom"))

    assert ["b", (1, -32603), (2, "delivery-unknown")] == kinds(talk.seen())
    check(talk)


def test_a_doubted_owner_is_still_its_owner() -> None:
    """R11: the owner's empty answer is held; when it goes out, what joined its turn ends too."""
    talk = working()
    talk.agent(ended(1))
    talk.wait(1.0)
    talk.client(prompt(3, "three"), prompt(4, "four"))
    talk.agent(ended(3, usage=False), said(4, "injected"))
    forget(talk)
    talk.wait(0.5)
    seen = talk.seen()

    assert [(3, "end_turn"), (4, "end_turn")] == kinds(seen)
    assert {"completion": "shared", "delivery": "unproven"} == told(seen, 4)


def test_injected_behind_the_owners_answer_with_work_is_a_turn_of_its_own() -> None:
    """R14: claude ran one so; its marker and a second of silence end it."""
    talk = asked("claude")
    talk.agent(ended(1), said(2, "injected"))
    forget(talk)
    talk.agent(chunk("its own"), usage(cost={"amount": 1}))

    assert Phase.HELD is phase(talk)
    talk.wait(1.0)
    seen = talk.seen()

    assert ["its own", "usage_update", (2, "end_turn")] == kinds(seen)
    assert {"completion": "marked"} == told(seen, 2)
    check(talk)


def test_injected_behind_the_owners_answer_and_quiet_is_inferred() -> None:
    """R8: 5, where the agent has no marker."""
    talk = asked()
    talk.agent(ended(1), said(2, "injected"), chunk("its own"))
    talk.wait(59.9)

    assert "inferred" not in tags(talk.seen())
    talk.wait(0.2)

    assert {"completion": "inferred"} == told(talk.seen(), 2)


def test_injected_behind_the_owners_answer_without_a_sign_is_unknown() -> None:
    """R14: never "done", never sent again (field case 24)."""
    talk = asked()
    talk.agent(ended(1), said(2, "injected"))
    forget(talk)
    talk.agent(usage(cost={"amount": 1}))
    talk.wait(59.9)
    talk.client(prompt(3, "three"))

    assert [] == talk.got()
    talk.wait(0.2)
    seen = talk.seen()

    assert {"kind": "delivery-unknown"} == told(seen, 2)
    assert ["three"] == texts(talk.got())
    talk.agent(chunk("x"), ended(3))
    check(talk)


def test_a_marker_alone_is_no_sign_of_an_injected_prompt() -> None:
    """Claude's usage of the cut cycle comes behind the owner's answer."""
    talk = asked("claude")
    talk.agent(ended(1), said(2, "injected"), usage(cost={"amount": 1}))
    forget(talk)
    talk.wait(58.0)

    assert [] == [one for one in kinds(talk.seen()) if isinstance(one, tuple)]
    talk.wait(3.0)

    assert [(2, "delivery-unknown")] == kinds(talk.seen())


def test_work_between_the_owners_answer_and_the_word_is_its_work() -> None:
    """The agent ran it before it said so: an ownerless turn of this prompt."""
    talk = asked("claude")
    talk.agent(ended(1), tool(), tool_update(), said(2, "injected"), usage(cost={"amount": 1}))
    talk.wait(1.0)

    assert {"completion": "marked"} == told(talk.seen(), 2)


def test_a_chunk_that_trails_the_owner_is_no_proof() -> None:
    """R13: within a quarter of a second it belongs to the turn that was answered."""
    talk = asked()
    talk.agent(ended(1), chunk("tail"), said(2, "injected"))
    talk.wait(61.0)

    assert {"kind": "delivery-unknown"} == told(talk.seen(), 2)


# -- not consumed --------------------------------------------------------------------------------
NOT_CONSUMED = [
    said(2, "promptRequired", reason="noRunningTurn"),
    error(2, -32601, "no such method"),
    error(2, -32602, "bad params"),
    error(2, -32002, "no such session"),
]


@pytest.mark.parametrize("verdict", NOT_CONSUMED, ids=str)
def test_what_was_not_consumed_is_a_prompt_after_the_owners_answer(verdict: Json) -> None:
    """R14; codex says so up to 4 ms before the owner's answer."""
    talk = asked("codex")
    talk.agent(verdict)

    assert [] == talk.got()
    talk.wait(0.004)
    talk.agent(ended(1))

    assert ["two"] == texts(talk.got())
    talk.agent(chunk("x"), ended(2))
    seen = talk.seen()

    assert [(1, "end_turn"), "x", (2, "end_turn")] == kinds(seen)
    assert ["response", "response"] == tags(seen)
    check(talk)


@pytest.mark.parametrize("verdict", NOT_CONSUMED, ids=str)
def test_what_was_not_consumed_goes_at_once_where_the_owner_is_answered(verdict: Json) -> None:
    """R14, the other order."""
    talk = asked()
    talk.agent(ended(1))

    assert [] == talk.got()
    talk.agent(verdict)

    assert ["two"] == texts(talk.got())
    talk.agent(chunk("x"), ended(2))
    check(talk)


def test_an_agent_without_the_method_is_not_asked_again_in_that_session() -> None:
    """R14: -32601 ends steering for this session, and for no other."""
    talk = asked()
    talk.agent(error(2, -32601), ended(1))
    talk.new("s2")
    talk.wait(1.0)
    talk.client(prompt("b1", "one", "s2"))
    talk.got()
    talk.client(prompt(3, "three"))

    assert [] == talk.got()
    talk.client(prompt("b2", "two", "s2"))

    assert ["two"] == steers(talk.got())


# -- a new turn ----------------------------------------------------------------------------------
def test_a_new_turn_is_the_steered_prompts_own() -> None:
    """R14: no response will ever end it; codex says `idle`, others fall silent."""
    talk = asked()
    talk.agent(ended(1), said(2, "startedNewTurn"), chunk("new"))
    talk.client(prompt(3, "three"))
    forget(talk)
    talk.wait(60.0)
    seen = talk.seen()

    assert {"completion": "inferred"} == told(seen, 2)
    assert ["three"] == texts(talk.got())


def test_a_new_turn_before_the_owners_answer_does_not_end_with_it() -> None:
    """The owner's response is the end of another turn."""
    talk = asked("claude")
    talk.agent(said(2, "startedNewTurn"), ended(1))

    assert [(1, "end_turn")] == kinds(talk.seen())
    talk.agent(chunk("new"), usage(cost={"amount": 1}))
    talk.wait(1.0)

    assert {"completion": "marked"} == told(talk.seen(), 2)
    check(talk)


def test_a_new_turn_that_never_shows_is_unknown() -> None:
    """I10: it does not wait for ever, and nobody claims that it ran."""
    talk = asked()
    talk.agent(said(2, "startedNewTurn"), ended(1))
    talk.wait(61.0)

    assert {"kind": "delivery-unknown"} == told(talk.seen(), 2)
    assert Phase.IDLE is phase(talk)


def test_after_a_new_turn_the_session_is_not_steered_any_more() -> None:
    """R14: the agent does not know the opt-in; a later one would run detached too."""
    talk = asked()
    talk.agent(said(2, "startedNewTurn"), ended(1), chunk("new"))
    talk.wait(61.0)
    talk.client(prompt(3, "three"))
    talk.got()
    talk.client(prompt(4, "four"))

    assert [] == talk.got()


# -- unknown -------------------------------------------------------------------------------------
UNKNOWN = [
    said(2, "failed"),
    said(2, "weird"),
    answer(2, None),
    answer(2, {}),
    answer(2, {"outcome": 5}),
    answer(2, "injected"),
    error(2, -32600, "no active turn"),
    error(2, -32603, "internal"),
    error(2, -32000, "auth"),
]


@pytest.mark.parametrize("verdict", UNKNOWN, ids=str)
def test_a_word_that_says_nothing_of_consumption_is_unknown(verdict: Json) -> None:
    """R14, I3: it may have run, so it is never sent again, and the person is told."""
    talk = asked()
    talk.agent(verdict)
    (line,) = talk.seen()

    assert "delivery-unknown" == line["error"]["data"]["acpbridge"]["kind"]
    assert UNKNOWN_WORDS in line["error"]["message"]
    assert ["unknown", "answered"] == [state for state, _ in reasons(talk, 3)]
    talk.agent(chunk("x"), ended(1))
    talk.wait(400.0)

    assert [] == talk.got()
    check(talk)


@pytest.mark.parametrize(
    ("field", "value", "verdict"),
    [
        ("steer_refusals", frozenset({-32600}), error(2, -32600, "no active turn")),
        ("steer_refused_outcomes", frozenset({"failed"}), said(2, "failed")),
    ],
)
def test_a_profile_lists_what_proves_a_refusal(field: str, value: Any, verdict: Json) -> None:
    """R14: "not consumed only where the profile lists them"."""
    talk = asked(evolve(agent_named("generic"), **{field: value}))
    talk.agent(verdict, ended(1))

    assert ["two"] == texts(talk.got())


def test_codex_refusals_are_listed() -> None:
    """-32600 comes before anything is read there: closing, cancelled before, no images."""
    talk = asked("codex")
    talk.agent(error(2, -32600, "session is closing"), ended(1))

    assert ["two"] == texts(talk.got())


def test_a_client_that_dies_of_errors_hears_it_as_text() -> None:
    """Design, errors: Codeg closes the connection on an error of a live prompt."""
    talk = asked(client="codeg")
    talk.agent(said(2, "failed"), ended(1))
    talk.wait(2.0)
    seen = talk.seen()

    assert UNKNOWN_WORDS in str(kinds(seen)[0])
    assert {"kind": "delivery-unknown"} == told(seen, 2)


def test_an_answer_that_is_too_long_is_unknown() -> None:
    """R26: what the line said is lost; it may have said `injected`."""
    talk = asked()
    talk.feed(AgentGarbled(1, Oversize(b'{"jsonrpc":"2.0","id":2,"result":{', 70_000_000, b"}}")))

    assert [(2, "delivery-unknown")] == kinds(talk.seen())
