"""The daemon as a process: clients come by attach, and leave (W1, W4, W5)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import trio

from tests.e2e.bridge import BOUND_S, SCRIPTED, command
from tests.e2e.daemon import attached, daemon, socket_of
from tests.shell.clients import read_until
from tests.shell.clock import passes, quickest_s
from tests.shell.places import mode
from tests.shell.processes import gone, is_alive, stat

pytestmark = pytest.mark.process

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,'
    b'"clientCapabilities":{}}}\n'
)
LOAD = (
    b'{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"s-1","cwd":"/",'
    b'"mcpServers":[]}}\n'
)
WRAPPED = ("sh", "-c", '"$@"; true', "sh", *SCRIPTED)
"""The agent behind a shell, as behind npx or uvx."""


async def test_a_client_comes_and_the_next_one_finds_the_same_agent(tmp_path: Path) -> None:
    async with daemon(tmp_path):
        async with attached(tmp_path) as first:
            pids = (await first.begin())["_meta"]["pids"]
            answer = await first.answer(await first.prompt("say hello"))
            await first.close_stdin()

            assert {"stopReason": "end_turn"} == answer["result"]
            assert ["hello"] == first.texts()
            assert await first.code() == 0
        async with attached(tmp_path) as second:
            answer = await second.answer(
                await second.ask("initialize", protocolVersion=1, clientCapabilities={})
            )

        assert pids == answer["result"]["_meta"]["pids"]
        assert is_alive(pids[0])


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None])
async def test_w1_no_process_of_the_group_outlives_the_daemon(
    tmp_path: Path, end: signal.Signals | None
) -> None:
    """A wrapper shell, the agent, and a child that ignores SIGTERM and holds no pipe of ours."""
    async with daemon(tmp_path, agent=(*WRAPPED, "--child")) as ours:
        async with attached(tmp_path) as client:
            pids = (await client.begin())["_meta"]["pids"]
            assert len(pids) == 3
            if end is not None:
                ours.process.send_signal(end)
            else:
                async with command("stop", "--state-dir", str(tmp_path)) as stop:
                    assert await stop.code() == 0

            assert await ours.code() == 0
            assert await client.code() == 5
            await client.said(b"\n")
            assert b"the daemon has ended" in client.stderr
            assert client.stderr.count(b"\n") == 1
        with trio.fail_after(1):
            for pid in pids:
                await gone(pid)
    assert not socket_of(tmp_path).exists()


def cpu_s(pid: int) -> float:
    """What a process has used so far."""
    user, system = stat(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def test_w4_waiting_costs_nothing_and_the_end_of_stdin_ends_attach_within_a_second(
    tmp_path: Path,
) -> None:
    async def end_s() -> float:
        async with attached(tmp_path) as client:
            await client.begin()
            return await client.leave_s()

    async with daemon(tmp_path) as ours, attached(tmp_path) as client:
        await client.begin()
        pids = (ours.process.pid, client.process.pid)
        before_s = [cpu_s(pid) for pid in pids]
        await passes(1)
        used_s = [cpu_s(pid) - at_s for pid, at_s in zip(pids, before_s, strict=True)]
        assert max(used_s) < 0.05
        assert await quickest_s(1.0, end_s) < 1


async def test_without_a_daemon_attach_says_so_in_one_line(tmp_path: Path) -> None:
    async with attached(tmp_path) as client:
        assert await client.code() == 5
        await client.said(b"\n")
    assert str(socket_of(tmp_path)).encode() in client.stderr
    assert b"acpbridge serve" in client.stderr
    assert client.stderr.count(b"\n") == 1


class Watcher(threading.Thread):
    """Looks at the modes of a path and of its directory, as often as it can."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self.seen: set[tuple[str, int]] = set()
        self.is_over = False
        self._rounds = 0

    async def looks_again(self) -> None:
        """Return once it has begun and ended a round of its own: it may have had no processor."""
        before = self._rounds
        with trio.fail_after(BOUND_S):
            while self._rounds < before + 2:
                await trio.lowlevel.checkpoint()

    def run(self) -> None:
        while not self.is_over:
            self._rounds += 1
            for name, place in (("dir", self._path.parent), ("socket", self._path)):
                try:
                    self.seen.add((name, mode(place)))
                except OSError:
                    continue


async def test_w5_the_socket_is_never_wider_at_any_instant(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    watcher = Watcher(socket_of(folder))
    watcher.start()
    try:
        for _ in range(3):
            async with daemon(folder):
                await watcher.looks_again()
    finally:
        watcher.is_over = True
        await trio.to_thread.run_sync(watcher.join)

    assert {("dir", 0o700), ("socket", 0o600)} == watcher.seen


async def test_an_agent_that_cannot_start_ends_the_daemon(tmp_path: Path) -> None:
    done = await trio.run_process(
        [*(sys.executable, "-m", "acpbridge", "serve"), "--state-dir", tmp_path, "--", "no-such"],
        capture_stderr=True,
        check=False,
    )

    assert done.returncode == 3
    assert b"install it" in done.stderr
    assert not socket_of(tmp_path).exists()


async def test_a_client_that_reads_nothing_is_detached_and_comes_back(tmp_path: Path) -> None:
    """64 MiB for two: one reads them all, the other is cut off at its limit."""
    limit = {"ACPBRIDGE_CLIENT_BYTES_MAX": str(4 << 20)}
    async with daemon(tmp_path, environ=limit) as ours, attached(tmp_path) as client:
        await client.begin()
        before = ours.rss_bytes()
        async with await trio.open_unix_socket(socket_of(tmp_path)) as stuck:
            for line, answer_begin in ((INITIALIZE, b'"id":1,'), (LOAD, b'"id":2,')):
                await stuck.send_all(line)
                await read_until(stuck, answer_begin)
            request = await client.prompt("flood 4096 16384")
            answer = await client.answer(request)
            assert {"stopReason": "end_turn"} == answer["result"]
            assert 4096 == len(client.texts())
            said = await ours.said(b"client_detached")
            assert b"client=2" in said.split(b"client_detached")[1].splitlines()[0]
            assert ours.rss_bytes() - before < 64 << 20
            while await stuck.receive_some(1 << 20):
                pass
        async with attached(tmp_path) as again:
            await again.begin()


async def test_attach_tells_a_detached_client_from_a_dead_daemon(tmp_path: Path) -> None:
    """Its client reads nothing of a flood: the daemon lives, and the session can be loaded."""
    limit = {"ACPBRIDGE_CLIENT_BYTES_MAX": str(1 << 20)}
    async with daemon(tmp_path, environ=limit) as ours, attached(tmp_path) as client:
        await client.begin()
        await client.prompt("flood 4096 8192")
        await ours.said(b"client_detached")
        while await client.read():
            pass
        assert await client.code() == 5
        await client.said(b"\n")

    assert b"the daemon has closed the connection" in client.stderr


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_attach_as_its_client_would(
    tmp_path: Path, end: signal.Signals
) -> None:
    async with daemon(tmp_path), attached(tmp_path) as client:
        await client.begin()
        client.process.send_signal(end)

        assert await client.code() == 0
    assert b"" == client.stderr
