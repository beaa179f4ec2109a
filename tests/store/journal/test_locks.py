"""The two kinds of locks: a run's own, and the gate of the directory."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import JournalFault
from acpbridge.store.journal_gate import Gate
from acpbridge.store.journal_run import RunId, free_locks, hold, is_dead, live_pids, run_id
from tests.store.journal.made import entry, go, names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from acpbridge.store.journal import Journal


def test_a_nonce_is_held_once(tmp_path: Path) -> None:
    lock = hold(tmp_path, run_id("one"))
    with pytest.raises(JournalFault, match="its lock is held") as caught:
        hold(tmp_path, run_id("one"))

    assert "busy" == caught.value.kind
    lock.release()
    lock.release()
    hold(tmp_path, run_id("one")).release()
    assert [] == names(tmp_path / "runs")


@pytest.mark.parametrize("nonce", ["", "a/b", "..", "ü", "x" * 65])
def test_a_nonce_is_fit_for_a_file_name(nonce: str) -> None:
    with pytest.raises(AssertionError):
        run_id(nonce)


def test_a_lock_says_whose_it_is(tmp_path: Path, opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    path = tmp_path / "state" / "runs" / "one.lock"

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [os.getpid()] == one.others() == two.others()
    assert [] == free_locks(tmp_path / "state", "two", 9)
    two.close()
    assert [] == one.others()


def test_without_a_directory_there_are_no_runs(tmp_path: Path) -> None:
    assert ([], []) == (live_pids(tmp_path, "one"), free_locks(tmp_path, "one", 9))


def test_a_lock_that_was_swept_before_it_was_held_is_made_again(tmp_path: Path) -> None:
    """Who looks for dead runs may find ours between its making and its holding."""
    lock = hold(tmp_path, run_id("one"))
    lock.path.unlink()
    again = hold(tmp_path, run_id("one"))

    assert os.fstat(again.fd).st_ino == again.path.stat().st_ino
    assert os.fstat(lock.fd).st_nlink == 0
    again.release()
    os.close(lock.fd)


def test_a_pid_that_we_may_not_signal_is_one_that_lives(tmp_path: Path) -> None:
    assert not is_dead(tmp_path, RunId("one", 1, ""))


def test_a_gate_that_is_held_for_too_long_is_told(opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    two._database._gate.wait_s_max = 0.01
    with (
        one._database._gate.exclusive(),
        pytest.raises(JournalFault, match="its lock is held") as caught,
    ):
        go(two, 1, "accepted")

    assert "busy" == caught.value.kind
    go(two, 1, "accepted")


def test_a_gate_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalFault, match=r"journal\.lock"):
        Gate(tmp_path / "absent")


def test_a_new_gate_begins_with_the_newest_journal(tmp_path: Path) -> None:
    for name in ("journal-1.db", "journal-12.db", "journal-3.db-wal", "journal-x.db"):
        (tmp_path / name).touch()
    gate = Gate(tmp_path)
    with gate.shared() as number:
        assert 12 == number
    with gate.exclusive():
        gate.turn(13)
    other = Gate(tmp_path)
    with other.shared() as number, gate.shared() as same:
        assert (13, 13) == (number, same)
    for one in (gate, other):
        one.close()
        one.close()


def test_the_gate_is_open_after_every_call(journal: Journal) -> None:
    """Also after one that failed, else nobody could set a damaged journal aside."""
    journal.record([])
    go(journal, 1, "accepted")
    with pytest.raises(RuntimeError):
        journal._database.read(_fail)
    with pytest.raises(RuntimeError):
        journal._database.write(_fail)
    fd = os.open(journal._database._gate.path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    journal.record([entry(1, "sending")])


def _fail(_: object) -> None:
    raise RuntimeError("for this test")
