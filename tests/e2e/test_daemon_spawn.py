"""A daemon that a client starts, and how one is stopped (W3)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager, chdir
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from acpbridge.shell.spawn import LOG_BYTES_MAX, agent_digest
from tests.e2e.bridge import BOUND_S, SCRIPTED, BridgeProcess, command
from tests.e2e.daemon import SHORT, attached, daemon, socket_of
from tests.hermes.processes import arguments
from tests.shell.clock import quickest_s
from tests.shell.processes import gone, is_alive, stat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

pytestmark = pytest.mark.process


async def stopped(folder: Path) -> tuple[int, str]:
    """Run `acpbridge stop`: its exit code, and what it said."""
    async with command("stop", "--state-dir", str(folder)) as ours:
        code = await ours.code()
        while await ours.read_text():
            pass
        return code, ours.text + ours.stderr.decode()


@asynccontextmanager
async def spawning(
    folder: Path,
    *options: str,
    agent: tuple[str, ...] = SCRIPTED,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[BridgeProcess]:
    """A client that starts the daemon if need be."""
    argv = ("attach", "--state-dir", str(folder), "--spawn", *options, "--", *agent)
    async with command(*argv, environ={**SHORT, **(environ or {})}) as ours:
        yield ours


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A state directory whose daemon is ended in the end."""
    yield tmp_path / "state"
    with trio.CancelScope(shield=True, deadline=trio.current_time() + BOUND_S):
        await stopped(tmp_path / "state")


def owners() -> dict[int, list[str]]:
    """The processes that serve, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = arguments(int(entry.name))
            if "serve" in words and "acpbridge" in words:
                found[int(entry.name)] = words
    return found


def owners_of(folder: Path) -> list[int]:
    return [pid for pid, words in owners().items() if str(socket_of(folder)) in words]


def sockets(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.sock")]


def parent_and_session(pid: int) -> tuple[int, int]:
    _state, parent, _group, session = stat(pid)[:4]
    return int(parent), int(session)


def stdin_of(pid: int) -> Path:
    return Path(f"/proc/{pid}/fd/0").readlink()


async def initialized(client: BridgeProcess) -> list[int]:
    """The pids that the scripted agent tells: its own, and its parent's."""
    answer = await client.answer(
        await client.ask("initialize", protocolVersion=1, clientCapabilities={})
    )
    return list(answer["result"]["_meta"]["pids"])


async def test_w3_five_that_start_at_once_share_one_daemon(folder: Path) -> None:
    """One owner, one agent, one socket; a kill -9 of the owner leaves a path that works."""
    for _ in range(2):
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(spawning(folder)) for _ in range(5)]
            pids = [await initialized(client) for client in clients]
            owner = pids[0][1]
            with trio.fail_after(BOUND_S):
                # The losers have told that they are, and end.
                for pid in set(owners_of(folder)) - {owner}:
                    await gone(pid)

            assert [pids[0]] * 5 == pids
            assert [owner] == owners_of(folder)
            assert ["daemon.sock"] == sockets(folder)
            os.kill(owner, signal.SIGKILL)
            for client in clients:
                assert await client.code() == 5
        with trio.fail_after(5):
            await gone(pids[0][0])


async def test_the_daemon_is_apart_from_whoever_started_it(folder: Path) -> None:
    """No parent, no session, no stdin in common; it lives on, and ends when nobody is there."""

    async def end_s() -> float:
        async with spawning(folder, "--idle-exit", "0.3") as client:
            agent, owner = await initialized(client)
            parent, session = parent_and_session(owner)
            assert session == owner
            assert parent != client.process.pid
            assert os.getsid(client.process.pid) != session
            assert stdin_of(owner) == Path(os.devnull)
            took_s = await client.leave_s()
        assert is_alive(owner) or (folder / "daemon.log").exists()
        with trio.fail_after(10):
            await gone(owner)
            await gone(agent)
        return took_s

    assert await quickest_s(1.0, end_s) < 1
    assert "idle" in (folder / "daemon.log").read_text()
    assert not socket_of(folder).exists()


@pytest.mark.parametrize(
    ("agent", "code", "words"),
    [
        (("no-such-agent",), 3, b"no command 'no-such-agent'; install it"),
        (("/dev/null",), 3, b"not executable"),
    ],
)
async def test_a_failure_to_start_is_told_with_its_reason(
    folder: Path, agent: tuple[str, ...], code: int, words: bytes
) -> None:
    async with spawning(folder, agent=agent) as client:
        assert code == await client.code()
        await client.said(b"\n")

    assert words in client.stderr
    assert client.stderr.count(b"\n") == 1
    assert [] == client.frames
    with trio.fail_after(BOUND_S):
        for pid in owners_of(folder):
            await gone(pid)


async def test_an_option_that_the_daemon_refuses_is_told(folder: Path) -> None:
    long = folder / ("x" * 120)
    async with spawning(folder, "--unix", str(long)) as client:
        assert await client.code() == 2
        await client.said(b"\n")

    assert b"an absolute path of at most" in client.stderr


def make_log(folder: Path, size_bytes: int) -> None:
    folder.mkdir()
    (folder / "daemon.log").touch(mode=0o600)
    os.truncate(folder / "daemon.log", size_bytes)


async def test_a_long_log_is_set_aside(folder: Path) -> None:
    make_log(folder, LOG_BYTES_MAX + 1)
    async with spawning(folder) as client:
        await initialized(client)

    assert (folder / "daemon.log.1").stat().st_size == LOG_BYTES_MAX + 1
    assert 0 < (folder / "daemon.log").stat().st_size < LOG_BYTES_MAX


async def test_a_daemon_of_another_agent_is_not_joined(folder: Path) -> None:
    async with spawning(folder) as first:
        await initialized(first)
        async with spawning(folder, agent=(sys.executable, "-c", "pass")) as second:
            assert await second.code() == 2
            await second.said(b"\n")

    assert b"keeps another agent" in second.stderr


async def test_the_same_words_may_be_another_agent(tmp_path: Path) -> None:
    """`./agent` is what stands in the directory, and `agent` what PATH finds."""
    found = []
    for name in ("one", "two"):
        agent = tmp_path / name / "agent"
        agent.parent.mkdir()
        agent.touch(mode=0o700)
        with chdir(agent.parent):
            found += [agent_digest(["./agent"]), agent_digest([str(agent)])]

    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 2
    assert agent_digest(["sh", "-c"]) == agent_digest([shutil.which("sh") or "", "-c"])
    assert agent_digest(["no-such-agent"]) != agent_digest(["no-such", "agent"])


async def test_stop_ends_it_in_order_and_waits(folder: Path) -> None:
    """The clients see the end, the processes are gone, the next stop finds nobody."""
    async with spawning(folder, agent=(*SCRIPTED, "--child")) as client:
        await client.begin()
        pids = await initialized_again(folder)
        owner = owners_of(folder)
        code, said = await stopped(folder)

        assert code == 0
        assert f"stopped the daemon, process {owner[0]}, which had 1 client\n" == said
        assert [] == owners_of(folder)
        assert await client.code() == 5
    with trio.fail_after(1):
        for pid in pids:
            if pid != os.getpid():
                await gone(pid)
    code, said = await stopped(folder)

    assert code == 5
    assert f"no daemon listens on {socket_of(folder)}" in said
    assert "nothing is to be stopped" in said
    assert "serve" not in said


async def initialized_again(folder: Path) -> list[int]:
    async with attached(folder) as client:
        pids = await initialized(client)
        await client.close_stdin()
        await client.code()
        return pids


async def test_a_slow_dying_owner_does_not_take_the_new_ones_socket_along(folder: Path) -> None:
    """Its path is free as soon as it is asked to stop, and it never touches it again."""
    slow = {"ACPBRIDGE_AGENT_EOF_S": "4", "ACPBRIDGE_AGENT_TERM_S": "4"}
    stubborn = (*SCRIPTED, "--ignore-eof", "--ignore-term")
    async with daemon(folder, agent=stubborn, environ=slow) as old, attached(folder) as client:
        await initialized(client)
        old.process.terminate()
        await old.said(b"stopping")
        async with spawning(folder) as new:
            _, owner = await initialized(new)
            assert owner != old.process.pid
            assert old.process.poll() is None
            assert await old.code() == 0
            assert [owner] == owners_of(folder)
            assert await initialized_again(folder)
