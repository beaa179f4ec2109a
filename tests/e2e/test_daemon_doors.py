"""Whom a daemon's doors keep out, each at a real socket of a real process, and whom they let in."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from tests.e2e.bridge import SCRIPTED, BridgeProcess, command
from tests.e2e.daemon import attached, daemon, socket_of
from tests.shell.clients import PONG, TEXT, TOKEN, knock, masked_frame, read_to_end, read_until
from tests.shell.clock import quickest_s
from tests.shell.places import NOBODY, reachable, widen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

pytestmark = pytest.mark.process

ORIGIN = "https://app.example"
PINGED = b"\x89\x09acpbridge"
"""A ping as the daemon writes it."""


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_bytes(TOKEN)
    return path


@asynccontextmanager
async def open_to_the_web(
    folder: Path, token_file: Path, *options: str, environ: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[BridgeProcess, int]]:
    """A daemon with a WebSocket listener, and its port."""
    words = ("--ws", "127.0.0.1:0", "--token-file", str(token_file), *options)
    async with daemon(folder, *words, environ=environ) as ours:
        found = re.search(rb"listening unix=\S+ ws=127\.0\.0\.1:(\d+)\n", ours.stderr)
        assert found
        yield ours, int(found[1])


async def asked(port: int, request: bytes) -> bytes:
    """What the daemon answers to this request; to the end of it."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request)
        return await read_to_end(stream)


async def works(folder: Path) -> None:
    async with attached(folder) as client:
        await client.begin()
        await client.answer(await client.prompt("say hello"))
        assert ["hello"] == client.texts()


@pytest.mark.parametrize(
    ("request_of", "status"),
    [
        (lambda port: knock(port, origin=b"https://evil.example"), 403),
        (lambda port: knock(port, origin=b"null"), 403),
        (lambda port: knock(port, host=b"evil.example:%d" % port), 403),
        (lambda port: knock(port, host=b"127.0.0.1:1"), 403),
        (lambda port: knock(port, authorization=b"Bearer not-the-token-of-ours"), 401),
        (lambda port: knock(port, authorization=None), 401),
        (lambda port: knock(port, path=b"/acp?token=" + TOKEN), 403),
        (lambda port: knock(port, path=b"/metrics", authorization=None), 401),
        (lambda port: knock(port, path=b"/healthz", host=b"evil.example"), 403),
        (lambda port: knock(port, path=b"/metrics", origin=b"https://evil.example"), 403),
        (lambda port: knock(port, path=b"/"), 404),
    ],
)
async def test_who_is_refused_before_the_upgrade(
    tmp_path: Path, token_file: Path, request_of: object, status: int
) -> None:
    """A page of the web, a name that was bound to us, a wrong token: an answer, and the end."""
    assert callable(request_of)
    async with open_to_the_web(tmp_path, token_file) as (ours, port):
        answer = await asked(port, request_of(port))
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"Acp-Connection-Id" not in answer
        refusal = await ours.said(b"request_refused")

        assert b"status=%d" % status in refusal
        assert TOKEN not in refusal
        assert b"evil" not in refusal


async def test_the_pages_and_an_allowed_origin(tmp_path: Path, token_file: Path) -> None:
    options = ("--allow-origin", ORIGIN, "--allow-host", "acp.example")
    async with open_to_the_web(tmp_path, token_file, *options) as (_, port):
        health = await asked(port, knock(port, path=b"/healthz", authorization=None))
        metrics = await asked(port, knock(port, path=b"/metrics", host=b"acp.example"))
        assert health.endswith(b"\r\n\r\nok\n")
        assert b"# TYPE acpbridge_clients gauge\nacpbridge_clients 0\n" in metrics
        assert b'acpbridge_notes_total{of="agent_started"} 1\n' in metrics
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(knock(port, origin=ORIGIN.encode()))
            head = await read_until(stream, b"\r\n\r\n")

        assert head.startswith(b"HTTP/1.1 101 ")
        assert re.search(rb"(?i)\r\nacp-connection-id: [0-9a-f]{32}\r\n", head)


async def test_a_conversation_by_websocket(tmp_path: Path, token_file: Path) -> None:
    """Attach speaks it; the same agent answers who comes by the unix socket."""
    async with open_to_the_web(tmp_path, token_file) as (ours, port):
        words = ("attach", "--ws", f"ws://127.0.0.1:{port}/acp", "--token-file", str(token_file))

        async def end_s() -> float:
            async with command(*words) as client:
                await client.begin()
                return await client.leave_s()

        assert await quickest_s(1.0, end_s) < 1
        async with command(*words) as client:
            pids = (await client.begin())["_meta"]["pids"]
            answer = await client.answer(await client.prompt("echo größer €"))
            assert {"stopReason": "end_turn"} == answer["result"]
            assert ["echo größer €"] == client.texts()
            await client.leave_s()
        async with attached(tmp_path) as second:
            assert pids == (await second.begin())["_meta"]["pids"]
        async with command(*words) as client:
            await client.begin()
            ours.process.terminate()

            assert await client.code() == 5
            await client.said(b"\n")
            assert b"the daemon has ended: 1001 the daemon ends;" in client.stderr


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("token", 5, b"refused: 401"),
        ("port", 5, b"no daemon answers"),
        ("tls", 5, b"(nothing, or no TLS that can be trusted, in 0.5 s, handshake_s)"),
        ("mode", 2, b"chmod 600"),
        ("url", 2, b"expected ws://"),
        ("far", 2, b"wss://"),
        ("none", 2, b"--token-file"),
    ],
)
async def test_why_attach_cannot_join_by_websocket(
    tmp_path: Path, token_file: Path, change: str, code: int, words: bytes
) -> None:
    other = tmp_path / "other"
    other.touch(mode=0o644 if change == "mode" else 0o600)
    other.write_bytes(b"another-token-than-ours" if change == "token" else TOKEN)
    async with open_to_the_web(tmp_path, token_file) as (_, port):
        urls = {"port": "ws://127.0.0.1:1/acp", "url": "http://x", "far": "ws://acp.example/acp"}
        scheme = "wss" if change == "tls" else "ws"
        url = urls.get(change, f"{scheme}://127.0.0.1:{port}/acp")
        options = () if change == "none" else ("--token-file", str(other))
        environ = {"ACPBRIDGE_HANDSHAKE_S": "0.5"} if change == "tls" else {}
        async with command("attach", "--ws", url, *options, environ=environ) as client:
            assert code == await client.code()
            await client.said(b"\n")

    assert words in client.stderr
    assert client.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--ws", "0.0.0.0:0"), b"--behind-tls-proxy"),
        (("--ws", "127.0.0.1:0"), b"--token-file"),
        (("--ws", "somewhere"), b"expected ADDRESS:PORT"),
        (("--ws", "127.0.0.1:0", "--token-file", "/dev/null"), b"token file"),
    ],
)
async def test_a_listener_that_is_not_safe_is_not_opened(
    tmp_path: Path, options: tuple[str, ...], words: bytes
) -> None:
    argv = ("serve", "--state-dir", str(tmp_path), *options, "--", *SCRIPTED)
    async with command(*argv) as ours:
        assert await ours.code() == 2
        await ours.said(b"\n")

    assert words in ours.stderr
    assert not socket_of(tmp_path).exists()


async def test_a_port_that_is_taken_is_told_of(tmp_path: Path, token_file: Path) -> None:
    """And nothing is left: neither a socket nor an agent."""
    async with open_to_the_web(tmp_path, token_file) as (_, port):
        argv = ("--ws", f"127.0.0.1:{port}", "--token-file", str(token_file), "--", *SCRIPTED)
        folder = tmp_path / "other"
        async with command("serve", "--state-dir", str(folder), *argv) as other:
            assert await other.code() == 2
            await other.said(b"\n")

    assert b"cannot listen on port" in other.stderr
    assert other.stderr.count(b"\n") == 1
    assert not socket_of(folder).exists()


CONNECT = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    try:
        client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\\n')
        print(client.recv(1000))
    except (BrokenPipeError, ConnectionResetError):
        print(b"")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
async def test_another_user_is_refused_by_the_kernel_s_word(tmp_path: Path) -> None:
    """Even where somebody has opened the directory and the socket to all."""
    folder = reachable(0o711) / "state"
    try:
        async with daemon(folder):
            # Its journal, opened beside the doors, narrows the state directory once more.
            await works(folder)
            widen(socket_of(folder))
            done = await trio.run_process(
                [sys.executable, "-c", CONNECT, str(socket_of(folder)), str(NOBODY)],
                capture_stdout=True,
                cwd="/",
            )
            assert b"b''\n" == done.stdout
            await works(folder)
    finally:
        shutil.rmtree(folder.parent)


def asking(id_: int, method: str, **params: object) -> bytes:
    frame = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return masked_frame(TEXT, json.dumps(frame).encode())


@asynccontextmanager
async def joined(port: int) -> AsyncIterator[trio.SocketStream]:
    """A WebSocket client that has opened the session, and reads what a test reads.

    It answers pings until then: an agent may take longer to start than a test's client is given.
    """
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:

        async def pong(piece: bytes | bytearray) -> None:
            for _ in range(piece.count(PINGED)):
                await stream.send_all(masked_frame(PONG, PINGED[2:]))

        await stream.send_all(knock(port))
        await read_until(stream, b"\r\n\r\n")
        await stream.send_all(asking(1, "initialize", protocolVersion=1, clientCapabilities={}))
        await read_until(stream, b'"id":1,', pong)
        await stream.send_all(asking(2, "session/new", cwd="/", mcpServers=[]))
        await read_until(stream, b'"id":2,', pong)
        yield stream


def prompting(text: str) -> bytes:
    prompt = [{"type": "text", "text": text}]
    return asking(3, "session/prompt", sessionId="s-1", prompt=prompt)


async def test_a_lost_pong_detaches_and_cancels_nothing(tmp_path: Path, token_file: Path) -> None:
    """Its network is gone, not its wish: the turn goes on without it."""
    environ = {"ACPBRIDGE_PING_INTERVAL_S": "0.1", "ACPBRIDGE_PONG_WAIT_S": "1"}
    async with (
        open_to_the_web(tmp_path, token_file, environ=environ) as (ours, port),
        joined(port) as stream,
    ):
        await stream.send_all(prompting("hang"))
        await ours.said(b"nothing heard for 1 s")
        async with attached(tmp_path) as client:
            await client.answer(
                await client.ask("initialize", protocolVersion=1, clientCapabilities={})
            )
            stats = await client.answer(await client.ask("_acpbridge/stats"))

    assert stats["result"]["clients"] == 1
    assert ["running"] == [turn["state"] for turn in stats["result"]["turns"]]


async def test_who_is_closed_on_alone_is_not_told_that_the_daemon_has_ended(
    tmp_path: Path, token_file: Path
) -> None:
    """It lives on, and to start it again would be in vain."""
    environ = {"ACPBRIDGE_MESSAGE_BYTES_MAX": "4096"}
    async with open_to_the_web(tmp_path, token_file, environ=environ) as (_, port):
        argv = ("--ws", f"ws://127.0.0.1:{port}/acp", "--token-file", str(token_file))
        async with command("attach", *argv) as client:
            await client.begin()
            await client.prompt("say " + "x" * 5000)
            assert await client.code() == 5
            await client.said(b"\n")
        await works(tmp_path)

    assert b"the daemon has closed the connection: 1009 a message of more" in client.stderr
    assert b"ended" not in client.stderr


async def test_a_slow_websocket_is_told_why_it_is_closed(tmp_path: Path, token_file: Path) -> None:
    """1013, "try again later", behind the last whole message that it is sent."""
    environ = {
        "ACPBRIDGE_CLIENT_BYTES_MAX": str(1 << 20),
        "ACPBRIDGE_WRITE_BYTES_MAX": "65536",
        "ACPBRIDGE_CLOSE_WAIT_S": "20",
    }
    async with (
        open_to_the_web(tmp_path, token_file, environ=environ) as (ours, port),
        joined(port) as stream,
    ):
        await stream.send_all(prompting("flood 4096 8192"))
        await ours.said(b"client_detached")
        found = await read_to_end(stream)
        at = found.rindex(b"\x03\xf5it read too slowly: ")

    assert found[at - 2] == 0x88
    assert found[at - 1] == len(found) - at
