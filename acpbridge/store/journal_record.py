"""Transitions, written. One conditional UPDATE moves a prompt: its WHERE names the legal states.

So the edges hold whoever else writes at the same time: a row that was taken over, or is not where
the core believes it to be, is not touched, and the caller is told where it is.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from acpbridge.store.journal_fault import KeyTaken
from acpbridge.store.journal_states import (
    ACCEPTED,
    ANSWERED,
    EDGES,
    ENDS,
    LATE_WORDS,
    REASON_CHARS_MAX,
    REFUSED,
    SENDING,
    SETTLED,
    STARTED,
    STARTS,
    UNKNOWN,
    WRITTEN,
    Alias,
    Entry,
    IllegalTransition,
    sql_text,
)
from acpbridge.store.scrub import scrub_line

PART_BYTES = 256 * 1024
"""A prompt or answer is kept in parts of this size."""
HISTORY_STEPS_MAX = 500
"""Transitions kept of one prompt: the first and the last (a busy agent may refuse for long)."""
ALIASES_MAX = 64
"""Aliases kept of one session: the last ones."""

_SET = """
    changed_ms = :at_ms,
    reason = :reason,
    completion = CASE WHEN :completion <> '' THEN :completion ELSE completion END,
    turn = CASE WHEN :turn > 0 THEN :turn ELSE turn END,
    trace = CASE WHEN :trace <> '' THEN :trace ELSE trace END
"""
_MINE = "run = :run AND number = :number AND is_kept = 0"


def _listed(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


def _move(target: str, sources: tuple[str, ...], more: str = "", only: str = "") -> str:
    """The UPDATE along some edges into `target`; made of constants of ours alone."""
    return (
        f"UPDATE prompt SET state = '{target}', {_SET}{more} "  # noqa: S608
        f"WHERE {_MINE} AND state IN ({_listed(sources)}){only} RETURNING id"
    )


def _moves(target: str) -> tuple[str, ...]:
    """The UPDATEs into a state, each for its own group of edges; at most one of them matches."""
    sources = tuple(state for state, ends in EDGES.items() if target in ends)
    if target == ACCEPTED:
        running = tuple(state for state in sources if state not in (*ENDS, ANSWERED))
        ended = tuple(state for state in sources if state in (*ENDS, ANSWERED))
        kept = ", is_kept = 1, told_ms = NULL"
        return (
            _move(target, running, ", is_written = 0"),
            _move(target, ended, kept, " AND is_written = 0"),
        )
    if target == ANSWERED:
        open_ = tuple(state for state in sources if state not in ENDS)
        tell = (
            f"UPDATE prompt SET {_SET.replace('reason = :reason,', '')}, "  # noqa: S608
            f"told_ms = :at_ms "
            f"WHERE {_MINE} AND state IN ({_listed(ENDS)}) AND told_ms IS NULL RETURNING id"
        )
        return (_move(target, open_, ", told_ms = :at_ms"), tell)
    if target == REFUSED:
        running = tuple(state for state in sources if state != UNKNOWN)
        return (_move(target, running), _move(target, (UNKNOWN,), ", is_written = 0"))
    if target in (WRITTEN, STARTED, SETTLED, UNKNOWN):
        return (_move(target, sources, ", is_written = 1"),)
    return (_move(target, sources),)


_MOVES = {target: _moves(target) for target in EDGES}

_BEGIN = """
    INSERT INTO prompt (run, number, session, state, is_written, accepted_ms, changed_ms, told_ms,
                        completion, reason, turn, trace, key)
    VALUES (:run, :number, :session, :state, :is_written, :at_ms, :at_ms, :told_ms,
            :completion, :reason, :turn, :trace, :key)
"""
_FREE_KEY = """
    UPDATE prompt SET key = NULL
    WHERE session = :session AND key = :key AND is_written = 0
        AND state IN ('answered', 'cancelled', 'refused')
"""
_STEP = """
    INSERT INTO history (prompt, step, state, at_ms, reason, completion, turn, trace)
    SELECT :prompt, coalesce(max(step), 0) + 1, :state, :at_ms, :reason, :completion, :turn, :trace
    FROM history WHERE prompt = :prompt
    RETURNING step
"""
_LAST_STEP = "SELECT state, reason FROM history WHERE prompt = ? ORDER BY step DESC LIMIT 1"


def apply(
    connection: sqlite3.Connection, run: int, item: Entry | Alias, *, is_new: bool, is_renewed: bool
) -> None:
    """Write one transition or alias, inside a write transaction.

    Args:
        connection: In a write transaction.
        run: The row of this run.
        item: What to write.
        is_new: Whether its prompt begins now (`Numbers`): one that does not and is not there was
            forgotten by a person, or left in a journal that was set aside.
        is_renewed: Whether a journal was set aside in this run.

    Raises:
        IllegalTransition: There is no such edge, or a CHECK refuses what the entry says.
        KeyTaken: Another prompt of the session has its key.
    """
    if isinstance(item, Alias):
        _append_alias(connection, item)
        return
    try:
        _apply_entry(connection, item, _values(run, item), is_new=is_new, is_renewed=is_renewed)
    except sqlite3.IntegrityError as error:
        # Our own mistake, and no fault of the disk, which would be met by trying again for ever.
        raise IllegalTransition(item.number, f"where it is ({error})", item.state) from error


def _apply_entry(
    connection: sqlite3.Connection,
    entry: Entry,
    values: dict[str, Any],
    *,
    is_new: bool,
    is_renewed: bool,
) -> None:
    if is_new:
        if entry.state not in STARTS:
            raise IllegalTransition(entry.number, "nothing", entry.state)
        _begin(connection, entry, values, is_written=False)
        return
    for move in _MOVES[entry.state]:
        moved = connection.execute(move, values).fetchone()
        if moved is not None:
            _note(connection, moved[0], entry, values)
            return
    _unmoved(connection, entry, values, is_renewed=is_renewed)


def _values(run: int, entry: Entry) -> dict[str, Any]:
    reason = scrub_line(sql_text(entry.reason))[:REASON_CHARS_MAX] if entry.reason else ""
    return {
        "run": run,
        "number": entry.number,
        "session": sql_text(entry.session),
        "state": entry.state,
        "at_ms": entry.at_ms,
        "reason": reason,
        "completion": entry.completion,
        "turn": entry.turn,
        "trace": sql_text(entry.trace),
    }


def _begin(
    connection: sqlite3.Connection, entry: Entry, values: dict[str, Any], *, is_written: bool
) -> None:
    values["key"] = None
    if entry.key and entry.state == ACCEPTED:
        values["key"] = sql_text(entry.key)
        _claim_key(connection, entry, values)
    values["is_written"] = is_written
    values["told_ms"] = entry.at_ms if entry.state == ANSWERED else None
    prompt = connection.execute(_BEGIN, values).lastrowid
    assert prompt is not None
    _note(connection, prompt, entry, values)


def _claim_key(connection: sqlite3.Connection, entry: Entry, values: dict[str, Any]) -> None:
    """The key is that of a prompt that ran, or may run; one that ended unsent gives it up."""
    connection.execute(_FREE_KEY, values)
    held = connection.execute(
        "SELECT id FROM prompt WHERE session = :session AND key = :key", values
    ).fetchone()
    if held is not None:
        raise KeyTaken(entry.number, held[0])


def _note(
    connection: sqlite3.Connection, prompt: int, entry: Entry, values: dict[str, Any]
) -> None:
    """Put the step into the history, and the bytes that came with it beside the prompt."""
    step = connection.execute(_STEP, {**values, "prompt": prompt}).fetchone()[0]
    if step > HISTORY_STEPS_MAX:
        connection.execute(
            "DELETE FROM history WHERE prompt = ? AND step BETWEEN 2 AND ?",
            (prompt, step - HISTORY_STEPS_MAX + 1),
        )
    if entry.content:
        _keep(connection, prompt, "prompt", entry.content)
    if entry.answer:
        _keep(connection, prompt, "answer", entry.answer)


def _keep(connection: sqlite3.Connection, prompt: int, kind: str, body: bytes) -> None:
    # The first bytes count: a prompt's text never changes, and an answer is given once.
    connection.executemany(
        "INSERT OR IGNORE INTO content (prompt, kind, part, body) VALUES (?, ?, ?, ?)",
        [
            (prompt, kind, part, body[at : at + PART_BYTES])
            for part, at in enumerate(range(0, len(body), PART_BYTES))
        ],
    )


def _unmoved(
    connection: sqlite3.Connection, entry: Entry, values: dict[str, Any], *, is_renewed: bool
) -> None:
    """No edge led there: it is a repeat or a late word, its prompt is gone, or it is a mistake."""
    row = connection.execute(
        "SELECT id, state, is_written, told_ms, reason FROM prompt "
        "WHERE run = :run AND number = :number",
        values,
    ).fetchone()
    if row is None:
        if is_renewed:
            _begin_late(connection, entry, values)
        elif entry.state == SENDING:
            # Whoever has it now, this intent would not be on the disk (I8).
            raise IllegalTransition(entry.number, "nothing", entry.state)
        return
    prompt, state, is_written, told_ms, reason = row
    if entry.state == ANSWERED and state in ENDS and told_ms is not None:
        return
    if is_written and entry.state in LATE_WORDS.get(state, ()):
        last = connection.execute(_LAST_STEP, (prompt,)).fetchone()
        is_news = last != (entry.state, values["reason"])
    elif state == entry.state:
        is_news = values["reason"] not in ("", reason)
    else:
        raise IllegalTransition(entry.number, state, entry.state)
    if is_news:
        connection.execute(
            "UPDATE prompt SET reason = ?, changed_ms = ? WHERE id = ?",
            (values["reason"] or reason, entry.at_ms, prompt),
        )
        _note(connection, prompt, entry, values)


def _begin_late(connection: sqlite3.Connection, entry: Entry, values: dict[str, Any]) -> None:
    """The prompt's beginning is in a journal that was set aside: go on from here.

    What has ended is taken for written, so that it can never be taken for undelivered.
    """
    values["reason"] = f"{values['reason']} (its beginning is in the damaged journal)".strip()
    if entry.state == ANSWERED and not entry.completion:
        values["completion"] = "unrecorded"
    _begin(connection, entry, values, is_written=entry.state not in (ACCEPTED, SENDING))


def _append_alias(connection: sqlite3.Connection, alias: Alias) -> None:
    """Append to the session's chain; its tip again is no news, and no generation is used twice."""
    session, agent_id = sql_text(alias.session), sql_text(alias.agent_id)
    tip = connection.execute(
        "SELECT generation, agent_id FROM alias WHERE session = ? ORDER BY generation DESC LIMIT 1",
        (session,),
    ).fetchone()
    if tip is not None and tip[1] == agent_id:
        return
    generation = max(alias.generation, tip[0] + 1 if tip is not None else 1)
    connection.execute(
        "INSERT INTO alias (session, generation, agent_id, at_ms) VALUES (?, ?, ?, ?)",
        (session, generation, agent_id, alias.at_ms),
    )
    connection.execute(
        "DELETE FROM alias WHERE session = ?1 AND generation <= "
        "(SELECT generation FROM alias WHERE session = ?1 ORDER BY generation DESC "
        "LIMIT 1 OFFSET ?2)",
        (session, ALIASES_MAX),
    )
