"""acpx in a home of its own: each command a process, and behind them its queue's owner."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.clients.installed import clients_folder
from tests.clients.lines import Saw, Speaker, speaking
from tests.hermes.home import Home
from tests.hermes.processes import PROC
from tests.hermes.script import label


class Acpx:
    """One person at one command line."""

    def __init__(self, node: str, home: Home, agent: Sequence[str]) -> None:
        self.home = home
        entry = clients_folder() / "acpx" / "node_modules" / "acpx" / "dist" / "cli.js"
        options = ["--agent", shlex.join(agent), "--cwd", str(home.work), "--format", "json"]
        self.command = [node, str(entry), *options, "--approve-all"]

    @asynccontextmanager
    async def running(self, *words: str) -> AsyncIterator[Speaker]:
        """A command of acpx; what it says are the frames of both sides."""
        async with speaking(Speaker, self.home, [*self.command, *words]) as speaker:
            yield speaker

    async def run(self, *words: str) -> list[Saw]:
        """A command of acpx, to its end; what it said."""
        async with self.running(*words) as speaker:
            code = await speaker.leave()
            assert code == 0, speaker.log.read_text("utf-8")
            return speaker.said

    async def new_session(self, *words: str) -> str:
        """Open a session for all commands that come; returns its id."""
        said = await self.run("sessions", "new", *words)
        return str(said[-1]["acpxSessionId"])

    def end_owner(self) -> None:
        """The owner of the queue has left our process tree; it is known by its home."""
        home = self.home.environment()["HOME"]
        mark = f"HOME={home}".encode()
        for entry in PROC.iterdir():
            if entry.name.isdigit() and mark in _environment(entry):
                with suppress(ProcessLookupError):
                    os.kill(int(entry.name), signal.SIGKILL)
        # Its socket is there wherever TMPDIR points, and nobody else removes it.
        name = hashlib.sha256(home.encode()).hexdigest()[:10]
        shutil.rmtree(f"/tmp/acpx-{name}", ignore_errors=True)  # noqa: S108 - made by acpx


def _environment(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def seen(frames: Sequence[Saw]) -> list[Saw]:
    """The frames in the words of `client.py`, for `story`."""
    prompts: dict[object, str] = {}
    told: list[Saw] = []
    for frame in frames:
        params = frame.get("params") or {}
        match frame.get("method"):
            case "session/prompt":
                prompts[frame["id"]] = label(params["prompt"][0]["text"])
            case "session/update":
                told.append({"saw": "update", "params": params})
            case "session/request_permission":
                told.append({"saw": "permission", "params": params})
            case None if "stopReason" in (frame.get("result") or {}):
                name = prompts[frame["id"]]
                told.append({"saw": "answer", "name": name, "result": frame["result"]})
    return told
