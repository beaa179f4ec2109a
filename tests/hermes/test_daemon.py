"""Real Hermes behind the daemon: its client dies in the middle of a turn, another one goes on.

What the clients see is compared, by seq, with a copy of the bytes that Hermes itself wrote.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bridge import BridgeProcess, Frame
from tests.e2e.daemon import attached, daemon
from tests.hermes.conftest import real_hermes
from tests.hermes.home import Home
from tests.hermes.model import ModelServer
from tests.hermes.script import Step, script
from tests.steer.home import teed

pytestmark = [pytest.mark.hermes, pytest.mark.process]

KEY = "the-one-prompt"
EVENTS = {"_meta": {"acpbridge": {"events": True}}}
OBSERVES = {"_meta": {"acpbridge": {"events": True, "observe": True}}}
PERMISSION = "session/request_permission"
ENDED = "_acpbridge/turn_ended"

Update = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path, model: ModelServer) -> Home:
    return Home.make(tmp_path / "home", model.url)


@pytest.fixture
async def copy(home: Home) -> AsyncIterator[Path]:
    """A daemon with real Hermes; the file that gets what Hermes writes."""
    path = home.root / "agent.out"
    agent = teed([str(real_hermes()), "acp"], path)
    async with daemon(home.state, agent=tuple(agent), environ=home.environment()):
        yield path


async def greet(client: BridgeProcess, capabilities: Update) -> str:
    """Initialize; the epoch of the daemon."""
    asked = await client.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
    return str((await client.answer(asked))["result"]["_meta"]["acpbridge"]["epoch"])


async def prompt(client: BridgeProcess, session: str, text: str) -> int:
    blocks = [{"type": "text", "text": text}]
    meta = {"acpbridge": {"promptKey": KEY}}
    return await client.ask("session/prompt", sessionId=session, prompt=blocks, _meta=meta)


def place(frame: Frame) -> int:
    """The seq of a frame."""
    return int(frame["params"]["_meta"]["acpbridge"]["seq"])


def events(frames: list[Frame], session: str) -> list[Frame]:
    """The updates of a session, and the ends of its turns."""
    return [
        frame
        for frame in frames
        if frame.get("method") in ("session/update", ENDED)
        and frame["params"]["sessionId"] == session
    ]


def says(frame: Frame, text: str) -> bool:
    update = frame.get("params", {}).get("update", {})
    return update.get("sessionUpdate") == "agent_message_chunk" and (
        text in update["content"]["text"]
    )


def taped(copy: Path) -> list[Frame]:
    """What Hermes wrote, in order."""
    return [json.loads(line) for line in copy.read_text("utf-8").splitlines()]


def merged(updates: list[Update]) -> Update:
    """Updates that one frame stands for: one, or texts of one kind in a row."""
    first, *more = updates
    if not more:
        return first
    text = "".join(update["content"]["text"] for update in updates)
    assert {update["sessionUpdate"] for update in updates} == {first["sessionUpdate"]}
    return {**first, "content": {**first["content"], "text": text}}


def check(frames: list[Frame], before: int, by_seq: dict[int, Update]) -> int:
    """Compare what came behind a seq, without a hole, with the tape; returns the last seq."""
    for frame in frames:
        seqs = range(before + 1, place(frame) + 1)
        before = place(frame)
        assert len(seqs) > 0, f"{before} came twice, or too late"
        if frame["method"] != ENDED:
            assert frame["params"]["update"] == merged([by_seq[seq] for seq in seqs])
    return before


async def test_a_client_dies_mid_turn_and_another_one_sees_what_was_missed(
    home: Home, copy: Path, model: ModelServer
) -> None:
    """S11 with real Hermes: the cursor, the permission, the end, and the prompt's key."""
    tool = ["tool", "terminal", {"command": "rm -rf ./build"}]
    before_tool: list[Step] = [
        ["say", "A0 "],
        ["say", "A1 "],
        ["gate", "g"],
        ["stream", 20, 0.01, "B"],
    ]
    text = script("one", *before_tool, tool, ["say", "removed"])
    async with attached(home.state) as watcher, attached(home.state) as first:
        epoch = await greet(first, EVENTS)
        opened = await first.ask("session/new", cwd=str(home.work), mcpServers=[])
        session = (await first.answer(opened))["result"]["sessionId"]
        assert await greet(watcher, OBSERVES) == epoch
        await watcher.answer(await watcher.ask("_acpbridge/events_since", sessionId=session))
        await prompt(first, session, text)
        await first.until(lambda frame: says(frame, "A1 "))
        first.process.kill()
        await first.code()
        seen = events(first.frames, session)
        model.release("g")
        await watcher.until(lambda frame: frame.get("method") == PERMISSION)

        async with attached(home.state) as second:
            assert await greet(second, EVENTS) == epoch
            cursor = {"epoch": epoch, "seq": place(seen[-1])}
            asked = await second.ask("_acpbridge/events_since", sessionId=session, cursor=cursor)
            replay = (await second.answer(asked))["result"]
            card = await second.until(lambda frame: frame.get("method") == PERMISSION)
            outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            answer = {"jsonrpc": "2.0", "id": card["id"], "result": outcome}
            await second.write(json.dumps(answer).encode() + b"\n")
            end = await second.until(lambda frame: frame.get("method") == ENDED)
            again = await second.answer(await prompt(second, session, text))
            live = events(second.frames, session)
            live = live[: live.index(end) + 1]

    assert end["params"]["result"] == again["result"]
    assert again["result"]["stopReason"] == "end_turn"
    assert model.prompts() == [text], "Hermes was asked once"
    assert not replay["truncated"]
    assert replay["latestSeq"] == place(replay["frames"][-1])

    seqs = [place(frame) for frame in seen]
    # One event is the message itself, which its own client was not shown.
    (own,) = set(range(1, seqs[-1])) - set(seqs)
    others = (seq for seq in range(1, place(end)) if seq != own)
    updates = [frame["params"]["update"] for frame in events(taped(copy), session)]
    by_seq = dict(zip(others, updates, strict=False))
    assert [frame["params"]["update"] for frame in seen] == [by_seq[seq] for seq in seqs]
    last = check(replay["frames"], seqs[-1], by_seq)
    assert last == replay["latestSeq"]
    assert check(live, last, by_seq) == place(end)
    assert sum(says(frame, "B0 ") for frame in (*replay["frames"], *live)) == 1


async def test_a_load_in_the_middle_of_a_turn_does_not_reach_hermes(
    home: Home, copy: Path, model: ModelServer
) -> None:
    """S12: Hermes would replay into the running turn; and a cancel after it still stops that."""
    text = script("one", ["say", "A0 "], ["gate", "g"], ["say", "never"])
    async with attached(home.state) as first, attached(home.state) as second:
        await greet(first, EVENTS)
        opened = await first.ask("session/new", cwd=str(home.work), mcpServers=[])
        session = (await first.answer(opened))["result"]["sessionId"]
        prompted = await prompt(first, session, text)
        await first.until(lambda frame: says(frame, "A0 "))
        await greet(second, EVENTS)
        asked = {"sessionId": session, "cwd": str(home.work), "mcpServers": []}
        await second.answer(await second.ask("session/load", **asked))
        shown = [frame["params"]["update"] for frame in events(second.frames, session)]
        await model.reached("g")
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        await second.write(json.dumps(cancel).encode() + b"\n")
        answer = await first.answer(prompted)
        model.release("g")

    # What Hermes says of usage after session/new comes when it comes: here between the two once.
    said = [update for update in shown if update["sessionUpdate"].endswith("_message_chunk")]
    kinds = [update["sessionUpdate"] for update in said]
    assert kinds[-2:] == ["user_message_chunk", "agent_message_chunk"]
    assert said[-2]["content"]["text"] == text
    assert answer["result"]["stopReason"] == "cancelled"
    results = [frame["result"] for frame in taped(copy) if "method" not in frame]
    told = [{"protocolVersion", "sessionId", "stopReason"} & set(one) for one in results]
    assert told == [{"protocolVersion"}, {"sessionId"}, {"stopReason"}], "no load is among them"
