"""A process that speaks JSON, one object a line, and the story of what clients see."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from tests.hermes.home import Home
from tests.hermes.script import label

BOUND_S = 60.0
"""What should have happened by then has not happened."""

Saw = dict[str, Any]
Speaking = TypeVar("Speaking", bound="Speaker")


class Speaker:
    """The process, and what it has said so far."""

    def __init__(self, process: trio.Process, log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.log = log
        """What it wrote to stderr."""
        self.said: list[Saw] = []
        self._stdin, self._stdout = process.stdin, process.stdout
        self._tail = b""

    async def write(self, body: Saw) -> None:
        with trio.fail_after(BOUND_S):
            await self._stdin.send_all(json.dumps(body).encode() + b"\n")

    async def until(self, is_wanted: Callable[[Saw], bool]) -> Saw:
        """The first that is wanted of all that it says."""
        looked, is_there = 0, True
        with trio.move_on_after(BOUND_S):
            while is_there:
                for saw in self.said[looked:]:
                    if is_wanted(saw):
                        return saw
                looked = len(self.said)
                is_there = await self._read()
        raise AssertionError(
            f"{'it did not come' if is_there else 'the process ended'}; it had said "
            f"{self.said[-12:]}, and on stderr {self.log.read_text('utf-8')[-2000:]}"
        )

    async def leave(self) -> int:
        """End its input and let it end by itself; its exit code."""
        with trio.fail_after(BOUND_S):
            await self._stdin.aclose()
            while await self._read():
                pass
            return await self.process.wait()

    async def _read(self) -> bool:
        data = await self._stdout.receive_some(1 << 16)
        *lines, self._tail = (self._tail + data).split(b"\n")
        self.said.extend(json.loads(line) for line in lines)
        return bool(data)


@asynccontextmanager
async def speaking(
    kind: type[Speaking], home: Home, command: Sequence[str]
) -> AsyncIterator[Speaking]:
    """Start a process in a home; kills what is left of it in the end."""
    log = home.root / "stderr.log"
    with log.open("ab") as stderr:
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr.fileno(),
            env=home.environment(),
            cwd=home.work,
        )
    try:
        yield kind(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            await trio.aclose_forcefully(pipe)


def text_of(saw: Saw) -> str:
    """The text of a chunk; empty for all else."""
    content = saw.get("params", {}).get("update", {}).get("content")
    return str(content.get("text", "")) if isinstance(content, dict) else ""


def said_by_agent(saw: Saw) -> str:
    """The text of a chunk of the agent's message; empty for all else."""
    kind = saw.get("params", {}).get("update", {}).get("sessionUpdate")
    return text_of(saw) if kind == "agent_message_chunk" else ""


CHUNKS = {
    "agent_message_chunk": "says",
    "agent_thought_chunk": "thinks",
    "user_message_chunk": "user",
}


def story(said: Sequence[Saw]) -> list[str]:
    """What the client saw of its session, in words: chunks joined, requests, answers to prompts.

    Of a prompt that it was shown, the label.
    """
    told: list[tuple[str, str]] = []
    for saw in said:
        update = saw.get("params", {}).get("update", {})
        verb, words = CHUNKS.get(update.get("sessionUpdate", ""), ""), text_of(saw)
        if saw["saw"] == "permission":
            verb, words = "asks", saw["params"]["toolCall"]["title"]
        elif saw["saw"] == "answer" and "stopReason" in (saw.get("result") or {}):
            verb, words = "answers", f"{saw['name']}: {saw['result']['stopReason']}"
        elif told and verb == told[-1][0]:
            words = told.pop()[1] + words
        if verb:
            told.append((verb, words))
    return [
        f"{verb} {label(words)}" if verb == "user" else f"{verb} {words}" for verb, words in told
    ]
