"""S14: bytes in, frames out. After every torture a normal prompt is still understood."""

from __future__ import annotations

import pytest
from attrs import frozen

from acpbridge.wire.frame import Frame, Malformed, peek
from acpbridge.wire.ids import NULL_ID, RpcId, salvage_id
from acpbridge.wire.lines import LineDecoder, Oversize
from acpbridge.wire.shapes import Shapes

LINE_BYTES_MAX = 32 * 1024 * 1024
CHUNK_SIZES = [1, 7, 65535, 65536, 65537, None]
LONG_CHUNK_SIZES = CHUNK_SIZES[2:]
NEXT = b'{"jsonrpc":"2.0","id":"next","method":"session/prompt","params":{"sessionId":"s"}}'


@frozen
class Passes:
    """The line is a frame, with all its bytes."""

    id: RpcId


@frozen
class Refused:
    """The line is answered with this error, or noise where an agent wrote it."""

    code: int
    id: RpcId = NULL_ID


def request(payload: bytes, id_: bytes = b"5") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"session/prompt","params":{"p":%b}}' % (id_, payload)


def seen(stream: bytes, chunk_bytes: int | None, *, strict: bool) -> list[object]:
    """Decode and look, as the shell and the core do; tell each line in the words of the table."""
    decoder, shapes = LineDecoder(LINE_BYTES_MAX), Shapes()
    size = chunk_bytes or len(stream)
    lines: list[bytes | Oversize] = []
    for at in range(0, len(stream), size):
        lines += decoder.feed(stream[at : at + size])
    told: list[object] = []
    for line in lines + decoder.end():
        if isinstance(line, Oversize):
            told.append((line.size_bytes, salvage_id(line.head, line.tail)))
            continue
        got = peek(line, strict=True) if strict else shapes.peek(line)
        if isinstance(got, Malformed):
            told.append(Refused(got.code, got.id))
        else:
            assert isinstance(got, Frame)
            assert got.raw in stream
            told.append(Passes(got.id))
    return told


FIVE = Passes(RpcId(b"5"))
TABLE: dict[str, tuple[bytes, object, object]] = {
    "5 emoji": (request('"😀é"'.encode()), FIVE, FIVE),
    "6 lone surrogate escape": (request(b'"\\ud83d"'), FIVE, FIVE),
    "7 no UTF-8": (b"\xff\xfe", Refused(-32700), Refused(-32700)),
    "8 nul escape": (request(b'"\\u0000"'), FIVE, FIVE),
    "8 nul": (b"\x00", Refused(-32700), Refused(-32700)),
    "9 byte order mark": (b"\xef\xbb\xbf" + request(b"1"), FIVE, FIVE),
    "10 CRLF": (request(b"1") + b"\r", FIVE, FIVE),
    "11 log": (b"[log] hi", Refused(-32700), Refused(-32700)),
    "11 colour": (b"\x1b[31mhi\x1b[0m", Refused(-32700), Refused(-32700)),
    "11 number": (b"42", Refused(-32600), Refused(-32600)),
    "11 string": (b'"s"', Refused(-32600), Refused(-32600)),
    "11 array": (b"[1]", Refused(-32600), Refused(-32600)),
    "11 log object": (
        b'{"level":"info","id":3}',
        Refused(-32600, RpcId(b"3")),
        Refused(-32600),
    ),
    "13 null id": (request(b"1", b"null"), Passes(NULL_ID), Passes(NULL_ID)),
    "13 no id": (
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}',
        Passes(RpcId(b"")),
        Passes(RpcId(b"")),
    ),
    "13 object as id": (request(b"1", b"{}"), Refused(-32600), Refused(-32600)),
    "14 numbers": (request(b"[1915883588174806058,1e400,0.1000]"), FIVE, FIVE),
    "15 two ids": (request(b"1", b'5,"id":6'), Refused(-32600), Passes(RpcId(b"6"))),
    "15 two methods": (
        request(b"1", b'5,"method":"m"'),
        Refused(-32600, RpcId(b"5")),
        FIVE,
    ),
    "16 batch": (b"[%b]" % NEXT, Refused(-32600), Refused(-32600)),
    "18 depth": (
        request(b"[" * 10_000 + b"]" * 10_000),
        Refused(-32600, RpcId(b"5")),
        Refused(-32600),
    ),
}


@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES)
@pytest.mark.parametrize("name", TABLE)
def test_the_next_prompt_is_understood(name: str, chunk_bytes: int | None) -> None:
    line, from_client, from_agent = TABLE[name]
    stream = line + b"\n" + NEXT + b"\n"
    next_one = Passes(RpcId(b'"next"'))

    assert [from_client, next_one] == seen(stream, chunk_bytes, strict=True)
    assert [from_agent, next_one] == seen(stream, chunk_bytes, strict=False)


@pytest.mark.parametrize("chunk_bytes", LONG_CHUNK_SIZES)
@pytest.mark.parametrize("strict", [True, False])
def test_long_lines_pass_and_one_over_the_limit_is_named(
    chunk_bytes: int | None, *, strict: bool
) -> None:
    """Cases 1 to 3: a text of 1 MiB, an image of 20 MiB, and one byte over the limit."""
    text = request(b'"' + b"x" * (1 << 20) + b'"')
    image = request(b'"' + b"QUJD" * (5 << 20) + b'"')
    frame_bytes = len(request(b'""'))
    over = request(b'"' + b"y" * (LINE_BYTES_MAX + 1 - frame_bytes) + b'"')

    told = seen(b"\n".join((text, image, over, NEXT)), chunk_bytes, strict=strict)

    lost = (LINE_BYTES_MAX + 1, RpcId(b"5"))
    assert [FIVE, FIVE, lost, Passes(RpcId(b'"next"'))] == told
