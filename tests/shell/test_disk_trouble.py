"""The disk where something else goes wrong at the same time: a cancel, no room, a death."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from typing import TYPE_CHECKING

import trio
import trio.testing

from acpbridge.core.effects import Adopt, FindKey, Persist, Recover
from acpbridge.core.events import KeyFound, Persisted, PersistFailed, Recovered
from acpbridge.store.journal_gate import LOCK
from tests.shell.clock import passes
from tests.shell.test_disk import Rig, accepted, closed, fast_clock, rig, sending

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

__all__ = ["closed", "fast_clock", "rig"]

LARGE = (
    b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":'
    b'[{"type":"text","text":"%b"}]}}' % (b"x" * (4 << 20))
)
END_S_MAX = 4.0
"""The end's own bounds and a slow machine; two waits for another bridge would take 10 s."""
PAGES_LEFT = 64
"""Pages that a full disk still has: room for words, not for `LARGE`."""


def fill(rig: Rig) -> None:
    """The disk has no room but for a few words from now on."""
    database = rig.journal._database
    pages = database.read(lambda one: one.execute("PRAGMA page_count").fetchone()[0])
    limit = f"PRAGMA max_page_count = {pages + PAGES_LEFT}"
    database.read(lambda one: one.execute(limit).fetchall())


async def test_what_was_taken_in_the_moment_of_the_end_is_written(tmp_path: Path) -> None:
    """R20: the core's last words are its undelivered prompts, in the step that asks to finish."""
    rig = Rig(tmp_path / "state")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.disk.run)
        await trio.testing.wait_all_tasks_blocked()
        rig.disk.take(accepted())
        nursery.cancel_scope.cancel()
    await rig.disk.end()

    assert ["undelivered"] == rig.states()


async def test_a_prompt_for_which_there_is_no_room_leaves_room_for_a_smaller_one(rig: Rig) -> None:
    """What was refused is not owed with its text, or it would fail whatever comes after it."""
    assert Persisted(1) == await rig.ask(accepted(), sending(1))
    fill(rig)
    failed = await rig.ask(Persist(0, 2, "accepted", "s", LARGE), sending(2, 2))
    assert isinstance(failed, PersistFailed)
    rig.disk.take(Persist(0, 2, "refused", "s", reason="not-durable"))

    assert Persisted(3) == await rig.ask(accepted(3), sending(3, 3))
    assert ["sending", "refused", "sending"] == rig.states()


async def test_a_waiting_prompt_for_which_there_is_no_room_does_not_stop_others(rig: Rig) -> None:
    """It is in the queue of its session; a prompt of another one can go meanwhile."""
    assert Persisted(1) == await rig.ask(accepted(), sending(1))
    fill(rig)
    rig.disk.take(Persist(0, 2, "accepted", "s", LARGE))

    assert Persisted(3) == await rig.ask(accepted(3), sending(3, 3))
    failed = await rig.ask(sending(2, 2))
    assert isinstance(failed, PersistFailed)
    assert "room" in failed.reason


async def test_a_key_that_a_bridge_died_with_is_taken_over_where_it_is_asked_for(
    rig: Rig, tmp_path: Path
) -> None:
    """The other bridge had nothing of the session when this one loaded it, so nobody looks."""
    assert Recovered("s") == await rig.ask(Recover("s"))
    left = (accepted(key="k"), accepted(2), sending(1, 2))
    (await Rig.lived(tmp_path / "state", "two", left)).kill()
    found = await rig.ask(FindKey(5, "s", "k"))
    if isinstance(found, Recovered):
        assert ["undelivered", "unknown"] == [kept.state for kept in found.kept]
        found = rig.events[-1]
    while not isinstance(found, KeyFound):
        await rig.came.park()
        found = rig.events[-1]
    assert found.prompt is not None

    assert Persisted(6) == await rig.ask(Adopt(found.prompt.id, 1, "s"), sending(6))


async def test_a_session_that_could_not_be_looked_up_is_looked_up_when_the_disk_works(
    tmp_path: Path, nursery: trio.Nursery, fast_clock: MockClock
) -> None:
    """What was kept would be told of by no later look of this run."""
    state_dir = tmp_path / "state"
    (await Rig.lived(state_dir, "dead", (accepted(), sending(1)))).kill()
    rig = Rig(state_dir, "next")
    rig.disk._journaling.perform([], 1)
    rig.journal._database._gate.wait_s_max = 0.0
    nursery.start_soon(rig.disk.run)
    held = os.open(state_dir / LOCK, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert Recovered("s") == await rig.ask(Recover("s"))
    os.close(held)
    await rig.until(rig.recovered)
    await passes(1)

    assert rig.told().count("journal_works_again") == 1


async def test_the_texts_of_what_is_only_told_of_are_not_read(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """They may be all that the journal holds, and would be kept until they are told of."""
    state_dir = tmp_path / "state"
    (await Rig.lived(state_dir, "dead", (accepted(), accepted(2), sending(1, 2)))).kill()
    for nonce, is_sent in (("keeps", False), ("sends", True)):
        rig = Rig(state_dir, nonce)
        rig.disk._journaling.sends_undelivered = is_sent
        nursery.start_soon(rig.disk.run)
        found = await rig.ask(Recover("s"))
        assert isinstance(found, Recovered)

        left = next(one for one in found.kept if one.state == "undelivered")
        assert ("hello", is_sent) == (left.words, bool(left.content))


async def test_the_end_does_not_wait_long_for_a_bridge_that_was_stopped(tmp_path: Path) -> None:
    """A client that has asked us to end kills us soon; everything ends within a bound."""
    rig = Rig(tmp_path / "state")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.disk.run)
        await rig.ask(accepted(), sending(1))
        other = sqlite3.connect(tmp_path / "state" / "journal-1.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        rig.disk.take(accepted(2))
        begin_s = time.monotonic()
        nursery.cancel_scope.cancel()
    await rig.disk.end()

    assert time.monotonic() - begin_s < END_S_MAX
    other.close()
    assert ["sending"] == rig.states(), "this process lives, so the run has not died yet"
