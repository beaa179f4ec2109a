from __future__ import annotations

import os

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acpbridge.shell.outbox import Outbox
from tests.shell.streams import RecordingStream

HIGH_BYTES = 100
PIECE_BYTES_MAX = 20


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(high_bytes=HIGH_BYTES, piece_bytes_max=PIECE_BYTES_MAX)


async def test_what_gathered_is_one_write(outbox: Outbox, nursery: trio.Nursery) -> None:
    """A write per frame costs five times the throughput."""
    stream = RecordingStream()
    nursery.start_soon(outbox.run, stream)
    for line in (b"one", b"two", b"three"):
        outbox.put(line)
    outbox.flush()
    await outbox.drained()

    assert [b"one\ntwo\nthree\n"] == stream.writes


async def test_a_piece_holds_whole_lines_up_to_its_size(
    outbox: Outbox, nursery: trio.Nursery
) -> None:
    """Exactly 20 bytes fit, 21 do not, and a longer line goes by itself."""
    stream = RecordingStream()
    nursery.start_soon(outbox.run, stream)
    for size in (9, 9, 9, 10, 30, 1):
        outbox.put(b"x" * size)
    outbox.flush()
    await outbox.drained()

    assert [20, 10, 11, 31, 2] == [len(write) for write in stream.writes]


async def test_room_ends_one_byte_below_the_high_mark(
    outbox: Outbox, nursery: trio.Nursery
) -> None:
    outbox.put(b"x" * (HIGH_BYTES - 2))
    with trio.fail_after(1):
        await outbox.room()
    outbox.put(b"")
    with trio.CancelScope() as scope:
        nursery.start_soon(_cancel_when_blocked, scope)
        await outbox.room()

    assert scope.cancelled_caught
    assert outbox.waiting_bytes == HIGH_BYTES


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_room_returns_when_the_writer_makes_some(
    outbox: Outbox, nursery: trio.Nursery
) -> None:
    stream = RecordingStream()
    stream.block()
    outbox.put(b"x" * HIGH_BYTES)
    nursery.start_soon(outbox.run, stream)
    waited = trio.Event()

    async def reader() -> None:
        await outbox.room()
        waited.set()

    nursery.start_soon(reader)
    await wait_all_tasks_blocked()
    assert not waited.is_set()
    stream.unblock()
    await waited.wait()

    assert outbox.waiting_bytes == 0


async def test_a_mark_of_ones_own_is_obeyed(outbox: Outbox) -> None:
    """The client-reading task passes the high mark and waits at the hard one only."""
    outbox.put(b"x" * HIGH_BYTES)

    await outbox.room(2 * HIGH_BYTES)


async def test_a_broken_pipe_ends_the_outbox_and_wakes_everyone(
    outbox: Outbox, nursery: trio.Nursery
) -> None:
    stream = RecordingStream()
    stream.is_broken = True
    outbox.put(b"x" * HIGH_BYTES)
    nursery.start_soon(outbox.room)
    nursery.start_soon(outbox.drained)

    assert await outbox.run(stream) is False
    assert stream.is_closed
    assert outbox.is_closed
    outbox.put(b"late")
    outbox.flush()
    assert outbox.dropped_lines == 2
    outbox.put_all([b"later", b"still"])
    assert outbox.dropped_lines == 4
    assert outbox.waiting_bytes == 0


async def test_a_cancelled_write_is_followed_by_nothing(outbox: Outbox) -> None:
    """Half a line and then another one would be read as one frame."""
    stream = RecordingStream()
    stream.block()
    outbox.put(b"first")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.run, stream)
            nursery.start_soon(_cancel_when_blocked, scope)
    stream.unblock()
    outbox.put(b"second")
    outbox.flush()
    await wait_all_tasks_blocked()

    assert stream.data == b"f"
    assert stream.is_closed
    assert outbox.dropped_lines == 2


async def test_end_writes_what_waits_and_closes(outbox: Outbox) -> None:
    stream = RecordingStream()
    outbox.put(b"last words")
    outbox.end()
    outbox.put(b"too late")

    assert await outbox.run(stream) is True
    assert stream.data == b"last words\n"
    assert stream.is_closed
    assert outbox.dropped_lines == 1


async def test_end_closes_an_idle_outbox(outbox: Outbox, nursery: trio.Nursery) -> None:
    stream = RecordingStream()
    nursery.start_soon(outbox.run, stream)
    await wait_all_tasks_blocked()
    outbox.end()
    await wait_all_tasks_blocked()

    assert stream.is_closed


async def test_a_pipe_is_written_at_once(outbox: Outbox, nursery: trio.Nursery) -> None:
    """No task switch lies between a decision and its bytes."""
    read_fd, write_fd = os.pipe()
    nursery.start_soon(outbox.run, trio.lowlevel.FdStream(write_fd))
    await wait_all_tasks_blocked()
    outbox.put(b"now")
    outbox.flush()

    assert os.read(read_fd, 100) == b"now\n"
    assert outbox.waiting_bytes == 0
    os.close(read_fd)
    outbox.end()


async def test_a_write_at_once_makes_room_too(outbox: Outbox, nursery: trio.Nursery) -> None:
    read_fd, write_fd = os.pipe()
    nursery.start_soon(outbox.run, trio.lowlevel.FdStream(write_fd))
    await wait_all_tasks_blocked()
    outbox.put(b"x" * HIGH_BYTES)
    waited = trio.Event()

    async def reader() -> None:
        await outbox.room()
        waited.set()

    nursery.start_soon(reader)
    await wait_all_tasks_blocked()
    assert not waited.is_set()
    outbox.flush()
    with trio.fail_after(10):
        await waited.wait()
    os.close(read_fd)


async def test_a_full_pipe_loses_nothing_and_keeps_the_order() -> None:
    """What the pipe does not take at once is the writer's, before anything newer."""
    outbox = Outbox(high_bytes=1 << 20, piece_bytes_max=1 << 16)
    read_fd, write_fd = os.pipe()
    lines = [b"%07d" % number * 100 for number in range(2000)]
    received = bytearray()
    async with trio.open_nursery() as nursery, trio.lowlevel.FdStream(read_fd) as reader:
        nursery.start_soon(outbox.run, trio.lowlevel.FdStream(write_fd))
        await wait_all_tasks_blocked()
        for line in lines:
            outbox.put(line)
            outbox.flush()
        outbox.end()
        async for data in reader:
            received += data

    assert b"".join(line + b"\n" for line in lines) == bytes(received)
    assert outbox.dropped_lines == 0


async def test_a_reader_that_left_is_told_by_the_writer(nursery: trio.Nursery) -> None:
    outbox = Outbox(high_bytes=HIGH_BYTES, piece_bytes_max=PIECE_BYTES_MAX)
    read_fd, write_fd = os.pipe()
    results: list[bool] = []

    async def write() -> None:
        results.append(await outbox.run(trio.lowlevel.FdStream(write_fd)))

    nursery.start_soon(write)
    await wait_all_tasks_blocked()
    os.close(read_fd)
    outbox.put(b"anyone?")
    outbox.flush()
    await outbox.drained()
    await wait_all_tasks_blocked()

    assert [False] == results
    assert outbox.dropped_lines == 1
