from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from acpbridge.shell.timers import _STALE_ENTRIES_MAX, Timers
from tests.shell.clock import passes

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.core.events import TimerKey

A, B, C = ("quiet", "a"), ("quiet", "b"), ("busy", "")


class Fired:
    """Notes what fired and when, and can be told to do something then."""

    def __init__(self) -> None:
        self.log: list[tuple[TimerKey, float]] = []
        self.then: Callable[[TimerKey], None] = lambda _key: None

    def __call__(self, key: TimerKey) -> None:
        self.log.append((key, trio.current_time()))
        self.then(key)


@pytest.fixture
def fired() -> Fired:
    return Fired()


@pytest.fixture
async def timers(fired: Fired, nursery: trio.Nursery, mock_clock: MockClock) -> Timers:
    timers = Timers(fired, random.Random(1))
    nursery.start_soon(timers.run)
    await wait_all_tasks_blocked()
    return timers


async def _pass(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await wait_all_tasks_blocked()


async def test_timers_fire_once_in_the_order_of_their_deadlines(
    timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    timers.arm(A, 2.0)
    timers.arm(B, 1.0)
    timers.arm(C, 3.0)
    assert timers.armed == {A, B, C}
    await passes(10)

    assert [(B, 1.0), (A, 2.0), (C, 3.0)] == fired.log
    assert timers.armed == frozenset()


async def test_arming_again_replaces_later_and_earlier(
    timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    timers.arm(A, 1.0)
    timers.arm(A, 4.0)
    timers.arm(B, 9.0)
    timers.arm(B, 2.0)
    await passes(20)

    assert [(B, 2.0), (A, 4.0)] == fired.log


async def test_a_disarmed_timer_is_silent_and_can_be_armed_again(
    timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    timers.arm(A, 1.0)
    timers.disarm(A)
    timers.disarm(B)
    await passes(0.5)
    timers.arm(A, 1.0)
    await passes(5)

    assert [(A, 1.5)] == fired.log


async def test_a_deadline_that_passed_fires_late(
    timers: Timers, fired: Fired, mock_clock: MockClock
) -> None:
    """A laptop that slept for an hour must not forget its quiet clocks."""
    timers.arm(A, 1.0)
    timers.arm(B, 2.0)
    await _pass(mock_clock, 3600)

    assert [(A, 3600.0), (B, 3600.0)] == fired.log


async def test_a_timer_can_be_armed_again_while_it_fires(
    timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    fired.then = lambda key: timers.arm(key, 1.0) if len(fired.log) < 3 else None
    timers.arm(A, 1.0)
    await passes(10)

    assert [(A, 1.0), (A, 2.0), (A, 3.0)] == fired.log


async def test_rearming_for_now_does_not_hold_the_loop_up(
    timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    """Other tasks run between two firings of a timer that is armed for no time at all."""
    fired.then = lambda key: timers.arm(key, 0.0)
    timers.arm(A, 0.0)
    for _ in range(20):
        await trio.lowlevel.checkpoint()
    timers.disarm(A)

    assert 1 <= len(fired.log) <= 20


async def test_a_timer_that_fires_may_disarm_one_that_is_due_too(
    timers: Timers, fired: Fired, mock_clock: MockClock
) -> None:
    fired.then = lambda _key: timers.disarm(B)
    timers.arm(A, 1.0)
    timers.arm(B, 1.0)
    await _pass(mock_clock, 1)

    assert [(A, 1.0)] == fired.log


async def test_a_timer_that_fires_may_put_off_one_that_is_due_too(
    timers: Timers, fired: Fired, mock_clock: MockClock
) -> None:
    fired.then = lambda key: timers.arm(B, 5.0) if key == A else None
    timers.arm(A, 1.0)
    timers.arm(B, 1.0)
    await _pass(mock_clock, 1)
    assert [(A, 1.0)] == fired.log
    await _pass(mock_clock, 5)

    assert [(A, 1.0), (B, 6.0)] == fired.log


@pytest.mark.parametrize("jitter", [0.0, 0.2])
async def test_jitter_adds_up_to_its_fraction(
    jitter: float, timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    for number in range(50):
        timers.arm(("busy", str(number)), 10.0, jitter)
    await passes(100)
    times = {at for _, at in fired.log}

    assert len(fired.log) == 50
    assert all(10.0 <= at <= 10.0 * (1 + jitter) for at in times)
    assert (len(times) > 1) is (jitter > 0)


async def test_putting_a_timer_off_leaves_the_heap_alone(
    timers: Timers, fired: Fired, autojump_clock: MockClock
) -> None:
    """A quiet clock is armed again with every chunk: 50,000 of them are one heap entry."""
    for _ in range(50_000):
        timers.arm(A, 60.0)
        timers.disarm(B)
        timers.arm(B, 60.0)

    assert len(timers._heap) == 2


async def test_entries_that_nobody_waits_for_are_bounded(
    timers: Timers, fired: Fired, mock_clock: MockClock
) -> None:
    for number in range(3 * _STALE_ENTRIES_MAX):
        timers.arm(A, 10_000.0 - number)
    assert len(timers._heap) <= _STALE_ENTRIES_MAX + 3
    await _pass(mock_clock, 10_000)

    assert [A] == [key for key, _ in fired.log]
