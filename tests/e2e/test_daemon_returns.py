"""A client leaves in the middle of a turn; others go on with it (field case S11), as processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import frozen

from tests.e2e.bridge import BridgeProcess, Frame
from tests.e2e.daemon import attached, daemon
from tests.e2e.puppet import SESSION, Puppet, is_asked, permission, puppet, tool

pytestmark = pytest.mark.process

EVENTS = {"_meta": {"acpbridge": {"events": True}}}
KEY = {"acpbridge": {"promptKey": "k-1"}}
CARD = "card-9"
ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
ENDED = "_acpbridge/turn_ended"


@frozen
class Stage:
    """A daemon, the agent that the test plays, and a turn in it that its client has left.

    The log has, by seq: 1 the message, 2 to 4 the updates u1 to u3. The agent has asked for a
    permission that nobody has answered.
    """

    folder: Path
    agent: Puppet
    prompt: Frame
    epoch: str


async def greet(client: BridgeProcess, capabilities: Frame = EVENTS) -> Frame:
    """Initialize; its result."""
    asked = await client.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
    return dict((await client.answer(asked))["result"])


async def prompt(client: BridgeProcess, text: str, meta: Frame | None = None) -> int:
    more = {} if meta is None else {"_meta": meta}
    blocks = [{"type": "text", "text": text}]
    return await client.ask("session/prompt", sessionId=SESSION, prompt=blocks, **more)


async def since(client: BridgeProcess, cursor: Frame | None = None) -> Frame:
    """What the log has behind a cursor; from here on the client follows the session."""
    more = {} if cursor is None else {"cursor": cursor}
    asked = await client.ask("_acpbridge/events_since", sessionId=SESSION, **more)
    return dict((await client.answer(asked))["result"])


async def reply(client: BridgeProcess, result: Frame) -> None:
    """Answer the permission request."""
    body = {"jsonrpc": "2.0", "id": CARD, "result": result}
    await client.write(json.dumps(body).encode() + b"\n")


def seqs(frames: list[Frame]) -> list[int]:
    return [frame["params"]["_meta"]["acpbridge"]["seq"] for frame in frames]


def calls(frames: list[Frame]) -> list[str]:
    """The tool calls among these frames."""
    updates = [(one.get("params") or {}).get("update") or {} for one in frames]
    return [update["toolCallId"] for update in updates if "toolCallId" in update]


@asynccontextmanager
async def left_alone(folder: Path, *options: str) -> AsyncIterator[Stage]:
    """S11.1: the client of a turn is gone, and a permission is open."""
    state = folder / "state"
    async with puppet(folder) as agent, daemon(state, *options, agent=agent.command):
        async with attached(state) as first:
            asked = await first.ask("initialize", protocolVersion=1, clientCapabilities=EVENTS)
            capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
            result = {"protocolVersion": 1, "agentCapabilities": capabilities}
            await agent.answers("initialize", result)
            greeting = (await first.answer(asked))["result"]
            opened = await first.ask("session/new", cwd="/", mcpServers=[])
            await agent.answers("session/new", {"sessionId": SESSION})
            await first.answer(opened)
            await prompt(first, "one", KEY)
            taken = await agent.takes("session/prompt")
            await agent.updates(*map(tool, ("u1", "u2", "u3")))
            await agent.says(permission(CARD))
            await first.until(is_asked)
            assert seqs([one for one in first.frames if calls([one])]) == [2, 3, 4]
            first.process.kill()
        yield Stage(state, agent, taken, greeting["_meta"]["acpbridge"]["epoch"])


async def test_s11_a_client_leaves_and_others_go_on(tmp_path: Path) -> None:
    async with left_alone(tmp_path) as stage:
        agent = stage.agent
        await agent.updates(tool("u4"))
        async with attached(stage.folder) as second, attached(stage.folder) as third:
            await greet(second)
            missed = await since(second, {"epoch": stage.epoch, "seq": 3})
            await second.until(is_asked)
            await greet(third)
            whole = await since(third)
            await third.until(is_asked)
            assert calls([*missed["frames"], *second.frames]) == ["u3", "u4"]
            assert calls([*whole["frames"], *third.frames]) == ["u1", "u2", "u3", "u4"]
            assert seqs(whole["frames"])[:4] == [1, 2, 3, 4]

            await reply(third, ALLOWED)
            assert await agent.takes_answer(CARD) == ALLOWED
            withdrawn = await second.until(lambda one: one.get("method") == "$/cancel_request")
            assert withdrawn["params"] == {"requestId": CARD}
            await reply(second, CANCELLED)

            await agent.says({"id": stage.prompt["id"], "result": {"stopReason": "end_turn"}})
            for client in (second, third):
                end = await client.until(lambda one: one.get("method") == ENDED)
                assert end["params"]["result"]["stopReason"] == "end_turn"

            again = await second.answer(await prompt(second, "one", KEY))
            assert again["result"]["stopReason"] == "end_turn"
            asked = await prompt(second, "five")
            taken = await agent.takes("session/prompt")
            assert taken["params"]["prompt"][0]["text"] == "five", "the late answer went nowhere"
            await agent.says({"id": taken["id"], "result": {"stopReason": "end_turn"}})
            await second.answer(asked)
        await nothing_is_doubled(stage)


async def nothing_is_doubled(stage: Stage) -> None:
    """S11.8: whoever comes now sees each event once, and adds none."""
    logs = []
    for _ in range(2):
        async with attached(stage.folder) as client:
            await greet(client)
            logs.append(await since(client))
    assert logs[0] == logs[1]
    assert calls(logs[0]["frames"]) == ["u1", "u2", "u3", "u4"]
    assert seqs(logs[0]["frames"]) == list(range(1, 9)), "1 more message, 2 ends"


async def test_a_client_that_knows_nothing_of_events_loads_the_whole_turn(tmp_path: Path) -> None:
    """S12.4: the agent is asked nothing, and the turn goes on."""
    async with left_alone(tmp_path) as stage, attached(stage.folder) as client:
        await greet(client, {})
        asked = await client.ask("session/load", sessionId=SESSION, cwd="/", mcpServers=[])
        await client.answer(asked)
        await client.until(is_asked)
        assert calls(client.frames) == ["u1", "u2", "u3"]
        assert not any("_meta" in one.get("params", {}) for one in client.frames)

        await client.write(
            b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s-1"}}\n'
        )
        met = [await stage.agent.takes_next(), await stage.agent.takes_next()]
        assert {"jsonrpc": "2.0", "id": CARD, "result": CANCELLED} in met
        assert "session/cancel" in [one.get("method") for one in met]


@pytest.mark.parametrize("orphan", ["finish", "cancel"])
async def test_an_orphan_waits_for_its_grace_and_no_longer(tmp_path: Path, orphan: str) -> None:
    options = ("--grace", "0.5", "--orphan", orphan)
    async with left_alone(tmp_path, *options) as stage:
        assert await stage.agent.takes_answer(CARD) == CANCELLED
        if orphan == "cancel":
            await stage.agent.takes("session/cancel")
        reason = {"finish": "end_turn", "cancel": "cancelled"}[orphan]
        await stage.agent.says({"id": stage.prompt["id"], "result": {"stopReason": reason}})

        async with attached(stage.folder) as client:
            await greet(client)
            again = await client.answer(await prompt(client, "one", KEY))
            assert again["result"]["stopReason"] == reason, "whoever has the key gets the end"
            assert not any(map(is_asked, client.frames))
