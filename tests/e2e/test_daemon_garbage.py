"""A daemon that is written nonsense to goes on, and so do its clients; and so after a storm."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
import trio

from tests.e2e import garbage
from tests.e2e.bridge import BOUND_S, BridgeProcess
from tests.e2e.daemon import attached, daemon, socket_of
from tests.shell.clients import TEXT, TOKEN, knock, masked_frame, read_until
from tests.shell.processes import children

pytestmark = pytest.mark.process

ROUNDS = 200
"""Of a hundred lines or frames each, on the unix socket and by WebSocket in turn."""
RECONNECTS = 1000


async def open_both(folder: Path) -> tuple[str, ...]:
    """The options of a daemon that listens on both doors."""
    path = trio.Path(folder / "token")
    await path.write_bytes(TOKEN)
    await path.chmod(0o600)
    return ("--ws", "127.0.0.1:0", "--token-file", str(path), "--log-level", "error")


def port_of(ours: BridgeProcess) -> int:
    found = re.search(rb"ws=127\.0\.0\.1:(\d+)\n", ours.stderr)
    assert found
    return int(found[1])


async def spoil_unix(folder: Path, chance: random.Random) -> None:
    """A hundred lines on one connection; sometimes its end is in the middle of the last one."""
    async with await trio.open_unix_socket(socket_of(folder)) as stream:
        lines = [garbage.line(chance) for _ in range(100)]
        if chance.randrange(2):
            lines.append(b"")
        try:
            await stream.send_all(b"\n".join(lines))
            await stream.send_eof()
            while await stream.receive_some(1 << 16):
                pass
        except trio.BrokenResourceError:
            pass


async def spoil_websocket(port: int, chance: random.Random) -> None:
    """Four connections: 24 messages that are no JSON-RPC, and a frame that is none."""
    for _ in range(4):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(knock(port))
            await read_until(stream, b"\r\n\r\n")
            messages = [garbage.line(chance).decode("utf-8", "replace") for _ in range(24)]
            frames = [masked_frame(TEXT, message.encode()) for message in messages]
            try:
                await stream.send_all(b"".join([*frames, garbage.frame(chance)]))
                if chance.randrange(2):
                    await stream.send_eof()
                    while await stream.receive_some(1 << 16):
                        pass
            except trio.BrokenResourceError:
                pass


async def test_20000_malformed_lines_and_frames_leave_a_working_prompt_after_each_hundred(
    tmp_path: Path,
) -> None:
    chance = random.Random(6)
    options = await open_both(tmp_path)
    async with daemon(tmp_path, *options) as ours, attached(tmp_path) as client:
        port = port_of(ours)
        pids = (await client.begin())["_meta"]["pids"]
        for number in range(ROUNDS):
            with trio.fail_after(BOUND_S):
                if number % 2:
                    await spoil_websocket(port, chance)
                else:
                    await spoil_unix(tmp_path, chance)
            answer = await client.answer(await client.prompt(f"say {number}"))
            assert {"stopReason": "end_turn"} == answer.get("result"), (number, answer)
            client.frames.clear()
        async with attached(tmp_path) as other:
            assert pids == (await other.begin())["_meta"]["pids"]

        assert b"Traceback" not in ours.stderr


INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


def asked(id_: int, method: str, params: object) -> bytes:
    frame = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return json.dumps(frame).encode()


LOAD = asked(2, "session/load", {"sessionId": "s-1", "cwd": "/", "mcpServers": []})


async def come_and_go(folder: Path, port: int, number: int) -> None:
    """Initialize, load the session, and leave: in order, or not, or with the answer unread."""
    first = asked(1, "initialize", INITIALIZE)
    if number % 10 == 0:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(knock(port) + masked_frame(TEXT, first))
            await read_until(stream, b'"id":1,')
            await stream.send_all(masked_frame(TEXT, LOAD))
            if number % 20:
                await read_until(stream, b'"id":2,')
        return
    async with await trio.open_unix_socket(socket_of(folder)) as stream:
        await stream.send_all(first + b"\n")
        await read_until(stream, b'"id":1,')
        await stream.send_all(LOAD + b"\n")
        if number % 3:
            await read_until(stream, b'"id":2,')


def held(pid: int) -> tuple[int, int]:
    """(descriptors, children) of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), len(children(pid))


async def settled(ours: BridgeProcess, client: BridgeProcess, fds: int) -> tuple[int, int]:
    """What it holds once nobody but this client is there, and no goodbye is under way."""
    with trio.fail_after(BOUND_S):
        while True:
            said = await client.answer(await client.ask("_acpbridge/stats"))
            found = held(ours.process.pid)
            if said["result"]["clients"] == 1 and found[0] <= fds and found[1] == 1:
                return found


async def test_a_storm_of_reconnects_leaves_one_agent_and_nothing_else(tmp_path: Path) -> None:
    options = await open_both(tmp_path)
    async with daemon(tmp_path, *options) as ours, attached(tmp_path) as client:
        port = port_of(ours)
        await client.begin()
        await client.answer(await client.prompt("flood 100 100"))
        before = held(ours.process.pid)
        for number in range(100):
            await come_and_go(tmp_path, port, number)
        await settled(ours, client, before[0])
        rss_bytes = ours.rss_bytes()
        for number in range(RECONNECTS):
            await come_and_go(tmp_path, port, number)
        after = await settled(ours, client, before[0])
        answer = await client.answer(await client.prompt("say still here"))

        assert {"stopReason": "end_turn"} == answer["result"]
        assert (before[0], 1) == after
        assert ours.rss_bytes() - rss_bytes < 16 << 20
        assert b"Traceback" not in ours.stderr
