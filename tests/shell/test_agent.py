"""Real processes, small ones: shells and Python one-liners."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from acpbridge.core.events import AgentExited, AgentLeft, AgentStarted
from tests.shell.clock import quickest_s
from tests.shell.processes import gone, is_alive
from tests.shell.world import BOUND_S, LIMITS, PATIENT, World, python, shell, world

__all__ = ["world"]

pytestmark = pytest.mark.process


async def test_lines_come_between_start_and_exit(world: World) -> None:
    """The last line has no line feed and counts all the same."""
    with trio.fail_after(BOUND_S):
        await world.new_agent(*shell("echo one; printf two; exit 3")).live()

    assert [AgentStarted(1), b"one", b"two", AgentExited(1, "exit status 3")] == world.log


async def test_what_is_put_before_the_start_is_written(world: World) -> None:
    agent = world.new_agent("cat", limits=PATIENT)
    agent.outbox.put(b"early")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.live)
        with trio.fail_after(BOUND_S):
            await world.seen(b"early")
            agent.outbox.put(b"late")
            agent.outbox.flush()
            await world.seen(b"late")
            agent.stop(now=False)
            await agent.ended.wait()

    assert [AgentStarted(1), b"early", b"late", AgentExited(1, "exit status 0")] == world.log


async def test_it_lives_in_a_session_of_its_own(world: World) -> None:
    """Ctrl-C at a terminal is for the bridge, which ends the agent in order."""
    script = "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))"
    with trio.fail_after(BOUND_S):
        await world.new_agent(*python(script)).live()

    assert b"True" in world.log


@pytest.mark.parametrize(
    ("trap", "script", "least_s"),
    [
        pytest.param(":", "cat", 0.0, id="eof"),
        pytest.param("trap '' HUP", "sleep 100", 0.2, id="sigterm"),
        pytest.param("trap '' TERM", "while :; do sleep 0.1; done", 0.4, id="sigkill"),
    ],
)
async def test_the_end_escalates(trap: str, script: str, least_s: float, world: World) -> None:
    """Close stdin, wait, SIGTERM to the group, wait, SIGKILL to the group."""

    async def end_s() -> float:
        # An agent before this one has said "up" too.
        world.log.clear()
        agent = world.new_agent(*shell(f"{trap}; echo up; {script}"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.live)
            with trio.fail_after(BOUND_S):
                await world.seen(b"up")
                begin_s = trio.current_time()
                agent.stop(now=False)
                await agent.ended.wait()
        return trio.current_time() - begin_s

    assert least_s <= await quickest_s(least_s + 1, end_s) < least_s + 1


async def test_now_skips_the_waits(world: World) -> None:
    agent = world.new_agent(*shell("trap '' TERM; echo up; sleep 100"), limits=PATIENT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.live)
        with trio.fail_after(BOUND_S):
            await world.seen(b"up")
            agent.stop(now=False)
            agent.stop(now=True)
            await agent.ended.wait()

    assert AgentExited(1, "killed by SIGKILL") == world.log[-1]


@pytest.mark.parametrize("end", ["exit", "stop", "cancel"])
async def test_descendants_are_gone_afterwards(end: str, world: World) -> None:
    """W1: a wrapper shell and a sleeper that ignores everything but SIGKILL."""
    sleeper = "(trap '' TERM HUP; exec sleep 1000) >/dev/null 2>&1 </dev/null & echo $!"
    agent = world.new_agent(*shell(f"{sleeper}; read line"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.live)
        with trio.fail_after(BOUND_S):
            while len(world.log) < 2:
                await world.news.wait()
            sleeper_pid = int(world.log[1])
            assert is_alive(sleeper_pid)
            if end == "exit":
                agent.outbox.put(b"go")
                agent.outbox.flush()
            elif end == "stop":
                agent.stop(now=False)
            else:
                nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await agent.ended.wait()
                await gone(sleeper_pid)


async def test_a_held_stdout_delays_the_end_by_the_tail_only(world: World) -> None:
    """A grandchild that keeps the pipe open may still speak, for pipe_tail_s and no longer."""
    script = "trap '' TERM; (sleep 0.05; echo tail; exec sleep 1000) & echo lead; exit 0"
    limits = evolve(LIMITS, pipe_tail_s=1.0)

    async def end_s() -> float:
        world.log.clear()
        begin_s = trio.current_time()
        with trio.fail_after(BOUND_S):
            await world.new_agent(*shell(script), limits=limits).live()
        assert [b"lead", b"tail", AgentExited(1, "exit status 0")] == world.log[1:]
        return trio.current_time() - begin_s

    assert 1.0 <= await quickest_s(2.0, end_s) < 2.0


async def test_orphans_hear_of_it_before_they_are_killed(world: World, tmp_path: Path) -> None:
    """SIGTERM comes with the leader's exit: who obeys need not wait for the tail."""
    mark = tmp_path / "told"
    # Short sleeps: a fork that is not yet a program loses the signal, and ends all the same.
    nap = "while :; do sleep 0.01; done"
    orphan = f"(trap 'echo > {mark}; exit' TERM; echo > {mark}.up; {nap})"
    leader = f"{orphan} & until [ -e {mark}.up ]; do sleep 0.01; done"
    with trio.fail_after(BOUND_S):
        await world.new_agent(*shell(leader), limits=PATIENT).live()

    assert mark.exists()


async def test_stderr_is_drained_and_passed_on(world: World) -> None:
    """W2: nothing reads our stderr here, and the agent still gets through."""
    script = "import sys; sys.stderr.write('x' * 99 + '\\n'); sys.stderr.write('y' * (1 << 19))"
    with trio.fail_after(BOUND_S):
        await world.new_agent(*python(f"{script}; print('done')")).live()

    assert b"done" in world.log
    assert world.stderr_text == "x" * 99 + "\n" + "y" * (1 << 19)


async def test_the_last_words_explain_a_death(world: World) -> None:
    """Its last line on stderr, without colours and control characters; the tail is bounded."""
    script = "printf '\\033[31mconfig.yaml: no such model\\033[0m\\n\\n' >&2; exit 1"
    with trio.fail_after(BOUND_S):
        await world.new_agent(*shell(script)).live()

    assert world.log[-1] == AgentExited(
        1, "exit status 1, last on stderr: [31mconfig.yaml: no such model[0m"
    )


async def test_its_secrets_are_no_explanation(world: World) -> None:
    with trio.fail_after(BOUND_S):
        await world.new_agent(*shell("echo 'refused: token=hunter2' >&2; exit 1")).live()

    assert world.log[-1].reason == "exit status 1, last on stderr: refused: token=<scrubbed>"


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (40, "signal 40")])
async def test_a_signal_is_named(number: int, name: str, world: World) -> None:
    with trio.fail_after(BOUND_S):
        await world.new_agent(*shell(f"kill -{int(number)} $$")).live()

    assert world.log[-1] == AgentExited(1, f"killed by {name}")


async def test_a_death_that_was_asked_for_is_not_explained(world: World) -> None:
    limits = evolve(PATIENT, agent_eof_s=0.0)
    agent = world.new_agent(*shell("echo up; echo interrupted >&2; exec sleep 1000"), limits=limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.live)
        with trio.fail_after(BOUND_S):
            await world.seen(b"up")
            agent.stop(now=False)

    assert world.log[-1] == AgentExited(1, "killed by SIGTERM")


async def test_only_the_end_of_stderr_is_kept(world: World) -> None:
    script = "import sys; sys.stderr.write('a' * 50 + 'b' * 100); sys.exit(2)"
    with trio.fail_after(BOUND_S):
        await world.new_agent(*python(script)).live()

    assert world.log[-1].reason == f"exit status 2, last on stderr: {'b' * 100}"


async def test_a_good_exit_needs_no_explanation(world: World) -> None:
    with trio.fail_after(BOUND_S):
        await world.new_agent(*shell("echo bye >&2")).live()

    assert world.log[-1] == AgentExited(1, "exit status 0")


@pytest.mark.parametrize(
    ("make", "part"),
    [
        pytest.param(lambda _: "no-such-agent", "no command 'no-such-agent'; install", id="name"),
        pytest.param(str, "is not executable; try chmod +x", id="mode"),
        pytest.param(lambda path: path.parent / "gone", "install it", id="path"),
        pytest.param(lambda _: "a\0b", "holds a NUL character; remove it", id="nul"),
    ],
)
async def test_a_command_that_cannot_start_is_told_with_its_remedy(
    make: Any, part: str, world: World, tmp_path: Path
) -> None:
    plain = tmp_path / "agent"
    plain.write_text("no program")
    agent = world.new_agent(str(make(plain)))
    agent.outbox.put(b"never read")
    await agent.live()
    (event,) = world.log

    assert event.started is False
    assert part in event.reason
    assert "\n" not in event.reason
    assert agent.ended.is_set()
    assert agent.outbox.dropped_lines == 1


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("no program", "is no program for this machine"),
        ("#!/no/such/interpreter\n", "names an interpreter in its first line"),
    ],
)
async def test_a_file_that_is_no_program_is_told(
    text: str, part: str, world: World, tmp_path: Path
) -> None:
    script = tmp_path / "agent"
    script.write_text(text)
    script.chmod(0o755)
    await world.new_agent(str(script)).live()

    assert part in world.log[0].reason


async def test_a_missing_working_directory_is_told(world: World, tmp_path: Path) -> None:
    here = Path.cwd()
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    try:
        (tmp_path / "gone").rmdir()
        await world.new_agent("no-such-agent").live()
    finally:
        os.chdir(here)

    assert "working directory is gone" in world.log[0].reason


async def test_the_client_s_backlog_holds_the_agent_back(world: World) -> None:
    """The bridge reads no more than what it has room for; nothing of it is lost."""
    count, line = 5000, b"x" * 99
    script = f"import sys; [sys.stdout.write('x' * 99 + '\\n') for _ in range({count})]"
    world.client.put(b"y" * 1000)
    agent = world.new_agent(*python(script), limits=evolve(PATIENT, outbox_high_bytes=1000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.live)
        with trio.fail_after(BOUND_S):
            await world.seen(line)
            await trio.testing.wait_all_tasks_blocked(0.05)
            held_bytes = 100 * world.log.count(line)
            world.client.abandon()
            await agent.ended.wait()

    assert held_bytes < 300_000
    assert count == world.log.count(line)
    assert isinstance(world.log[-1], AgentExited)


async def test_what_it_wrote_before_it_died_is_fed_to_a_slow_client_too(world: World) -> None:
    """The pipe's rest is read within the tail although the client has no room."""
    world.client.put(b"y" * 1000)
    agent = world.new_agent(
        *shell("echo one; sleep 0.1; echo two; exit 1"),
        limits=evolve(LIMITS, outbox_high_bytes=1000),
    )
    with trio.fail_after(BOUND_S):
        await agent.live()

    assert [b"one", b"two", AgentExited(1, "exit status 1")] == world.log[1:]


@pytest.mark.parametrize("which", ["stdin", "stdout"])
async def test_an_agent_that_closes_a_pipe_is_ended(which: str, world: World) -> None:
    """Deaf or mute it cannot serve, and without an end its prompts would wait for ever."""
    redirect = {"stdin": "<&-", "stdout": ">&-"}[which]
    limits = evolve(LIMITS, agent_term_s=PATIENT.agent_term_s)
    agent = world.new_agent(*shell(f"echo up; exec sleep 1000 {redirect}"), limits=limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.live)
        with trio.fail_after(BOUND_S):
            await world.seen(b"up")
            while not agent.ended.is_set():
                agent.outbox.put(b"x")
                agent.outbox.flush()
                await trio.testing.wait_all_tasks_blocked(0.01)

    assert world.log[-1] == AgentExited(1, "killed by SIGTERM")


@pytest.mark.parametrize(
    ("script", "line", "times"),
    [("exit 1", b"", 1), ("exec sleep 1000 <&-", b"x" * 100_000, 2)],
)
async def test_it_is_told_when_nothing_reaches_the_agent_any_more(
    script: str, line: bytes, times: int, world: World
) -> None:
    """By its exit, before its last lines; and before that by a stdin that it closed."""
    agent = world.new_agent(*shell(script))
    if line:
        agent.outbox.put(line)
    with trio.fail_after(BOUND_S):
        await agent.live()

    assert [AgentLeft(1)] * times == world.left
