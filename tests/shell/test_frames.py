from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol

from acpbridge.shell.frames import (
    CONTROL_BYTES_MAX,
    NO_CODE,
    NOT_UTF8,
    PROTOCOL_ERROR,
    TOO_BIG,
    Close,
    Fault,
    FrameParser,
    Ping,
    Pong,
    Received,
    close_frame,
    ping_frame,
    pong_frame,
    text_frames,
)
from tests.shell.clients import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, masked_frame

LIMIT_BYTES = 70_000
ROOM_FOR_ALL = 1 << 20


def parsed(
    stream: bytes, cuts: list[int] | None = None, limit: int = ROOM_FOR_ALL
) -> list[Received]:
    """What comes out when the stream is cut at these places."""
    parser = FrameParser(limit)
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts or []), len(stream)]
    return [item for begin, end in pairwise(places) for item in parser.feed(stream[begin:end])]


masks = st.binary(min_size=4, max_size=4)
controls = st.tuples(st.sampled_from([PING, PONG]), st.binary(max_size=CONTROL_BYTES_MAX))
texts = st.one_of(
    st.text(max_size=40).map(str.encode),
    st.integers(120, 130).map(lambda size: b"x" * size),
    st.sampled_from([65_534, 65_535, 65_536, 65_537]).map(lambda size: b"y" * size),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[Received]]:
    """(a client's bytes, what they mean): any fragmentation, control frames anywhere."""
    stream, meant = b"", list[Received]()

    def interrupt() -> None:
        nonlocal stream
        for opcode, payload in draw(st.lists(controls, max_size=2)):
            stream += masked_frame(opcode, payload, mask=draw(masks))
            meant.append(Ping(payload) if opcode == PING else Pong(payload))

    for message in draw(st.lists(texts, max_size=4)):
        interrupt()
        is_text = draw(st.booleans())
        places = sorted(draw(st.lists(st.integers(0, len(message)), max_size=3)))
        for index, (begin, end) in enumerate(
            zip([0, *places], [*places, len(message)], strict=True)
        ):
            if index:
                interrupt()
            opcode = CONTINUATION if index else TEXT if is_text else BINARY
            part, final = message[begin:end], index == len(places)
            stream += masked_frame(opcode, part, mask=draw(masks), final=final)
        if is_text:
            meant.append(message)
    if draw(st.booleans()):
        stream += masked_frame(CLOSE, b"\x03\xe9bye") + b"what comes after is ignored"
        meant.append(Close(1001, "bye"))
    return stream, meant


@given(conversation=conversations(), cuts=st.lists(st.integers(0, 1 << 20), max_size=12))
def test_any_cut_of_any_fragmentation_is_the_messages(
    conversation: tuple[bytes, list[Received]], cuts: list[int]
) -> None:
    stream, meant = conversation

    assert meant == parsed(stream, cuts)


def test_byte_by_byte_is_the_messages() -> None:
    stream = b"".join(
        [
            masked_frame(TEXT, "grüße".encode()[:3], final=False),
            masked_frame(PING, b"?"),
            masked_frame(CONTINUATION, b"", final=False),
            masked_frame(CONTINUATION, "grüße".encode()[3:]),
            masked_frame(BINARY, b"\xff" * 300),
            masked_frame(CLOSE, b""),
        ]
    )
    parser = FrameParser(ROOM_FOR_ALL)
    found = [item for byte in stream for item in parser.feed(bytes([byte]))]

    assert [Ping(b"?"), "grüße".encode(), Close(NO_CODE, "")] == found
    assert 1 == parser.ignored_messages


@given(
    conversation=conversations(),
    seed=st.integers(0, 1 << 32),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=12),
)
def test_a_garbled_stream_ends_in_one_fault_at_most_however_it_is_cut(
    conversation: tuple[bytes, list[Received]], seed: int, cuts: list[int]
) -> None:
    """Never an exception, and the cut makes no difference to what is found."""
    chance = random.Random(seed)
    stream = bytearray(conversation[0][:4096] or chance.randbytes(64))
    for _ in range(chance.randint(1, 8)):
        stream[chance.randrange(min(len(stream), 64))] = chance.randrange(256)
    whole = parsed(bytes(stream), limit=LIMIT_BYTES)

    assert whole == parsed(bytes(stream), cuts, limit=LIMIT_BYTES)
    assert not any(isinstance(item, Fault | Close) for item in whole[:-1])
    for item in whole:
        assert not isinstance(item, bytes) or len(item) <= LIMIT_BYTES


@given(stream=st.binary(max_size=400))
def test_noise_is_held_in_no_more_than_a_head(stream: bytes) -> None:
    parser = FrameParser(100)
    parser.feed(stream)

    assert len(parser._held) < 14
    assert len(parser._message) <= 100


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (b"\xc1\x80mask", PROTOCOL_ERROR),
        (b"\xa1\x80mask", PROTOCOL_ERROR),
        (b"\x91\x80mask", PROTOCOL_ERROR),
        (b"\x81\x00", PROTOCOL_ERROR),
        (b"\x83\x80mask", PROTOCOL_ERROR),
        (b"\x8b\x80mask", PROTOCOL_ERROR),
        (masked_frame(CONTINUATION, b"x"), PROTOCOL_ERROR),
        (masked_frame(TEXT, b"x", final=False) + masked_frame(TEXT, b"y"), PROTOCOL_ERROR),
        (masked_frame(BINARY, b"x", final=False) + masked_frame(TEXT, b"y"), PROTOCOL_ERROR),
        (masked_frame(PING, b"x", final=False), PROTOCOL_ERROR),
        (masked_frame(PING, b"x" * 126), PROTOCOL_ERROR),
        (b"\x81\xfe\x00\x7dmask", PROTOCOL_ERROR),
        (b"\x81\xff" + (65_535).to_bytes(8, "big") + b"mask", PROTOCOL_ERROR),
        (b"\x81\xff\x80" + b"\x00" * 7 + b"mask", PROTOCOL_ERROR),
        (masked_frame(CLOSE, b"\x03"), PROTOCOL_ERROR),
        (masked_frame(CLOSE, b"\x03\xe7"), PROTOCOL_ERROR),
        (masked_frame(CLOSE, b"\x03\xed"), PROTOCOL_ERROR),
        (masked_frame(CLOSE, b"\x03\xf7"), PROTOCOL_ERROR),
        (masked_frame(CLOSE, b"\x13\x88"), PROTOCOL_ERROR),
        (masked_frame(CLOSE, b"\x03\xe8\xff"), NOT_UTF8),
        (masked_frame(TEXT, b"\xff"), NOT_UTF8),
        (masked_frame(TEXT, b"\xed\xa0\x80"), NOT_UTF8),
        (masked_frame(TEXT, b"\xc0\x80"), NOT_UTF8),
        (masked_frame(TEXT, "ü".encode()[:1]), NOT_UTF8),
        (b"\x81\xff\x7f" + b"\xff" * 7 + b"mask", TOO_BIG),
    ],
)
def test_each_fault_has_its_code(stream: bytes, code: int) -> None:
    """What came before it is not lost, and nothing is found after it."""
    before = masked_frame(TEXT, b"before")
    found = parsed(before + stream + masked_frame(TEXT, b"after"))

    assert b"before" == found[0]
    assert 2 == len(found)
    assert isinstance(found[1], Fault)
    assert code == found[1].code


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1014, 3000, 4999])
def test_a_close_code_that_may_be_sent_is_read(code: int) -> None:
    assert [Close(code, "ü")] == parsed(masked_frame(CLOSE, code.to_bytes(2, "big") + "ü".encode()))


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_message_at_the_limit_passes_and_one_byte_more_does_not(opcode: int) -> None:
    """Told at the head, before the payload is held; over all fragments of the message."""
    half = b"x" * (LIMIT_BYTES // 2)
    first = masked_frame(opcode, half, final=False)

    assert Fault not in map(
        type, parsed(first + masked_frame(CONTINUATION, half), limit=LIMIT_BYTES)
    )
    head_only = masked_frame(CONTINUATION, half + b"x")[:8]
    found = parsed(first + head_only, limit=LIMIT_BYTES)
    assert [Fault(TOO_BIG, "a message of more than 70000 bytes")] == found


@given(lines=st.lists(st.one_of(texts), max_size=5))
def test_another_implementation_reads_what_we_write(lines: list[bytes]) -> None:
    """wsproto, the parser of trio-websocket, as a client."""
    reader = FrameProtocol(client=True, extensions=[])
    reader.receive_bytes(ping_frame(b"?") + text_frames(lines) + pong_frame(b"!"))
    parts, done = list[str](), list[str]()
    for frame in reader.received_frames():
        if isinstance(frame.payload, str):
            parts.append(frame.payload)
            if frame.message_finished:
                done.append("".join(parts))
                parts.clear()

    assert [line.decode() for line in lines] == done


def test_a_close_frame_is_cut_between_characters() -> None:
    assert b"\x88\x02\x03\xe8" == close_frame(1000)
    assert b"\x88\x00" == close_frame(NO_CODE)
    long = close_frame(1002, "ü" * 100)

    assert 2 + 2 + 122 == len(long)
    assert long.endswith("ü".encode())
