"""A daemon with the scripted agent, and clients on real SDKs that join it."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from attrs import frozen

from tests.clients.client import Client, Language, opened
from tests.clients.conversation import agent_command
from tests.e2e.bridge import BridgeProcess
from tests.e2e.daemon import attached, daemon
from tests.hermes.home import Home

Way = Literal["websocket", "unix", "attach over websocket"]
TOKEN = "a-token-for-tests-0123456789"  # noqa: S105 - it guards nothing

LOOKS_MAX = 10_000
"""Looks at the daemon's figures, a round trip each, in which it must have seen its clients go."""


@frozen
class Daemon:
    """The process, and the ways to it."""

    process: BridgeProcess
    home: Home
    """Of its agent and of its clients; its state directory is there."""
    url: str

    @asynccontextmanager
    async def joined(self, language: Language, way: Way | None = None) -> AsyncIterator[Client]:
        """A client, not initialized yet; Python over WebSocket, TypeScript over attach."""
        if way is None:
            way = "websocket" if language == "python" else "unix"
        words = ["--ws", self.url, "--token", TOKEN]
        if way != "websocket":
            words = attach_command(self.home)
        if way == "attach over websocket":
            words += ["--ws", self.url, "--token-file", str(self.home.root / "token")]
        async with opened(language, self.home, *words) as client:
            yield client

    async def is_left_alone(self) -> None:
        """Return when the daemon has seen the end of all its clients."""
        async with attached(self.home.state) as watcher:
            observes = {"_meta": {"acpbridge": {"observe": True}}}
            asked = await watcher.ask("initialize", protocolVersion=1, clientCapabilities=observes)
            await watcher.answer(asked)
            for _ in range(LOOKS_MAX):
                stats = await watcher.answer(await watcher.ask("_acpbridge/stats"))
                if stats["result"]["clients"] == 1:
                    return
        raise AssertionError("its clients have not left")


def attach_command(home: Home) -> list[str]:
    """What joins the daemon of this home from stdin and stdout, over its socket."""
    return [sys.executable, "-m", "acpbridge", "attach", "--state-dir", str(home.state)]


@asynccontextmanager
async def serving(home: Home, **environ: str) -> AsyncIterator[Daemon]:
    """A daemon with the scripted agent of this home, on a unix socket and a WebSocket."""
    token = home.root / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    options = ("--ws", "127.0.0.1:0", "--token-file", str(token))
    agent = tuple(agent_command(home))
    environ = home.environment() | environ
    async with daemon(home.state, *options, agent=agent, environ=environ) as process:
        found = re.search(rb" ws=(127\.0\.0\.1:\d+)", process.stderr)
        assert found, process.stderr
        yield Daemon(process, home, f"ws://{found[1].decode()}/acp")
