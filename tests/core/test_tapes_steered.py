"""Tapes of steered turns, with a client that only prompts: the bridge steers in its place.

Where the recorded client wrote `_session/steering` into a turn, this one writes `session/prompt`
with the same id and blocks. The agent says what it said. What is expected follows from the tape.
"""

from __future__ import annotations

import json

import pytest
from attrs import frozen

from tests.core.as_written import profile_of
from tests.core.reach import kinds
from tests.core.script import Json, Talk, dumps
from tests.core.steer_talk import STEERING, told
from tests.core.tapes import CONTENT, Line, Tape, processes, tapes

NOT_BEHIND = ("session/cancel", "session/load", "session/close")


@frozen
class Steer:
    """One steer of a tape that the agent took into the turn of a prompt, and how that ended."""

    id: int | str
    owner: int | str
    stop: str
    proven: bool
    """Content came between the agent's word and the owner's response; the end of a call is none."""


def steers_of(process: Tape) -> list[Steer] | None:
    """By the tape alone; None where a steer met no open prompt, or was not injected.

    None also where the bridge does not steer: commands (R3), behind a cancel or a load (R4, R16).
    """
    found: list[Steer] = []
    lines = process.lines
    for at, line in enumerate(lines):
        if line.side != "client" or line.method != STEERING:
            continue
        open_ids = _open_prompts(lines[:at], line.session)
        word = _answer(lines[at:], line.id)
        end = _answer(lines[at:], open_ids[0]) if len(open_ids) == 1 else None
        if word is None or end is None or lines.index(end) < lines.index(word):
            return None
        if (word.frame.get("result") or {}).get("outcome") != "injected":
            return None
        turn = lines[_place(lines, open_ids[0]) : lines.index(line)]
        if any(one.method in NOT_BEHIND for one in turn) or _is_command(turn[0], line):
            return None
        between = lines[lines.index(word) : lines.index(end)]
        proven = any(_is_work(one) and one.session == line.session for one in between)
        stop = (end.frame.get("result") or {}).get("stopReason", "")
        found.append(Steer(line.frame["id"], json.loads(open_ids[0]), stop, proven))
    return found


def _place(lines: tuple[Line, ...], id_: str) -> int:
    """Where the prompt of this id stands."""
    return next(at for at, one in enumerate(lines) if one.method and one.id == id_)


def _is_command(*lines: Line) -> bool:
    return any(line.params["prompt"][0]["text"].startswith("/") for line in lines)


def _is_work(line: Line) -> bool:
    return line.variant in CONTENT or line.method.startswith("session/req")


def _open_prompts(lines: tuple[Line, ...], session: str) -> list[str]:
    ids = [one.id for one in lines if one.method == "session/prompt" and one.session == session]
    done = {one.id for one in lines if one.side == "agent" and one.is_response}
    return [id_ for id_ in ids if id_ not in done]


def _answer(lines: tuple[Line, ...], id_: str) -> Line | None:
    return next((x for x in lines if x.side == "agent" and x.is_response and x.id == id_), None)


def _is_single(process: Tape) -> bool:
    """Whether no prompt of the tape met another one: here it would be steered or wait."""
    return all(
        not _open_prompts(process.lines[:at], line.session)
        for at, line in enumerate(process.lines)
        if line.method == "session/prompt"
    )


STEERED = [
    (process, steers)
    for tape in tapes()
    for process in processes(tape)
    if (steers := steers_of(process)) and _is_single(process)
]


def test_these_tapes_are_many_and_of_both_agents() -> None:
    """A rule that selects nothing would prove nothing."""
    names = {process.name for process, _ in STEERED}

    assert {"claude/steer-mid-turn", "codex/steer-mid-turn"} <= names
    assert {"claude/burst-of-five-steers", "codex/burst-of-five-steers"} <= names
    assert len(STEERED) >= 20


@pytest.mark.parametrize(
    ("process", "steers"), STEERED, ids=[process.name for process, _ in STEERED]
)
def test_each_prompt_in_a_turn_is_answered_with_its_owner(
    process: Tape, steers: list[Steer]
) -> None:
    """R8: 2, R14: once, behind the owner, with its stop reason, unproven where nothing came."""
    talk = Talk(profile_of(process), restart=False)
    began_s = talk.now - process.lines[0].t
    answers: dict[object, Json] = {steer.id: {} for steer in steers}
    held: list[Json] = []
    for line in process.lines:
        talk.wait(max(0.0, began_s + line.t - talk.now))
        if line.side == "client":
            talk.client(_prompting(line))
        elif line.is_response and line.frame.get("id") in answers:
            held.append(line.frame)
        else:
            talk.agent(line.raw)
        # Steers go one at a time here: the agent's word is given to the one that waits for it.
        for frame in list(held):
            if _is_waiting(talk, frame["id"]):
                held.remove(frame)
                talk.agent(frame)
    seen = talk.seen()

    assert len(steers) == talk.count("prompt_steered")
    order = [kind for kind in kinds(seen) if isinstance(kind, tuple)]
    for steer in steers:
        own = told(seen, steer.id)
        if not steer.stop:
            # The owner's model failed: whether this one was read nobody knows.
            assert {"kind": "delivery-unknown"} == own
            continue
        assert "shared" == own["completion"]
        assert steer.proven == ("delivery" not in own)
        assert (steer.id, steer.stop) in order
        assert order.index((steer.owner, steer.stop)) < order.index((steer.id, steer.stop))


def _prompting(line: Line) -> bytes:
    """The client's line; a steer of it is a prompt."""
    if line.method != STEERING:
        return line.raw
    return dumps({**line.frame, "method": "session/prompt"})


def _is_waiting(talk: Talk, id_: object) -> bool:
    pending = talk.bridge.pending.values()
    return any(one.method == STEERING and json.loads(one.id) == id_ for one in pending)
