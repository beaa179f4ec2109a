"""What a dead run has left becomes this run's to tell, by one conditional UPDATE.

accepted stays accepted and is kept: undelivered. sending, written and started become unknown:
their bytes may have gone, so they are never sent by themselves. settled is kept as a result.
Two bridges that race for a dead run both prove its death, and SQLite lets one of them write
first; the other's UPDATE then finds nothing that is still the dead run's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acpbridge.store.journal_look import OPEN
from acpbridge.store.journal_run import RunId, free_locks, is_dead, lock_path
from acpbridge.store.journal_states import sql_text

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

LOCKS_SWEPT_MAX = 256
"""Lock files of dead runs that one takeover looks at and removes."""

_TAKE = f"""
    UPDATE prompt SET
        run = :own,
        number = NULL,
        changed_ms = :at_ms,
        is_kept = state NOT IN ('cancelled', 'refused'),
        -- A cancel is what its client asked for; there is nothing to tell.
        told_ms = CASE WHEN state IN ('cancelled', 'refused') THEN :at_ms END,
        is_written = CASE WHEN state = 'sending' THEN 1 ELSE is_written END,
        reason = CASE state
            WHEN 'sending' THEN 'the bridge ended while it was being sent; it may have run'
            WHEN 'written' THEN 'the bridge ended while the agent had it; it may have run'
            WHEN 'started' THEN 'the bridge ended while the agent worked on it'
            WHEN 'accepted' THEN 'the bridge ended before it was sent'
            WHEN 'settled' THEN 'the bridge ended before its client was answered'
            ELSE reason END,
        state = CASE WHEN state IN ('sending', 'written', 'started') THEN 'unknown' ELSE state END
    WHERE run = :dead AND is_kept = 0 AND {OPEN} AND (:session IS NULL OR session = :session)
    RETURNING id, state, reason
"""  # noqa: S608
_HELD_BY = f"""
    SELECT DISTINCT run.id, run.nonce, run.pid, run.started, run.is_ended
    FROM prompt JOIN run ON run.id = prompt.run
    WHERE {OPEN} AND prompt.is_kept = 0 AND (:session IS NULL OR session = :session)
"""  # noqa: S608
_END = f"""
    UPDATE run SET is_ended = 1 WHERE id = ? AND NOT EXISTS
        (SELECT 1 FROM prompt WHERE prompt.run = run.id AND prompt.is_kept = 0 AND {OPEN})
"""  # noqa: S608


def dead_runs(
    connection: sqlite3.Connection, state_dir: Path, own: str, session: str | None
) -> list[tuple[int, RunId]]:
    """(row, run) of the runs that are proven dead and have prompts that did not end."""
    name = None if session is None else sql_text(session)
    found = connection.execute(_HELD_BY, {"session": name}).fetchall()
    runs = [(row, RunId(*run), is_ended) for row, *run, is_ended in found if run[0] != own]
    return [(row, run) for row, run, is_ended in runs if is_ended or is_dead(state_dir, run)]


def take(
    connection: sqlite3.Connection, own: int, dead: list[int], session: str | None, at_ms: int
) -> list[int]:
    """Take over, inside a transaction; the ids of what was taken, oldest first."""
    taken: list[int] = []
    name = None if session is None else sql_text(session)
    for run in dead:
        values = {"own": own, "dead": run, "session": name, "at_ms": at_ms}
        for prompt, state, reason in connection.execute(_TAKE, values).fetchall():
            connection.execute(
                "INSERT INTO history SELECT ?1, coalesce(max(step), 0) + 1, ?2, ?3, ?4, '', 0, '' "
                "FROM history WHERE prompt = ?1",
                (prompt, state, at_ms, reason),
            )
            taken.append(prompt)
        connection.execute(_END, (run,))
    return sorted(taken)


def locks_to_sweep(state_dir: Path, own: str) -> list[Path]:
    """The lock files of dead runs, looked for before their prompts are."""
    return free_locks(state_dir, own, LOCKS_SWEPT_MAX)


def sweep(connection: sqlite3.Connection, state_dir: Path, locks: list[Path]) -> None:
    """Remove the lock files of runs that have nothing left to take over."""
    found = connection.execute(_HELD_BY, {"session": None})
    open_runs = {lock_path(state_dir, nonce) for _, nonce, *_ in found}
    for path in locks:
        if path not in open_runs:
            path.unlink(missing_ok=True)
