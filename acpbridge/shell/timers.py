"""The timers of the core: a heap, and one task that fires what is due.

A deadline that passed while the machine slept is fired late, never dropped. Re-arming a timer
for later, which a quiet clock does with every chunk, costs two dictionary writes and leaves the
heap alone: the entry that is already there wakes up, looks, and goes back.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from acpbridge.core.events import TimerKey

_STALE_ENTRIES_MAX = 1024
"""Heap entries that nobody waits for any more, before the heap is rebuilt without them."""


class Timers:
    """Armed timers by key, on trio's clock.

    Args:
        fire: Called with the key of each timer that ran out; may arm and disarm.
        chance: The source of jitter (R7); seeded by whoever wants to repeat a run.
    """

    def __init__(self, fire: Callable[[TimerKey], None], chance: Random) -> None:
        self._fire = fire
        self._chance = chance
        self._deadlines: dict[TimerKey, float] = {}
        self._entries: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, TimerKey]] = []
        self._sleep: trio.CancelScope | None = None

    def arm(self, key: TimerKey, delay_s: float, jitter: float = 0.0) -> None:
        """Fire `key` after `delay_s` and up to `jitter` times as much again; replaces."""
        if jitter:
            delay_s += delay_s * jitter * self._chance.random()
        deadline = trio.current_time() + delay_s
        self._deadlines[key] = deadline
        entry = self._entries.get(key)
        if entry is None or entry > deadline:
            self._entries[key] = deadline
            heapq.heappush(self._heap, (deadline, key))
            if len(self._heap) > 2 * len(self._entries) + _STALE_ENTRIES_MAX:
                self._heap = sorted((at, name) for name, at in self._entries.items())
            if self._sleep is not None and deadline < self._sleep.deadline:
                self._sleep.deadline = deadline

    def disarm(self, key: TimerKey) -> None:
        """Forget the timer of this key, if there is one."""
        self._deadlines.pop(key, None)

    @property
    def armed(self) -> frozenset[TimerKey]:
        """The keys that will fire."""
        return frozenset(self._deadlines)

    async def run(self) -> None:
        """Fire what is due, until cancelled."""
        while True:
            deadline = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=deadline) as self._sleep:
                await trio.sleep_forever()
            self._sleep = None
            for key, armed_for in self._due(trio.current_time()):
                # One that fired before it in this round may have disarmed or re-armed it.
                if self._deadlines.get(key) == armed_for:
                    del self._deadlines[key]
                    self._fire(key)

    def _due(self, now: float) -> list[tuple[TimerKey, float]]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._entries.get(key) != at:
                continue
            del self._entries[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline <= now:
                due.append((key, deadline))
            else:
                self._entries[key] = deadline
                heapq.heappush(self._heap, (deadline, key))
        return due
