"""Every tape of Hermes, played as the bridge really behaves, in front of an honest agent.

What both sides see is compared with files beside the tapes (`expectations.py`), which were read
line by line against the rules. The promises that need no file are asserted by themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest

from tests.core.expectations import FOLDER, hermes_tapes, path_of, seen
from tests.core.honest import Stage, perform
from tests.core.script import Json
from tests.core.tapes import Line, Tape, reads_like_receipt

TAPES = hermes_tapes()
each_tape = pytest.mark.parametrize("tape", TAPES, ids=lambda tape: tape.scenario)

performed = cache(perform)
"""For looking only: tests share it."""

UNSENT = {
    ("cancel-during-tool-with-queued", "4"),
    ("cancel-with-queued", "4"),
    ("cancel-with-queued", "5"),
    ("mid-turn-prompt-cancel-burst", "4"),
}
"""Prompts that are never written: the cancel took them out of the queue (R16)."""

TOLD = {
    ("agent-killed-mid-turn", "3"): "agent-exited",
    ("agent-term-mid-turn", "3"): "agent-exited",
    ("prompt-unknown-session", "2"): "session-lost",
    ("resume", "8"): "session-lost",
    ("stdin-eof-mid-turn", "3"): "agent-exited",
}
"""Prompts whose answer is an error of the bridge's own."""

ALIASED = frozenset({"cancel-immediately"})
"""Tapes in which the agent's session is replaced by another one, behind the client's id (R24)."""


def prompts_of(tape: Tape) -> list[Line]:
    return [line for line in tape.lines if line.method == "session/prompt"]


def toward(stage: Stage, side: str) -> list[Json]:
    """What went to one side, parsed, in order."""
    return [json.loads(raw) for to, raw in stage.talk.log if to == side]


def answers_to(stage: Stage, id_: str) -> list[Json]:
    frames = toward(stage, "client")
    return [one for one in frames if "method" not in one and json.dumps(one.get("id")) == id_]


@each_tape
def test_both_sides_see_what_stands_beside_the_tape(tape: Tape) -> None:
    """The whole dialogue; a difference is a bug here, or an expectation to be read anew."""
    assert path_of(tape).read_text("utf-8").rstrip("\n").split("\n") == seen(performed(tape))


def test_every_expectation_has_its_tape() -> None:
    assert {path_of(tape) for tape in TAPES} == set(FOLDER.iterdir())


@each_tape
def test_every_prompt_is_answered_once(tape: Tape) -> None:
    """I1, after the client has closed its end too."""
    stage = performed(tape)
    for line in prompts_of(tape):
        assert 1 == len(answers_to(stage, line.id))


@each_tape
def test_every_other_request_is_answered_once(tape: Tape) -> None:
    """I1. The second `initialize` of a tape is the recorder's own affair (`honest.py`)."""
    stage = performed(tape)
    first = tape.lines[0]
    for line in tape.lines:
        if line.side == "client" and line.id and line.method not in {"session/prompt", ""}:
            if line.method == "initialize" and line is not first:
                continue
            assert 1 == len(answers_to(stage, line.id))


@each_tape
def test_no_receipt_reaches_the_client(tape: Tape) -> None:
    """The main job: neither the text nor the empty `end_turn` behind it.

    The honest agent would say both if the bridge ever wrote a prompt into a running turn; it fails
    the test instead.
    """
    for frame in toward(performed(tape), "client"):
        content = frame.get("params", {}).get("update", {}).get("content")
        if isinstance(content, dict):
            assert not reads_like_receipt(content.get("text", ""))


@each_tape
def test_every_prompt_is_written_once_and_in_order(tape: Tape) -> None:
    """I3, I5: by the client's ids, session by session; what a cancel took is never written."""
    frames = toward(performed(tape), "agent")
    written = [json.dumps(one["id"]) for one in frames if one.get("method") == "session/prompt"]
    expected = [line for line in prompts_of(tape) if (tape.scenario, line.id) not in UNSENT]

    assert Counter(line.id for line in expected) == Counter(written)
    for session in {line.session for line in expected}:
        mine = [line.id for line in expected if line.session == session]

        assert mine == [id_ for id_ in written if id_ in mine]


@each_tape
def test_an_answer_is_the_agents_or_says_whose_it_is(tape: Tape) -> None:
    """R8: byte for byte the agent's, or tagged, or `cancelled` for what was never written."""
    stage = performed(tape)
    for line in prompts_of(tape):
        for frame in answers_to(stage, line.id):
            error = frame.get("error", {}).get("data", {}).get("acpbridge", {}).get("kind", "")

            assert TOLD.get((tape.scenario, line.id), "") == error
            result = frame.get("result", {})
            if error or "acpbridge" in result.get("_meta", {}):
                continue
            if (tape.scenario, line.id) in UNSENT:
                assert {"stopReason": "cancelled"} == result
            else:
                raws = [raw for side, raw in stage.talk.log if side == "client"]
                assert any(json.loads(raw) == frame and raw in stage.fed for raw in raws)


@each_tape
def test_the_client_sees_only_ids_that_it_knows(tape: Tape) -> None:
    """R25: a session that was replaced keeps its name; only proof of Hermes' own ids may differ."""
    stage = performed(tape)
    for frame in toward(stage, "client"):
        result = frame.get("result")
        ids = [frame.get("params", {}).get("sessionId", "")]
        ids.append(result.get("sessionId", "") if isinstance(result, dict) else "")

        assert not any(id_.startswith("made-") for id_ in ids)
    made = [one for one in toward(stage, "agent") if "made-" in str(one.get("params", {}))]
    assert (tape.scenario in ALIASED) == bool(made)


@each_tape
def test_nothing_happens_that_cannot_happen(tape: Tape) -> None:
    counters = performed(tape).talk.bridge.counters

    for name in ("unexpected_event", "unknown_answer_dropped", "second_answer_dropped"):
        assert 0 == counters.get(name, 0)
    for name in ("ownerless_turn", "suspect_answer_held", "doubted_answer_was_receipt", "receipt"):
        assert 0 == counters.get(name, 0)


@each_tape
def test_everything_is_at_rest_in_the_end(tape: Tape) -> None:
    """I10: two minutes after the last frame no prompt waits, and no session is busy."""
    stage = performed(tape)
    for session in stage.talk.bridge.sessions.values():
        assert [] == [*session.at_agent, *session.queue]
        assert session.phase.value in {"idle", "lost", "wedged"}
    assert [] == [one for one in stage.speeches if one.is_turn]


def test_a_first_turn_that_was_cancelled_is_not_forgotten() -> None:
    """Hermes keeps a conversation from its first prompt on: it is loaded, not opened anew (R23)."""
    tape = next(one for one in TAPES if one.scenario == "cancel-during-tool")
    own = [
        frame["method"]
        for frame in toward(performed(tape), "agent")
        if str(frame.get("id", "")).startswith("acpbridge-")
    ]

    assert ["initialize", "session/load"] == own
