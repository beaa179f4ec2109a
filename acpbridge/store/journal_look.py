"""What the journal knows, as values: rows for people and for recovery. Reads only.

Rows are put in order by their ids, which count up; times are data, for a clock may go backwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from acpbridge.store.journal_content import first_words
from acpbridge.store.journal_run import RunId, is_dead
from acpbridge.store.journal_states import (
    ACCEPTED,
    ANSWERED,
    AT_AGENT,
    ENDS,
    UNDELIVERED,
    UNKNOWN,
    sql_text,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

LIST_MAX = 1_000
"""Rows that one list shows at most."""
PREVIEW_BYTES_MAX = 256 * 1024
"""A prompt that is kept in more bytes is shown by its size instead of its first words."""

_STORED_AS = {UNDELIVERED: (ACCEPTED,), UNKNOWN: (UNKNOWN, *AT_AGENT)}
"""What people call a state, and the states in the file that it can be."""

OPEN = "(prompt.told_ms IS NULL OR prompt.is_kept = 1)"
"""The condition of the index `prompt_open`, word for word as SQLite wants it."""


@frozen
class Kept:
    """One prompt as the journal has it."""

    id: int
    """Short and stable, for people: never that of another prompt."""
    session: str
    state: str
    is_kept: bool
    """Nobody's request is open for it and no run moves it by itself."""
    is_written: bool
    """Its bytes may be at the agent, or were."""
    is_live: bool
    """A live run has it: this one or another."""
    number: int
    """In its run; 0 where no run has it."""
    nonce: str
    pid: int
    accepted_ms: int
    changed_ms: int
    told_ms: int | None
    """When a client was told its end, by its response or by a notice; None: never."""
    completion: str
    reason: str
    turn: int
    trace: str
    key: str
    first_words: str

    @property
    def shown_state(self) -> str:
        """The state as people call it, and as the next bridge will find it.

        What no live bridge has and was never sent is `undelivered`; what was with the agent then
        is `unknown`.
        """
        if self.state == ACCEPTED and (self.is_kept or not self.is_live):
            return UNDELIVERED
        is_left = not self.is_live and self.told_ms is None
        return UNKNOWN if is_left and self.state in AT_AGENT else self.state


@frozen
class Step:
    """One transition of a prompt."""

    state: str
    at_ms: int
    reason: str
    completion: str
    turn: int
    trace: str


@frozen
class Full:
    """One prompt with everything that is kept of it."""

    prompt: Kept
    history: tuple[Step, ...]
    """In the order in which it happened."""
    content: bytes
    """The JSON of `params.prompt`; b"" where it was not kept."""
    answer: bytes
    """The JSON of the agent's result; b"" where there is none."""


@frozen
class Holder:
    """A live run that has prompts of a session."""

    nonce: str
    pid: int
    prompts: int


_COLUMNS = """
    prompt.id, prompt.session, prompt.state, prompt.is_kept, prompt.is_written, prompt.told_ms,
    prompt.number, run.nonce, run.pid, run.started, run.is_ended, prompt.accepted_ms,
    prompt.changed_ms, prompt.completion, prompt.reason, prompt.turn, prompt.trace, prompt.key,
    (SELECT sum(length(body)) FROM content WHERE prompt = prompt.id AND kind = 'prompt') AS size
"""
_HOLDERS = f"""
    SELECT run.nonce, run.pid, run.started, run.is_ended, count(*)
    FROM prompt JOIN run ON run.id = prompt.run
    WHERE prompt.session = ? AND {OPEN} AND prompt.is_kept = 0 AND run.nonce <> ?
    GROUP BY run.id ORDER BY run.id
"""  # noqa: S608


class Liveness:
    """Which runs live; each is asked once in the life of this object."""

    def __init__(self, state_dir: Path, own: str) -> None:
        self._state_dir = state_dir
        self._own = own
        self._known: dict[str, bool] = {}

    def is_live(self, run: RunId, *, is_ended: bool) -> bool:
        """Whether the run is not proven dead."""
        if is_ended or run.nonce == self._own:
            return not is_ended
        if run.nonce not in self._known:
            self._known[run.nonce] = not is_dead(self._state_dir, run)
        return self._known[run.nonce]


def rows(
    connection: sqlite3.Connection, live: Liveness, where: str, values: tuple[object, ...]
) -> tuple[Kept, ...]:
    """The prompts of a condition (a constant of ours), with the text behind it."""
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM prompt JOIN run ON run.id = prompt.run WHERE {where}",  # noqa: S608
        values,
    ).fetchall()
    return tuple(_row(connection, live, row) for row in found)


def _row(connection: sqlite3.Connection, live: Liveness, row: tuple[Any, ...]) -> Kept:
    (id_, session, state, is_kept, is_written, told_ms, number, nonce, pid, started, is_ended,
     accepted_ms, changed_ms, completion, reason, turn, trace, key, size) = row  # fmt: skip
    is_open = not is_kept and state not in (ANSWERED, *ENDS)
    run = RunId(nonce, pid, started)
    return Kept(
        id=id_,
        session=session,
        state=state,
        is_kept=bool(is_kept),
        is_written=bool(is_written),
        is_live=is_open and live.is_live(run, is_ended=bool(is_ended)),
        number=number or 0,
        nonce=nonce,
        pid=pid,
        accepted_ms=accepted_ms,
        changed_ms=changed_ms,
        told_ms=told_ms,
        completion=completion,
        reason=reason,
        turn=turn,
        trace=trace,
        key=key or "",
        first_words=_first_words(connection, id_, size or 0),
    )


def _first_words(connection: sqlite3.Connection, prompt: int, size: int) -> str:
    if size > PREVIEW_BYTES_MAX:
        return f"({size} bytes)"
    return first_words(body(connection, prompt, "prompt")) if size else ""


def body(connection: sqlite3.Connection, prompt: int, kind: str) -> bytes:
    """The bytes that are kept beside a prompt: kind `prompt` or `answer`."""
    parts = connection.execute(
        "SELECT body FROM content WHERE prompt = ? AND kind = ? ORDER BY part", (prompt, kind)
    )
    return b"".join(part[0] for part in parts)


def listed(
    connection: sqlite3.Connection, live: Liveness, state: str, session: str, limit: int
) -> tuple[Kept, ...]:
    """The newest prompts, newest first; of one state or session where those are not ""."""
    where, values = "1", list[object]()
    states = _STORED_AS.get(state, (state,)) if state else ()
    if states:
        where += f" AND prompt.state IN ({', '.join('?' * len(states))})"
        values.extend(states)
    if session:
        where += " AND prompt.session = ?"
        values.append(sql_text(session))
    # Who lives is not in the file: with a state, more is read than is shown.
    values.append(LIST_MAX if state else min(limit, LIST_MAX))
    found = rows(connection, live, f"{where} ORDER BY prompt.id DESC LIMIT ?", tuple(values))
    return tuple(one for one in found if not state or one.shown_state == state)[:limit]


def full(connection: sqlite3.Connection, live: Liveness, prompt: int) -> Full | None:
    """One prompt with its history and text; None where it is not there."""
    found = rows(connection, live, "prompt.id = ?", (prompt,))
    if not found:
        return None
    steps = connection.execute(
        "SELECT state, at_ms, reason, completion, turn, trace FROM history WHERE prompt = ? "
        "ORDER BY step",
        (prompt,),
    )
    history = tuple(Step(*step) for step in steps)
    content, answer = body(connection, prompt, "prompt"), body(connection, prompt, "answer")
    return Full(found[0], history, content, answer)


def of_ids(connection: sqlite3.Connection, live: Liveness, ids: Sequence[int]) -> tuple[Kept, ...]:
    """The prompts of these ids, in their order; one that is gone is left out."""
    found = (rows(connection, live, "prompt.id = ?", (prompt,)) for prompt in ids)
    return tuple(row for one in found for row in one)


def kept_of(
    connection: sqlite3.Connection, live: Liveness, session: str, only: str
) -> tuple[Kept, ...]:
    """The kept prompts of a session, oldest first; `only` is a further condition of ours."""
    where = f"prompt.session = ? AND {OPEN} AND prompt.is_kept = 1 AND {only} ORDER BY prompt.id"
    return rows(connection, live, where, (sql_text(session),))


def holder(connection: sqlite3.Connection, live: Liveness, session: str, own: str) -> Holder | None:
    """The live run, other than `own`, that has prompts of this session; the oldest of several."""
    found = connection.execute(_HOLDERS, (sql_text(session), own)).fetchall()
    for nonce, pid, started, is_ended, prompts in found:
        if live.is_live(RunId(nonce, pid, started), is_ended=bool(is_ended)):
            return Holder(nonce, pid, prompts)
    return None


def alias_chain(connection: sqlite3.Connection, session: str) -> tuple[tuple[int, str], ...]:
    """(generation, agent id) of a session, oldest first; empty where it has one id only."""
    return tuple(
        connection.execute(
            "SELECT generation, agent_id FROM alias WHERE session = ? ORDER BY generation",
            (sql_text(session),),
        ).fetchall()
    )
