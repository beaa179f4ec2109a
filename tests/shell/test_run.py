"""The tasks of one run, with memory streams in place of our own stdin and stdout."""

from __future__ import annotations

import math
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import evolve
from trio.testing import memory_stream_one_way_pair

from acpbridge.config import Limits, Settings
from acpbridge.core.effects import Effect, Finish, StartAgent, ToClient
from acpbridge.core.events import (
    AgentExited,
    AgentGarbled,
    AgentStarted,
    ClientClosed,
    ClientSent,
    Event,
    StopAsked,
)
from acpbridge.shell.driver import Core
from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.run import Front
from acpbridge.shell.surroundings import Surroundings
from tests.shell import passthrough
from tests.shell.clock import quickest_s
from tests.shell.processes import stat
from tests.shell.streams import RecordingStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

pytestmark = pytest.mark.process

BOUND_S = 10.0
LIMITS = Limits(agent_eof_s=0.2, agent_term_s=0.2, pipe_tail_s=0.2, flush_max_s=0.2)
REQUEST = b'{"jsonrpc":"2.0","id":%d,"method":"x"}'


class Run:
    """A front at work in the background, and the client's two ends of it."""

    def __init__(self, *argv: str, core: Core[Any] | None = None, limits: Limits = LIMITS) -> None:
        self.to_us, self.stdin = memory_stream_one_way_pair()
        self.stdout, self.from_us = memory_stream_one_way_pair()
        self.notes = Notes(Sink(2, bytes_max=1 << 20), level="error")
        self.seen: list[Event] = []
        """Every event that the core was fed."""
        self._core = core or passthrough.core()
        self._news = trio.Event()
        self.front = Front(
            Settings(limits=limits),
            argv,
            Core(self._core.bridge, self._core.begin, self._step),
            around=Surroundings(Sink(2, bytes_max=1 << 20), self.notes, None),
        )
        self.code: int | None = None
        self.ended = trio.Event()

    def _step(self, bridge: Any, now_s: float, event: Event) -> Iterable[Effect]:
        self.seen.append(event)
        self._news.set()
        self._news = trio.Event()
        return self._core.step(bridge, now_s, event)

    async def until(self, kind: type[Event]) -> Any:
        """The first event of this kind, once it was fed."""
        with trio.fail_after(BOUND_S):
            while True:
                for event in self.seen:
                    if isinstance(event, kind):
                        return event
                await self._news.wait()

    async def serve(
        self,
        stdin: trio.abc.ReceiveStream | None = None,
        stdout: trio.abc.SendStream | None = None,
    ) -> None:
        with trio.fail_after(BOUND_S):
            self.code = await self.front.serve(stdin or self.stdin, stdout or self.stdout)
        self.ended.set()

    async def read_lines(self, count: int) -> list[bytes]:
        data = b""
        with trio.fail_after(BOUND_S):
            while data.count(b"\n") < count:
                data += await self.from_us.receive_some()
        return data.splitlines()


async def test_both_directions_and_the_client_s_end(nursery: trio.Nursery) -> None:
    """The last line needs no line feed; what it caused is still delivered."""
    run = Run("cat")
    nursery.start_soon(run.serve)
    await run.to_us.send_all(REQUEST % 1 + b"\n" + REQUEST % 2)
    assert [REQUEST % 1] == await run.read_lines(1)
    await run.to_us.aclose()
    assert [REQUEST % 2] == await run.read_lines(1)
    await run.ended.wait()

    assert run.code == 0


async def test_a_client_that_stops_listening_has_left(nursery: trio.Nursery) -> None:
    """A broken stdout is told once, like the end of stdin."""
    run = Run("cat")
    await run.from_us.aclose()
    nursery.start_soon(run.serve)
    await run.to_us.send_all(REQUEST % 1 + b"\n")
    await run.ended.wait()

    assert run.code == 0


async def test_an_agent_that_ends_by_itself_decides_the_code(nursery: trio.Nursery) -> None:
    run = Run("sh", "-c", "exit 5")
    await run.serve()

    assert run.code == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_asks_to_stop(number: signal.Signals, nursery: trio.Nursery) -> None:
    run = Run("cat")
    nursery.start_soon(run.serve)
    await run.to_us.send_all(REQUEST % 1 + b"\n")
    await run.read_lines(1)
    os.kill(os.getpid(), number)
    await run.ended.wait()

    assert run.code == 0


async def test_a_hangup_that_was_ignored_stays_ignored(nursery: trio.Nursery) -> None:
    """That is nohup's promise."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = Run("cat")
        nursery.start_soon(run.serve)
        await run.to_us.send_all(REQUEST % 1 + b"\n")
        await run.read_lines(1)
        os.kill(os.getpid(), signal.SIGHUP)
        await run.to_us.send_all(REQUEST % 2 + b"\n")
        assert [REQUEST % 2] == await run.read_lines(1)
    finally:
        await run.to_us.aclose()
        await run.ended.wait()
        signal.signal(signal.SIGHUP, before)


STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done")


async def test_an_agent_that_ignores_everything_ends_within_the_bound(
    nursery: trio.Nursery,
) -> None:
    """EOF, 0.2 s, SIGTERM, 0.2 s, SIGKILL."""

    async def end_s() -> float:
        run = Run(*STUBBORN)
        nursery.start_soon(run.serve)
        await run.until(AgentGarbled)
        begin_s = trio.current_time()
        os.kill(os.getpid(), signal.SIGTERM)
        await run.ended.wait()
        assert run.code == 0
        return trio.current_time() - begin_s

    assert 0.3 < await quickest_s(1.5, end_s) < 1.5


@pytest.mark.parametrize(("second", "is_killed"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
async def test_the_same_signal_again_kills_at_once(
    second: signal.Signals, is_killed: bool, nursery: trio.Nursery
) -> None:
    """Somebody at a keyboard does not wait six seconds; two kinds at once are no impatience."""

    async def end_s() -> float:
        run = Run(*STUBBORN, limits=evolve(LIMITS, agent_eof_s=2.0, agent_term_s=0.0))
        nursery.start_soon(run.serve)
        await run.until(AgentGarbled)
        begin_s = trio.current_time()
        os.kill(os.getpid(), signal.SIGINT)
        await run.until(StopAsked)
        os.kill(os.getpid(), second)
        await run.ended.wait()
        return trio.current_time() - begin_s

    enough_s = 1.9 if is_killed else math.inf
    assert is_killed is (await quickest_s(enough_s, end_s) < 1.9)


def scripted(answer: Callable[[Event], Sequence[Effect]]) -> Core[None]:
    """A core that starts an agent and then does what a test says."""
    return Core(None, lambda _b, _n: (StartAgent(1),), lambda _b, _n, event: answer(event))


async def test_a_core_that_forgets_its_agent_leaves_nothing_behind(nursery: trio.Nursery) -> None:
    """Finish without StopAgent: the shell ends what lives."""
    run = Run("cat", core=scripted(lambda event: (Finish(4),) if event == ClientClosed() else ()))
    nursery.start_soon(run.serve)
    await run.to_us.aclose()
    await run.ended.wait()

    assert run.code == 4


async def test_a_core_that_never_finishes_is_ended(nursery: trio.Nursery) -> None:
    """A stop signal ends the process in any case, within the sum of the bounds and 1 s."""
    run = Run("cat", core=scripted(lambda _event: ()))
    nursery.start_soon(run.serve)
    await run.until(AgentStarted)
    os.kill(os.getpid(), signal.SIGTERM)
    await run.ended.wait()

    assert run.code == 0
    assert run.notes.counters["stop_forced"] == 1


async def test_what_waits_for_the_client_is_flushed_before_the_end(nursery: trio.Nursery) -> None:
    def answer(event: Event) -> Sequence[Effect]:
        return (ToClient(b"last words"), Finish(0)) if isinstance(event, AgentExited) else ()

    run = Run("true", core=scripted(answer))
    stream = RecordingStream()
    await run.serve(stdout=stream)

    assert b"last words\n" == stream.data
    assert stream.is_closed


async def test_a_client_that_does_not_read_holds_the_end_up_by_the_flush_only(
    nursery: trio.Nursery,
) -> None:
    def answer(event: Event) -> Sequence[Effect]:
        return (ToClient(b"last words"), Finish(0)) if isinstance(event, AgentExited) else ()

    async def end_s() -> float:
        run = Run("true", core=scripted(answer))
        stream = RecordingStream()
        stream.block()
        begin_s = trio.current_time()
        await run.serve(stdout=stream)
        assert b"l" == stream.data
        return trio.current_time() - begin_s

    assert 0.2 <= await quickest_s(1.2, end_s) < 1.2


class Requests(trio.abc.ReceiveStream):
    """A client that writes as fast as it is read, `count` requests and then the end."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.taken = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.taken == self._count:
            return b""
        self.taken += 1
        return REQUEST % self.taken + b"\n"

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def stopped(pid: int) -> None:
    """Return once it stands: a SIGCONT before its SIGSTOP would be for nothing."""
    while stat(pid)[0] != "T":
        await trio.lowlevel.checkpoint()


async def test_a_backlog_toward_the_agent_holds_the_client_back(nursery: trio.Nursery) -> None:
    """An agent that does not read bounds what we take; when it reads again, nothing is lost."""
    count = 5000
    run = Run(
        *("sh", "-c", "echo $$; kill -STOP $$; exec cat"),
        limits=evolve(LIMITS, outbox_high_bytes=10_000, agent_eof_s=BOUND_S),
    )
    requests = Requests(count)
    nursery.start_soon(run.serve, requests)
    pid = int((await run.until(AgentGarbled)).fault.raw)
    await trio.testing.wait_all_tasks_blocked(0.05)
    held_bytes = requests.taken * len(REQUEST)
    assert 10_000 < held_bytes < 150_000
    with trio.fail_after(BOUND_S):
        await stopped(pid)
    os.kill(pid, signal.SIGCONT)
    lines = await run.read_lines(count)

    assert [REQUEST % number for number in range(1, count + 1)] == lines


async def test_a_client_that_writes_and_never_reads_is_held_back_at_the_hard_bound(
    nursery: trio.Nursery,
) -> None:
    """Its requests make answers; they wait in memory, up to a limit with a name."""

    def answer(event: Event) -> Sequence[Effect]:
        if isinstance(event, ClientSent):
            return (ToClient(b"x" * 999),)
        return (Finish(0),) if event == ClientClosed() else ()

    run = Run("cat", core=scripted(answer), limits=evolve(LIMITS, outbox_hard_bytes=50_000))
    requests, stdout = Requests(200), RecordingStream()
    stdout.block()
    nursery.start_soon(run.serve, requests, stdout)
    await run.until(AgentStarted)
    await trio.testing.wait_all_tasks_blocked()
    assert requests.taken == 50
    stdout.unblock()
    await run.ended.wait()

    assert (b"x" * 999 + b"\n") * 200 == stdout.data


async def test_the_core_s_own_fault_ends_the_run_and_the_agent(nursery: trio.Nursery) -> None:
    """There is no going on from a half-applied step: it crashes, and leaves no process."""

    def answer(event: Event) -> Sequence[Effect]:
        if event == StopAsked("SIGTERM"):
            raise ZeroDivisionError
        return ()

    run = Run("cat", core=scripted(answer))
    with pytest.RaisesGroup(pytest.RaisesExc(ZeroDivisionError), flatten_subgroups=True):
        async with trio.open_nursery() as inner:
            inner.start_soon(run.serve)
            await run.until(AgentStarted)
            (process,) = run.front._processes
            os.kill(os.getpid(), signal.SIGTERM)

    assert process.ended.is_set()


async def test_a_client_leaves_while_the_agent_reads_nothing(nursery: trio.Nursery) -> None:
    """The EOF stands behind bytes that nobody takes; the bridge must not outlive its client."""
    run = Run(
        *("sh", "-c", "echo $$; exec sleep 1000"), limits=evolve(LIMITS, outbox_high_bytes=10_000)
    )
    read_fd, write_fd = os.pipe()
    stdin = trio.lowlevel.FdStream(read_fd)
    client = trio.lowlevel.FdStream(write_fd)
    nursery.start_soon(run.serve, stdin)
    await run.until(AgentGarbled)
    with trio.move_on_after(0.5):
        await client.send_all((REQUEST % 1 + b"\n") * 20_000)
    await client.aclose()
    await run.ended.wait()
    await stdin.aclose()

    assert run.code == 0
    assert ClientClosed() in run.seen


async def test_a_client_that_is_killed_over_unread_output_has_left(nursery: trio.Nursery) -> None:
    """Node connects its children by sockets, and a socket with unread bytes ends in a reset."""
    ours, theirs = socket.socketpair()
    run = Run("cat")
    nursery.start_soon(run.serve, trio.lowlevel.FdStream(os.dup(ours.fileno())))
    await run.until(AgentStarted)
    ours.sendall(b"unread")
    theirs.close()
    await run.ended.wait()
    ours.close()

    assert run.code == 0
    assert ClientClosed() in run.seen
