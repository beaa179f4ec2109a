"""`acpbridge attach`: our own stdin and stdout joined to a daemon.

Bytes are moved as they come. Only until the client's `initialize` has gone by are its lines
looked at, and only where something has to be put into it.
"""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Protocol

import trio

from acpbridge.errors import DaemonFault
from acpbridge.shell.observing import Observing
from acpbridge.shell.stdio import check_stdio, own_stdio, read, receive_ready

if TYPE_CHECKING:
    from pathlib import Path

    from trio.abc import ReceiveStream, SendStream

_LAST_ANSWERS_S = 0.4
"""After the client's end, what the daemon still sends is passed on for this long."""
_GONE = "the daemon has ended"


class Line(Protocol):
    """A connection to a daemon."""

    goodbye: str
    """What the daemon said last, for people; empty where it said nothing."""

    async def send_all(self, data: bytes | bytearray) -> None:
        """Send bytes of the client, cut anywhere."""

    async def receive(self) -> bytes:
        """Bytes for the client; empty at the end, however it came."""

    async def send_eof(self) -> None:
        """The client writes no more."""


class UnixLine:
    """A connection to the unix socket."""

    goodbye = ""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray) -> None:
        """As `Line`."""
        await self._stream.send_all(data)

    async def receive(self) -> bytes:
        """As `Line`."""
        try:
            return await receive_ready(self._stream.socket.fileno())
        except trio.BrokenResourceError:
            return b""

    async def send_eof(self) -> None:
        """As `Line`."""
        await self._stream.send_eof()


def attach_unix(path: Path, *, observes: bool) -> int:
    """Be a client's agent command until it closes stdin; returns the exit code.

    Raises:
        DaemonFault: No daemon listens, or it went away.
    """
    check_stdio()
    return trio.run(_attach_unix, path, observes)


async def _attach_unix(path: Path, observes: bool) -> int:
    async with await dial(path) as stream:
        return await join(UnixLine(stream), observes=observes)


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
        hint = (
            f"no daemon listens on {path} ({error.strerror or error}):"
            " start one with acpbridge serve, or say attach --spawn"
        )
        raise DaemonFault("no_daemon", hint) from error
    return trio.SocketStream(connection)


async def join(line: Line, *, observes: bool) -> int:
    """Join our stdin and stdout to it; a stop signal is the client's end. Returns the exit code.

    Raises:
        DaemonFault: The daemon went away before the client did.
    """
    with own_stdio() as (stdin, stdout):
        pump = Pump(line, observes=observes)
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:

                async def watch() -> None:
                    async for _ in signals:
                        await pump.leave()

                nursery.start_soon(watch)
                await pump.run(stdin, stdout)
                nursery.cancel_scope.cancel()
    if not pump.has_left:
        said = f": {line.goodbye}" if line.goodbye else ""
        hint = f"{_GONE}{said}; start it again, and load the session to go on"
        raise DaemonFault("daemon_gone", hint)
    return 0


class Pump:
    """Bytes both ways between a client and a daemon."""

    def __init__(self, line: Line, *, observes: bool) -> None:
        self._line = line
        self._observing = Observing() if observes else None
        self._scope = trio.CancelScope()
        self.has_left = False
        """The client was the first to go."""

    async def run(self, stdin: ReceiveStream, stdout: SendStream) -> None:
        """Move them until the client has left and had its last answers, or the daemon is gone."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._to_daemon, stdin)
                await self._to_client(stdout)
                nursery.cancel_scope.cancel()

    async def leave(self) -> None:
        """The client has left: the daemon is told, and has a moment for its last words."""
        if self.has_left:
            return
        self.has_left = True
        self._scope.deadline = trio.current_time() + _LAST_ANSWERS_S
        try:
            await self._line.send_eof()
        except trio.BrokenResourceError:
            self._scope.cancel()

    async def _to_daemon(self, stdin: ReceiveStream) -> None:
        observing = self._observing
        while data := await read(stdin):
            try:
                await self._line.send_all(data if observing is None else observing.feed(data))
            except trio.BrokenResourceError:
                # Whoever reads from it sees that too, and tells.
                return
        await self.leave()

    async def _to_client(self, stdout: SendStream) -> None:
        while data := await self._line.receive():
            try:
                await stdout.send_all(data)
            except trio.BrokenResourceError:
                # A client that reads no more has left.
                self.has_left = True
                return
