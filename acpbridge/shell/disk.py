"""The disk: the journal's effects on their way to one thread, and its answers back.

`take` is synchronous, like every effect. What somebody waits for, and a message that was taken,
goes at once, with all that was taken before it, in one transaction; the rest gathers for a moment.
A disk that fails refuses what waits, keeps the rest, and is tried again.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from acpbridge.core.effects import FindKey, Persist, Recover
from acpbridge.core.events import Recovered

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.config import Limits
    from acpbridge.core.events import Event
    from acpbridge.shell.journaling import DiskEffect, DiskEvent, Journaling, Outcome, Timed
    from acpbridge.shell.notes import Notes

_T = TypeVar("_T")

ENTRIES_MAX = 10_000
"""Effects that wait for a failing disk; past that the oldest that nobody waits for are given up."""
RETRY_FIRST_S = 1.0
RETRY_CAP_S = 30.0
"""A failing disk is tried again after these, doubling, and at every new prompt."""
PRUNE_STEP_S = 1.0
"""Between two steps of retention, and before the first."""
HOLDER_LOOK_S = 5.0
"""How often a session that another bridge holds, or the disk did not show, is looked at again."""
HELD_MAX = 256
"""Sessions that are looked at again."""


class Disk:
    """One run's disk.

    Args:
        journaling: What its thread does.
        feed: Takes the answers.
        wall_ms: The wall clock, milliseconds since 1970; data, nothing waits by it.
    """

    def __init__(
        self,
        journaling: Journaling,
        *,
        feed: Callable[[Event], None],
        notes: Notes,
        limits: Limits,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._journaling = journaling
        self._feed = feed
        self._notes = notes
        self._gather_s = limits.journal_gather_s
        self._wall_ms = wall_ms
        self._waiting: list[Timed] = []
        self._is_urgent = False
        self._due_s = math.inf
        """When what waits is written though nobody asks."""
        self._retry_s = 0.0
        """The wait after the last fault; 0 while the disk is well."""
        self._held: dict[str, None] = {}
        self._look_s = math.inf
        self._prune_s = math.inf
        self._news = trio.lowlevel.ParkingLot()
        # One connection is used by one thread at a time (sqlite3).
        self._limiter = trio.CapacityLimiter(1)

    def take(self, effect: DiskEffect) -> None:
        """Queue one effect; never waits. Its answer, if it has one, is fed later."""
        self._waiting.append((self._wall_ms(), effect))
        # A message that was taken has nobody else who knows it: it does not wait for company.
        is_urgent = isinstance(effect, (Recover, FindKey)) or (
            isinstance(effect, Persist) and (effect.token > 0 or effect.state == "accepted")
        )
        if is_urgent and not self._is_urgent:
            self._is_urgent = True
            self._news.unpark_all()
        elif self._due_s == math.inf:
            self._due_s = trio.current_time() + self._gather_s
            self._news.unpark_all()

    async def run(self) -> None:
        """Write what is taken, until cancelled; then call `end`."""
        while True:
            await self._something_due()
            # The end's own write waits less for others: what is due is left to it.
            await trio.lowlevel.checkpoint_if_cancelled()
            now_s = trio.current_time()
            if self._is_urgent or self._due_s <= now_s:
                await self._write()
            elif self._look_s <= now_s:
                self._look_s = math.inf
                for session in self._held:
                    self.take(Recover(session))
                self._held.clear()
            else:
                is_done = await self._in_thread(partial(self._journaling.prune, self._wall_ms()))
                self._prune_s = math.inf if is_done else now_s + PRUNE_STEP_S

    async def end(self) -> None:
        """Write what is left, once, and close the journal."""
        await self._in_thread(self._journaling.hurry)
        if self._waiting:
            await self._write()
        await self._in_thread(self._journaling.close)

    async def _something_due(self) -> None:
        while not self._is_urgent:
            deadline = min(self._due_s, self._look_s, self._prune_s)
            if deadline <= trio.current_time():
                return
            with trio.CancelScope(deadline=deadline):
                await self._news.park()

    async def _write(self) -> None:
        effects, self._waiting = self._waiting, []
        self._is_urgent, self._due_s = False, math.inf
        # The end may be asked for in this very moment: what is taken out is written all the same.
        with trio.CancelScope(shield=True):
            work = partial(self._journaling.perform, effects, self._wall_ms())
            outcome = await self._in_thread(work)
        for name, level, fields in outcome.said:
            self._notes.note(name, level, **fields)
        self._see_fault(outcome)
        if outcome.fault:
            for _, effect in effects:
                if isinstance(effect, Recover):
                    self._look_again(effect.session)
        for event in outcome.events:
            self._watch(event)
            self._feed(event)

    def _see_fault(self, outcome: Outcome) -> None:
        """Tell of the first fault and of the end of it; keep what is owed, and try again."""
        if not outcome.fault:
            if self._retry_s:
                self._notes.note("journal_works_again", "warning")
            self._retry_s = 0.0
            if self._prune_s == math.inf:
                self._prune_s = trio.current_time() + PRUNE_STEP_S
            return
        if not self._retry_s:
            self._notes.note("journal_degraded", "error", reason=outcome.fault)
        self._retry_s = min(self._retry_s * 2 or RETRY_FIRST_S, RETRY_CAP_S)
        self._waiting = [*outcome.owed, *self._waiting]
        lost = len(self._waiting) - ENTRIES_MAX
        if lost > 0:
            self._notes.note("journal_entries_lost", "error", count=lost)
            del self._waiting[:lost]
        if self._waiting:
            self._due_s = trio.current_time() + self._retry_s

    def _watch(self, event: DiskEvent) -> None:
        """A session that another bridge holds is looked at until its lock has fallen."""
        if isinstance(event, Recovered) and event.pid:
            self._look_again(event.session)

    def _look_again(self, session: str) -> None:
        if len(self._held) < HELD_MAX:
            self._held[session] = None
            self._look_s = min(self._look_s, trio.current_time() + HOLDER_LOOK_S)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await trio.to_thread.run_sync(work, limiter=self._limiter)
