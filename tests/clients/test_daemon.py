"""Clients on real SDKs talk through the daemon: they leave, come back, and watch together."""

from __future__ import annotations

import pytest

from tests.clients.client import Language
from tests.clients.conversation import HISTORY, converse
from tests.clients.lines import story
from tests.clients.serving import Way, serving
from tests.hermes.home import Home
from tests.hermes.script import script

pytestmark = [pytest.mark.clients, pytest.mark.process]


async def test_a_whole_conversation_and_a_second_client(
    way: tuple[Language, Way], home: Home
) -> None:
    gate = home.root / "gate"
    held = script("held", ["say", "H0 "], ["file", str(gate)], ["say", "H1"])
    async with (
        serving(home) as daemon,
        daemon.joined(*way) as first,
        daemon.joined(*way) as second,
    ):
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
