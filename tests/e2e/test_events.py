"""The event plane of `acpbridge run`: for the client that asks for it (issue 6, point 4)."""

from __future__ import annotations

import re

import pytest

from tests.e2e.bridge import SCRIPTED, bridge

pytestmark = pytest.mark.process

EVENTS = {"_meta": {"acpbridge": {"events": True}}}


async def test_a_client_of_run_gets_each_frame_with_its_place_and_can_ask_again() -> None:
    async with bridge(*SCRIPTED) as ours:
        asked = await ours.ask("initialize", protocolVersion=1, clientCapabilities=EVENTS)
        epoch = (await ours.answer(asked))["result"]["_meta"]["acpbridge"]["epoch"]
        assert re.fullmatch(r"[0-9a-f]{8}", epoch)
        await ours.answer(await ours.ask("session/new", cwd="/", mcpServers=[]))
        await ours.answer(await ours.prompt("flood 3 20"))
        places = [
            frame["params"]["_meta"]["acpbridge"]
            for frame in ours.frames
            if frame.get("method") == "session/update"
        ]
        # 1 is the client's own message, which it need not be told.
        assert [place["seq"] for place in places] == [2, 3, 4]
        assert {place["epoch"] for place in places} == {epoch}
        (trace,) = {place["traceId"] for place in places}
        assert re.fullmatch(r"[0-9a-f]{12}", trace)

        cursor = {"epoch": epoch, "seq": 2}
        again = await ours.ask("_acpbridge/events_since", sessionId="s-1", cursor=cursor)
        replay = (await ours.answer(again))["result"]
        (merged,) = (one for one in replay["frames"] if one["method"] == "session/update")
        assert merged["params"]["update"]["content"]["text"] == "".join(ours.texts()[1:])
        assert merged["params"]["_meta"]["acpbridge"]["seq"] == 4
        assert not replay["truncated"]
        stats = (await ours.answer(await ours.ask("_acpbridge/stats")))["result"]
        assert [one["sessionId"] for one in stats["sessions"]] == ["s-1"]


async def test_a_client_that_does_not_ask_gets_the_agents_bytes() -> None:
    async with bridge(*SCRIPTED) as ours:
        result = await ours.begin()
        await ours.answer(await ours.prompt("say hello"))
        assert "acpbridge" not in result.get("_meta", {})
        updates = [one for one in ours.frames if one.get("method") == "session/update"]
        assert [set(one["params"]) for one in updates] == [{"sessionId", "update"}]
