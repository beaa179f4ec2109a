"""Real sockets on the loopback interface, at a port that the system chooses."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, memory_stream_pair
from trio_websocket import ConnectionClosed, ConnectionRejected, open_websocket, wrap_client_stream

from acpbridge.config import Limits
from acpbridge.shell.door import Refused
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.upgrade import Request, accept, answer, read_request
from acpbridge.shell.websocket import WebSocket
from tests.shell.clients import (
    ACCEPT,
    TEXT,
    TOKEN,
    knock,
    masked_frame,
    read_to_end,
    read_until,
    rules_for,
)

LIMITS = Limits(head_bytes_max=4096)
ORIGIN = b"https://app.example"


@define
class Server:
    """A listener that sends each line back."""

    port: int = 0
    outcomes: list[WebSocket | Refused | None] = field(factory=list)
    decided: trio.Event = field(factory=trio.Event)
    """The first request's outcome is known: a refused client sees its end before we do."""

    async def handle(self, stream: trio.SocketStream) -> None:
        rules = rules_for(self.port, ORIGIN)
        outcome = await accept(stream, rules, LIMITS, f"id-{len(self.outcomes)}")
        self.outcomes.append(outcome)
        self.decided.set()
        if isinstance(outcome, WebSocket):
            await self.echo(outcome)

    async def echo(self, websocket: WebSocket) -> None:
        outbox = Outbox(high_bytes=1 << 20, piece_bytes_max=1 << 20)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(websocket.keep_alive)
            nursery.start_soon(outbox.run, websocket.ends()[1])
            while lines := await websocket.receive_lines():
                outbox.put_all(lines)
                outbox.flush()
                await outbox.room()
            nursery.cancel_scope.cancel()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    found = Server()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, found.handle, listeners)
        with trio.fail_after(20):
            yield found
        nursery.cancel_scope.cancel()


async def asked(server: Server, request: bytes) -> bytes:
    """All that the server says to these bytes."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(request)
        return await read_to_end(stream)


def authorized(**more: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"Authorization", b"Bearer " + TOKEN),
        *((name.encode(), value) for name, value in more.items()),
    ]


async def test_another_implementation_holds_a_conversation(server: Server) -> None:
    """trio-websocket's client; 40 KiB and 200 KiB take the other two length forms."""
    messages = ["{}", json.dumps("ü" * 20_000), "x" * 200_000]
    connecting = open_websocket(
        "127.0.0.1", server.port, "/acp", use_ssl=False, extra_headers=authorized()
    )
    async with connecting as client:
        assert (b"acp-connection-id", b"id-0") in client.handshake_headers
        for message in messages:
            await client.send_message(message)
        assert messages == [await client.get_message() for _ in messages]
        await client.ping(b"?")

    websocket = server.outcomes[0]
    assert isinstance(websocket, WebSocket)
    assert "id-0" == websocket.connection_id
    assert websocket.ended is not None
    assert (1000, True) == (websocket.ended.code, websocket.ended.by_peer)


async def test_the_101_is_that_of_the_rfc(server: Server) -> None:
    """Section 1.3's own example; no subprotocol and no extension although both are offered."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        offer = {
            "sec_websocket_protocol": b"acp, other",
            "sec_websocket_extensions": b"permessage-deflate; client_max_window_bits",
        }
        # The first frame in the same write: nothing that came with the request is lost.
        await stream.send_all(knock(server.port, **offer) + masked_frame(TEXT, b"early"))
        said = await read_until(stream, b"early")

    head, _, rest = said.partition(b"\r\n\r\n")
    status_line, *lines = head.split(b"\r\n")
    headers = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in lines}
    assert b"HTTP/1.1 101 Switching Protocols" == status_line
    assert ACCEPT == headers[b"sec-websocket-accept"]
    assert b"id-0" == headers[b"acp-connection-id"]
    assert not {b"sec-websocket-protocol", b"sec-websocket-extensions"} & headers.keys()
    assert b"\x81\x05early" == rest


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"origin": b"https://evil.example"}, 403),
        ({"host": b"attacker.example"}, 403),
        ({"host": None}, 400),
        ({"authorization": None}, 401),
        ({"authorization": b"Bearer wrong-wrong-wrong-wrong"}, 401),
        ({"path": b"/acp?token=" + TOKEN}, 403),
        ({"path": b"/other"}, 404),
        ({"sec_websocket_version": b"8"}, 426),
        ({"sec_websocket_version": None}, 400),
        ({"sec_websocket_key": b"short"}, 400),
        ({"sec_websocket_key": b"not base64, not at all.."}, 400),
        ({"sec_websocket_key": None}, 400),
        ({"upgrade": b"h2c"}, 400),
        ({"connection": b"keep-alive"}, 400),
        ({"sec_websocket_extensions": b"\xff"}, 400),
        ({"x": b"y" * 5000}, 431),
    ],
)
async def test_who_is_refused_is_told_before_the_upgrade(
    server: Server, changes: dict[str, bytes | None], status: int
) -> None:
    path = changes.pop("path", None) or b"/acp"
    said = await asked(server, knock(server.port, path=path, **changes))
    head, _, body = said.partition(b"\r\n\r\n")

    assert b"HTTP/1.1 %d " % status == head[:13]
    assert (b"WWW-Authenticate: Bearer" in head) == (status == 401)
    assert b"Content-Length: %d" % len(body) in head
    assert 1 == body.count(b"\n")
    assert TOKEN not in said
    await server.decided.wait()
    assert isinstance(server.outcomes[0], Refused)


async def test_a_listed_origin_is_let_in(server: Server) -> None:
    async with open_websocket(
        "127.0.0.1", server.port, "/acp", use_ssl=False, extra_headers=authorized(Origin=ORIGIN)
    ) as client:
        await client.send_message("{}")
        assert "{}" == await client.get_message()


async def test_a_refusal_is_what_another_implementation_sees(server: Server) -> None:
    # Over a stream of ours, because it does not close its own when it is refused (0.12.2).
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        refused = pytest.RaisesExc(ConnectionRejected, check=lambda error: error.status_code == 401)
        with pytest.RaisesGroup(refused):
            async with trio.open_nursery() as nursery:
                await wrap_client_stream(nursery, stream, f"127.0.0.1:{server.port}", "/acp")


async def test_a_message_over_the_limit_closes_with_1009(server: Server) -> None:
    big = b"\x81\xff" + (LIMITS.message_bytes_max + 1).to_bytes(8, "big") + b"mask"
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(knock(server.port) + big)
        said = await read_to_end(stream)

    assert b"\x03\xf1a message of more than" in said


async def test_a_server_that_closes_lets_the_client_read_its_last_words() -> None:
    """The client has written what nobody read: closing over it would reset the connection."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    async def handle(stream: trio.SocketStream) -> None:
        websocket = await accept(stream, rules_for(port), LIMITS, "id")
        assert isinstance(websocket, WebSocket)
        await websocket.receive_lines()
        await websocket.send_lines([b"last words"])
        await websocket.close(1001, "stopped")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        # Over a stream of ours, because it does not close its own when the server closes.
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            host = f"127.0.0.1:{port}"
            with trio.fail_after(20):
                client = await wrap_client_stream(
                    nursery, stream, host, "/acp", extra_headers=authorized()
                )
                with suppress(ConnectionClosed):
                    for _ in range(50):
                        await client.send_message("x" * 1000)
                assert "last words" == await client.get_message()
                with pytest.raises(ConnectionClosed) as caught:
                    await client.get_message()
        nursery.cancel_scope.cancel()

    assert caught.value.reason is not None
    assert (1001, "stopped") == (caught.value.reason.code, caught.value.reason.reason)


async def test_noise_is_refused_and_the_next_client_is_served(server: Server) -> None:
    chance = random.Random(6)
    request = knock(server.port)
    for _ in range(40):
        noise = bytearray(request)
        for _ in range(chance.randint(1, 6)):
            noise[chance.randrange(len(noise))] = chance.randrange(256)
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(bytes(noise[: chance.randint(0, len(noise))]))
            await stream.send_eof()
            await read_some(stream)

    async with open_websocket(
        "127.0.0.1", server.port, "/acp", use_ssl=False, extra_headers=authorized()
    ) as client:
        await client.send_message("{}")
        assert "{}" == await client.get_message()


async def read_some(stream: trio.SocketStream) -> None:
    """What comes to the end, or to a reset."""
    try:
        await read_to_end(stream)
    except trio.BrokenResourceError:
        return


async def test_a_request_that_does_not_come_is_given_up(autojump_clock: MockClock) -> None:
    client, stream = memory_stream_pair()
    await client.send_all(b"GET /acp HTTP/1.1\r\nHost: x")
    outcome = await accept(stream, rules_for(1), LIMITS, "id")

    assert isinstance(outcome, Refused)
    assert 408 == outcome.status
    assert LIMITS.handshake_s + LIMITS.close_wait_s == trio.current_time()
    assert (await read_to_end(client)).startswith(b"HTTP/1.1 408 ")


async def test_a_peer_that_asks_nothing_is_no_refusal() -> None:
    client, stream = memory_stream_pair()
    await client.aclose()

    assert await accept(stream, rules_for(1), LIMITS, "id") is None


async def test_a_page_beside_the_websocket_is_answered() -> None:
    """As /healthz and /metrics will be."""
    client, stream = memory_stream_pair()
    await client.send_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    request = await read_request(stream, LIMITS)
    assert isinstance(request, Request)
    assert (b"GET", b"/healthz") == (request.method, request.target)
    await client.send_eof()
    await answer(stream, 200, b"ok\n", LIMITS, content_type="text/plain; version=0.0.4")
    said = await read_to_end(client)

    assert said.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n")
    assert said.endswith(b"\r\n\r\nok\n")
