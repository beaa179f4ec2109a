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
PIECE_BYTES = 10
"""Of one write, if its lines are shorter."""


class Daemon:
    """Two clients of a daemon, without connections."""

    def __init__(self) -> None:
        self.detached: list[int] = []
        limits = Limits(client_bytes_max=2 * HIGH_BYTES, write_bytes_max=PIECE_BYTES)
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


class SlowReader:
    """Reads the first client's lines of ten bytes, one in so many seconds."""

    def __init__(self, daemon: Daemon, piece_s: float, nursery: trio.Nursery) -> None:
        self.outbox = daemon.visitors[1].outbox
        self._piece_s = piece_s
        near, self._far = lockstep_stream_one_way_pair()
        nursery.start_soon(self.outbox.run, near)
        nursery.start_soon(self._read)

    async def _read(self) -> None:
        while True:
            with trio.move_on_after(self._piece_s):
                await trio.sleep_forever()
            await self._far.receive_some(PIECE_BYTES)


@pytest.mark.parametrize(("piece_s", "sent_max"), [(0.18, 100), (0.22, 15)])
async def test_one_that_reads_steadily_does_not_stall_although_it_has_never_read_all(
    piece_s: float,
    sent_max: int,
    daemon: Daemon,
    autojump_clock: MockClock,
    nursery: trio.Nursery,
) -> None:
    """Else a history could be loaded only as far as an agent writes it in a second.

    Five pieces are HIGH_BYTES: in 0.9 s or in 1.1 s. Who is too slow has read four of them when it
    was waited for long enough, and is detached when more than ten wait.
    """
    reader = SlowReader(daemon, piece_s, nursery)
    daemon.send(1, HIGH_BYTES)
    await reader.outbox.drained()
    sent = 0
    while sent < 100 and not daemon.detached:
        daemon.send(1, PIECE_BYTES)
        sent += 1
        await daemon.waited_s()
        assert sent < 5 or reader.outbox.waiting_bytes >= HIGH_BYTES - PIECE_BYTES
    nursery.cancel_scope.cancel()

    assert sent == sent_max
    assert daemon.detached == ([] if sent_max == 100 else [1])


async def test_one_that_reads_and_is_still_behind_is_not_waited_for_anew(
    daemon: Daemon, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A replay that it has asked for may be larger than what it has read of it in time."""
    reader = SlowReader(daemon, 0.15, nursery)
    daemon.visitors[1].put_all([b"x" * (PIECE_BYTES - 1)] * 20)
    daemon.visitors[1].flush()

    assert await daemon.waited_s() == pytest.approx(WAIT_S)
    assert reader.outbox.waiting_bytes > HIGH_BYTES
    assert await daemon.waited_s() == 0
    await reader.outbox.room(HIGH_BYTES)
    assert daemon.pace.has_room(HIGH_BYTES)
    daemon.send(1, PIECE_BYTES)
    assert 0 < await daemon.waited_s() < WAIT_S
    nursery.cancel_scope.cancel()
