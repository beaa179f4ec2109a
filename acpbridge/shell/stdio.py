"""Our own stdin and stdout as trio streams.

They work when they are pipes, sockets, terminals, files or /dev/null: trio reads and writes
first and waits only after EAGAIN, which files never answer. The non-blocking mode belongs to
the open file and may be shared with the program that started us, so it is put back at the end:
trio's `FdStream` does that when it is closed.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from acpbridge.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.abc import ReceiveStream

READ_BYTES = 64 * 1024
"""What one read asks for; a pipe gives at most what it holds, 64 KiB by default."""


def stop_signals() -> list[signal.Signals]:
    """The signals that ask to stop; what is sent to a process that nohup started is none."""
    # nohup's promise: a hang-up that was ignored when we started stays ignored.
    is_heard = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if is_heard else [])]


def check_stdio() -> None:
    """See that 0 and 1 are open, and open 2 on /dev/null if it is not.

    To be called before anything else is opened: a new descriptor takes the lowest free number,
    and then the log would be written into somebody's pipe.

    Raises:
        UsageFault: stdin or stdout is not open.
    """
    try:
        os.fstat(0)
        os.fstat(1)
    except OSError as error:
        hint = "stdin and stdout must be open: an ACP client connects them"
        raise UsageFault("stdio_closed", hint) from error
    try:
        os.fstat(2)
    except OSError:
        os.open(os.devnull, os.O_WRONLY)


async def receive(stream: ReceiveStream) -> bytes | bytearray:
    """What one read brings, empty at the end.

    Waits and then reads. trio's own way, to try, to wait and to try again, costs one more turn of
    its scheduler where each frame is the answer to another: a sixth of a round trip.

    Raises:
        trio.BrokenResourceError: The peer has reset the connection.
        trio.ClosedResourceError: The stream was closed from here.
    """
    if isinstance(stream, trio.lowlevel.FdStream):
        try:
            return await receive_ready(stream.fileno())
        except PermissionError:
            # No file can be waited for; trio reads it.
            return await stream.receive_some(READ_BYTES)
    return await stream.receive_some(READ_BYTES)


async def read(stream: ReceiveStream) -> bytes | bytearray:
    """What one read of a client brings, empty at the end, however the client came to it.

    Node connects its children by sockets: one that is killed over our unread output resets them.
    """
    try:
        return await receive(stream)
    except trio.BrokenResourceError:
        return b""


async def receive_ready(fd: int) -> bytes:
    """The same for a descriptor that can be waited for, as a socket's.

    Raises:
        PermissionError: It cannot.
    """
    if fd < 0:
        raise trio.ClosedResourceError("the stream was closed")
    while True:
        try:
            await trio.lowlevel.wait_readable(fd)
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            # Another reader of the same open file was faster.
            continue
        except PermissionError:
            raise
        except OSError as error:
            raise trio.BrokenResourceError(f"cannot read: {error}") from error


async def hung_up(fd: int) -> None:
    """Return once the other end of this pipe or socket is closed, read to its end or not.

    An epoll of its own, because trio's would report the unread bytes. Never returns for a file,
    which nobody can hang up, nor where the system has no epoll.
    """
    if not hasattr(select, "epoll"):  # pragma: no cover - no Linux
        await trio.sleep_forever()
    with select.epoll() as poll:
        # Of a file this asks in vain: the poll then stays empty and silent.
        with suppress(PermissionError):
            poll.register(fd, select.EPOLLRDHUP)
        await trio.lowlevel.wait_readable(poll.fileno())


@contextmanager
def own_stdio() -> Iterator[tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]]:
    """(stdin, stdout) on duplicates of descriptors 0 and 1, closed and restored at exit."""
    with _stream(0) as stdin, _stream(1) as stdout:
        yield stdin, stdout


@contextmanager
def _stream(fd: int) -> Iterator[trio.lowlevel.FdStream]:
    was_blocking = os.get_blocking(fd)
    stream = trio.lowlevel.FdStream(os.dup(fd))
    try:
        yield stream
    finally:
        stream.close()
        # stdin and stdout may be one open file: the second stream saw the first one's mode.
        os.set_blocking(fd, was_blocking)
