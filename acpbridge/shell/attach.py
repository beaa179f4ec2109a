"""`acpbridge attach`: our own stdin and stdout joined to a daemon.

Bytes are moved as they come. Only until the client's `initialize` has gone by are its lines
looked at, and only where something has to be put into it.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

import trio

from acpbridge.errors import DaemonFault
from acpbridge.shell.house import read
from acpbridge.shell.observing import Observing
from acpbridge.shell.stdio import check_stdio, own_stdio

if TYPE_CHECKING:
    from pathlib import Path

    from trio.abc import ReceiveStream, SendStream

LAST_ANSWERS_S = 0.5
"""After the client's end, what the daemon still sends is passed on for this long."""


class Line(Protocol):
    """A connection to a daemon."""

    async def send_all(self, data: bytes | bytearray) -> None:
        """Send bytes of the client, cut anywhere."""

    async def receive_some(self) -> bytes | bytearray:
        """Bytes for the client; empty at the end."""

    async def send_eof(self) -> None:
        """The client writes no more."""


def attach_unix(path: Path, *, observes: bool) -> int:
    """Be a client's agent command until it closes stdin; returns the exit code.

    Raises:
        DaemonFault: No daemon listens, or it went away.
    """
    check_stdio()
    return trio.run(_attach_unix, path, observes)


async def _attach_unix(path: Path, observes: bool) -> int:
    stream = await dial(path)
    async with stream:
        with own_stdio() as (stdin, stdout):
            return await pump(stdin, stdout, stream, observes=observes)


async def dial(path: Path) -> trio.SocketStream:
    """A connection to the daemon there.

    Raises:
        DaemonFault: No daemon of this user listens.
    """
    connection = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await connection.connect(str(path))
    except OSError as error:
        connection.close()
        hint = f"no daemon listens on {path} ({error.strerror}): start one with acpbridge serve"
        raise DaemonFault("no_daemon", hint) from error
    return trio.SocketStream(connection)


async def pump(
    stdin: ReceiveStream, stdout: SendStream, line: trio.SocketStream, *, observes: bool
) -> int:
    """Move bytes both ways until the client has closed stdin; then what still comes, briefly.

    Raises:
        DaemonFault: The daemon went away before the client did.
    """
    is_left = trio.Event()
    async with trio.open_nursery() as nursery:

        async def toward_daemon() -> None:
            observing = Observing() if observes else None
            while data := await read(stdin):
                try:
                    await line.send_all(data if observing is None else observing.feed(data))
                except trio.BrokenResourceError:
                    # The reader sees it too, and tells.
                    return
            await leave()

        async def leave() -> None:
            is_left.set()
            nursery.cancel_scope.deadline = trio.current_time() + LAST_ANSWERS_S
            try:
                await line.send_eof()
            except trio.BrokenResourceError:
                nursery.cancel_scope.cancel()

        async def toward_client() -> None:
            while data := await read(line):
                try:
                    await stdout.send_all(data)
                except trio.BrokenResourceError:
                    # A client that reads no more has left.
                    is_left.set()
                    break
            nursery.cancel_scope.cancel()

        nursery.start_soon(toward_daemon)
        nursery.start_soon(toward_client)
    if not is_left.is_set():
        hint = "the daemon has ended: start it again, and load the session to go on"
        raise DaemonFault("daemon_gone", hint)
    return 0
