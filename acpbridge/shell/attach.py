"""`acpbridge attach`: our own stdin and stdout joined to a daemon.

Bytes are moved as they come. Only until the client's `initialize` has gone by are its lines
looked at, and only where something has to be put into it.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Protocol

import trio

from acpbridge.errors import DaemonFault
from acpbridge.shell.observing import Observing
from acpbridge.shell.stdio import check_stdio, own_stdio, read, receive_ready, stop_signals
from acpbridge.shell.unix import Presence, check_path, peer_uid, probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.abc import ReceiveStream, SendStream

_LAST_ANSWERS_S = 0.4
"""After the client's end, what the daemon still sends is passed on for this long."""
_START_ONE = (
    "start one with acpbridge serve or attach --spawn, or name the socket that it has with --unix"
)
_KEPT_BYTES_MAX = 1024 * 1024
"""What a client has said before the daemon said anything is kept up to this size."""


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


def attach_unix(path: Path, *, observes: bool, ensure: Callable[[], None] | None = None) -> int:
    """Be a client's agent command until it closes stdin; returns the exit code.

    Args:
        path: The daemon's socket.
        observes: The client only watches.
        ensure: Sees to it that a daemon listens. One that was about to end when we came, and
            has said nothing, is not the one: then it is called once more.

    Raises:
        DaemonFault: No daemon listens, or it went away.
    """
    check_stdio()
    pump = Pump(observes=observes)
    if ensure is not None:
        ensure()
        if trio.run(_attach_unix, path, pump):
            return 0
        if not pump.is_unheard:
            raise _left_by(path)
        ensure()
    if trio.run(_attach_unix, path, pump):
        return 0
    raise _left_by(path)


def _left_by(path: Path) -> DaemonFault:
    """The fault that says what became of the connection."""
    if probe(path) is not Presence.LIVE:
        return gone("")
    hint = (
        "the daemon has closed the connection, and says in its log why: load the session to go on"
    )
    return DaemonFault("detached", hint)


async def _attach_unix(path: Path, pump: Pump) -> bool:
    async with await dial(path) as stream:
        return await join(UnixLine(stream), pump)


async def dial(path: Path, remedy: str = _START_ONE) -> trio.SocketStream:
    """A connection to the daemon there.

    Args:
        path: Its socket.
        remedy: What to do where none listens.

    Raises:
        DaemonFault: No daemon of this user listens.
        UsageFault: No daemon's socket can be there.
    """
    check_path(path)
    connection = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await connection.connect(str(path))
    except OSError as error:
        connection.close()
        hint = f"no daemon listens on {path} ({error.strerror or error}): {remedy}"
        raise DaemonFault("no_daemon", hint) from error
    if peer_uid(connection) != os.getuid():
        connection.close()
        # It would read what the client writes, and could have it run what it likes.
        raise DaemonFault("daemon_foreign", f"what listens on {path} is another user's process")
    return trio.SocketStream(connection)


def gone(goodbye: str) -> DaemonFault:
    """The fault that tells of a daemon that went away, with its last words."""
    said = f": {goodbye}" if goodbye else ""
    hint = f"the daemon has ended{said}; start it again, and load the session to go on"
    return DaemonFault("daemon_gone", hint)


async def join(line: Line, pump: Pump) -> bool:
    """Join our stdin and stdout to it; a stop signal is the client's end.

    Returns:
        Whether the client was the first to go.
    """
    with own_stdio() as (stdin, stdout):
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(*stop_signals()) as signals:

                async def watch() -> None:
                    async for _ in signals:
                        await pump.leave()

                nursery.start_soon(watch)
                await pump.run(line, stdin, stdout)
                nursery.cancel_scope.cancel()
    return pump.has_left


class Pump:
    """Bytes both ways between a client and a daemon."""

    def __init__(self, *, observes: bool) -> None:
        self._line: Line | None = None
        self._observing = Observing() if observes else None
        self._scope = trio.CancelScope()
        self._sent: bytes | None = b""
        """What was sent while nothing has come back; None when something has."""
        self.has_left = False
        """The client was the first to go."""

    @property
    def is_unheard(self) -> bool:
        """No daemon has said a word, and what the client has said can be said again."""
        return self._sent is not None

    async def run(self, line: Line, stdin: ReceiveStream, stdout: SendStream) -> None:
        """Move them until the client has left and had its last answers, or the daemon is gone."""
        self._line = line
        self._scope = trio.CancelScope()
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
        assert self._line is not None
        try:
            await self._line.send_eof()
        except trio.BrokenResourceError:
            self._scope.cancel()

    async def _to_daemon(self, stdin: ReceiveStream) -> None:
        assert self._line is not None
        line, observing = self._line, self._observing
        try:
            if self._sent:
                await line.send_all(self._sent)
            while data := await read(stdin):
                if observing is not None:
                    data = observing.feed(data)
                if self._sent is not None:
                    kept = self._sent + data
                    self._sent = kept if len(kept) <= _KEPT_BYTES_MAX else None
                await line.send_all(data)
        except trio.BrokenResourceError:
            # Whoever reads from it sees that too, and tells.
            return
        await self.leave()

    async def _to_client(self, stdout: SendStream) -> None:
        assert self._line is not None
        while data := await self._line.receive():
            self._sent = None
            try:
                await stdout.send_all(data)
            except trio.BrokenResourceError:
                # A client that reads no more has left.
                self.has_left = True
                return
