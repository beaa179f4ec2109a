"""What a WebSocket client writes, made apart from the code under test, frame by frame."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import trio

from acpbridge.shell.door import Bind, DoorRules, own_hosts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TOKEN = b"a-token-of-enough-length"
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
"""The nonce of RFC 6455 section 1.3, and what its server must answer."""
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 0x1, 0x2, 0x0, 0x8, 0x9, 0xA


def masked_frame(
    opcode: int, payload: bytes, *, mask: bytes = b"\x01\xfe\x00\x80", final: bool = True
) -> bytes:
    """One client frame in its shortest form (section 5.2)."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    body = bytearray(payload)
    for index, key in enumerate(mask):
        body[index::4] = body[index::4].translate(bytes(byte ^ key for byte in range(256)))
    return bytes([opcode | (0x80 if final else 0)]) + length + mask + body


def rules_for(port: int, *origins: bytes) -> DoorRules:
    """The door of a loopback listener on this port."""
    digest = hashlib.sha256(TOKEN).digest()
    return DoorRules(digest, own_hosts(Bind("127.0.0.1", port)), frozenset(origins))


def knock(port: int, *, path: bytes = b"/acp", **changes: bytes | None) -> bytes:
    """A request as an honest client writes it; a header given as None is left out."""
    headers: dict[str, bytes | None] = {
        "host": b"127.0.0.1:%d" % port,
        "upgrade": b"websocket",
        "connection": b"keep-alive, Upgrade",
        "sec_websocket_key": KEY,
        "sec_websocket_version": b"13",
        "authorization": b"Bearer " + TOKEN,
        **changes,
    }
    lines = [
        name.replace("_", "-").encode() + b": " + value
        for name, value in headers.items()
        if value is not None
    ]
    return b"\r\n".join([b"GET " + path + b" HTTP/1.1", *lines, b"", b""])


async def read_to_end(stream: trio.abc.ReceiveStream) -> bytes:
    """All that comes until the peer ends; bounded."""
    found = b""
    with trio.fail_after(10):
        while piece := await stream.receive_some(65536):
            found += piece
    return found


async def read_until(
    stream: trio.abc.ReceiveStream,
    end: bytes,
    heard: Callable[[bytes | bytearray], Awaitable[None]] | None = None,
) -> bytes:
    """All that comes until the end was seen; bounded. `heard` is told of each piece."""
    found = b""
    with trio.fail_after(10):
        while end not in found:
            piece = await stream.receive_some(65536)
            assert piece, found
            found += piece
            if heard is not None:
                await heard(piece)
    return found
