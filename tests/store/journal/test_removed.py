"""Somebody removes the journal, or the whole directory, while bridges run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Archive, Entry, Journal
from acpbridge.store.journal_gate import LOCK
from tests.store.journal.made import die, open_journal

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b'[{"type":"text","text":"hello"}]'


def accepted(number: int) -> Entry:
    return Entry(number, "accepted", "s", 1_000, content=CONTENT)


def states(state_dir: Path) -> list[str]:
    archive = Archive.open(state_dir)
    assert archive is not None
    try:
        return [one.shown_state for one in archive.list_prompts()]
    finally:
        archive.close()


@pytest.mark.parametrize("what", ["everything", "the journal", "the lock", "nothing"])
def test_what_is_acknowledged_can_be_found(tmp_path: Path, what: str) -> None:
    """A file without a name takes all that is written to it, and nobody can ever open it again."""
    state_dir = tmp_path / "state"
    journal = open_journal(tmp_path, "one")
    journal.record([accepted(1)])
    if what == "everything":
        shutil.rmtree(state_dir)
    elif what == "the journal":
        for path in state_dir.glob("journal-*"):
            path.unlink()
    elif what == "the lock":
        (state_dir / LOCK).unlink()
    journal.record([Entry(1, "sending", "s", 1_000), accepted(2)])

    assert ["accepted", "sending"] == states(state_dir)
    assert (what in ("everything", "the journal")) == bool(journal.take_news())
    die(journal)
    taken = open_journal(tmp_path, "two")
    assert ["unknown", "accepted"] == [one.state for one in taken.take_over(2_000)]
    taken.close()


def test_two_bridges_meet_again_in_the_new_one(tmp_path: Path) -> None:
    """Whoever comes next to the place makes it, and the end of one takes nothing from the other."""
    state_dir = tmp_path / "state"
    one, two = open_journal(tmp_path, "one"), open_journal(tmp_path, "two")
    one.record([accepted(1)])
    two.record([accepted(1)])
    shutil.rmtree(state_dir)
    three = open_journal(tmp_path, "three")
    three.record([accepted(1)])
    log = state_dir / "journal-1.db-wal"
    is_log = log.stat().st_ino
    two.record([accepted(2)])
    assert is_log == log.stat().st_ino, "SQLite removes it by name when it closes the old one"
    one.record([accepted(2)])
    assert 3 == len(states(state_dir))
    assert (state_dir / "runs" / "one.lock").exists()
    one.close()
    three.record([accepted(2)])
    die(three)
    die(two)

    last = open_journal(tmp_path, "last")
    assert 4 == len(last.list_prompts())
    last.close()


def test_a_directory_that_cannot_be_made_again_is_a_fault(tmp_path: Path) -> None:
    """Nothing is acknowledged, and it goes on when there is room for a directory again."""
    state_dir = tmp_path / "state"
    journal: Journal = open_journal(tmp_path, "one")
    journal.record([accepted(1)])
    shutil.rmtree(state_dir)
    state_dir.write_text("no directory")
    for _ in range(2):
        with pytest.raises(Exception, match="state"):
            journal.record([accepted(2)])
    state_dir.unlink()
    journal.record([accepted(2)])

    assert ["accepted"] == states(state_dir)
    journal.close()
