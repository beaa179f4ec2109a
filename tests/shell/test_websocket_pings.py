"""Pings both ways, on a clock that jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import (
    MockClock,
    lockstep_stream_pair,
    memory_stream_pair,
    wait_all_tasks_blocked,
)

from acpbridge.config import Limits
from acpbridge.shell.frames import ABNORMAL
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.websocket import WebSocket
from tests.shell.clients import PING, PONG, TEXT, masked_frame

if TYPE_CHECKING:
    from trio.abc import HalfCloseableStream

LIMITS = Limits()
Pair = tuple["HalfCloseableStream", WebSocket]


@pytest.fixture
def pair() -> tuple[HalfCloseableStream, WebSocket]:
    """The client's end, and ours."""
    client, server = memory_stream_pair()
    return client, WebSocket(server, LIMITS)


async def test_a_ping_is_answered_though_nobody_writes(pair: Pair, nursery: trio.Nursery) -> None:
    client, websocket = pair
    nursery.start_soon(websocket.keep_alive)
    nursery.start_soon(websocket.receive_lines)
    await wait_all_tasks_blocked()
    await client.send_all(masked_frame(PING, b"one"))

    assert b"\x8a\x03one" == await client.receive_some()
    await client.send_all(masked_frame(PING, b"two") + masked_frame(PING, b"three"))
    assert b"\x8a\x05three" == await client.receive_some()
    await client.aclose()


async def test_a_waiting_pong_goes_before_the_next_lines(pair: Pair) -> None:
    client, websocket = pair
    await client.send_all(masked_frame(PING, b"?") + masked_frame(TEXT, b"x"))
    await websocket.receive_lines()
    await websocket.send_lines([b"y"])

    assert b"\x8a\x01?\x81\x01y" == await client.receive_some()


async def test_a_peer_that_answers_is_pinged_and_kept(
    pair: Pair, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    client, websocket = pair
    nursery.start_soon(websocket.keep_alive)
    nursery.start_soon(websocket.receive_lines)
    for _ in range(3):
        ping = await client.receive_some()
        assert b"\x89" == ping[:1]
        await client.send_all(masked_frame(PONG, bytes(ping[2:])))

    assert 3 * LIMITS.ping_interval_s == trio.current_time()
    assert websocket.ended is None
    nursery.cancel_scope.cancel()


async def test_a_silent_peer_is_lost_after_the_pong_wait(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """Field case 122: half-open after a suspend. The reader sees an end, keep_alive returns."""
    _, websocket = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(websocket.keep_alive)

        assert [] == await websocket.receive_lines()

    assert websocket.ended is not None
    assert (ABNORMAL, True) == (websocket.ended.code, websocket.ended.by_peer)
    assert LIMITS.ping_interval_s + LIMITS.pong_wait_s == trio.current_time()


async def test_a_peer_is_not_lost_while_we_do_not_read_it(
    pair: Pair, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its pong may stand behind what our back-pressure leaves unread."""
    client, websocket = pair
    nursery.start_soon(websocket.keep_alive)
    await trio.testing.wait_all_tasks_blocked()
    with trio.move_on_after(LIMITS.ping_interval_s + 5 * LIMITS.pong_wait_s):
        await trio.sleep_forever()
    assert websocket.ended is None
    await client.send_all(masked_frame(PONG, b"acpbridge") + masked_frame(TEXT, b"here"))

    assert [b"here"] == await websocket.receive_lines()
    nursery.cancel_scope.cancel()


async def test_a_peer_that_takes_nothing_and_says_nothing_is_lost(
    autojump_clock: MockClock,
) -> None:
    """Half-open with a full send buffer: not even the ping can be written."""
    _client, server = lockstep_stream_pair()
    websocket = WebSocket(server, LIMITS)
    outbox = Outbox(high_bytes=100, piece_bytes_max=100)
    outbox.put(b"stuck")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(websocket.keep_alive)
        nursery.start_soon(outbox.run, websocket.ends()[1])

        assert [] == await websocket.receive_lines()

    assert outbox.is_closed
    assert LIMITS.ping_interval_s + LIMITS.pong_wait_s <= trio.current_time()
