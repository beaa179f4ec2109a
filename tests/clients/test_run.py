"""Clients on real SDKs talk through `acpbridge run`, as they start any agent: over stdio."""

from __future__ import annotations

import pytest

from tests.clients.client import Language, opened
from tests.clients.conversation import HISTORY, agent_command, converse
from tests.clients.lines import story
from tests.hermes.home import Home, command_line

pytestmark = [pytest.mark.clients, pytest.mark.process]


async def test_a_whole_conversation(language: Language, home: Home) -> None:
    words = command_line("bridged", agent_command(home))

    async with opened(language, home, *words) as client:
        session = await converse(client, home)
        assert await client.leave() == 0

    async with opened(language, home, *words) as client:
        await client.ask("initialize")
        await client.ask("load", session=session, cwd=str(home.work))
        assert story(client.said) == HISTORY
        assert await client.leave() == 0
