"""One agent process: start it, pump its pipes, end it with all its descendants.

The process gets a session and a process group of its own, so that a signal reaches the real
agent behind `npx`, `uvx` or a shell. The group is killed while its leader is a zombie that
nobody has reaped: until then the kernel cannot give its number to a stranger.

PR_SET_PDEATHSIG is left alone on purpose. It fires when the *thread* that forked ends, and trio
forks in a worker thread that retires after ten idle seconds. If we are killed with SIGKILL, the
agent sees the end of its stdin, which is the protocol's own sign to go.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import trio

from acpbridge.core.events import AgentExited, AgentLeft, AgentStarted
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.stdio import receive
from acpbridge.wire.lines import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.abc import ReceiveStream

    from acpbridge.config import Limits
    from acpbridge.core.events import Event
    from acpbridge.shell.notes import Notes, Sink
    from acpbridge.shell.pace import Reader
    from acpbridge.wire.lines import Oversize

_LAST_WORDS_CHARS_MAX = 200


class Feeder(Protocol):
    """The two doors of the driver that a process needs."""

    def feed(self, event: Event, /) -> None:
        """Step the core with one event."""

    def take_agent(self, run: int, items: Sequence[bytes | Oversize], /) -> None:
        """Feed the lines that one read has brought."""


class AgentProcess:
    """The agent of one run, from its start to the last of its descendants.

    Args:
        run: The number of the run, as in `StartAgent`.
        argv: Command and arguments; found on PATH like in a shell. Directory and environment
            are inherited.
        client: The outbox that must have room before more is read from the agent.
    """

    def __init__(
        self,
        run: int,
        argv: Sequence[str],
        *,
        limits: Limits,
        line_bytes_max: int,
        client: Reader,
        stderr: Sink,
        notes: Notes,
        feeder: Feeder,
    ) -> None:
        self.run = run
        self._argv = list(argv)
        self._limits = limits
        self._client = client
        self._stderr = stderr
        self._notes = notes
        self._feeder = feeder
        self._decoder = LineDecoder(line_bytes_max)
        self._stop = trio.Event()
        self._stop_now = trio.Event()
        self._is_asked = False
        self._stderr_tail = b""
        self.begun = trio.Event()
        """It runs, or it was seen that it cannot: see `start_fault`."""
        self.start_fault = ""
        """Why it could not be started, in one line."""
        self.ended = trio.Event()
        """The process and its group are gone, and `AgentExited` was fed."""
        self.outbox = Outbox(
            high_bytes=limits.outbox_high_bytes, piece_bytes_max=limits.write_bytes_max
        )

    def stop(self, *, now: bool) -> None:
        """Begin the end: stdin, wait, SIGTERM, wait, SIGKILL; with `now` SIGKILL at once."""
        self._is_asked = True
        self._stop.set()
        if now:
            self._stop_now.set()

    async def live(self) -> None:
        """Run the process to its end and feed AgentStarted, its lines and AgentExited.

        When cancelled, the whole group is killed and reaped before this returns.
        """
        try:
            self._feeder.feed(await self._live())
        finally:
            self.ended.set()

    async def _live(self) -> AgentExited:
        try:
            process = await trio.lowlevel.open_process(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.outbox.abandon()
            self.start_fault = _start_fault(self._argv[0], error)
            self.begun.set()
            reason = f"cannot be started: {self.start_fault}"
            return AgentExited(self.run, reason, started=False)
        try:
            self._notes.note("agent_started", "debug", run=self.run, pid=process.pid)
            self._feeder.feed(AgentStarted(self.run))
            self.begun.set()
            await self._tend(process)
        finally:
            with trio.CancelScope(shield=True):
                # The leader is a zombie at most, so the number is still its own.
                _signal_group(process, signal.SIGKILL)
                code = await process.wait()
                await _close(process)
        self._feeder.take_agent(self.run, self._decoder.end())
        # A death that we asked for needs no explanation.
        words = "" if self._is_asked else _last_words(self._stderr_tail)
        return AgentExited(self.run, _exit_reason(code, words))

    async def _tend(self, process: trio.Process) -> None:
        """Pump until the leader has exited and its pipes are drained or given up."""
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        stderr_done, stdout_left = trio.Event(), trio.Event()
        reading = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, process.stdin)
            nursery.start_soon(self._read_while_alive, reading, process.stdout, stdout_left)
            nursery.start_soon(self._pass_stderr, process.stderr, stderr_done)
            nursery.start_soon(self._escalate, process)
            await _exited(process)
            # Its last lines may answer a prompt, and the next one must not be written to a corpse.
            self._feeder.feed(AgentLeft(self.run))
            # Orphans of the group learn that it is over; they have the tail's time.
            _signal_group(process, signal.SIGTERM)
            reading.cancel()
            await stdout_left.wait()
            with trio.move_on_after(self._limits.pipe_tail_s):
                # What the agent still wrote is read even while the client is slow.
                await self._read(process.stdout, self._limits.outbox_hard_bytes)
                await stderr_done.wait()
            nursery.cancel_scope.cancel()

    async def _write(self, stdin: trio.abc.SendStream) -> None:
        if await self.outbox.run(stdin):
            return
        # An agent that reads no more cannot serve; without an end its prompts would hang.
        self._notes.note("agent_stdin_closed", "debug", run=self.run)
        self._feeder.feed(AgentLeft(self.run))
        self._stop.set()

    async def _read_while_alive(
        self, reading: trio.CancelScope, stdout: ReceiveStream, left: trio.Event
    ) -> None:
        with reading:
            await self._read(stdout, self._limits.outbox_high_bytes)
            # An agent that speaks no more cannot serve either.
            self._stop.set()
        left.set()

    async def _read(self, stdout: ReceiveStream, high_bytes: int) -> None:
        decoder, take = self._decoder, self._feeder.take_agent
        while data := await receive(stdout):
            take(self.run, decoder.feed(data))
            if not self._client.has_room(high_bytes):
                await self._client.room(high_bytes)

    async def _pass_stderr(self, stderr: ReceiveStream, done: trio.Event) -> None:
        """Drain stderr always: an agent that blocks on it would answer nothing."""
        tail_bytes = self._limits.stderr_tail_bytes
        while data := await receive(stderr):
            self._stderr.put(data)
            self._stderr_tail = (self._stderr_tail + data)[-tail_bytes:]
        done.set()

    async def _escalate(self, process: trio.Process) -> None:
        """Once asked to stop, end the process; the leader's exit cancels what is left."""
        await self._stop.wait()
        self.outbox.end()
        with trio.move_on_after(self._limits.agent_eof_s):
            await self._stop_now.wait()
        if not self._stop_now.is_set():
            _signal_group(process, signal.SIGTERM)
            with trio.move_on_after(self._limits.agent_term_s):
                await self._stop_now.wait()
        self._notes.note("agent_killed", "warning", run=self.run)
        _signal_group(process, signal.SIGKILL)


async def _exited(process: trio.Process) -> None:
    """Return when the leader has exited, without reaping it where the system can tell."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # pragma: no cover - no Linux, or an old one, or a sandbox
        # To reap first leaves a tiny race for the group's number; to wait does not end.
        await process.wait()
        return
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)


def _signal_group(process: trio.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _close(process: trio.Process) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            await trio.aclose_forcefully(pipe)


def _exit_reason(code: int, words: str) -> str:
    if code >= 0:
        reason = f"exit status {code}"
    elif -code in set(signal.Signals):
        reason = f"killed by {signal.Signals(-code).name}"
    else:
        reason = f"killed by signal {-code}"
    return f"{reason}, last on stderr: {words}" if words and code else reason


def _last_words(stderr_tail: bytes) -> str:
    """The last line that says something, printable and without what looks like a secret."""
    lines = [line for line in stderr_tail.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    from acpbridge.store.scrub import scrub_line  # noqa: PLC0415 - few agents die

    words = "".join(char for char in scrub_line(lines[-1]).strip() if char.isprintable())
    return words[-_LAST_WORDS_CHARS_MAX:]


def _likely_slip(command: str) -> str:
    """What is most likely wrong with a command that does not exist."""
    if command.startswith("-"):
        return "options of acpbridge go before the agent's command, as in: run --midturn queue -- A"
    if " " in command:
        return "give the command and each of its arguments as words of their own"
    return "install it, or give its full path"


def _start_fault(command: str, error: OSError | ValueError) -> str:
    """Why this command cannot be started and what to do about it, in one line."""
    if isinstance(error, ValueError):
        return f"{command!r} or an argument holds a NUL character; remove it"
    if error.errno == errno.ENOENT and not _has_directory():
        return "the working directory is gone; start from one that exists"
    found = shutil.which(command)
    if error.errno == errno.ENOENT and found is None:
        return f"no command {command!r}; {_likely_slip(command)}"
    if error.errno == errno.ENOENT:
        return f"{found} names an interpreter in its first line that does not exist; install it"
    if error.errno == errno.EACCES:
        return f"{command!r} is not executable; try chmod +x, or name a program"
    if error.errno == errno.ENOEXEC:
        return f"{command!r} is no program for this machine; add a #! line or name a program"
    return f"{command!r}: {error.strerror or error}; check the command"


def _has_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True
