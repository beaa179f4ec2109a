from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio
from attrs import evolve
from trio.testing import (
    MockClock,
    lockstep_stream_pair,
    memory_stream_pair,
    wait_all_tasks_blocked,
)
from wsproto.frame_protocol import FrameProtocol

from acpbridge.config import Limits
from acpbridge.shell.frames import ABNORMAL, NO_CODE, NOT_UTF8, PROTOCOL_ERROR, TOO_BIG
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.websocket import Ended, WebSocket
from acpbridge.wire.lines import LineDecoder
from tests.shell.clients import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    masked_frame,
    read_to_end,
)

if TYPE_CHECKING:
    from trio.abc import HalfCloseableStream

LIMITS = Limits(message_bytes_max=1000)


@pytest.fixture
def pair() -> tuple[HalfCloseableStream, WebSocket]:
    """The client's end, and ours."""
    client, server = memory_stream_pair()
    return client, WebSocket(server, LIMITS)


Pair = tuple["HalfCloseableStream", WebSocket]


async def test_messages_come_as_lines_and_control_frames_between_them_are_seen(pair: Pair) -> None:
    client, websocket = pair
    await client.send_all(
        masked_frame(TEXT, b'{"a":\n\t1}\r\n')
        + masked_frame(PING, b"?")
        + masked_frame(TEXT, b" \n")
        + masked_frame(TEXT, b"")
        + masked_frame(BINARY, b"\x00")
        + masked_frame(TEXT, b"two")
    )

    assert [b'{"a": \t1}  ', b"two"] == await websocket.receive_lines()
    assert 1 == websocket.ignored_messages
    assert websocket.ended is None


async def test_what_came_with_the_request_is_read_first() -> None:
    client, server = memory_stream_pair()
    first = masked_frame(TEXT, b"first")
    websocket = WebSocket(server, LIMITS, trailing=first[:4])
    await client.send_all(first[4:])

    assert [b"first"] == await websocket.receive_lines()


async def test_many_lines_are_one_write(pair: Pair) -> None:
    client, websocket = pair
    await websocket.send_lines([b"one", b"two", b"three"])

    assert b"\x81\x03one\x81\x03two\x81\x05three" == await client.receive_some()


async def test_a_line_that_is_no_utf8_does_not_end_the_connection(pair: Pair) -> None:
    """A client must fail the connection over such a frame; its neighbours stay as they are."""
    client, websocket = pair
    await websocket.send_lines([b"a\xff", "ü".encode()])

    assert b"\x81\x04a\xef\xbf\xbd\x81\x02\xc3\xbc" == await client.receive_some()
    assert 1 == websocket.mended_lines


async def test_a_character_cut_by_a_lines_end_is_no_character(pair: Pair) -> None:
    """The two lines together would be UTF-8."""
    client, websocket = pair
    await websocket.send_lines([b"\xc3", b"\xbc"])

    assert b"\x81\x03\xef\xbf\xbd" * 2 == await client.receive_some()
    assert 2 == websocket.mended_lines


async def test_all_who_end_a_connection_at_once_end_it_once() -> None:
    """On a real socket, where two that half-close it at once would be told that it is busy."""
    left, right = trio.socket.socketpair()
    client, websocket = trio.SocketStream(left), WebSocket(trio.SocketStream(right), LIMITS)
    async with client:
        await client.send_all(masked_frame(TEXT, b"\xff"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(websocket.receive_lines)
            nursery.start_soon(websocket.close)
            nursery.start_soon(websocket.ends()[1].aclose)
            said = await read_to_end(client)
            await client.send_eof()

    assert b"\x88" == said[:1]
    assert 2 + said[1] == len(said)


async def test_a_cancelled_close_closes_the_stream_at_once(pair: Pair) -> None:
    client, websocket = pair
    with trio.CancelScope() as scope:
        scope.cancel()
        await websocket.close()

    assert b"" == await read_to_end(client)


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (b"\x81\x01x", PROTOCOL_ERROR),
        (masked_frame(TEXT, b"\xff"), NOT_UTF8),
        (masked_frame(TEXT, b"x" * 1001), TOO_BIG),
    ],
)
async def test_a_fault_is_told_by_its_code_after_the_messages_before_it(
    pair: Pair, stream: bytes, code: int, nursery: trio.Nursery
) -> None:
    client, websocket = pair
    await client.send_all(masked_frame(TEXT, b"before") + stream)
    await client.send_eof()

    assert [b"before"] == await websocket.receive_lines()
    assert [] == await websocket.receive_lines()
    assert websocket.ended is not None
    assert (code, False) == (websocket.ended.code, websocket.ended.by_peer)
    said = await read_to_end(client)
    assert b"\x88" == said[:1]
    assert code.to_bytes(2, "big") == said[2:4]
    with pytest.raises(trio.BrokenResourceError):
        await websocket.send_lines([b"late"])


@pytest.mark.parametrize(
    ("payload", "echo", "ended"),
    [
        (b"\x03\xe9bye", b"\x88\x02\x03\xe9", Ended(1001, "bye", by_peer=True)),
        (b"", b"\x88\x00", Ended(NO_CODE, "", by_peer=True)),
    ],
)
async def test_a_close_frame_is_echoed_and_the_stream_closed(
    pair: Pair, payload: bytes, echo: bytes, ended: Ended
) -> None:
    client, websocket = pair
    await client.send_all(masked_frame(TEXT, b"last") + masked_frame(CLOSE, payload))

    assert [b"last"] == await websocket.receive_lines()
    assert [] == await websocket.receive_lines()
    assert [] == await websocket.receive_lines()
    assert ended == websocket.ended
    assert echo == await read_to_end(client)


async def test_a_peer_that_just_goes_is_an_end_too(pair: Pair) -> None:
    client, websocket = pair
    await client.send_all(masked_frame(TEXT, b"half")[:-1])
    await client.aclose()

    assert [] == await websocket.receive_lines()
    assert websocket.ended is not None
    assert (ABNORMAL, True) == (websocket.ended.code, websocket.ended.by_peer)
    with pytest.raises(trio.BrokenResourceError):
        await websocket.send_lines([b"late"])


async def answer_close(client: HalfCloseableStream, said: list[bytes]) -> None:
    """A client that keeps to section 5.5.1: it echoes the close frame, then waits for the end."""
    found = b""
    while b"\x88" not in found:
        found += await client.receive_some()
    await client.send_all(masked_frame(TEXT, b"crossed") + masked_frame(CLOSE, found[-2:]))
    said.append(found + await read_to_end(client))


@pytest.mark.parametrize("is_read", [False, True])
async def test_our_close_waits_for_the_peers_and_takes_no_time(
    pair: Pair, is_read: bool, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """The clock stands still: no wait runs out. A message that crossed our close is dropped."""
    client, websocket = pair
    said: list[bytes] = []
    got: list[list[bytes]] = []

    async def read() -> None:
        got.append(await websocket.receive_lines())

    nursery.start_soon(answer_close, client, said)
    if is_read:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
    await websocket.send_lines([b"last"])
    await websocket.close(1001)
    await websocket.close(1000)
    await wait_all_tasks_blocked()

    assert [b"\x81\x04last\x88\x02\x03\xe9"] == said
    assert [[]] * is_read == got
    assert Ended(1001, "", by_peer=False) == websocket.ended
    assert 0 == trio.current_time()


async def test_a_peer_that_only_waits_for_our_end_is_let_go(
    pair: Pair, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """The clock stands still: it sees our end at once, and goes."""
    client, websocket = pair

    async def wait_for_the_end() -> None:
        await read_to_end(client)
        await client.aclose()

    nursery.start_soon(wait_for_the_end)
    await websocket.close()

    assert 0 == trio.current_time()


async def test_a_peer_that_answers_no_close_holds_us_up_for_close_wait(
    pair: Pair, autojump_clock: MockClock
) -> None:
    _, websocket = pair
    await websocket.close()

    assert LIMITS.close_wait_s == trio.current_time()


async def test_a_close_behind_a_stuck_write_ends_both(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Half a frame is followed by nothing, not even by a close frame."""
    _client, server = lockstep_stream_pair()
    websocket = WebSocket(server, LIMITS)
    outcomes: list[type[BaseException]] = []

    async def write() -> None:
        try:
            await websocket.send_lines([b"stuck"])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            outcomes.append(type(error))

    nursery.start_soon(write)
    await wait_all_tasks_blocked()
    await websocket.close()
    await wait_all_tasks_blocked()

    assert [trio.ClosedResourceError] == outcomes
    assert LIMITS.close_wait_s == trio.current_time()


async def test_after_a_write_that_was_cut_off_nothing_is_written() -> None:
    _client, server = lockstep_stream_pair()
    websocket = WebSocket(server, LIMITS)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_when_blocked, scope)
            await websocket.send_lines([b"cut"])

    with pytest.raises(trio.BrokenResourceError):
        await websocket.send_lines([b"late"])


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_an_outbox_writes_frames_and_its_end_is_a_close_frame(
    pair: Pair, nursery: trio.Nursery
) -> None:
    client, websocket = pair
    _, sender = websocket.ends()
    outbox = Outbox(high_bytes=100, piece_bytes_max=100)
    nursery.start_soon(outbox.run, sender)
    outbox.put_all([b"one", b"two"])
    outbox.flush()
    await outbox.drained()
    assert b"\x81\x03one\x81\x03two" == await client.receive_some()
    outbox.put(b"last")
    outbox.end()
    await client.send_eof()

    assert b"\x81\x04last\x88\x02\x03\xe8" == await read_to_end(client)


@pytest.mark.parametrize("size", [1, 3, None])
async def test_a_line_decoder_reads_the_messages_back(pair: Pair, size: int | None) -> None:
    """As the front reads its client."""
    client, websocket = pair
    receiver, _ = websocket.ends()
    await client.send_all(masked_frame(TEXT, b"one") + masked_frame(TEXT, b"t\nwo"))
    await client.send_all(masked_frame(CLOSE, b""))
    decoder = LineDecoder(1000)
    lines = []
    while data := await receiver.receive_some(size):
        lines += decoder.feed(data)

    assert [b"one", b"t wo"] == lines + decoder.end()
    await receiver.aclose()


def garbage(chance: random.Random) -> bytes:
    """Frames of a client with some of their bytes changed, or noise."""
    if chance.random() < 0.2:
        return chance.randbytes(chance.randint(1, 60))
    stream = bytearray(
        b"".join(
            masked_frame(
                chance.choice([TEXT, TEXT, BINARY, PING, PONG, CLOSE, 0]),
                chance.choice([b"{}", b"", b"\x03\xe8", b"\xff", b"x" * 200, b"y" * 1001]),
                final=chance.random() < 0.7,
            )
            for _ in range(chance.randint(1, 4))
        )
    )
    for _ in range(chance.randint(0, 3)):
        stream[chance.randrange(len(stream))] = chance.randrange(256)
    return bytes(stream)


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_that_a_client_writes_raises(seed: int, autojump_clock: MockClock) -> None:
    """Each of 100 connections a seed ends by itself, with at most one close frame, its last."""
    chance = random.Random(seed)
    for _ in range(100):
        client, server = memory_stream_pair()
        websocket = WebSocket(server, evolve(LIMITS, close_wait_s=0.5))
        await client.send_all(garbage(chance))
        await client.send_eof()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(websocket.keep_alive)
            while lines := await websocket.receive_lines():
                assert all(b"\n" not in line for line in lines)
            nursery.cancel_scope.cancel()
        reader = FrameProtocol(client=True, extensions=[])
        reader.receive_bytes(await read_to_end(client))
        opcodes = [int(frame.opcode) for frame in reader.received_frames()]

        assert websocket.ended is not None
        assert CLOSE not in opcodes[:-1]
