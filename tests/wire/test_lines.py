"""S14: however a stream is cut into chunks, the same lines come out, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire.lines import HEAD_BYTES_MAX, TAIL_BYTES_MAX, LineDecoder, Oversize

MIB = 1024 * 1024
CHUNK_SIZES = [1, 7, 65535, 65536, 65537, None]
FRAME = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}'
BOM = b"\xef\xbb\xbf"


def decoded(stream: bytes, chunk_bytes: int | None, line_bytes_max: int) -> list[bytes | Oversize]:
    decoder = LineDecoder(line_bytes_max)
    size = chunk_bytes or max(len(stream), 1)
    lines: list[bytes | Oversize] = []
    for at in range(0, len(stream), size):
        lines += decoder.feed(stream[at : at + size])
    return lines + decoder.end()


STREAMS = {
    "one line": (FRAME + b"\n", [FRAME]),
    "no newline at the end": (FRAME + b"\n" + FRAME, [FRAME, FRAME]),
    "nothing": (b"", []),
    "emoji": ('"😀"\n"é"\n'.encode(), ['"😀"'.encode(), '"é"'.encode()]),
    "surrogate escape": (b'"\\ud83d"\n', [b'"\\ud83d"']),
    "invalid UTF-8": (b"\xff\xfe\n" + FRAME + b"\n", [b"\xff\xfe", FRAME]),
    "nul": (b"\x00\n" + FRAME + b"\n", [b"\x00", FRAME]),
    "byte order mark": (BOM + FRAME + b"\n" + BOM + FRAME + b"\n", [FRAME, BOM + FRAME]),
    "byte order mark alone": (BOM + b"\n" + FRAME + b"\n", [FRAME]),
    "byte order mark at the end": (BOM, []),
    "half a byte order mark": (BOM[:2], [BOM[:2]]),
    "CRLF": (FRAME + b"\r\n" + FRAME + b"\r\r\n", [FRAME, FRAME + b"\r"]),
    "CR at the end": (FRAME + b"\r", [FRAME]),
    "CR inside": (b"a\rb\n", [b"a\rb"]),
    "blank lines": (b"\n\r\n \t\n\n" + FRAME + b"\n\n \r\n  ", [FRAME]),
    "noise": (b"[log] hi\n\x1b[31mred\x1b[0m\n42\n", [b"[log] hi", b"\x1b[31mred\x1b[0m", b"42"]),
}


@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES)
@pytest.mark.parametrize("name", STREAMS)
def test_small_lines_come_out_whole(name: str, chunk_bytes: int | None) -> None:
    stream, expected = STREAMS[name]

    assert expected == decoded(stream, chunk_bytes, MIB)


@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES)
def test_a_long_text_passes(chunk_bytes: int | None) -> None:
    line = b'{"text":"' + b"x" * (MIB // 4 if chunk_bytes == 1 else MIB) + b'"}'

    assert [line, FRAME] == decoded(line + b"\n" + FRAME + b"\n", chunk_bytes, 2 * MIB)


@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES[2:])
def test_an_image_of_20_mib_passes(chunk_bytes: int | None) -> None:
    line = b'{"data":"' + b"QUJD" * (5 * MIB) + b'"}'

    assert [line, FRAME] == decoded(line + b"\n" + FRAME + b"\n", chunk_bytes, 32 * MIB)


@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("before", [b"", BOM, b"a\n"])
def test_the_limit_is_exact(before: bytes, ending: bytes, chunk_bytes: int | None) -> None:
    first: list[bytes | Oversize] = [b"a"] if before == b"a\n" else []
    fits = b"x" * 100_000
    over = b'{"id":5,' + b"y" * 99_992 + b"}"

    lines = decoded(before + fits + ending + over + ending + FRAME, chunk_bytes, 100_000)

    lost = Oversize(over[:HEAD_BYTES_MAX], 100_001, over[-TAIL_BYTES_MAX:])
    assert [*first, fits, lost, FRAME] == lines


@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES)
@pytest.mark.parametrize("before", [b"", BOM])
def test_a_first_line_over_the_limit_is_measured_without_its_ends(
    before: bytes, chunk_bytes: int | None
) -> None:
    line = b"x" * 70_000

    lines = decoded(before + line + b"\r\n" + FRAME, chunk_bytes, 60_000)

    assert [Oversize(line[:HEAD_BYTES_MAX], 70_000, line[:TAIL_BYTES_MAX]), FRAME] == lines


STREAM_PIECES = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"\xef", b"\xbb", b"\xbf", BOM, b"\x00"])
    | st.binary(max_size=3)
    | st.integers(1, 40).map(lambda size: b"z" * size),
    max_size=30,
).map(b"".join)


def expected_lines(stream: bytes, line_bytes_max: int) -> list[bytes | Oversize]:
    """The same by plain means, with the whole stream at hand."""
    lines: list[bytes | Oversize] = []
    for part in stream.removeprefix(BOM).split(b"\n"):
        line = part.removesuffix(b"\r")
        if len(line) > line_bytes_max:
            lines.append(Oversize(line[:HEAD_BYTES_MAX], len(line), line[-TAIL_BYTES_MAX:]))
        elif line.strip():
            lines.append(line)
    return lines


@given(STREAM_PIECES, st.integers(1, 20), st.lists(st.integers(0, 50)))
def test_cutting_the_stream_changes_nothing(
    stream: bytes, line_bytes_max: int, cuts: list[int]
) -> None:
    decoder = LineDecoder(line_bytes_max)
    lines: list[bytes | Oversize] = []
    rest = bytearray(stream)
    for size in cuts:
        lines += decoder.feed(rest[:size])
        del rest[:size]
    lines += decoder.feed(bytes(rest))

    assert expected_lines(stream, line_bytes_max) == lines + decoder.end()


def test_memory_stays_bounded_past_the_limit() -> None:
    decoder = LineDecoder(100_000)
    for _ in range(200):
        assert [] == decoder.feed(b"x" * 65_536)

    held = len(decoder._held) + len(decoder._head)

    assert held <= HEAD_BYTES_MAX + TAIL_BYTES_MAX + 8
    assert [
        Oversize(b"x" * HEAD_BYTES_MAX, 200 * 65_536, b"x" * TAIL_BYTES_MAX),
        FRAME,
    ] == decoder.feed(b"\n" + FRAME + b"\n")


def test_after_the_end_a_new_stream_begins() -> None:
    decoder = LineDecoder(100)
    assert [b"a"] == decoder.feed(BOM + b"a\nb")
    assert [b"b"] == decoder.end()

    assert [b"c"] == decoder.feed(BOM + b"c\n")


def test_lines_are_bytes_whatever_was_fed() -> None:
    """A socket gives bytearrays; a bytearray is no dictionary key and may change."""
    (line,) = LineDecoder(100).feed(bytearray(b"a\n"))

    assert type(line) is bytes
