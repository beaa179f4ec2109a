"""The bridge as a process: how it starts, passes on, holds back and ends (W1, W2, W4)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tests.e2e.bridge import BOUND_S, SCRIPTED, BridgeProcess, bridge
from tests.shell.clock import quickest_s
from tests.shell.processes import gone, is_alive

pytestmark = pytest.mark.process

MIB = 1 << 20
SHORT = {"ACPBRIDGE_AGENT_EOF_S": "0.3", "ACPBRIDGE_AGENT_TERM_S": "0.3"}
WRAPPED = ("sh", "-c", '"$@"; true', "sh", *SCRIPTED)
"""The agent behind a shell, as behind npx or uvx."""


async def test_a_turn_goes_through() -> None:
    async with bridge(*SCRIPTED) as ours:
        await ours.begin()
        answer = await ours.answer(await ours.prompt("say hello"))
        await ours.close_stdin()

        assert {"stopReason": "end_turn"} == answer["result"]
        assert ["hello"] == ours.texts()
        assert await ours.code() == 0


async def ended_s(ours: BridgeProcess, end: str) -> float:
    """End it in this way; the seconds that it took."""
    if end == "eof":
        return await ours.leave_s()
    begin_s = trio.current_time()
    ours.process.send_signal(getattr(signal, end.upper()))
    assert await ours.code() == 0
    return trio.current_time() - begin_s


@pytest.mark.parametrize("end", ["eof", "sigterm", "sigint", "sighup"])
async def test_w1_no_process_of_the_group_outlives_the_bridge(end: str) -> None:
    """A wrapper shell, the agent, and a child that ignores SIGTERM and holds no pipe of ours."""

    async def end_s() -> float:
        async with bridge(*WRAPPED, "--child", environ=SHORT) as ours:
            pids = (await ours.begin())["_meta"]["pids"]
            assert len(pids) == 3
            assert all(map(is_alive, pids))
            took_s = await ended_s(ours, end)
            with trio.fail_after(1):
                for pid in pids:
                    await gone(pid)
            return took_s

    assert await quickest_s(2.0, end_s) < 2


@pytest.mark.parametrize("reads_stderr", [True, False])
async def test_w2_a_mib_on_stderr_blocks_nobody(reads_stderr: bool) -> None:
    """Not even when the client never reads ours; else it gets every byte."""
    async with bridge(*SCRIPTED, reads_stderr=reads_stderr) as ours:
        await ours.begin()
        answer = await ours.answer(await ours.prompt(f"stderr {MIB}"))
        await ours.close_stdin()

        assert "result" in answer
        assert await ours.code() == 0
        if reads_stderr:
            await ours.said(b"e" * MIB + b"\n")
            assert ours.stderr.count(b"e" * MIB + b"\n") == 1


async def test_w4_the_end_of_stdin_ends_everything_within_a_second() -> None:
    async def end_s() -> float:
        async with bridge(*SCRIPTED, environ={"ACPBRIDGE_AGENT_EOF_S": "60"}) as ours:
            pids = (await ours.begin())["_meta"]["pids"]
            took_s = await ours.leave_s()
            assert not is_alive(pids[0])
            return took_s

    assert await quickest_s(1.0, end_s) < 1


@pytest.mark.parametrize("end", ["eof", "sigterm"])
async def test_a_stubborn_agent_ends_within_the_bounds(end: str) -> None:
    """EOF and SIGTERM ignored, a turn running: both waits, and not a second more."""

    async def end_s() -> float:
        async with bridge(*SCRIPTED, "--ignore-eof", "--ignore-term", environ=SHORT) as ours:
            pids = (await ours.begin())["_meta"]["pids"]
            await ours.prompt("hang")
            await ours.until(lambda frame: frame.get("method") == "session/update")
            took_s = await ended_s(ours, end)
            assert not is_alive(pids[0])
            return took_s

    assert 0.6 <= await quickest_s(1.6, end_s) < 1.6


async def test_a_probe_leaves_nothing_behind() -> None:
    """Initialize, session/new, killed: the agent sees the end of its stdin."""
    async with bridge(*SCRIPTED) as ours:
        pids = (await ours.begin())["_meta"]["pids"]
        ours.process.kill()
        await ours.code()
        with trio.fail_after(5):
            await gone(pids[0])


@pytest.mark.parametrize(
    ("command", "remedy"),
    [("no-such-agent", "install it"), ("{here}/agent.txt", "chmod +x")],
)
async def test_an_agent_that_cannot_start_is_told_in_one_line(
    command: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.txt").touch()
    name = command.format(here=tmp_path)
    async with bridge(name) as ours:
        assert await ours.code() == 3
        while b"\n" not in ours.stderr:
            await trio.testing.wait_all_tasks_blocked(0.01)
    lines = ours.stderr.decode().splitlines()

    assert 1 == len(lines)
    assert name in lines[0]
    assert remedy in lines[0]
    assert [] == ours.frames


async def test_an_agent_that_cannot_start_is_told_where_the_client_left_at_once() -> None:
    """As a newcomer or a script tries a command: with nothing on stdin."""
    async with bridge("no-such-agent") as ours:
        await ours.close_stdin()
        stderr = await ours.said(b"install it")
        assert await ours.code() == 3

    assert b"acpbridge error agent_exited" in stderr


async def test_an_agent_that_ends_with_work_open_is_answered_for_and_exits_3() -> None:
    async with bridge(*SCRIPTED, options=("--no-restart",)) as ours:
        await ours.begin()
        answer = await ours.answer(await ours.prompt("exit 7"))

        assert "agent-exited" == answer["error"]["data"]["acpbridge"]["kind"]
        assert await ours.code() == 3
        assert ["going"] == ours.texts()


@pytest.mark.parametrize(("missing", "state"), [(1, "answered"), (2, "unknown"), (20, "unknown")])
async def test_an_agent_that_dies_within_its_answer(
    missing: int, state: str, tmp_path: Path
) -> None:
    """All but the line feed is an answer; anything less is none, and it may have run."""
    here = {"ACPBRIDGE_STATE_DIR": str(tmp_path / "state")}
    async with bridge(*SCRIPTED, environ=here) as ours:
        await ours.begin()
        answer = await ours.answer(await ours.prompt(f"cut {missing}"))
        after = await ours.answer(await ours.prompt("say after"))
        await ours.close_stdin()
        await ours.code()
    listed = [sys.executable, "-m", "acpbridge", "prompts", "--json"]
    done = await trio.run_process(listed, env={**os.environ, **here}, capture_stdout=True)
    last, first = (json.loads(line)["state"] for line in done.stdout.splitlines())

    assert ("result" if state == "answered" else "error") in answer
    assert state == "answered" or "may have run" in answer["error"]["message"]
    assert {"stopReason": "end_turn"} == after["result"], "the next one runs in a new process"
    assert (state, "answered") == (first, last)


async def test_20_mib_go_both_ways() -> None:
    """As one line each, and the connection lives on."""
    text = "echo " + "ü" * (10 * MIB)
    async with bridge(*SCRIPTED) as ours:
        await ours.begin()
        await ours.answer(await ours.prompt(text))
        await ours.answer(await ours.prompt("say after"))

        assert [text, "after"] == ours.texts()


async def test_a_client_that_does_not_read_costs_no_memory_and_loses_nothing() -> None:
    """200 MiB against a closed door: the agent is held back, then everything comes, in order."""
    count, size = 6400, 32 * 1024
    async with bridge(*SCRIPTED) as ours:
        await ours.begin()
        before_bytes = ours.rss_bytes()
        prompt_id = await ours.prompt(f"flood {count} {size}")
        samples = [before_bytes]
        with trio.fail_after(BOUND_S):
            # Until it stands still: no growth within a quarter of a second.
            while len(samples) < 2 or samples[-1] != samples[-2] or samples[-1] == before_bytes:
                await trio.testing.wait_all_tasks_blocked(0.25)
                samples.append(ours.rss_bytes())
        await ours.answer(prompt_id)

        assert max(samples) - before_bytes < 64 * MIB
        assert list(range(count)) == [int(text[:8]) for text in ours.texts()]
        assert {size} == {len(text) for text in ours.texts()}


async def test_a_tape_has_both_sides_and_no_secret(tmp_path: Path) -> None:
    tape = tmp_path / "turn.jsonl"
    server = {
        "name": "m",
        "command": "/bin/m",
        "args": ["--token", "hunter2"],
        "env": [{"name": "KEY", "value": "hunter2"}],
    }
    async with bridge(*SCRIPTED, options=("--record", str(tape))) as ours:
        await ours.begin()
        await ours.answer(await ours.ask("session/new", cwd="/", mcpServers=[server]))
        await ours.write(b"no json, token=hunter2\n")
        await ours.answer(await ours.prompt("say hello"))
        await ours.close_stdin()
        await ours.code()
    header, *lines = [json.loads(line) for line in tape.read_text().splitlines()]

    assert b"hunter2" not in tape.read_bytes()
    assert (1, "scripted", "1.0", "turn") == tuple(
        header[key] for key in ("tape", "agent", "version", "scenario")
    )
    assert "no json, token=<scrubbed>" in [line.get("line") for line in lines]
    assert ["client", "agent"] == [line["from"] for line in lines[:2]]
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)
    assert ours.frames[0] == lines[1]["frame"]


async def test_the_log_can_go_to_a_file(tmp_path: Path) -> None:
    log = tmp_path / "bridge.log"
    options = ("--log-file", str(log), "--log-level", "debug")
    async with bridge(*SCRIPTED, options=options) as ours:
        await ours.begin()
        await ours.close_stdin()
        await ours.code()

    assert ours.stderr == b""
    assert "agent_started" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def at_a_terminal(*args: str) -> tuple[int, str]:
    """Exit code of `acpbridge run args` at a terminal, and what the terminal shows."""
    terminal, inside = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "acpbridge", "run", *args],
        stdin=inside,
        stdout=inside,
        stderr=inside,
    ) as process:
        os.close(inside)
        shown = b""
        # Linux says EIO when the last writer has gone.
        with suppress(OSError):
            while data := os.read(terminal, 1000):
                shown += data
        os.close(terminal)
    return process.returncode, shown.decode()


@pytest.mark.parametrize("separator", [("--",), ()])
def test_at_a_terminal_the_agent_itself_runs(separator: tuple[str, ...]) -> None:
    """Terminal-auth arguments (`--setup`) are appended by the client and need the terminal."""
    script = "import sys; print('at a terminal:', sys.stdin.isatty(), sys.argv[1:])"
    code, shown = at_a_terminal(*separator, sys.executable, "-c", script, "--setup")

    assert code == 0
    assert "at a terminal: True ['--setup']" in shown
    assert "acpbridge: no ACP client at this terminal; running" in shown


def test_at_a_terminal_a_missing_agent_is_told() -> None:
    code, shown = at_a_terminal("--", "no-such-agent", "--setup")

    assert code == 3
    assert "cannot start no-such-agent: No such file or directory; install it" in shown
    assert "Traceback" not in shown
