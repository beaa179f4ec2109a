"""A daemon with the scripted agent, and clients on real SDKs that join it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.clients.client import Client, Language, opened
from tests.clients.conversation import agent_command
from tests.e2e.bridge import BridgeProcess
from tests.e2e.daemon import daemon
from tests.hermes.home import Home


@asynccontextmanager
async def serving(home: Home, *options: str, **environ: str) -> AsyncIterator[BridgeProcess]:
    """A daemon with the scripted agent of this home."""
    agent = tuple(agent_command(home))
    environ = home.environment() | environ
    async with daemon(home.state, *options, agent=agent, environ=environ) as ours:
        yield ours


@asynccontextmanager
async def joined(language: Language, home: Home) -> AsyncIterator[Client]:
    """A client of the daemon in this home, over `acpbridge attach`, initialized."""
    attach = [sys.executable, "-m", "acpbridge", "attach", "--state-dir", str(home.state)]
    async with opened(language, home, *attach) as client:
        yield client
