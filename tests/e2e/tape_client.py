"""A client that plays a tape's client against a command, in step with the tape."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from acpbridge.store.tape_reader import read_tape

ACPBRIDGE = (sys.executable, "-m", "acpbridge")
BOUND_S = 60.0


class Lines:
    """A command, and the lines that it writes."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._rest = bytearray()
        self.lines: list[bytes] = []
        self.at_s: list[float] = []
        """When each line came."""
        self.stderr = ""

    async def send(self, raw: bytes) -> None:
        with trio.fail_after(BOUND_S):
            await self._stdin.send_all(raw + b"\n")

    async def has(self, count: int) -> None:
        """Wait until so many lines have come."""
        with trio.fail_after(BOUND_S):
            while len(self.lines) < count:
                data = await self._stdout.receive_some(1 << 20)
                assert data, f"stdout ended after {len(self.lines)} lines"
                self._rest += data
                if b"\n" in data:
                    *lines, rest = bytes(self._rest).split(b"\n")
                    self._rest = bytearray(rest)
                    self.lines += lines
                    self.at_s += [trio.current_time()] * len(lines)

    async def end(self) -> int:
        """Close stdin, take in the rest of stdout and stderr; returns the exit code."""
        await self._stdin.aclose()
        with trio.fail_after(BOUND_S):
            async for data in self._stdout:
                self._rest += data
            self.lines += bytes(self._rest).split(b"\n")[:-1]
            async for data in self._stderr:
                self.stderr += data.decode()
            return await self.process.wait()


@asynccontextmanager
async def started(command: Sequence[str]) -> AsyncIterator[Lines]:
    process = await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Lines(process)
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            await trio.aclose_forcefully(pipe)


async def play(command: Sequence[str], tape: Path) -> tuple[Lines, list[bytes]]:
    """Send the tape's client lines, each when all before it has come; to the end.

    Returns:
        The command's lines, and those that the tape has for the agent.
    """
    expected: list[bytes] = []
    async with started(command) as agent:
        for entry in read_tape(tape).entries:
            if entry.side == "agent":
                expected.append(entry.raw)
                continue
            await agent.has(len(expected))
            await agent.send(entry.raw)
        await agent.has(len(expected))
        assert await agent.end() == 0
    return agent, expected
