"""Clients on real SDKs talk through the daemon: they leave, come back, and watch together."""

from __future__ import annotations

import pytest

from tests.clients.client import EVENTS, Language
from tests.clients.conversation import HISTORY, begin, converse, reached
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


async def test_a_client_dies_mid_turn_and_the_next_one_resumes(
    way: tuple[Language, Way], home: Home
) -> None:
    """It sees what nobody has seen, answers what is open, and its key brings the prompt's end."""
    gate = home.root / "gate"
    steps = [["say", "H0 "], ["file", str(gate)], ["say", "H1 "], ["permission", "rm"]]
    held = script("held", *steps, ["say", "!"])
    key = {"acpbridge": {"promptKey": "k-1"}}
    async with serving(home) as daemon:
        async with daemon.joined(*way) as first:
            session = await begin(first, home)
            await first.tell("prompt", session=session, text=held, meta=key)
            await first.sees("H0 ")
        await daemon.is_left_alone()
        gate.touch()
        async with daemon.joined(*way) as second:
            await second.ask("initialize")
            await second.ask("resume", session=session, cwd=str(home.work))
            await second.asks()
            await second.tell("answer", option="allow_once")
            await second.ask("prompt", name="held", session=session, text=held, meta=key)

            told = ["says H1 ", "asks rm", "says allow_once!", "answers held: end_turn"]
            assert story(second.said) == told
    assert reached(home) == ["initialize", "session/new", "held", "(answer)"]


async def test_what_is_going_on_is_told_to_those_who_ask(
    way: tuple[Language, Way], home: Home
) -> None:
    async with serving(home) as daemon, daemon.joined(*way) as client:
        session = await begin(client, home, meta=EVENTS)
        await client.tell("prompt", session=session, text=script("one", ["permission", "rm"]))
        await client.asks()
        await client.tell("prompt", session=session, text=script("two", ["say", "B"]))

        stats = await client.ask("request", method="_acpbridge/stats", params={})
        asked = {"sessionId": session}
        prompts = (await client.ask("request", method="_acpbridge/prompts", params=asked))[
            "prompts"
        ]

        (turn,) = stats["turns"]
        assert (turn["sessionId"], turn["queued"]) == (session, 1)
        assert (stats["clients"], stats["queued"]) == (1, 1)
        assert [one["words"].partition(" @@")[0] for one in prompts] == ["one", "two"]
