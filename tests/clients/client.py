"""A client on somebody's SDK, in a process of its own, that does what a test tells it.

The test writes one JSON object a line and reads one a line. It says `{"do": WORD, …}`:

    initialize {name, meta?}            meta: `clientCapabilities._meta`
    new {name, cwd}                     load and resume {name, session, cwd}
    prompt {name, session, text, meta?}
    cancel {session}                    has no answer
    answer {option}                     answers the oldest open permission request
    request {name, method, params}      any other request
    replay {name, session, cursor?}     `_acpbridge/events_since`; answers `rebuild`'s conversation

and hears `{"saw": WORD, …}`:

    answer {name, result|error}         update, permission {params}
    withdrawn {toolCallId}              notification {method, params}
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import trio

from tests.hermes.home import ROOT, Home
from tests.hermes.script import label

HERE = Path(__file__).parent
BOUND_S = 60.0
"""What should have happened by then has not happened."""
EVENTS = {"acpbridge": {"events": True}}
"""The capability of a client that reads the event plane."""

Saw = dict[str, Any]
Language = Literal["python", "typescript"]


def clients_folder() -> Path:
    """Where `.ci/clients` installs, or where ACPBRIDGE_TEST_CLIENTS points."""
    return Path(os.environ.get("ACPBRIDGE_TEST_CLIENTS", ROOT / ".clients"))


def node() -> str | None:
    """The Node that runs npm's clients; None if `.ci/clients` has not finished here."""
    folder = clients_folder()
    if not (folder / "installed").is_file():
        return None
    places = (folder, ROOT / ".steer")
    found = [path for place in places for path in place.glob("node/node_modules/node-*/bin/node")]
    return str(found[0]) if found else shutil.which("node")


def why_missing() -> str:
    """What to say, and to do, where `node` finds nothing."""
    if shutil.which("npm") is None:
        return "npm is not on PATH, so the TypeScript SDK and acpx cannot be installed"
    return "the TypeScript SDK and acpx are not installed: run .ci/clients"


def may_skip() -> bool:
    """Whether tests may go without npm's clients: not in CI, except where there is no npm."""
    return "CI" not in os.environ or shutil.which("npm") is None


def client_command(language: Language) -> list[str]:
    """What starts a client; the agent's command, or `--ws URL --token TOKEN`, comes behind it."""
    if language == "python":
        # Its own warnings are errors too: a deprecated call would be one that stops to work.
        return [sys.executable, "-W", "error", str(HERE / "python_client.py")]
    found = node()
    assert found is not None, "the fixture has skipped"
    return [found, str(HERE / "typescript_client.mjs"), str(clients_folder() / "typescript")]


class Client:
    """The process, and what it has said so far."""

    def __init__(self, process: trio.Process, log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.log = log
        self.said: list[Saw] = []
        self._stdin, self._stdout = process.stdin, process.stdout
        self._tail = b""
        self._names = 0

    async def tell(self, do: str, **more: Any) -> str:
        """Say a word and go on; returns the name by which its answer will come."""
        self._names += 1
        name = str(more.setdefault("name", f"{do} {self._names}"))
        with trio.fail_after(BOUND_S):
            await self._stdin.send_all(json.dumps({"do": do, **more}).encode() + b"\n")
        return name

    async def ask(self, do: str, **more: Any) -> Any:
        """Say a word and wait for its answer, which must be a result."""
        return await self.result(await self.tell(do, **more))

    async def result(self, name: str) -> Any:
        """Wait for an answer; it must be a result."""
        saw = await self.until(lambda one: one["saw"] == "answer" and one["name"] == name)
        assert "result" in saw, saw
        return saw["result"]

    async def sees(self, text: str) -> Saw:
        """Wait for a chunk with this text in it."""
        return await self.until(lambda one: text in text_of(one))

    async def asks(self) -> Saw:
        """Wait for the first permission request."""
        return await self.until(lambda one: one["saw"] == "permission")

    async def until(self, is_wanted: Callable[[Saw], bool], after: int = 0) -> Saw:
        """The first that is wanted of what it says, from `said[after]` on."""
        is_there = True
        with trio.move_on_after(BOUND_S):
            while is_there:
                for saw in self.said[after:]:
                    if is_wanted(saw):
                        return saw
                after = len(self.said)
                is_there = await self._read()
        raise AssertionError(
            f"{'it did not come' if is_there else 'the client ended'}; it had said "
            f"{self.said[-12:]}, and on stderr {self.log.read_text('utf-8')[-2000:]}"
        )

    async def leave(self) -> int:
        """Let it end by itself; its exit code."""
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


def text_of(saw: Saw) -> str:
    """The text of a chunk; empty for all else."""
    content = saw.get("params", {}).get("update", {}).get("content")
    return str(content.get("text", "")) if isinstance(content, dict) else ""


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


@asynccontextmanager
async def opened(language: Language, home: Home, *words: str) -> AsyncIterator[Client]:
    """Start a client in a home; kills what is left of it in the end."""
    path = home.root / f"{language}.log"
    with path.open("ab") as log:
        process = await trio.lowlevel.open_process(
            [*client_command(language), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.fileno(),
            env=home.environment(),
            cwd=home.work,
        )
    try:
        yield Client(process, path)
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            await trio.aclose_forcefully(pipe)
