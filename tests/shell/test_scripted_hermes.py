"""The scripted Hermes of the demo, held against the tapes of the real one."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from acpbridge.shell.scripted_hermes import COUNT_MAX, reply
from acpbridge.store.tape_reader import read_tape
from tests.e2e.tape_client import Lines, started
from tests.store.taped import FIXTURES, cancel, line, prompt, request

if TYPE_CHECKING:
    from collections.abc import Iterable

COMMAND = (sys.executable, "-m", "acpbridge.shell.scripted_hermes")
HERMES = FIXTURES / "hermes-0.19.0"

Json = dict[str, Any]


def kind_of(frame: Json) -> str:
    """What a frame is, without what it says: `3: end_turn usage`, `agent_message_chunk`."""
    if "method" in frame:
        return str(frame["params"]["update"]["sessionUpdate"])
    if "error" in frame:
        return f"{frame['id']}: error {frame['error']['code']}"
    result = frame["result"]
    usage = " usage" if result.get("usage") else ""
    return f"{frame['id']}: {result.get('stopReason', sorted(result))}{usage}"


def recorded(scenario: str) -> list[Json]:
    entries = read_tape(HERMES / f"{scenario}.jsonl").entries
    return [entry.body or {} for entry in entries if entry.side == "agent"]


def members(frames: Iterable[Json]) -> dict[str, set[str]]:
    """By kind of update or response: the names of its members."""
    found: dict[str, set[str]] = {}
    for frame in frames:
        inner = frame["params"]["update"] if "method" in frame else frame["result"]
        found.setdefault(kind_of(frame).partition(":")[0], set()).update(inner)
    return found


class Talk:
    """A client of the scripted Hermes."""

    def __init__(self, agent: Lines) -> None:
        self._agent = agent
        self.session = ""

    @property
    def frames(self) -> list[Json]:
        return [json.loads(one) for one in self._agent.lines]

    async def begin(self) -> None:
        await self.send(request(1, "initialize", protocolVersion=1))
        await self._agent.has(1)
        await self.send(request(2, "session/new", cwd="/w", mcpServers=[]))
        await self._agent.has(4)
        self.session = self.frames[1]["result"]["sessionId"]

    async def send(self, frame: Json) -> None:
        await self._agent.send(line(frame))

    async def prompt(self, id_: int, text: str) -> None:
        await self.send(prompt(id_, text, self.session))

    async def until(self, text: str) -> None:
        """Wait for a line that holds this."""
        count = 1
        while True:
            await self._agent.has(count)
            if text in self._agent.lines[count - 1].decode():
                return
            count += 1


async def test_a_prompt_into_a_running_turn_as_on_the_tape() -> None:
    """The same kinds of frames in the same order: mid-turn-prompt, 15 chunks and 3."""
    tape = recorded("mid-turn-prompt")
    async with started(COMMAND) as agent:
        talk = Talk(agent)
        await talk.begin()
        await talk.prompt(3, "Count to 15")
        await talk.until('"2 "')
        await talk.prompt(4, "Count to 3")
        await agent.has(len(tape))
        assert await agent.end() == 0

    kinds, told = ([kind_of(frame) for frame in frames] for frames in (tape[2:], talk.frames[2:]))
    # When the second prompt came says before which chunk it was answered.
    place = told.index("4: end_turn")
    assert "Queued for the next" in str(talk.frames[2 + place - 1])
    assert place < told.index("user_message_chunk")
    for one in (kinds, told):
        one.remove("4: end_turn")
    assert kinds == told
    said = [frame["params"]["update"]["content"]["text"] for frame in talk.frames if is_text(frame)]
    assert "Queued for the next turn. (1 queued)" in said
    assert "Count to 3" in said
    assert members(tape) == members(talk.frames)


def is_text(frame: Json) -> bool:
    return "content" in frame.get("params", {}).get("update", {})


async def test_a_single_turn_as_on_the_tape() -> None:
    """simple-turn, but for its thought: the title comes behind the answer."""
    kinds = [kind_of(frame) for frame in recorded("simple-turn")[2:]]
    kinds.remove("agent_thought_chunk")
    async with started(COMMAND) as agent:
        talk = Talk(agent)
        await talk.begin()
        await talk.prompt(3, "Count to 2")
        await agent.has(2 + len(kinds))
        assert await agent.end() == 0

    assert kinds == [kind_of(frame) for frame in talk.frames[2:]]


async def test_a_cancelled_turn_as_on_the_tape() -> None:
    """cancel-mid-turn: usage of zeros, and the next prompt runs."""
    (end,) = [one for one in recorded("cancel-mid-turn") if one.get("id") == 3]
    async with started(COMMAND) as agent:
        talk = Talk(agent)
        await talk.begin()
        await talk.prompt(3, "Count to 99")
        await talk.until('"1 "')
        await talk.send(cancel(talk.session))
        await talk.until('"id":3,')
        await talk.prompt(4, "What is 6 times 7?")
        await talk.until('"id":4,')
        assert await agent.end() == 0

    assert end in talk.frames
    assert "4: end_turn usage" in [kind_of(frame) for frame in talk.frames]


async def test_what_it_does_not_know() -> None:
    """An unknown method, an underscore method, an unknown session: as hermes.md has them."""
    async with started(COMMAND) as agent:
        for frame in (
            request(1, "ping"),
            request(2, "_session/steering"),
            prompt(3, "x", session="none"),
            cancel("none"),
            request(4, "session/list"),
        ):
            await agent.send(line(frame))
        for raw in (b"not json", b"[]", b'{"id":5}'):
            await agent.send(raw)
        await agent.has(4)
        assert await agent.end() == 0
    unknown, steering, refused, listed = [json.loads(one) for one in agent.lines]

    assert (-32601, {"method": "ping"}) == (unknown["error"]["code"], unknown["error"]["data"])
    assert steering["result"] is None
    assert refused["result"] == {"stopReason": "refusal"}
    assert listed["result"] == {"sessions": []}


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("Count to 3.", ["1 ", "2 ", "3 "]),
        ("count from 1 to 2", ["1 ", "2 "]),
        (f"Count to {COUNT_MAX + 1}", [f"{n} " for n in range(1, COUNT_MAX + 1)]),
        ("What is 6 times 7?", ["6 times ", "7 is ", "42."]),
        ("hello there", ["You ", "said: ", "hello ", "there "]),
        ("", ["You ", "said: "]),
    ],
)
def test_what_it_says(text: str, chunks: list[str]) -> None:
    assert chunks == reply(text)
