"""A damaged journal is set aside and told, a new one is begun, and every live bridge follows."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Archive, JournalFault
from acpbridge.store.journal_database import DAMAGED_FILES_MAX
from acpbridge.store.journal_gate import Gate
from tests.store.journal.made import PATHS, S, bring, entry, go, names, open_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from acpbridge.store.journal import Journal

PAGE_BYTES = 4_096


def spoil_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 500)


def spoil_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX prompt_open")


def spoil_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE content")


def spoil_schema_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (PAGE_BYTES - 100))


def cut_short(path: Path) -> None:
    os.truncate(path, PAGE_BYTES + 77)


def files(folder: Path) -> list[str]:
    return [name for name in names(folder / "state") if name != "runs"]


@pytest.mark.parametrize(
    "spoil", [spoil_header, spoil_schema, spoil_table, spoil_schema_page, cut_short]
)
def test_a_journal_that_is_none_is_set_aside_at_the_opening(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    journal = open_journal(tmp_path)
    go(journal, 1, "accepted")
    journal.close()
    path = tmp_path / "state" / "journal-1.db"
    spoil(path)
    spoiled = path.read_bytes()
    journal = open_journal(tmp_path, "two")
    go(journal, 1, "accepted")
    [news] = journal.take_news() or [None]

    assert news is not None
    assert re.fullmatch(r".*/journal\.damaged-\d{8}T\d{6}Z", news.path)
    assert spoiled == (tmp_path / "state" / news.path).read_bytes()
    assert () == journal.take_news()
    assert ["two"] == [row.nonce for row in journal.list_prompts()]
    assert "journal-2.db" in files(tmp_path)
    journal.close()


def overwrite_tables(journal: Journal) -> None:
    """Every page but the first is noise, on the disk and in this process's cache."""
    connection = journal._database._connection
    assert connection is not None
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = journal.path.stat().st_size
    with journal.path.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(b"\xa5" * (size - PAGE_BYTES))
    connection.execute("PRAGMA shrink_memory")


def test_a_page_that_is_damaged_while_bridges_run(
    opened: Callable[..., Journal], tmp_path: Path
) -> None:
    """Whoever meets it sets the file aside; the other follows, and nothing goes into the old one.

    The recorded transition is not refused, and the next one of each running prompt is recorded
    though its beginning is in the damaged file.
    """
    one, two = opened("one"), opened("two")
    go(one, 1, *PATHS["written"])
    go(two, 1, "accepted", "sending", key="k")
    go(two, 2, "accepted")
    overwrite_tables(one)
    one.record([entry(1, "started")])
    [news] = one.take_news()

    assert "MALFORMED" in news.reason.upper()
    assert (1, 0) == (one.renewals, two.renewals)
    two.record([entry(1, "written"), entry(2, "accepted"), entry(3, "accepted")])
    assert [""] == [told.path for told in two.take_news()]
    assert [("started", True), ("written", True), ("accepted", False), ("accepted", False)] == [
        (row.state, row.is_written) for row in reversed(one.list_prompts())
    ]
    holder = one.holder_of(S)
    assert holder is not None
    assert ("two", 3) == (holder.nonce, holder.prompts)
    old = news.path
    before = (tmp_path / old).stat().st_mtime_ns
    go(two, 1, "settled", "answered")
    go(one, 1, "settled", "answered")
    one.close()
    two.close()
    assert before == (tmp_path / old).stat().st_mtime_ns
    # Closing the old connections has removed nothing of the new journal.
    with closing(sqlite3.connect(tmp_path / "state" / "journal-2.db")) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        states = connection.execute("SELECT state FROM prompt ORDER BY id").fetchall()
    assert [("answered",), ("answered",), ("accepted",), ("accepted",)] == states


def test_two_that_meet_the_damage_set_it_aside_once(opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted")
    go(two, 1, "accepted")
    overwrite_tables(one)
    # Both have read the number of the damaged one by now.
    one._database._set_aside(1, "found by one")
    two._database._set_aside(1, "found by two")
    go(one, 2, "accepted")
    go(two, 2, "accepted")

    assert ["found by one"] == [told.reason for told in one.take_news()]
    assert [""] == [told.path for told in two.take_news()]
    assert one.path == two.path
    assert ["two", "one"] == [row.nonce for row in one.list_prompts()]


def test_a_dead_run_of_the_old_journal_is_nobody_in_the_new_one(
    opened: Callable[..., Journal],
) -> None:
    """Rows are numbered anew there: the same number may be a bridge that lives."""
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted")
    one._database._set_aside(1, "for this test")
    go(one, 2, "accepted")
    # Two has found run 1 dead in the old journal, and comes to the new one with that.
    assert () == two._take([1], None, 2)
    assert [("one", True)] == [(row.nonce, row.is_live) for row in two.list_prompts()]


@pytest.mark.parametrize("state", sorted(PATHS))
def test_every_state_can_be_gone_on_from_in_a_new_journal(journal: Journal, state: str) -> None:
    """A prompt that ended there is never taken for one that was not sent (I3)."""
    bring(journal, 1, "started")
    journal._database._set_aside(1, "for this test")
    journal.record([entry(1, state)])
    [row] = journal.list_prompts()

    assert (state, state not in ("accepted", "sending")) == (row.state, row.is_written)
    assert "damaged journal" in row.reason


def test_people_do_not_set_it_aside(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    spoil_header(tmp_path / "state" / "journal-1.db")
    with pytest.raises(JournalFault, match="the next bridge here sets it aside") as caught:
        Archive.open(tmp_path / "state")

    assert "damaged" == caught.value.kind
    assert ["journal-1.db", "journal.lock"] == files(tmp_path)


def test_nobody_sets_it_aside_inside_a_transaction_of_another(
    opened: Callable[..., Journal],
) -> None:
    """The gate: while one is inside, it is held, and the other waits for it."""
    one, two = opened("one"), opened("two")
    with two._database._gate.shared(), pytest.raises(BlockingIOError):
        _take_at_once(one._database._gate)
    assert 1 == _take_at_once(one._database._gate)


def _take_at_once(gate: Gate) -> int:
    fcntl.flock(gate._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(gate._fd, fcntl.LOCK_UN)
    return 1


def test_damaged_files_are_bounded(journal: Journal, tmp_path: Path) -> None:
    rounds = DAMAGED_FILES_MAX + 1
    for number in range(1, rounds + 1):
        go(journal, number, "accepted")
        journal._database._set_aside(number, "again")
    go(journal, 9, "accepted")
    kept = [
        name for name in files(tmp_path) if re.fullmatch(r"journal\.damaged-[^.]*Z(-\d)?", name)
    ]

    assert DAMAGED_FILES_MAX == len(kept)
    assert rounds == len(journal.take_news())


def test_the_last_one_set_aside_is_kept_however_old(journal: Journal, tmp_path: Path) -> None:
    """A journal that somebody put back from a backup is older than the damaged ones beside it."""
    rounds = DAMAGED_FILES_MAX + 1
    for number in range(1, rounds + 1):
        go(journal, number, "accepted")
        os.utime(journal.path, (0, number % rounds))
        journal._database._set_aside(number, "again")
    told = [tmp_path / news.path for news in journal.take_news()]

    assert [False, True, True, True, True] == [path.exists() for path in told]


def test_a_number_that_was_lost_is_found_again(tmp_path: Path) -> None:
    """Somebody removed journal.lock: the newest journal counts, and no name is used twice."""
    journal = open_journal(tmp_path)
    journal._database._set_aside(1, "for this test")
    go(journal, 1, "accepted")
    journal.close()
    (tmp_path / "state" / "journal.lock").unlink()
    journal = open_journal(tmp_path, "two")

    assert ("journal-2.db", 1) == (journal.path.name, len(journal.list_prompts()))
    journal.close()
