"""The daemon's ends of its connections: lines in, lines out, a goodbye, whatever carries them.

A peer is a connection; a client is one that has said its first line (see `visitors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from acpbridge.shell.stdio import hung_up, read
from acpbridge.wire.lines import LineDecoder

if TYPE_CHECKING:
    from trio.abc import SendStream

    from acpbridge.shell.websocket import WebSocket
    from acpbridge.wire.lines import Oversize

Items = list["bytes | Oversize"]

NORMAL, GOING_AWAY, TRY_AGAIN = 1000, 1001, 1013
"""Codes of a goodbye (RFC 6455 section 7.4.1 and IANA's registry); a unix socket has none."""


class Peer(Protocol):
    """One connection."""

    kind: str
    """`unix` or `ws`."""

    @property
    def outgoing(self) -> SendStream:
        """Takes whole lines with their LF; used by one `Outbox`."""

    @property
    def end_reason(self) -> str:
        """For people: how it ended, once `receive` has told of the end."""

    async def receive(self) -> Items | None:
        """The lines that one read brings, perhaps none; None at the end, however it came."""

    async def keep_alive(self) -> None:
        """Do what the connection needs beside; returns when it is lost, if ever."""

    async def hung_up(self) -> None:
        """Return when the other end is closed, though nobody reads."""

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye, as far as it can be said, and end it; bounded."""


class UnixPeer:
    """A connection of the unix socket: lines as on stdio."""

    kind = "unix"
    end_reason = "it closed the connection"

    def __init__(
        self,
        incoming: trio.lowlevel.FdStream,
        outgoing: trio.lowlevel.FdStream,
        line_bytes_max: int,
    ) -> None:
        self._incoming = incoming
        self.outgoing = outgoing
        self._decoder = LineDecoder(line_bytes_max)
        self._is_over = False

    async def receive(self) -> Items | None:
        """As `Peer`; the last line needs no LF."""
        if self._is_over:
            return None
        data = await read(self._incoming)
        if data:
            return self._decoder.feed(data)
        self._is_over = True
        return self._decoder.end() or None

    async def keep_alive(self) -> None:
        """The kernel tells when the other end is gone."""
        await trio.sleep_forever()

    async def hung_up(self) -> None:
        """As `Peer`."""
        await hung_up(self._incoming.fileno())

    async def close(self, code: int, reason: str) -> None:
        """Nothing more can be said on it."""


class WebSocketPeer:
    """A connection of the WebSocket listener, after its upgrade."""

    kind = "ws"

    def __init__(self, websocket: WebSocket, fd: int) -> None:
        self._websocket = websocket
        self._fd = fd
        _, self.outgoing = websocket.ends()

    @property
    def end_reason(self) -> str:
        """As `Peer`: the code of the close frame, and our own words for it."""
        ended = self._websocket.ended
        if ended is None:
            return "it ended"
        who = "it closed" if ended.by_peer else "it was closed"
        return f"{who} with {ended.code} {ended.reason}".strip()

    async def receive(self) -> Items | None:
        """As `Peer`; one line a message."""
        return [*await self._websocket.receive_lines()] or None

    async def keep_alive(self) -> None:
        """Answer pings and send some; returns when the peer is lost."""
        await self._websocket.keep_alive()

    async def hung_up(self) -> None:
        """As `Peer`."""
        await hung_up(self._fd)

    async def close(self, code: int, reason: str) -> None:
        """Say it in a close frame, and give a write under way the same time to end."""
        await self._websocket.close(code, reason)
