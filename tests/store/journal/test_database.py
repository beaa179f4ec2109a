"""The file: its modes, its settings, its migrations, its indexes."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from acpbridge.errors import StateDirFault
from acpbridge.store.journal import Archive, Journal, JournalFault
from acpbridge.store.journal_look import _HOLDERS
from acpbridge.store.journal_takeover import _HELD_BY, _TAKE
from acpbridge.store.migrations import MIGRATIONS, migrate
from tests.store.journal.made import go, names, open_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def modes(folder: Path) -> dict[str, int]:
    return {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (folder / "state", *(folder / "state").rglob("*"))
    }


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = open_journal(tmp_path)
        go(journal, 1, "accepted")
        found = modes(tmp_path)
    finally:
        os.umask(before)
    ours = {"journal-1.db", "journal-1.db-wal", "journal-1.db-shm", "journal.lock", "one.lock"}

    assert ours | {"state", "runs"} == found.keys()
    assert {0o600} == {found[name] for name in ours}
    assert {0o700} == {found["state"], found["runs"]}
    journal.close()
    # An orderly end leaves no lock, and the last one folds the -wal.
    assert {"state", "runs", "journal-1.db", "journal.lock"} == modes(tmp_path).keys()


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    path = tmp_path / "state" / "journal-1.db"
    path.chmod(0o644)
    journal = open_journal(tmp_path)
    go(journal, 1, "accepted")

    assert {0o600} == {mode for name, mode in modes(tmp_path).items() if "journal" in name}
    journal.close()


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("busy_timeout", 5_000),
        ("auto_vacuum", 2),
        ("cell_size_check", 1),
    ],
)
def test_settings(journal: Journal, pragma: str, value: object) -> None:
    connection = journal._database._connection
    assert connection is not None

    assert value == connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def test_every_table_is_strict(journal: Journal) -> None:
    connection = journal._database._connection
    assert connection is not None
    tables = connection.execute("PRAGMA table_list").fetchall()
    ours = {name: strict for _, name, kind, _, _, strict in tables if not name.startswith("sqlite")}

    assert {"run", "prompt", "history", "content", "alias", "migration"} == ours.keys()
    assert {1} == set(ours.values())


@pytest.mark.parametrize("sql", [_HOLDERS, _HELD_BY, _TAKE])
def test_what_is_open_is_found_without_reading_what_is_over(journal: Journal, sql: str) -> None:
    connection = journal._database._connection
    assert connection is not None
    if sql is _HOLDERS:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ("s", "n"))
    else:
        values = {"session": None, "own": 1, "dead": 2, "at_ms": 3}
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
    told = "; ".join(row[3] for row in plan)

    assert "prompt_open" in told or "sqlite_autoindex_prompt_1" in told
    assert "SCAN prompt;" not in f"{told};"


# -- migrations --------------------------------------------------------------------------------
def test_migrations_are_applied_once_and_recorded() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        assert tuple(MIGRATIONS) == migrate(connection, 5)
        assert () == migrate(connection, 6)
        record = connection.execute("SELECT name, at_ms FROM migration").fetchall()

    assert [(name, 5) for name in MIGRATIONS] == record


def test_a_migration_that_fails_leaves_nothing() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE alias (x)")
        with pytest.raises(sqlite3.OperationalError, match="alias already exists"):
            migrate(connection, 5)
        names = connection.execute("SELECT name FROM sqlite_schema").fetchall()

    assert [("alias",)] == names


def test_a_newer_versions_journal_is_left_alone(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    path = tmp_path / "state" / "journal-1.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO migration VALUES ('9999_later', 1, 1)")
    for _ in range(2):
        with pytest.raises(JournalFault, match="newer version: 9999_later") as caught:
            open_journal(tmp_path)

        assert "other" == caught.value.kind
    assert ["journal-1.db", "journal.lock", "runs"] == names(path.parent)
    # Nor did the run that could not open it leave its lock.
    assert [] == names(path.parent / "runs")


def test_an_index_that_somebody_added_is_no_damage(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "state" / "journal-1.db")) as connection:
        connection.execute("CREATE INDEX mine ON prompt (trace)")
    journal = open_journal(tmp_path)

    assert () == journal.take_news()
    journal.close()


def test_opening_writes_nothing(opened: Callable[..., Journal], tmp_path: Path) -> None:
    """So it takes no lock that another bridge holds, and syncs nothing."""
    one = opened("one")
    go(one, 1, "accepted")
    wal = tmp_path / "state" / "journal-1.db-wal"
    before = wal.read_bytes()
    opened("two").close()
    archive = Archive.open(tmp_path / "state")
    assert archive is not None
    archive.list_prompts()
    archive.close()

    assert before == wal.read_bytes()


def test_a_state_directory_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StateDirFault, match="choose --state-dir"):
        open_journal(tmp_path)


def test_a_closed_journal_is_closed_once(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "state", "one", 1)
    journal.close()
    journal.close()
