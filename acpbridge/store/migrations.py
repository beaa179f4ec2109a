"""The journal's tables, as named migrations, each in one transaction with its own record.

A migration that was released is never changed: the next one changes what it made. Edges between
states are kept by conditional UPDATEs (`journal_record`), every other invariant by a CHECK.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from acpbridge.store.journal_states import STATES

if TYPE_CHECKING:
    import sqlite3

_STATE_LIST = ", ".join(f"'{state}'" for state in STATES)

_FIRST = (
    """
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        nonce TEXT NOT NULL UNIQUE CHECK (length(nonce) BETWEEN 1 AND 64),
        pid INTEGER NOT NULL CHECK (pid > 0),
        started TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        is_ended INTEGER NOT NULL DEFAULT 0 CHECK (is_ended IN (0, 1))
    ) STRICT
    """,
    # is_written: its bytes may be at the agent. is_kept: nobody's request is open for it, and no
    # run will move it by itself: undelivered (accepted), unknown, or a result that nobody got.
    # told_ms: when a client was told its end, by a response or by a notice.
    # AUTOINCREMENT: people write ids down, and the id of a forgotten prompt names no other one.
    f"""
    CREATE TABLE prompt (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES run (id),
        number INTEGER CHECK (number > 0),
        session TEXT NOT NULL,
        state TEXT NOT NULL,
        is_written INTEGER NOT NULL DEFAULT 0 CHECK (is_written IN (0, 1)),
        is_kept INTEGER NOT NULL DEFAULT 0 CHECK (is_kept IN (0, 1)),
        accepted_ms INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        told_ms INTEGER,
        completion TEXT NOT NULL DEFAULT '',
        reason TEXT NOT NULL DEFAULT '',
        turn INTEGER NOT NULL DEFAULT 0 CHECK (turn >= 0),
        trace TEXT NOT NULL DEFAULT '',
        key TEXT CHECK (key <> ''),
        UNIQUE (run, number),
        UNIQUE (session, key),
        CONSTRAINT state_is_known CHECK (state IN ({_STATE_LIST})),
        CONSTRAINT unsent_is_not_written
            CHECK (state NOT IN ('accepted', 'sending') OR is_written = 0),
        CONSTRAINT sent_is_written
            CHECK (state NOT IN ('written', 'started', 'settled', 'unknown') OR is_written = 1),
        CONSTRAINT answered_has_completion
            CHECK (state <> 'answered' OR (completion <> '' AND told_ms IS NOT NULL)),
        CONSTRAINT kept_has_no_request
            CHECK (is_kept = 0 OR state IN ('accepted', 'settled', 'unknown')),
        CONSTRAINT running_is_untold
            CHECK (told_ms IS NULL OR is_kept = 1
                OR state NOT IN ('accepted', 'sending', 'written', 'started')),
        CONSTRAINT running_has_a_number
            CHECK (number IS NOT NULL OR is_kept = 1 OR told_ms IS NOT NULL)
    ) STRICT
    """,
    # Small whatever the history's length: what runs, what waits, what is still to be told. The
    # transitions of a running prompt touch neither column, and so not this index.
    "CREATE INDEX prompt_open ON prompt (session) WHERE told_ms IS NULL OR is_kept = 1",
    f"""
    CREATE TABLE history (
        prompt INTEGER NOT NULL REFERENCES prompt (id) ON DELETE CASCADE,
        step INTEGER NOT NULL CHECK (step > 0),
        state TEXT NOT NULL CHECK (state IN ({_STATE_LIST})),
        at_ms INTEGER NOT NULL,
        reason TEXT NOT NULL,
        completion TEXT NOT NULL,
        turn INTEGER NOT NULL,
        trace TEXT NOT NULL,
        PRIMARY KEY (prompt, step)
    ) STRICT, WITHOUT ROWID
    """,
    # In parts, so that one that is large can be deleted in bounded steps; beside the prompt, so
    # that a transition does not write it again.
    """
    CREATE TABLE content (
        prompt INTEGER NOT NULL REFERENCES prompt (id) ON DELETE CASCADE,
        kind TEXT NOT NULL CHECK (kind IN ('prompt', 'answer')),
        part INTEGER NOT NULL CHECK (part >= 0),
        body BLOB NOT NULL,
        PRIMARY KEY (prompt, kind, part)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE alias (
        id INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        generation INTEGER NOT NULL CHECK (generation > 0),
        agent_id TEXT NOT NULL CHECK (agent_id <> ''),
        at_ms INTEGER NOT NULL,
        UNIQUE (session, generation)
    ) STRICT
    """,
)

MIGRATIONS: dict[str, tuple[str, ...]] = {
    "0001_prompts_and_aliases": _FIRST,
}
"""In the order in which they are applied."""

_RECORD = """
    CREATE TABLE IF NOT EXISTS migration (
        name TEXT PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        schema_crc INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
"""
"""`schema_crc` is that of the whole schema once this migration is applied."""


class SchemaFault(Exception):
    """The file is no journal of this version: damaged, or a newer version's."""

    def __init__(self, message: str, *, is_damage: bool) -> None:
        super().__init__(message)
        self.is_damage = is_damage


def migrate(connection: sqlite3.Connection, now_ms: int) -> tuple[str, ...]:
    """Apply what is missing, and check that the tables are what they should be.

    Returns:
        The names of the migrations that were applied now.

    Raises:
        SchemaFault: The tables are a newer version's, or damaged.
        sqlite3.Error: The file does not let us.
    """
    applied = _applied(connection)
    _refuse_newer(applied)
    done = []
    for name, statements in MIGRATIONS.items():
        if name not in applied and _apply(connection, name, statements, now_ms):
            done.append(name)
    if done or not applied:
        applied = _applied(connection)
    last = list(MIGRATIONS)[-1]
    if applied[last] != schema_crc(connection):
        raise SchemaFault("the tables are not those that were made", is_damage=True)
    return tuple(done)


def schema_crc(connection: sqlite3.Connection) -> int:
    """A checksum of every table and index that a migration made, in a fixed order.

    An index or table that somebody has added by hand is not ours and does not count.
    """
    made = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name IN "
        "('run', 'prompt', 'prompt_open', 'history', 'content', 'alias', 'migration') ORDER BY name"
    )
    return zlib.crc32("\n".join(f"{name}: {sql}" for name, sql in made).encode())


def _applied(connection: sqlite3.Connection) -> dict[str, int]:
    is_there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migration'").fetchone()
    if is_there is None:
        return {}
    return dict(connection.execute("SELECT name, schema_crc FROM migration").fetchall())


def _refuse_newer(applied: dict[str, int]) -> None:
    newer = sorted(applied.keys() - MIGRATIONS.keys())
    if newer:
        raise SchemaFault(f"it was written by a newer version: {newer[-1]}", is_damage=False)


def _apply(
    connection: sqlite3.Connection, name: str, statements: tuple[str, ...], now_ms: int
) -> bool:
    """Apply one migration; False where another process has just done it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_RECORD)
        if name in _applied(connection):
            connection.execute("ROLLBACK")
            return False
        for statement in statements:
            connection.execute(statement)
        record = (name, now_ms, schema_crc(connection))
        connection.execute("INSERT INTO migration VALUES (?, ?, ?)", record)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True
