"""The agent waits for who reads it, and for nobody longer than is said (issue 6, point 7)."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_one_way_pair

from acpbridge.config import Limits
from acpbridge.shell.pace import Pace
from acpbridge.shell.visitor import Visitor

HIGH_BYTES = 50
WAIT_S = 1.0


class Daemon:
    """Two clients of a daemon, without connections."""

    def __init__(self) -> None:
        self.detached: list[int] = []
        limits = Limits(client_bytes_max=2 * HIGH_BYTES)
        self.visitors = {
            number: Visitor(number, limits=limits, detach=self._detach) for number in (1, 2)
        }
        self.pace = Pace(self.visitors, high_bytes=HIGH_BYTES, wait_max_s=WAIT_S)

    def _detach(self, number: int, reason: str) -> None:
        assert "client_bytes_max" in reason
        self.detached.append(number)
        self.visitors[number].has_left.set()

    def send(self, number: int, size: int) -> None:
        self.visitors[number].put_all([b"x" * (size - 1)])
        self.visitors[number].flush()

    async def waited_s(self) -> float:
        begin_s = trio.current_time()
        if not self.pace.has_room(HIGH_BYTES):
            await self.pace.room(HIGH_BYTES)
        return trio.current_time() - begin_s


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


async def test_nobody_behind_holds_nobody_up(daemon: Daemon) -> None:
    daemon.send(1, HIGH_BYTES - 1)

    assert daemon.pace.has_room(HIGH_BYTES)


async def test_one_that_stalls_is_waited_for_once_and_then_detached(
    daemon: Daemon, autojump_clock: MockClock
) -> None:
    daemon.send(1, HIGH_BYTES)

    assert await daemon.waited_s() == pytest.approx(WAIT_S)
    daemon.send(1, HIGH_BYTES)
    assert await daemon.waited_s() == 0
    daemon.send(1, HIGH_BYTES)
    assert daemon.detached == [1]
    assert await daemon.waited_s() == 0


async def test_two_that_stall_together_are_waited_for_together(
    daemon: Daemon, autojump_clock: MockClock
) -> None:
    """Else as many clients as may come would hold the agent up for a minute."""
    daemon.send(1, HIGH_BYTES)
    daemon.send(2, HIGH_BYTES)

    assert await daemon.waited_s() == pytest.approx(WAIT_S)
    assert await daemon.waited_s() == 0


async def test_one_that_has_caught_up_is_waited_for_again(
    daemon: Daemon, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    near, far = lockstep_stream_one_way_pair()
    nursery.start_soon(daemon.visitors[1].outbox.run, near)
    for _ in range(2):
        daemon.send(1, HIGH_BYTES)
        assert await daemon.waited_s() == pytest.approx(WAIT_S)
        await far.receive_some()
        await daemon.visitors[1].outbox.drained()
        assert await daemon.waited_s() == 0


async def test_one_that_reads_in_time_costs_what_it_needs(
    daemon: Daemon, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    daemon.send(1, HIGH_BYTES)
    near, far = trio.testing.memory_stream_pair()

    async def read_late() -> None:
        with trio.move_on_after(WAIT_S / 4):
            await trio.sleep_forever()
        nursery.start_soon(daemon.visitors[1].outbox.run, near)
        await far.receive_some()

    nursery.start_soon(read_late)

    assert await daemon.waited_s() == pytest.approx(WAIT_S / 4)
    assert daemon.detached == []


@pytest.mark.parametrize(("late_s", "stays"), [(0.9 * WAIT_S, True), (1.1 * WAIT_S, False)])
async def test_one_that_reads_steadily_has_not_stalled_although_it_never_catches_up(
    late_s: float, stays: bool, daemon: Daemon, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Else a history could be loaded only as far as an agent writes it in a second."""
    near, far = lockstep_stream_one_way_pair()
    visitor = daemon.visitors[1]
    nursery.start_soon(visitor.outbox.run, near)

    async def read_slowly() -> None:
        while True:
            with trio.move_on_after(late_s):
                await trio.sleep_forever()
            for _ in range(2):
                await far.receive_some(HIGH_BYTES // 2)

    nursery.start_soon(read_slowly)
    sent = 0
    while sent < 20 and not daemon.detached:
        await daemon.waited_s()
        daemon.send(1, HIGH_BYTES // 2)
        assert visitor.outbox.waiting_bytes, "it never catches up"
        sent += 1
    nursery.cancel_scope.cancel()

    assert stays is (daemon.detached == [])
