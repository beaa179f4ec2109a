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

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from tests.clients.installed import clients_folder, node
from tests.clients.lines import Saw, Speaker, said_by_agent, speaking
from tests.hermes.home import Home

HERE = Path(__file__).parent
EVENTS = {"acpbridge": {"events": True}}
"""The capability of a client that reads the event plane."""

Language = Literal["python", "typescript"]


def client_command(language: Language) -> list[str]:
    """What starts a client; the agent's command, or `--ws URL --token TOKEN`, comes behind it."""
    if language == "python":
        # Its own warnings are errors too: a deprecated call would be one that stops to work.
        return [sys.executable, "-W", "error", str(HERE / "python_client.py")]
    found = node()
    assert found is not None, "the fixture has skipped"
    return [found, str(HERE / "typescript_client.mjs"), str(clients_folder() / "typescript")]


class Client(Speaker):
    """What a test says to it, and waits for."""

    _names = 0

    async def tell(self, do: str, **more: Any) -> str:
        """Say a word and go on; returns the name by which its answer will come."""
        self._names += 1
        name = str(more.setdefault("name", f"{do} {self._names}"))
        await self.write({"do": do, **more})
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
        """Wait for a chunk of the agent's with this text in it."""
        return await self.until(lambda one: text in said_by_agent(one))

    async def asks(self) -> Saw:
        """Wait for the first permission request."""
        return await self.until(lambda one: one["saw"] == "permission")


@asynccontextmanager
async def opened(language: Language, home: Home, *words: str) -> AsyncIterator[Client]:
    """Start a client in a home; kills what is left of it in the end."""
    async with speaking(Client, home, [*client_command(language), *words]) as client:
        yield client
