"""Prompts of dead runs: who proves a death, who gets what it left, and who is told."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Archive
from acpbridge.store.journal_run import RunId, hold, is_dead, lock_is_free, lock_path, run_id
from tests.store.journal.made import PATHS, S, bring, die, entry, go, names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from acpbridge.store.journal import Journal

LEFT = {
    "accepted": "undelivered",
    "sending": "unknown",
    "written": "unknown",
    "started": "unknown",
    "settled": "settled",
}
"""What a prompt in this state becomes when its run is dead."""


# -- proof -------------------------------------------------------------------------------------
def test_a_run_is_dead_when_its_lock_can_be_taken_and_not_before(tmp_path: Path) -> None:
    run = run_id("one")
    lock = hold(tmp_path, run)

    assert not is_dead(tmp_path, run)
    os.close(lock.fd)
    # The pid is ours and lives: it proves nothing.
    assert is_dead(tmp_path, run)


def test_without_a_lock_file_pid_and_start_time_decide(tmp_path: Path) -> None:
    run = run_id("one")
    hold(tmp_path, run).release()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    assert lock_is_free(lock_path(tmp_path, "one")) is None
    assert not is_dead(tmp_path, run)
    assert is_dead(tmp_path, RunId("one", run.pid, "another boot/1"))
    assert is_dead(tmp_path, RunId("one", ended.pid, run.started))
    # Where nobody knows start times, a pid that is there may be the run.
    assert not is_dead(tmp_path, RunId("one", run.pid, ""))
    assert is_dead(tmp_path, RunId("one", ended.pid, ""))


def test_those_who_ask_do_not_see_each_other(tmp_path: Path) -> None:
    """Else two that look at once take a dead run for a live one, and nobody takes it over."""
    run = run_id("one")
    lock = hold(tmp_path, run)
    os.close(lock.fd)
    asking = os.open(lock.path, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)

    assert is_dead(tmp_path, run)
    os.close(asking)


def test_the_lock_is_not_inherited_by_a_child(tmp_path: Path) -> None:
    """The agent may outlive a killed bridge, and must not keep it alive."""
    run = run_id("one")
    lock = hold(tmp_path, run)
    child = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    assert child.stdout is not None
    assert b"up\n" == child.stdout.readline()
    os.close(lock.fd)

    assert is_dead(tmp_path, run)
    child.communicate(b"\n")


# -- taking over -------------------------------------------------------------------------------
@pytest.mark.parametrize("state", sorted(PATHS))
@pytest.mark.parametrize("session", [None, S, "s-2"])
def test_what_a_dead_run_left(
    opened: Callable[..., Journal], state: str, session: str | None
) -> None:
    one, two = opened("one"), opened("two")
    prompt = bring(one, 1, state)
    die(one)
    taken = two.take_over(7, session)

    # An unknown one whose client was not told is still to be told.
    left = {**LEFT, "unknown": "unknown"}
    is_taken = session != "s-2" and state in left
    assert ([left[state]] if is_taken else []) == [row.shown_state for row in taken if row.is_kept]
    assert [] == list(two.take_over(8, session))
    assert [row.id for row in taken if row.is_kept] == [row.id for row in two.untold(S)]
    found = two.prompt(prompt)
    assert found is not None
    assert (is_taken and state != "unknown") == ("the bridge ended" in found.prompt.reason)
    assert ("say hello", False) == (found.prompt.first_words, found.prompt.is_live)


def test_a_live_run_keeps_its_prompts(opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    for number, state in enumerate(LEFT, start=1):
        bring(one, number, state)

    assert () == two.take_over(7)
    holder = two.holder_of(S)
    assert holder is not None
    assert ("one", os.getpid(), len(LEFT)) == (holder.nonce, holder.pid, holder.prompts)
    assert (one.holder_of(S), two.holder_of("s-2")) == (None, None)
    die(one)
    assert two.holder_of(S) is None
    assert list(LEFT.values()) == [row.shown_state for row in two.take_over(8)]
    # What is kept is nobody's: it does not make this run a holder for others.
    assert opened("three").holder_of(S) is None


def test_an_orderly_end_needs_no_proof(opened: Callable[..., Journal], tmp_path: Path) -> None:
    one = opened("one")
    go(one, 1, "accepted")
    one.close()
    two = opened("two")

    # Our own pid and start time are those of the run that ended, and it counts as dead.
    assert ["undelivered"] == [row.shown_state for row in two.take_over(7)]
    assert ["two.lock"] == names(tmp_path / "state" / "runs")


def test_a_lock_file_that_somebody_removed_proves_nothing(
    opened: Callable[..., Journal], tmp_path: Path
) -> None:
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted")
    lock_path(tmp_path / "state", "one").unlink()

    assert () == two.take_over(7)
    go(one, 1, "sending")


def test_lock_files_of_the_dead_are_swept(opened: Callable[..., Journal], tmp_path: Path) -> None:
    one, two, silent = opened("one"), opened("two"), opened("silent")
    go(one, 1, "accepted")
    die(one)
    die(silent)
    two.take_over(7, "s-2")

    assert 3 == len(names(tmp_path / "state" / "runs"))
    two.take_over(7)
    assert ["two.lock"] == names(tmp_path / "state" / "runs")


def test_a_run_that_was_taken_over_is_told_if_it_goes_on(opened: Callable[..., Journal]) -> None:
    """It cannot happen while the kernel keeps locks; if it does, nothing is overwritten."""
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted", "sending")
    os.close(one._lock.fd)
    two.take_over(7)
    go(one, 1, "written")

    assert ["unknown"] == [row.state for row in two.list_prompts()]
    one._lock.fd = -1


def test_what_a_taker_left_is_taken_again_only_where_it_ran(
    opened: Callable[..., Journal],
) -> None:
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted")
    go(one, 2, "accepted", "sending")
    die(one)
    ids = [row.id for row in two.take_over(7)]
    die(two)
    three = opened("three")

    assert () == three.take_over(8)
    assert ids == [row.id for row in three.untold(S)]


# -- told, adopted -----------------------------------------------------------------------------
def test_each_is_told_once(opened: Callable[..., Journal]) -> None:
    one, two, three = opened("one"), opened("two"), opened("three")
    for number, state in enumerate(LEFT, start=1):
        bring(one, number, state)
    die(one)
    ids = [row.id for row in two.take_over(7)]

    assert tuple(ids[:2]) == two.tell(ids[:2], 9)
    assert tuple(ids[2:]) == three.tell(ids, 9)
    assert () == two.tell(ids, 10)
    assert () == two.tell((), 10)
    assert () == two.untold(S)
    # An undelivered one stays to be sent; an end that was told is over.
    assert ids[:1] == [row.id for row in two.undelivered(S)]
    assert [9] * 5 == [row.told_ms for row in two.list_prompts()]


def test_one_of_two_adopts_an_undelivered_prompt(opened: Callable[..., Journal]) -> None:
    one, two, three = opened("one"), opened("two"), opened("three")
    prompt = bring(one, 1, "accepted", key="k")
    die(one)
    two.take_over(7)
    two.tell([prompt], 8)

    assert (True, False) == (three.adopt(prompt, 5, 9), two.adopt(prompt, 1, 9))
    assert not three.adopt(99, 6, 9)
    assert ((), ()) == (two.undelivered(S), three.undelivered(S))
    holder = two.holder_of(S)
    assert holder is not None
    assert "three" == holder.nonce
    go(three, 5, "sending", "written", "settled", "answered")
    found = two.find_key(S, "k")
    assert found is not None
    assert (prompt, "answered") == (found.prompt.id, found.prompt.state)


def test_an_adopted_prompt_may_move_to_the_session_of_the_client(
    opened: Callable[..., Journal],
) -> None:
    one, two = opened("one"), opened("two")
    prompt = bring(one, 1, "accepted")
    die(one)
    two.take_over(7)

    assert two.adopt(prompt, 1, 9, "s-9")
    assert ["s-9"] == [row.session for row in two.list_prompts()]


def test_a_prompt_that_is_sent_again_never_was_sent(opened: Callable[..., Journal]) -> None:
    """What may have run cannot be adopted (I3)."""
    one, two = opened("one"), opened("two")
    ids = [bring(one, n, state) for n, state in enumerate(("sending", "settled"), start=1)]
    die(one)
    two.take_over(7)

    assert [False, False] == [two.adopt(id_, n, 9) for n, id_ in enumerate(ids, start=1)]


# -- people ------------------------------------------------------------------------------------
def test_people_look_while_bridges_write(opened: Callable[..., Journal], tmp_path: Path) -> None:
    assert Archive.open(tmp_path) is None
    one, two = opened("one"), opened("two")
    for number, state in enumerate(LEFT, start=1):
        bring(one, number, state)
    bring(two, 1, "answered", session="s-2")
    archive = Archive.open(tmp_path / "state")
    assert archive is not None

    assert [False, *[True] * 5] == [row.is_live for row in archive.list_prompts()]
    assert ["answered"] == [row.state for row in archive.list_prompts(session="s-2")]
    assert ["sending"] == [row.state for row in archive.list_prompts(state="sending")]
    assert 1 == len(archive.list_prompts(state="accepted"))
    assert () == archive.list_prompts(state="undelivered")
    assert ("say hello", None) == (archive.text(1), archive.text(99))
    die(one)
    assert [False] * 6 == [row.is_live for row in archive.list_prompts()]
    two.take_over(7)
    assert [1] == [row.id for row in archive.list_prompts(state="undelivered")]
    assert () == archive.list_prompts(state="accepted")
    archive.close()


def test_forget_leaves_what_a_live_run_has(opened: Callable[..., Journal], tmp_path: Path) -> None:
    one = opened("one")
    running = bring(one, 1, "started")
    ended = bring(one, 2, "answered")
    archive = Archive.open(tmp_path / "state")
    assert archive is not None

    assert ("open", "forgotten", "absent") == (
        archive.forget(running),
        archive.forget(ended),
        archive.forget(ended),
    )
    die(one)
    assert "forgotten" == archive.forget(running)
    archive.close()
    two = opened("two")
    go(two, 1, "accepted")
    # An id that was forgotten is never that of another prompt.
    assert [ended + 1] == [row.id for row in two.list_prompts()]


def test_a_forgotten_text_is_gone_from_the_disk(
    opened: Callable[..., Journal], tmp_path: Path
) -> None:
    one = opened("one")
    one.record([entry(1, "accepted", content=b'[{"type":"text","text":"planted-4711"}]')])
    go(one, 1, "answered")
    archive = Archive.open(tmp_path / "state")
    assert archive is not None

    assert b"planted-4711" in _disk(tmp_path)
    archive.forget(1)
    archive.close()
    assert b"planted-4711" not in _disk(tmp_path)


def _disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
