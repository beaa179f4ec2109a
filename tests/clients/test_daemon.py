"""Clients on real SDKs talk through the daemon: they leave, come back, and watch together."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.clients.client import Client, Language, opened
from tests.clients.conversation import HISTORY, agent_command, converse
from tests.clients.lines import story
from tests.e2e.bridge import BridgeProcess
from tests.e2e.daemon import daemon
from tests.hermes.home import Home
from tests.hermes.script import script

pytestmark = [pytest.mark.clients, pytest.mark.process]


@asynccontextmanager
async def serving(home: Home, *options: str) -> AsyncIterator[BridgeProcess]:
    """A daemon with the scripted agent of this home."""
    agent = tuple(agent_command(home))
    async with daemon(home.state, *options, agent=agent, environ=home.environment()) as ours:
        yield ours


@asynccontextmanager
async def joined(language: Language, home: Home) -> AsyncIterator[Client]:
    """A client of the daemon in this home, over `acpbridge attach`, initialized."""
    attach = [sys.executable, "-m", "acpbridge", "attach", "--state-dir", str(home.state)]
    async with opened(language, home, *attach) as client:
        yield client


async def test_a_whole_conversation_and_a_second_client(language: Language, home: Home) -> None:
    gate = home.root / "gate"
    held = script("held", ["say", "H0 "], ["file", str(gate)], ["say", "H1"])
    async with serving(home), joined(language, home) as first, joined(language, home) as second:
        session = await converse(first, home)
        await first.tell("prompt", name="held", session=session, text=held)
        await first.sees("H0 ")
        await second.ask("initialize")
        await second.ask("load", session=session, cwd=str(home.work))
        told = story(second.said)
        assert told == [*HISTORY, "user held", "says H0 "], second.said
        assert {saw["saw"] for saw in second.said} == {"answer", "update"}, "only what all know"
        gate.touch()
        await first.result("held")
        await second.sees("H1")

        assert story(second.said)[-1] == "says H0 H1"
        assert story(first.said)[-2:] == ["says H0 H1", "answers held: end_turn"]
