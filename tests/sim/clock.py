"""Virtual time: a heap of things to happen, and pipes that take a moment.

Nothing here waits. Two things due at the same instant happen in the order in which they were
planned, so a seed is a history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from attrs import define, field

EVENTS_MAX = 60_000
"""A world that does more than this in one go is taken for one that never comes to rest."""


class Restless(Exception):
    """The world goes on and on: something feeds itself."""


@define(eq=False)
class Plan:
    """One thing to happen, unless it is called off."""

    due_s: float
    act: Callable[[], None] | None

    def call_off(self) -> None:
        """It does not happen."""
        self.act = None


class Clock:
    """The time of a world, which moves from one plan to the next."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.done = 0
        """Things that have happened."""
        self._heap: list[tuple[float, int, Plan]] = []
        self._planned = 0

    def later(self, delay_s: float, act: Callable[[], None]) -> Plan:
        """Plan `act` for `delay_s` from now."""
        plan = Plan(self.now_s + max(delay_s, 0.0), act)
        self._planned += 1
        heapq.heappush(self._heap, (plan.due_s, self._planned, plan))
        return plan

    def run(self, until_s: float, stop: Callable[[], bool]) -> None:
        """Let time pass to `until_s`, or until nothing is planned, or until `stop` says so."""
        heap = self._heap
        bound = self.done + EVENTS_MAX
        while heap and heap[0][0] <= until_s and not stop():
            due_s, _, plan = heapq.heappop(heap)
            if plan.act is None:
                continue
            self.now_s = due_s
            self.done += 1
            if self.done > bound:
                raise Restless(f"{EVENTS_MAX} events and no rest at {self.now_s:.3f} s")
            plan.act()
        if not stop():
            self.now_s = until_s


@define(eq=False)
class Pipe:
    """Lines one way, in order; what is written before a delivery arrives in one read."""

    clock: Clock
    chance: Random
    deliver: Callable[[list[bytes]], None]
    slowest_s: float
    """The longest time that a line takes."""
    waiting: list[bytes] = field(factory=list)
    closed: bool = False

    def write(self, line: bytes) -> None:
        """Send one line on its way."""
        if self.closed:
            return
        self.waiting.append(line)
        if len(self.waiting) == 1:
            self.clock.later(self.chance.random() ** 3 * self.slowest_s, self._arrive)

    def close(self, then: Callable[[], None]) -> None:
        """Nothing more is written; `then` happens behind the last line."""
        if self.closed:
            return
        self.closed = True
        self.clock.later(self.slowest_s, then)

    def _arrive(self) -> None:
        lines, self.waiting = self.waiting, []
        self.deliver(lines)
