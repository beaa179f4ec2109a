"""Descriptors 0 and 1 are swapped for the length of a test."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from acpbridge.errors import UsageFault
from acpbridge.shell.stdio import check_stdio, hung_up, own_stdio, receive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def standing_in(fd: int, other: int) -> Iterator[None]:
    """Descriptor `fd` is `other` while the block runs; -1 closes it."""
    saved = os.dup(fd)
    try:
        if other < 0:
            os.close(fd)
        else:
            os.dup2(other, fd)
        yield
    finally:
        os.dup2(saved, fd)
        os.close(saved)


async def exchange(given: bytes) -> bytes:
    """Write `given` to our stdout and read our stdin to its end."""
    with own_stdio() as (stdin, stdout):
        await stdout.send_all(given)
        received = b""
        while data := await receive(stdin):
            received += data
    return received


async def test_pipes(tmp_path: Path) -> None:
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    os.write(in_write, b"asked")
    os.close(in_write)
    with standing_in(0, in_read), standing_in(1, out_write):
        received = await exchange(b"told")

    assert received == b"asked"
    assert os.read(out_read, 100) == b"told"
    for fd in (in_read, out_read, out_write):
        os.close(fd)


async def test_one_socket_for_both() -> None:
    """Node and Bun give their children a socket pair."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"asked")
        theirs.shutdown(socket.SHUT_WR)
        with standing_in(0, ours.fileno()), standing_in(1, ours.fileno()):
            received = await exchange(b"told")

        assert received == b"asked"
        assert theirs.recv(100) == b"told"
        assert os.get_blocking(ours.fileno())


async def test_files(tmp_path: Path) -> None:
    asked, told = tmp_path / "asked", tmp_path / "told"
    asked.write_bytes(b"asked")
    with (
        asked.open("rb") as reader,
        told.open("wb") as writer,
        standing_in(0, reader.fileno()),
        standing_in(1, writer.fileno()),
    ):
        received = await exchange(b"told")

    assert received == b"asked"
    assert told.read_bytes() == b"told"


async def test_dev_null() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with standing_in(0, null), standing_in(1, null), trio.fail_after(10):
        received = await exchange(b"told")
    os.close(null)

    assert received == b""


@pytest.mark.parametrize("is_blocking", [True, False])
async def test_the_mode_is_put_back(is_blocking: bool) -> None:
    """The open file is shared with the program that started us, and outlives us."""
    read_fd, write_fd = os.pipe()
    for fd in (read_fd, write_fd):
        os.set_blocking(fd, is_blocking)
    with standing_in(0, read_fd), standing_in(1, write_fd):
        with own_stdio():
            assert not os.get_blocking(read_fd)
        assert is_blocking is os.get_blocking(read_fd)
        assert is_blocking is os.get_blocking(write_fd)
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.parametrize("fd", [0, 1])
def test_a_closed_descriptor_is_told(fd: int) -> None:
    with standing_in(fd, -1), pytest.raises(UsageFault) as caught:
        check_stdio()

    assert caught.value.code == "stdio_closed"


def test_a_closed_stderr_is_replaced() -> None:
    """Else the next descriptor that anybody opens would get our log."""
    with standing_in(2, -1):
        check_stdio()
        assert os.write(2, b"nobody reads this") == 17


def test_open_descriptors_are_left_alone() -> None:
    check_stdio()
    next_fd = os.dup(0)
    os.close(next_fd)
    check_stdio()
    after_fd = os.dup(0)
    os.close(after_fd)

    assert next_fd == after_fd


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_hang_up_is_seen_behind_bytes_that_nobody_reads(kind: str) -> None:
    """Node connects its children by sockets, most others by pipes."""
    ours, theirs = os.pipe() if kind == "pipe" else map(socket.socket.detach, socket.socketpair())
    told = trio.Event()

    async def watch() -> None:
        await hung_up(ours)
        told.set()

    os.write(theirs, b"unread")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        before = told.is_set()
        os.close(theirs)
        with trio.fail_after(5.0):
            await told.wait()
    left = os.read(ours, 100)
    os.close(ours)

    assert not before
    assert b"unread" == left


async def test_a_file_never_hangs_up(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    with (tmp_path / "in").open("w+b") as file, trio.move_on_after(1000.0) as scope:
        await hung_up(file.fileno())

    assert scope.cancelled_caught


async def test_a_reset_connection_is_broken() -> None:
    """Node connects its children by sockets: one that is killed over unread output resets them."""
    ours, theirs = socket.socketpair()
    ours.send(b"unread")
    theirs.close()
    async with trio.lowlevel.FdStream(ours.detach()) as stream:
        with pytest.raises(trio.BrokenResourceError):
            await receive(stream)


async def test_a_stream_that_we_closed_is_not_read() -> None:
    read, write = os.pipe()
    stream = trio.lowlevel.FdStream(read)
    await stream.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await receive(stream)
    os.close(write)


async def test_a_read_waits_for_what_another_reader_took() -> None:
    """Two readers of one pipe: the slower one finds it empty again."""
    read, write = os.pipe()
    async with (
        trio.lowlevel.FdStream(read) as stream,
        trio.lowlevel.FdStream(os.dup(read)) as rival,
    ):
        got: list[bytes] = []

        async def reads(one: trio.lowlevel.FdStream) -> None:
            got.append(bytes(await receive(one)))

        async with trio.open_nursery() as readers:
            readers.start_soon(reads, stream)
            readers.start_soon(reads, rival)
            await trio.testing.wait_all_tasks_blocked()
            os.write(write, b"one")
            await trio.testing.wait_all_tasks_blocked()
            os.write(write, b"two")
    os.close(write)

    assert got == [b"one", b"two"]
