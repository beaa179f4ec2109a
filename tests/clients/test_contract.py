"""The event plane is a contract: a Python and a TypeScript client read the same from it.

The events come from a daemon that has just seen them happen. Each client asks for them through its
SDK, rebuilds the conversation in its own language, and says what it has made of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import frozen

from tests.clients.client import EVENTS, Client
from tests.clients.conversation import begin
from tests.clients.lines import Saw
from tests.clients.serving import serving
from tests.hermes.home import Home
from tests.hermes.script import script

pytestmark = [pytest.mark.clients, pytest.mark.process, pytest.mark.usefixtures("npm")]

WORDS = script(
    "all",
    ["say", 'a "quoted" '],
    ["say", "\\ backslash\n"],
    ["say", "and 😀"],
    ["think", "hm"],
    ["tool", "make", {}],
    ["plan", "build it"],
    ["permission", "rm -rf ./build"],
    ["say", "!"],
)
"""Text that is merged, in more escapes than one, and all that is never merged."""


def part(kind: str, first: int | None, last: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "seqs": [first, last], **more}


PARTS = [
    part("user_message_chunk", 1, 1, text=WORDS),
    part("agent_message_chunk", 2, 4, text='a "quoted" \\ backslash\nand 😀'),
    part("agent_thought_chunk", 5, 5, text="hm"),
    part("tool", 6, 7, id="tc-000001000001", title="make", status="completed"),
    part("plan", 8, 8),
    part("agent_message_chunk", 9, 10, text="allow_once!"),
    part("end", 11, 11, reason="end_turn"),
]
"""A conversation of one turn, as a client makes it of its events."""
LATEST = 11


@frozen
class Readers:
    """A daemon in which `WORDS` was said, and a client of each SDK to read of it."""

    owner: Client
    """Whose prompt it was; no reader of events."""
    python: Client
    typescript: Client
    session: str
    epoch: str

    async def read(self, cursor: dict[str, Any] | None) -> dict[str, Any]:
        """What both say that they have read, which must be the same."""
        more = {} if cursor is None else {"cursor": cursor}
        python, typescript = [
            await one.ask("replay", session=self.session, **more)
            for one in (self.python, self.typescript)
        ]
        assert python == typescript
        return dict(python)

    def at(self, seq: int) -> dict[str, Any]:
        """A cursor of this daemon."""
        return {"epoch": self.epoch, "seq": seq}


@asynccontextmanager
async def reading(home: Home, **limits: str) -> AsyncIterator[Readers]:
    async with (
        serving(home, **limits) as daemon,
        daemon.joined("typescript") as owner,
        daemon.joined("python") as python,
        daemon.joined("typescript") as typescript,
    ):
        session = await begin(owner, home)
        prompted = await owner.tell("prompt", session=session, text=WORDS)
        await owner.asks()
        await owner.tell("answer", option="allow_once")
        await owner.result(prompted)
        told = [await one.ask("initialize", meta=EVENTS) for one in (python, typescript)]
        epochs = {one["_meta"]["acpbridge"]["epoch"] for one in told}
        assert len(epochs) == 1
        yield Readers(owner, python, typescript, session, epochs.pop())


def untraced(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts, less the trace id that all parts of a turn have."""
    traces = {one.pop("traceId") for one in answer["parts"]}
    assert len(traces) == 1
    return list(answer["parts"])


async def test_all_of_it(home: Home) -> None:
    async with reading(home) as readers:
        answer = await readers.read(None)

        assert untraced(answer) == PARTS
        assert answer["latestSeq"] == LATEST
        assert answer["epoch"] == readers.epoch
        assert (answer["truncated"], answer["startsOver"]) == (False, True)


async def test_a_cursor_in_the_middle_of_merged_text_gets_the_rest(home: Home) -> None:
    async with reading(home) as readers:
        for seq, rest in ((2, "\\ backslash\nand 😀"), (3, "and 😀")):
            answer = await readers.read(readers.at(seq))

            text = part("agent_message_chunk", seq + 1, 4, text=rest)
            assert untraced(answer) == [text, *PARTS[2:]]
            assert (answer["truncated"], answer["startsOver"]) == (False, False)


async def test_a_cursor_at_the_end_gets_nothing(home: Home) -> None:
    async with reading(home) as readers:
        answer = await readers.read(readers.at(LATEST))

        assert answer["parts"] == []
        assert answer["latestSeq"] == LATEST


async def test_a_cursor_of_another_epoch_starts_over(home: Home) -> None:
    async with reading(home) as readers:
        other = f"{int(readers.epoch, 16) ^ 1:08x}"
        answer = await readers.read({"epoch": other, "seq": 8})

        assert untraced(answer) == PARTS
        assert answer["startsOver"]
        assert answer == await readers.read(None) | {"parts": answer["parts"]}


async def test_where_durable_events_were_dropped_it_says_so(home: Home) -> None:
    async with reading(home, ACPBRIDGE_LOG_EVENTS_MAX="2") as readers:
        answer = await readers.read(readers.at(3))

        assert untraced(answer) == [part("plan", None, 8), *PARTS[5:]]
        assert answer["truncated"]
        assert not (await readers.read(readers.at(7)))["truncated"], "it has what was dropped"


async def test_after_the_answer_a_client_follows_without_a_hole(home: Home) -> None:
    async with reading(home) as readers:
        await readers.read(readers.at(5))
        prompted = await readers.owner.tell(
            "prompt", session=readers.session, text=script("more", ["say", "B0"], ["say", "B1"])
        )
        await readers.owner.result(prompted)
        for client in (readers.python, readers.typescript):
            await client.until(is_end)
            places = [
                saw["params"]["_meta"]["acpbridge"]
                for saw in client.said
                if saw["saw"] in ("update", "notification")
            ]
            assert [place["seq"] for place in places] == [12, 13, 14, 15]
            assert {place["epoch"] for place in places} == {readers.epoch}
            assert len({place["traceId"] for place in places}) == 1


def is_end(saw: Saw) -> bool:
    return saw.get("method") == "_acpbridge/turn_ended"
