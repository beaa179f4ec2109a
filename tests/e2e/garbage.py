"""What no honest client writes: lines and frames that are refused, made from a seed."""

from __future__ import annotations

import json
import random

from tests.shell.clients import BINARY, CLOSE, CONTINUATION, PING, TEXT, masked_frame

_FRAMES = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
    {"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": {"sessionId": "s-2"}},
    {"jsonrpc": "2.0", "id": 3, "method": "_acpbridge/events_since", "params": {"sessionId": "s"}},
    {"jsonrpc": "2.0", "id": 4, "result": {"outcome": {"outcome": "cancelled"}}},
    {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}},
)
_ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    1e308,
    2**70,
    "",
    "\ud800",
    [],
    {},
    [[]],
    {"a": {}},
    "x" * 300,
)
_WHOLE = (
    b"",
    b"[]",
    b"{}",
    b"null",
    b'"text"',
    b"[" * 2000,
    b"{" * 2000,
    b'{"a":' * 1500 + b"1" + b"}" * 1500,
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize","params":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":"x","method":"initialize","params":{}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]',
    b'{"jsonrpc":"1.0","id":1,"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":{},"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":1}',
    b"\xff\xfe\x00{",
    b"\xef\xbb\xbf{}",
    b"GET / HTTP/1.1",
    b"\x00" * 50,
)


def line(chance: random.Random) -> bytes:
    """One line without its LF."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.choice(_WHOLE)
    if kind == 1:
        return chance.randbytes(chance.randrange(1, 200)).replace(b"\n", b" ")
    frame = dict(chance.choice(_FRAMES))
    if kind == 2:
        frame[chance.choice(list(frame))] = chance.choice(_ODD)
    text = json.dumps(frame).encode()
    if kind == 3:
        return text[: chance.randrange(len(text))]
    if kind == 4:
        spoilt = bytearray(text)
        for _ in range(chance.randrange(1, 4)):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        return bytes(spoilt).replace(b"\n", b" ")
    return text


def frame(chance: random.Random) -> bytes:
    """One WebSocket frame for which a connection is closed, or bytes that are none."""
    body = chance.randbytes(chance.randrange(100))
    return chance.choice(
        (
            bytes([chance.choice((0xC1, 0xA1, 0x91, 0xF1))]) + masked_frame(TEXT, body)[1:],
            bytes([0x81, len(body)]) + body,
            masked_frame(TEXT, b"\xff\xfe" + body),
            masked_frame(CONTINUATION, body),
            masked_frame(PING, body, final=False),
            masked_frame(PING, b"x" * 126),
            masked_frame(CLOSE, b"x"),
            masked_frame(CLOSE, (1005).to_bytes(2, "big")),
            masked_frame(CLOSE, b"\x03\xe8\xff"),
            masked_frame(TEXT, body, final=False) + masked_frame(TEXT, body),
            masked_frame(BINARY, body, final=False) + masked_frame(BINARY, body),
            masked_frame(chance.choice((0x3, 0x7, 0xB, 0xF)), body),
            b"\x81\xff" + b"\xff" * 12,
            b"\x81\xfe\x00\x01" + body,
        )
    )
