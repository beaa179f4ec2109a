"""From a connection to a WebSocket: one HTTP request read, and answered or switched.

h11 parses, wsproto (both are what trio-websocket stands on) answers the opening handshake of
RFC 6455 section 4.2. trio-websocket itself is not used on this side: its reader task keeps the
stream, it hides `Host`, and it answers no plain request. Every read here has a limit and an end.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import h11
import trio
from attrs import frozen
from wsproto import ConnectionType
from wsproto.events import AcceptConnection, RejectConnection
from wsproto.handshake import H11Handshake
from wsproto.utilities import RemoteProtocolError

from acpbridge.shell.door import DoorRules, Refused, refusal
from acpbridge.shell.websocket import WebSocket, linger

if TYPE_CHECKING:
    from trio.abc import HalfCloseableStream

    from acpbridge.config import Limits

CONNECTION_ID = b"Acp-Connection-Id"
"""The header of the 101 (draft of the remote transports)."""

_KEY_BYTES = 16
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@frozen
class Request:
    """The head of a request, and what came behind it."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """(name in lower case, value)"""
    http_version: bytes = b"1.1"
    trailing: bytes = b""


async def accept(
    stream: HalfCloseableStream, rules: DoorRules, limits: Limits, connection_id: str
) -> WebSocket | Refused | None:
    """Read one request and open a WebSocket, or refuse and close the stream.

    For a listener with more than `GET /acp`, call the parts: `read_request`, then `answer` for a
    page of yours, or `admit`.

    Returns:
        None if the peer left before it asked for anything.
    """
    request = await read_request(stream, limits)
    if isinstance(request, Request):
        return await admit(stream, request, rules, limits, connection_id)
    if request is not None:
        await refuse(stream, request, limits)
    else:
        await trio.aclose_forcefully(stream)
    return request


async def read_request(stream: HalfCloseableStream, limits: Limits) -> Request | Refused | None:
    """The first request's head; None if the peer left before one was complete.

    A head of more than `head_bytes_max`, one that takes longer than `handshake_s`, and what is no
    HTTP is refused.
    """
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes_max)
    size_bytes = 0
    with trio.move_on_after(limits.handshake_s):
        while True:
            try:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    data = bytes(await stream.receive_some(limits.head_bytes_max))
                    size_bytes += len(data)
                    parser.receive_data(data)
                    continue
            except h11.RemoteProtocolError as error:
                status = error.error_status_hint if error.error_status_hint in _PHRASES else 400
                return Refused(status, "this is no HTTP/1.1 request that can be read")
            except trio.BrokenResourceError:
                return None
            if not isinstance(event, h11.Request):
                return None
            headers = tuple((bytes(name), bytes(value)) for name, value in event.headers)
            trailing, _ = parser.trailing_data
            # h11 measures only what is incomplete.
            if size_bytes - len(trailing) > limits.head_bytes_max:
                return Refused(431, f"a request's head has at most {limits.head_bytes_max} bytes")
            return Request(event.method, event.target, headers, event.http_version, trailing)
    return Refused(408, f"no whole request came within {limits.handshake_s:g} s")


async def admit(
    stream: HalfCloseableStream,
    request: Request,
    rules: DoorRules,
    limits: Limits,
    connection_id: str,
) -> WebSocket | Refused | None:
    """Let a request in with the 101, or refuse it and close the stream; None: the peer left."""
    verdict = refusal(request.method, request.target, request.headers, rules)
    switch = verdict or _switch(request, connection_id)
    if isinstance(switch, Refused):
        await refuse(stream, switch, limits)
        return switch
    try:
        with trio.fail_after(limits.handshake_s):
            await stream.send_all(switch)
    except (trio.BrokenResourceError, trio.TooSlowError):
        await trio.aclose_forcefully(stream)
        return None
    return WebSocket(stream, limits, connection_id=connection_id, trailing=request.trailing)


def _switch(request: Request, connection_id: str) -> bytes | Refused:
    """The bytes of the 101, without a subprotocol and without an extension (section 4.2)."""
    keys = [value for name, value in request.headers if name == b"sec-websocket-key"]
    if request.http_version != b"1.1" or len(keys) != 1 or not _is_key(keys[0]):
        return Refused(400, "this is no WebSocket handshake of RFC 6455")
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.initiate_upgrade_connection(list(request.headers), request.target)
        return handshake.send(
            AcceptConnection(extra_headers=[(CONNECTION_ID, connection_id.encode("ascii"))])
        )
    except RemoteProtocolError as error:
        hint = error.event_hint
        status = hint.status_code if isinstance(hint, RejectConnection) else 400
        return Refused(status, "this is no WebSocket handshake of RFC 6455, version 13")
    except (h11.ProtocolError, UnicodeError):
        return Refused(400, "a header of the WebSocket handshake cannot be read")


def _is_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False


async def refuse(stream: HalfCloseableStream, refused: Refused, limits: Limits) -> None:
    """Tell the peer and close the stream."""
    more = b""
    if refused.status == 401:
        more = b"WWW-Authenticate: Bearer\r\n"
    elif refused.status == 426:
        more = b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    await answer(stream, refused.status, f"{refused.reason}\n".encode(), limits, more=more)


async def answer(
    stream: HalfCloseableStream,
    status: int,
    body: bytes,
    limits: Limits,
    *,
    content_type: str = "text/plain; charset=utf-8",
    more: bytes = b"",
) -> None:
    """Answer a plain request with one page and close the stream, within `close_wait_s`.

    Args:
        stream: Closed in the end, in any case.
        status: Of HTTP, one of those with a phrase here.
        body: The whole page.
        limits: For the time that it may take.
        content_type: Of the page.
        more: Further header lines, each with its CRLF.
    """
    head = (
        f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
    )
    try:
        with trio.move_on_after(limits.close_wait_s):
            await stream.send_all(head.encode("ascii") + more + b"\r\n" + body)
            await linger(stream)
    except trio.BrokenResourceError:
        pass
    finally:
        await trio.aclose_forcefully(stream)
