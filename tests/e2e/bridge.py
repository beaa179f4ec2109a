"""A real `acpbridge run` with a client's hands on its pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

SCRIPTED = (sys.executable, str(Path(__file__).parent / "agents" / "scripted.py"))
BOUND_S = 30.0
"""What should have happened by then has not happened."""

Frame = dict[str, Any]


class BridgeProcess:
    """The process, the frames that it wrote so far, and its stderr."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._parts: list[bytes | bytearray] = []
        self._last_id = 0
        self.frames: list[Frame] = []
        self.stderr = b""
        self.text = ""
        self._said = trio.lowlevel.ParkingLot()

    async def drain_stderr(self) -> None:
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.stderr += data
            self._said.unpark_all()

    async def write(self, data: bytes) -> None:
        with trio.fail_after(BOUND_S):
            await self._stdin.send_all(data)

    async def ask(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._last_id += 1
        frame = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        await self.write(json.dumps(frame, ensure_ascii=False).encode() + b"\n")
        return self._last_id

    async def prompt(self, text: str) -> int:
        return await self.ask(
            "session/prompt", sessionId="s-1", prompt=[{"type": "text", "text": text}]
        )

    async def answer(self, request_id: int) -> Frame:
        """The response to a request of ours."""
        return await self.until(lambda frame: frame.get("id") == request_id)

    async def until(self, is_wanted: Callable[[Frame], bool]) -> Frame:
        with trio.fail_after(BOUND_S):
            seen = 0
            while True:
                for frame in self.frames[seen:]:
                    if is_wanted(frame):
                        return frame
                seen = len(self.frames)
                if not await self.read():
                    raise AssertionError(f"stdout ended; last on stderr: {self.stderr[-500:]!r}")

    async def read(self) -> bool:
        """Take in what one read brings; False at the end."""
        data = await self._stdout.receive_some(1 << 20)
        self._parts.append(data)
        if b"\n" in data:
            # Joined once a line: a line of 20 MiB comes in hundreds of pieces.
            *lines, rest = b"".join(self._parts).split(b"\n")
            self._parts = [rest]
            self.frames.extend(json.loads(line) for line in lines)
        return bool(data)

    async def read_text(self) -> bool:
        """The same for a command whose stdout is for people."""
        data = await self._stdout.receive_some(1 << 16)
        self.text += data.decode()
        return bool(data)

    async def begin(self) -> Frame:
        """Initialize and open the session; returns initialize's result."""
        initialized = await self.answer(
            await self.ask("initialize", protocolVersion=1, clientCapabilities={})
        )
        await self.answer(await self.ask("session/new", cwd="/", mcpServers=[]))
        return dict(initialized["result"])

    async def said(self, words: bytes) -> bytes:
        """Its stderr so far, once these words are in it."""
        with trio.fail_after(BOUND_S):
            while words not in self.stderr:
                await self._said.park()
        return self.stderr

    async def close_stdin(self) -> None:
        await self._stdin.aclose()

    async def leave_s(self) -> float:
        """Close its stdin; the seconds until it has ended, in order."""
        begin_s = trio.current_time()
        await self.close_stdin()
        assert await self.code() == 0
        return trio.current_time() - begin_s

    async def code(self) -> int:
        """Its exit code, once it has ended."""
        with trio.fail_after(BOUND_S):
            return await self.process.wait()

    def texts(self) -> list[str]:
        """The texts of the agent's chunks, in order."""
        return [
            frame["params"]["update"]["content"]["text"]
            for frame in self.frames
            if frame.get("method") == "session/update"
            and frame["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        ]

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


@asynccontextmanager
async def bridge(
    *agent: str,
    options: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    reads_stderr: bool = True,
) -> AsyncIterator[BridgeProcess]:
    """Run `acpbridge run options -- agent`; kills what is left of it in the end."""
    argv = ("run", *options, "--", *agent)
    async with command(*argv, environ=environ, reads_stderr=reads_stderr) as ours:
        yield ours


@asynccontextmanager
async def command(
    *argv: str, environ: Mapping[str, str] | None = None, reads_stderr: bool = True
) -> AsyncIterator[BridgeProcess]:
    """Run `acpbridge argv`; kills what is left of it in the end."""
    # What tells the tests where an agent is, is no key of the bridge's, which refuses it.
    told = "ACPBRIDGE_TEST_"
    around = {key: value for key, value in os.environ.items() if not key.startswith(told)}
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "acpbridge", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**around, **(environ or {})},
    )
    ours = BridgeProcess(process)
    async with trio.open_nursery() as nursery:
        if reads_stderr:
            nursery.start_soon(ours.drain_stderr)
        try:
            yield ours
        finally:
            if process.poll() is None:
                process.terminate()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + BOUND_S):
                await process.wait()
            nursery.cancel_scope.cancel()
            # Shielded: a Cancelled out of here would take the place of a failed assertion.
            with trio.CancelScope(shield=True):
                for pipe in (process.stdin, process.stdout, process.stderr):
                    assert pipe is not None
                    await trio.aclose_forcefully(pipe)
