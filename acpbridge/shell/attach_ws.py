"""`acpbridge attach --ws`: the same by WebSocket, one message a line.

trio-websocket is the client here: a message costs it more than a line of the unix socket costs,
and what crosses a network waits longer than that.
"""

from __future__ import annotations

import ipaddress
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    ConnectionTimeout,
    HandshakeError,
    open_websocket_url,
)

from acpbridge.core.replies import refusal
from acpbridge.errors import DaemonFault, UsageFault
from acpbridge.shell.attach import Pump, gone, join
from acpbridge.shell.door import read_token
from acpbridge.shell.stdio import READ_BYTES, check_stdio
from acpbridge.wire.ids import salvage_id
from acpbridge.wire.lines import LineDecoder, Oversize

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trio_websocket import WebSocketConnection

    from acpbridge.config import Limits

_GOODBYE_S = 0.3
"""A closing handshake that we began takes at most this long."""
_ENDED = frozenset({"", "1001", "1006"})
"""The daemon goes away, or went without a word; by other codes it closes on this client alone."""
_QUEUE_MESSAGES = 64
_REASON_CHARS_MAX = 200


class WebSocketLine:
    """A connection to the WebSocket listener; a `Line`."""

    def __init__(self, websocket: WebSocketConnection, message_bytes_max: int) -> None:
        self._websocket = websocket
        self._message_bytes_max = message_bytes_max
        self._decoder = LineDecoder(message_bytes_max)
        self._own: list[bytes] = []
        """Answers of ours to lines that are too long to be sent."""
        self.goodbye = ""

    async def send_all(self, data: bytes | bytearray) -> None:
        """As `Line`; a line goes when it is whole."""
        for item in self._decoder.feed(data):
            await self._send(item)

    async def _send(self, item: bytes | Oversize) -> None:
        if isinstance(item, Oversize):
            text = f"the line has {item.size_bytes} bytes, over {self._message_bytes_max}"
            id_ = salvage_id(item.head, item.tail)
            self._own.append(refusal(id_, "frame-too-large", f"{text} (message_bytes_max)"))
            return
        try:
            await self._websocket.send_message(item.decode("utf-8", "replace"))
        except ConnectionClosed as error:
            raise trio.BrokenResourceError("the WebSocket connection has ended") from error

    async def receive(self) -> bytes:
        """As `Line`."""
        try:
            message = await self._websocket.get_message()
        except ConnectionClosed as error:
            if error.reason is not None:
                said = "".join(c for c in error.reason.reason or "" if c.isprintable())
                self.goodbye = f"{error.reason.code} {said[:_REASON_CHARS_MAX]}".strip()
            return b""
        own, self._own = self._own, []
        line = message.encode() if isinstance(message, str) else message
        return b"\n".join([*own, line, b""])

    async def send_eof(self) -> None:
        """As `Line`: the last line needs no LF, and then there is nothing that could be said."""
        for item in self._decoder.end():
            await self._send(item)


def attach_websocket(url: str, token_file: Path | None, *, observes: bool, limits: Limits) -> int:
    """As `attach_unix`.

    Raises:
        UsageFault: The URL or the token file cannot be used.
        DaemonFault: No daemon listens, it refused, or it went away.
    """
    check_stdio()
    check_url(url)
    if token_file is None:
        hint = "--ws needs --token-file FILE: the daemon asks for the token that stands in it"
        raise UsageFault("token_file_missing", hint)
    token = read_token(token_file)
    return trio.run(_attach, url, token, observes, limits)


def check_url(url: str) -> None:
    """See that it is a URL that a token may be sent to.

    Raises:
        UsageFault: It is none, or the token would travel in the clear.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in {"ws", "wss"} or not host or parts.query or parts.username:
        hint = f"cannot attach to {url!r}: expected ws://127.0.0.1:PORT/acp or wss://HOST/acp"
        raise UsageFault("url_invalid", hint)
    if parts.scheme == "ws" and not _is_loopback(host):
        hint = (
            f"will not attach to {host} by ws://: the token would travel in the clear; say wss://"
        )
        raise UsageFault("url_not_secure", hint)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _attach(url: str, token: bytes, observes: bool, limits: Limits) -> int:
    async with _opened(url, token, limits) as websocket:
        line = WebSocketLine(websocket, limits.message_bytes_max)
        if await join(line, Pump(observes=observes)):
            with trio.move_on_after(_GOODBYE_S):
                await websocket.aclose()
            return 0
        raise _left(line.goodbye)


def _left(goodbye: str) -> DaemonFault:
    """The fault that says what became of the connection, by the code and the words of its end."""
    if goodbye.partition(" ")[0] in _ENDED:
        return gone(goodbye)
    hint = f"the daemon has closed the connection: {goodbye}; load the session to go on"
    return DaemonFault("detached", hint)


@asynccontextmanager
async def _opened(url: str, token: bytes, limits: Limits) -> AsyncIterator[WebSocketConnection]:
    try:
        async with open_websocket_url(
            url,
            extra_headers=[(b"Authorization", b"Bearer " + token)],
            message_queue_size=_QUEUE_MESSAGES,
            max_message_size=limits.message_bytes_max,
            receive_buffer_size=READ_BYTES,
            connect_timeout=limits.handshake_s,
            disconnect_timeout=_GOODBYE_S,
        ) as websocket:
            yield websocket
    except ConnectionRejected as error:
        said = (error.body or b"").decode("utf-8", "replace").strip()
        said = "".join(char for char in said if char.isprintable())[:_REASON_CHARS_MAX]
        hint = f"the daemon at {url} refused: {error.status_code} {said}"
        raise DaemonFault("daemon_refused", hint) from error
    except HandshakeError as error:
        why = str(error.__cause__ or error)
        if isinstance(error, ConnectionTimeout):
            # A TLS that fails ends so too: the library waits on and says nothing of it.
            what = "nothing, or no TLS that can be trusted," if url.startswith("wss") else "nothing"
            why = f"{what} in {limits.handshake_s:g} s, handshake_s"
        hint = f"no daemon answers at {url} ({why}): start one with acpbridge serve --ws"
        raise DaemonFault("no_daemon", hint) from error
