"""Retention: what is old, or too much, goes, in steps so small that no turn waits for one.

Never touched: what a live run may still move, and what no client was told of, unless it is older
than the age limit. One step deletes at most `PRUNE_ROWS_MAX` prompts or some `PRUNE_BYTES_MAX` of
text, and gives at most `PRUNE_PAGES_MAX` pages back to the file system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from acpbridge.store.journal_look import OPEN
from acpbridge.store.journal_states import ANSWERED, ENDS, SETTLED

if TYPE_CHECKING:
    import sqlite3

PRUNE_ROWS_MAX = 64
"""Prompts deleted in one step."""
PRUNE_BYTES_MAX = 4 * 1024 * 1024
"""Text deleted in one step; a larger prompt goes part by part, and its row last."""
ROW_BYTES = 1024
"""What a prompt and its history take beside its text, about."""
PRUNE_PAGES_MAX = 256
"""Pages given back in one step."""
PRUNE_LOOK_MAX = 512
"""Prompts, the oldest, whose age one step looks at."""
RUNS_MAX = 64
"""Ended runs without prompts deleted in one step."""

_DAY_MS = 24 * 60 * 60 * 1000


@frozen
class Retention:
    """How much is kept."""

    age_ms_max: int = 30 * _DAY_MS
    """Since the last transition, by the wall clock."""
    size_bytes_max: int = 256 * 1024 * 1024
    """Used pages of the file."""


@frozen
class Pruned:
    """What one step did."""

    prompts: int
    pages: int
    is_done: bool
    """Nothing is left to do by now; otherwise ask again, when the bridge is idle."""


_FINISHED = f"prompt.told_ms IS NOT NULL AND prompt.state IN {(SETTLED, ANSWERED, *ENDS)}"
_KEPT = f"prompt.is_kept = 1 AND {OPEN}"


def prune_rows(connection: sqlite3.Connection, limits: Retention, now_ms: int) -> tuple[int, bool]:
    """One step, in a write transaction: (prompts deleted, whether nothing was left to delete)."""
    doomed = _too_old(connection, _FINISHED, limits, now_ms)
    doomed += _too_old(connection, _KEPT, limits, now_ms)
    budget = PRUNE_BYTES_MAX
    excess = _used_bytes(connection) - limits.size_bytes_max
    if not doomed and excess > 0:
        budget = min(budget, excess)
        told = f"{_KEPT} AND prompt.told_ms IS NOT NULL"
        doomed = _oldest(connection, _FINISHED) or _oldest(connection, told)
    gone = _delete(connection, doomed[:PRUNE_ROWS_MAX], budget)
    connection.execute(
        "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE is_ended = 1 AND NOT EXISTS "
        "(SELECT 1 FROM prompt WHERE prompt.run = run.id) LIMIT ?)",
        (RUNS_MAX,),
    )
    return gone, not doomed


def give_back(connection: sqlite3.Connection) -> tuple[int, bool]:
    """Give free pages back, outside a transaction: (pages, whether none is left).

    And fold the -wal into the file, as far as nobody reads it.
    """
    free = _pragma(connection, "freelist_count")
    if free:
        # It yields a row without columns for each page, and `execute` would stop at the first.
        connection.executescript(f"PRAGMA incremental_vacuum({PRUNE_PAGES_MAX})")
    left = _pragma(connection, "freelist_count")
    # Here, between turns, it costs nobody anything; else some commit would have to do it.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return free - left, left == 0


def _too_old(
    connection: sqlite3.Connection, what: str, limits: Retention, now_ms: int
) -> list[int]:
    # The oldest by id: a clock that was wrong for a while may hide some of them for as long as
    # others stand before them, and never makes a step long.
    found = connection.execute(
        f"SELECT id FROM (SELECT id, changed_ms FROM prompt WHERE {what} ORDER BY id LIMIT ?) "  # noqa: S608
        "WHERE changed_ms < ? LIMIT ?",
        (PRUNE_LOOK_MAX, now_ms - limits.age_ms_max, PRUNE_ROWS_MAX),
    )
    return [row[0] for row in found]


def _oldest(connection: sqlite3.Connection, what: str) -> list[int]:
    found = connection.execute(
        f"SELECT id FROM prompt WHERE {what} ORDER BY id LIMIT ?",  # noqa: S608
        (PRUNE_ROWS_MAX,),
    )
    return [row[0] for row in found]


def _delete(connection: sqlite3.Connection, doomed: list[int], budget: int) -> int:
    """Delete some bytes' worth of these, oldest first; how many are gone."""
    gone = 0
    for prompt in doomed:
        if budget <= 0:
            break
        parts = connection.execute(
            "SELECT kind, part, length(body) FROM content WHERE prompt = ?", (prompt,)
        ).fetchall()
        size = sum(length for _, _, length in parts)
        if size > PRUNE_BYTES_MAX:
            _delete_parts(connection, prompt, parts)
            break
        connection.execute("DELETE FROM prompt WHERE id = ?", (prompt,))
        budget -= size + ROW_BYTES
        gone += 1
    return gone


def _delete_parts(
    connection: sqlite3.Connection, prompt: int, parts: list[tuple[str, int, int]]
) -> None:
    """The last parts of one that is too large for one step."""
    rest = PRUNE_BYTES_MAX
    for kind, part, length in reversed(parts):
        if rest <= 0:
            return
        connection.execute(
            "DELETE FROM content WHERE prompt = ? AND kind = ? AND part = ?", (prompt, kind, part)
        )
        rest -= length


def _used_bytes(connection: sqlite3.Connection) -> int:
    used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return used * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
