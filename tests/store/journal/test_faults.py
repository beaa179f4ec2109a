"""A disk that is full, fails, or may not be written: told by kind, and over when it is over."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Archive, JournalFault
from acpbridge.store.journal_fault import KINDS, fault_of, fault_of_os
from tests.store.journal.made import entry, go

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.store.journal import Journal

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = [sys.executable, "-m", "tests.store.journal.programs"]


def test_a_full_disk_refuses_one_and_takes_the_next_when_there_is_room(journal: Journal) -> None:
    go(journal, 1, "accepted")
    connection = journal._database._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    batch = [entry(1, "sending"), entry(2, "accepted", content=b"x" * 100_000)]
    with pytest.raises(JournalFault, match="free some space") as caught:
        journal.record(batch)

    assert ("full", "journal_full", 4) == (
        caught.value.kind,
        caught.value.code,
        caught.value.exit_code,
    )
    assert ["accepted"] == [row.state for row in journal.list_prompts()]
    # What needs no room goes on: the running turn is left alone.
    go(journal, 1, "sending")
    connection.execute(f"PRAGMA max_page_count = {pages + 1_000}").fetchone()
    journal.record(batch)
    assert ["accepted", "sending"] == [row.state for row in journal.list_prompts()]
    assert () == journal.take_news()


def test_a_journal_that_another_holds_for_too_long_is_busy(
    opened: Callable[..., Journal],
) -> None:
    one, two = opened("one"), opened("two")
    held, waiting = one._database._connection, two._database._connection
    assert held is not None
    assert waiting is not None
    waiting.execute("PRAGMA busy_timeout = 20")
    held.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalFault, match="try again") as caught:
        go(two, 1, "accepted")

    assert "busy" == caught.value.kind
    # Reading needs nobody's leave.
    assert () == two.list_prompts()
    held.execute("ROLLBACK")
    go(two, 1, "accepted")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes writes fail; compiled here, for no machine has it."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler (cc) here that could make disks fail")
    library = tmp_path_factory.mktemp("failing") / "failing.so"
    source = Path(__file__).with_name("failing.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.process
def test_a_disk_that_fails(failing: Path, tmp_path: Path) -> None:
    """Each write and sync of a commit in turn: the transition is told as failed, and is not there.

    The same one goes through when the disk is well again. ENOSPC from the system is `full`.
    """
    state = tmp_path / "state"
    told = subprocess.run(
        [*PROGRAMS, "fail", str(state)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(failing)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [json.loads(line) for line in told.stdout.splitlines()]
    last = said.pop()

    assert (-9, "", {"last": "io"}) == (told.returncode, told.stderr, last)
    kinds = {"EIO": "io", "ENOSPC": "full"}
    hits = [one for one in said if one["kind"]]
    assert {("sync", "EIO"), ("write", "EIO"), ("write", "ENOSPC")} == {
        (one["what"], one["error"]) for one in hits
    }
    assert [(kinds[one["error"]], "accepted") for one in hits] == [
        (one["kind"], one["state"]) for one in hits
    ]
    assert {"sending"} >= {one["state"] for one in said if not one["kind"]}
    # A commit whose sync failed may be on the disk after a crash or not: never half.
    archive = Archive.open(state)
    assert archive is not None
    newest, *others = archive.list_prompts()
    assert newest.state in ("accepted", "sending")
    assert {"written"} == {row.state for row in others}
    archive.close()


@pytest.mark.process
def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    told = subprocess.run(
        [*PROGRAMS, "readonly"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    directory, file, after = (json.loads(line) for line in told.stdout.splitlines())

    assert ["accepted"] == after["states"]
    # Whom permissions bind from the start hears it before the journal does.
    assert directory["kind"] in ("readonly", "directory")
    assert "readonly" == file["kind"]
    for fault in (directory, file):
        assert "choose another --state-dir" in fault["text"]


@pytest.mark.parametrize("name", ["PERM", "BUSY", "LOCKED", "READONLY", "IOERR", "CORRUPT", "FULL",
                                  "CANTOPEN", "PROTOCOL", "NOTADB", "ERROR", "NOMEM"])  # fmt: skip
def test_every_fault_names_the_file_and_a_remedy(tmp_path: Path, name: str) -> None:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}") | 3 << 8
    error.sqlite_errorname = f"SQLITE_{name}"
    fault = fault_of(error, tmp_path / "journal-1.db")

    assert fault.kind in KINDS
    assert f"journal_{fault.kind}" == fault.code
    assert str(tmp_path / "journal-1.db") in str(fault)
    assert f"SQLITE_{name}: words of SQLite" in str(fault)
    assert "; " in fault.hint


@pytest.mark.parametrize(("number", "kind"), [(28, "full"), (30, "readonly"), (13, "readonly"),
                                              (5, "io"), (24, "io")])  # fmt: skip
def test_faults_of_the_system_have_kinds_too(tmp_path: Path, number: int, kind: str) -> None:
    assert kind == fault_of_os(OSError(number, os.strerror(number)), tmp_path).kind
