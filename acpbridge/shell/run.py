"""One bridge over stdio: `acpbridge run`.

Everything lives in one nursery and ends within a bound: a stop signal or the client's EOF is an
event for the core, the core ends the agent and asks to finish, and what still waits for the
client then has `flush_max_s` to go out.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from acpbridge.core.bridge import begin, start, step
from acpbridge.core.events import ClientClosed, StopAsked
from acpbridge.errors import UsageFault
from acpbridge.shell.agent import AgentProcess
from acpbridge.shell.disk import Disk
from acpbridge.shell.driver import Core, Driver
from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.record import TapeRecorder
from acpbridge.shell.stdio import check_stdio, hung_up, own_stdio, receive
from acpbridge.store.state_dir import prepare_state_dir, usual_state_dir
from acpbridge.wire.lines import LineDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from trio.abc import ReceiveStream, SendStream

    from acpbridge.config import Settings
    from acpbridge.core.events import Event
    from acpbridge.shell.journaling import Journaling
    from acpbridge.store.tape import Tape

StateT = TypeVar("StateT")

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOG_FLUSH_MAX_S = 0.5
"""A stderr that nobody reads holds the end up for this long."""
_SPARE_S = 1.0
"""Time beyond the agent's own bounds before a stop is forced."""


def serve_stdio(settings: Settings, argv: Sequence[str]) -> int:
    """Run the bridge to its end in this process; returns the exit code.

    Raises:
        AcpBridgeError: Nothing was started: a file, a directory or a stream cannot be used.
    """
    check_stdio()
    nonce = secrets.token_hex(4)
    journaling = _journaling(settings, nonce)
    bridge = start(settings.policy, settings.agent, settings.client, nonce)
    return trio.run(run_stdio, settings, argv, Core(bridge, begin, step), journaling)


def _journaling(settings: Settings, nonce: str) -> Journaling | None:
    """The journal of this run, not opened yet: its thread does that while the agent starts."""
    if not settings.limits.journal:
        return None
    from acpbridge.shell.journaling import Journaling  # noqa: PLC0415 - the tests' bridges need none

    state_dir = prepare_state_dir(settings.state_dir or usual_state_dir())
    return Journaling(
        state_dir,
        nonce,
        settings.limits.journal_days_max,
        settings.limits.journal_bytes_max,
        sends_undelivered=settings.policy.undelivered == "send",
    )


async def run_stdio(
    settings: Settings,
    argv: Sequence[str],
    core: Core[StateT],
    journaling: Journaling | None = None,
) -> int:
    """Run one agent behind our own stdin and stdout; returns the exit code.

    Raises:
        UsageFault: The log file or the tape cannot be written.
    """
    limits = settings.limits
    with ExitStack() as stack:
        stdin, stdout = stack.enter_context(own_stdio())
        log_fd = stack.enter_context(_log_descriptor(settings.log_file))
        tape = _open_tape(settings)
        stderr = Sink(2, bytes_max=limits.stderr_bytes_max)
        log = stderr if log_fd is None else Sink(log_fd, bytes_max=limits.stderr_bytes_max)
        notes = Notes(log, level=settings.log_level, is_stamped=log_fd is not None)
        async with _written({stderr, log}), _recording(tape, notes, settings) as recorder:
            front = Front(
                settings,
                argv,
                core,
                stderr=stderr,
                notes=notes,
                recorder=recorder,
                journaling=journaling,
            )
            return await front.serve(stdin, stdout)


def _open_tape(settings: Settings) -> Tape | None:
    if settings.record is None:
        return None
    from acpbridge.store.tape import open_tape  # noqa: PLC0415 - most starts record nothing

    return open_tape(settings.record, recorded=time.strftime("%Y-%m-%d"))


@asynccontextmanager
async def _written(sinks: set[Sink]) -> AsyncIterator[None]:
    """Write the sinks while the block runs, and what they still hold after it."""
    async with trio.open_nursery() as nursery:
        for sink in sinks:
            nursery.start_soon(sink.run)
        try:
            yield
        finally:
            with trio.move_on_after(_LOG_FLUSH_MAX_S, shield=True):
                for sink in sinks:
                    await sink.drained()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _recording(
    tape: Tape | None, notes: Notes, settings: Settings
) -> AsyncIterator[TapeRecorder | None]:
    """Write the tape while the block runs, and its rest after it."""
    if tape is None:
        yield None
        return
    recorder = TapeRecorder(tape, notes=notes, bytes_max=settings.limits.tape_bytes_max)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        try:
            yield recorder
        finally:
            recorder.end()
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.deadline = trio.current_time() + settings.limits.flush_max_s


class Front(Generic[StateT]):
    """The tasks of one run."""

    def __init__(
        self,
        settings: Settings,
        argv: Sequence[str],
        core: Core[StateT],
        *,
        stderr: Sink,
        notes: Notes,
        recorder: TapeRecorder | None,
        journaling: Journaling | None = None,
    ) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._argv = argv
        self._stderr = stderr
        self._notes = notes
        self._nursery: trio.Nursery | None = None
        self._processes: set[AgentProcess] = set()
        self._is_client_open = True
        self._client = Outbox(
            high_bytes=self._limits.outbox_high_bytes,
            piece_bytes_max=self._limits.write_bytes_max,
        )
        self._disk: Disk | None = None
        if journaling is not None:
            self._disk = Disk(journaling, feed=self._feed, notes=notes, limits=self._limits)
        self._driver = Driver(
            core,
            client=self._client,
            start_agent=self._start_agent,
            notes=notes,
            # Jitter only spreads retries; it guards nothing.
            chance=random.Random(),  # noqa: S311
            recorder=recorder,
            disk=self._disk,
        )

    def _feed(self, event: Event) -> None:
        self._driver.feed(event)

    async def serve(self, stdin: ReceiveStream, stdout: SendStream) -> int:
        """Serve until the core asks to finish; then flush, end what lives, and return."""
        driver = self._driver
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._watch_signals)
            nursery.start_soon(driver.timers.run)
            if self._disk is not None:
                nursery.start_soon(self._disk.run)
            nursery.start_soon(self._write_client, stdout)
            driver.begin()
            nursery.start_soon(self._read_client, stdin)
            await driver.finished.wait()
            if driver.exit_code and self._is_client_open:
                # The client learns of our end by EOF; what it writes until then is not left open.
                with trio.move_on_after(self._limits.last_words_s):
                    await trio.sleep_forever()
            with trio.move_on_after(self._limits.flush_max_s):
                await self._client.drained()
            await self._end_agents()
            nursery.cancel_scope.cancel()
        if self._disk is not None:
            with trio.move_on_after(self._limits.flush_max_s):
                await self._disk.end()
        return driver.exit_code

    async def _end_agents(self) -> None:
        """The core has ended them already; one that it forgot is ended the same way."""
        forgotten = list(self._processes)
        for agent in forgotten:
            agent.stop(now=False)
        for agent in forgotten:
            await agent.ended.wait()

    def _start_agent(self, run: int) -> AgentProcess:
        agent = AgentProcess(
            run,
            self._argv,
            limits=self._limits,
            line_bytes_max=self._settings.policy.line_bytes_max,
            client=self._client,
            stderr=self._stderr,
            notes=self._notes,
            feeder=self._driver,
        )
        self._processes.add(agent)
        assert self._nursery is not None
        self._nursery.start_soon(self._run_agent, agent)
        return agent

    async def _run_agent(self, agent: AgentProcess) -> None:
        await agent.live()
        self._processes.discard(agent)

    async def _read_client(self, stdin: ReceiveStream) -> None:
        decoder = LineDecoder(self._settings.policy.line_bytes_max)
        driver = self._driver
        high_bytes, hard_bytes = self._limits.outbox_high_bytes, self._limits.outbox_hard_bytes
        while data := await _read(stdin):
            driver.take_client(decoder.feed(data))
            if driver.agent is not None and not driver.agent.outbox.has_room(high_bytes):
                await self._room(driver.agent.outbox, high_bytes, stdin)
            # Requests make answers: past the hard bound the client must read before it writes.
            if not self._client.has_room(hard_bytes):
                await self._room(self._client, hard_bytes, stdin)
        driver.take_client(decoder.end())
        self._client_closed()

    async def _room(self, outbox: Outbox, high_bytes: int, stdin: ReceiveStream) -> None:
        """Wait until the outbox takes more; a client that leaves meanwhile ends the wait's cause.

        The EOF stands behind what we do not read, so an agent that reads nothing would hide it.
        """
        async with trio.open_nursery() as nursery:
            if isinstance(stdin, trio.lowlevel.FdStream):
                nursery.start_soon(self._watch_hang_up, stdin.fileno())
            await outbox.room(high_bytes)
            nursery.cancel_scope.cancel()

    async def _watch_hang_up(self, fd: int) -> None:
        await hung_up(fd)
        self._client_closed()

    async def _write_client(self, stdout: SendStream) -> None:
        await self._client.run(stdout)
        self._client_closed()

    def _client_closed(self) -> None:
        if self._is_client_open:
            self._is_client_open = False
            self._driver.feed(ClientClosed())

    async def _watch_signals(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """A signal asks to stop; the same one again kills the agent at once.

        Only the same one: a terminal that closes sends SIGHUP, and its client SIGTERM with it.
        """
        # nohup's promise: a hang-up that was ignored when we started stays ignored.
        is_heard = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        wanted = [number for number in _SIGNALS if number is not signal.SIGHUP or is_heard]
        seen: set[int] = set()
        with trio.open_signal_receiver(*wanted) as signals:
            task_status.started()
            assert self._nursery is not None
            async for number in signals:
                if not seen:
                    self._nursery.start_soon(self._force_stop)
                for agent in self._processes if number in seen else ():
                    agent.stop(now=True)
                seen.add(number)
                self._driver.feed(StopAsked(signal.Signals(number).name))

    async def _force_stop(self) -> None:
        """End in any case, whatever the core thinks."""
        limits = self._limits
        await trio.sleep(limits.agent_eof_s + limits.agent_term_s + limits.flush_max_s + _SPARE_S)
        self._notes.note("stop_forced", "error")
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()


async def _read(stdin: ReceiveStream) -> bytes | bytearray:
    """What one read brings, empty at the end, however the client came to it.

    Node connects its children by sockets: one that is killed over our unread output resets them.
    """
    try:
        return await receive(stdin)
    except trio.BrokenResourceError:
        return b""


@contextmanager
def _log_descriptor(path: Path | None) -> Iterator[int | None]:
    if path is None:
        yield None
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = f"cannot write the log file {path}: {error.strerror}; choose another --log-file"
        raise UsageFault("log_file_unusable", hint) from error
    try:
        yield fd
    finally:
        os.close(fd)
