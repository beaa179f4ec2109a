"""One process and its pipes: lines in one read arrive together, lines out in their order."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

import trio
from attrs import define, field

from tests.hermes.home import Home
from tests.hermes.processes import arguments, descendants

READ_BYTES = 1 << 16
TICK_S = 0.02
LATE_S = 0.05
"""A tick that comes this much too late says that we ourselves were not run: half of the gap
that a bridge has to leave between the last output and the response."""
STOP_S = 8.0
"""How long a process may take to leave after SIGTERM. Codeg never looks; a test has to."""

Take = Callable[[Sequence[bytes], bool, "str | None"], None]
"""Lines of one read, whether we read late, and how the process ended if it has."""


@define(eq=False)
class Line:
    """A running process. ``take`` gets every read until `close`; then nothing any more."""

    process: trio.Process
    take: Take
    is_closing: bool = False
    had_to_kill: bool = False
    """SIGTERM was not enough."""
    _out: trio.MemorySendChannel[bytes] = field(init=False)
    _in: trio.MemoryReceiveChannel[bytes] = field(init=False)
    _ended: trio.Event = field(factory=trio.Event)
    _ticked_s: float = 0.0
    _stalled_s: float = -inf

    @classmethod
    async def start(
        cls, nursery: trio.Nursery, command: Sequence[str], home: Home, take: Take
    ) -> Line:
        """Spawn the command in its home; its stderr goes to a file there."""
        with (home.root / "stderr.log").open("ab") as stderr:
            process = await trio.lowlevel.open_process(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr.fileno(),
                env=home.environment(),
                cwd=str(home.work),
            )
        line = cls(process, take)
        line._out, line._in = trio.open_memory_channel[bytes](inf)
        line._ticked_s = trio.current_time()
        for task in (line._read, line._write, line._tick):
            nursery.start_soon(task)
        return line

    def post(self, line: bytes) -> None:
        """Queue a line, without its newline; never waits, as sacp's outgoing actor."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            self._out.send_nowait(line + b"\n")

    async def close(self) -> None:
        """Close stdin, SIGTERM to the process and all below it; kill what stays; reap."""
        self.is_closing = True
        with trio.CancelScope(shield=True):
            below = {pid: arguments(pid) for pid in descendants(self.process.pid)}
            assert self.process.stdin is not None
            await self.process.stdin.aclose()
            self._out.close()
            if self.process.returncode is None:
                self.process.terminate()
            _signal(below, signal.SIGTERM)
            with trio.move_on_after(STOP_S):
                await self.process.wait()
            if self.process.returncode is None:
                self.had_to_kill = True
                self.process.kill()
                await self.process.wait()
            _signal(below, signal.SIGKILL)
            with trio.move_on_after(STOP_S):
                await self._ended.wait()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        tail = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await self.process.stdout.receive_some(READ_BYTES):
                *lines, tail = (tail + data).split(b"\n")
                if not self.is_closing:
                    self.take(lines, self._is_late(), None)
        self._ended.set()
        code = await self.process.wait()
        if not self.is_closing:
            self.take([], False, f"the process ended with {code}")

    def _is_late(self) -> bool:
        """Whether the frames of this read may have lain there because we were not run."""
        now_s = trio.current_time()
        return now_s - self._ticked_s > TICK_S + LATE_S or now_s - self._stalled_s < TICK_S

    async def _write(self) -> None:
        assert self.process.stdin is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for line in self._in:
                await self.process.stdin.send_all(line)

    async def _tick(self) -> None:
        while not self._ended.is_set():
            with trio.move_on_after(TICK_S):
                await self._ended.wait()
            now_s = trio.current_time()
            if now_s - self._ticked_s > TICK_S + LATE_S:
                self._stalled_s = now_s
            self._ticked_s = now_s


def _signal(processes: dict[int, list[str]], number: signal.Signals) -> None:
    """Only to those whose command line is still the same: an id may have been given anew."""
    for pid, words in processes.items():
        if words and arguments(pid) == words:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
