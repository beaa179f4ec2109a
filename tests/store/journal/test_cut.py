"""The -wal cut at every byte of its last transaction: that one is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from acpbridge.store.journal import Archive
from tests.store.journal.made import entry, go, open_journal

if TYPE_CHECKING:
    from pathlib import Path

PAGE_BYTES = 512
"""Small, so that a transaction is some thousand bytes; the code is the same for any size."""

BEFORE = [("accepted", 1), ("written", 3)]
AFTER = [("accepted", 1), ("started", 4), ("sending", 2)]
"""(state, steps in the history) of each prompt, without and with the last transaction."""


def test_the_last_transaction_is_whole_or_absent(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with closing(sqlite3.connect(state / "journal-1.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    journal = open_journal(tmp_path)
    journal.record([entry(1, "accepted")])
    go(journal, 2, "accepted", "sending", "written")
    wal = state / "journal-1.db-wal"
    start = wal.stat().st_size
    batch = [(2, "started"), (3, "accepted"), (3, "sending")]
    journal.record([entry(*one) for one in batch])
    copy = tmp_path / "copy" / "state"
    shutil.copytree(state, copy, ignore=shutil.ignore_patterns("*-shm"))
    journal.close()
    path, wal = copy / "journal-1.db", copy / "journal-1.db-wal"
    end = wal.stat().st_size
    found = {}
    for size in range(end, start - 1, -1):
        os.truncate(wal, size)
        found[size] = look(path)

    # The last frame holds the commit; a byte less, and nothing of the transaction is there.
    assert end - start > 4 * PAGE_BYTES
    assert {end: AFTER, **dict.fromkeys(range(start, end), BEFORE)} == found
    # The journal itself opens what is left, and goes on.
    os.truncate(wal, (start + end) // 2)
    archive = Archive.open(copy)
    assert archive is not None
    assert ["written", "accepted"] == [row.state for row in archive.list_prompts()]
    archive.close()
    journal = open_journal(copy.parent, "two")
    assert ["accepted", "unknown"] == [row.state for row in journal.take_over(2)]
    assert () == journal.take_news()
    journal.close()


def look(path: Path) -> list[tuple[str, int]]:
    """What a reader recovers; read only, so that the -wal stays to be cut once more."""
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(
            "SELECT state, (SELECT count(*) FROM history WHERE prompt = prompt.id) FROM prompt "
            "ORDER BY id"
        ).fetchall()
