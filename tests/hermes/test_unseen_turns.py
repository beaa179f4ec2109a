"""S16: sends into a turn that the client cannot see, with the scripted agent of the 0.20 kind.

The agent begins work by itself. What the client sends meanwhile must neither be answered by a
receipt nor be lost, run twice or run out of order, whatever the agent does with it.
"""

from __future__ import annotations

import json
from typing import cast

import pytest
from attrs import frozen

from tests.hermes.conftest import Open
from tests.hermes.peer import Peer
from tests.hermes.record import Body, Sent
from tests.hermes.script import script

pytestmark = pytest.mark.process

RECEIPTS = ("Queued for the next turn", "Redirected the active turn")
FAKE_MAX_S = 0.020

TWO = script("two", ["say", " B"])
THREE = script("three", ["say", "C"])
FOUR = script("four", ["say", "D"])


FENCES_MAX = 1_000
"""Answers of the agent, a millisecond each or more, in which a prompt must have come."""


@frozen
class Scene:
    """A bridged agent in one session, after a first turn that ended normally."""

    peer: Peer
    session: str

    @classmethod
    async def open(cls, open_scripted: Open, mode: str) -> Scene:
        peer = await open_scripted(mode, "bridged")
        scene = cls(peer, await peer.new_session())
        await peer.answer(await scene.prompt(script("one", ["say", "A"])))
        return scene

    async def prompt(self, text: str) -> Sent:
        return await self.peer.prompt(self.session, text)

    async def test(self, what: str, **params: object) -> None:
        await self.peer.notify(f"_test/{what}", {"sessionId": self.session, **params})

    async def reached(self, text: str) -> None:
        """Wait until the agent has read a prompt: the answer to the fence came after it."""
        # The intent to send is made durable first, which takes a disk's time.
        for _ in range(FENCES_MAX):
            await self.peer.fence()
            if text in self.received():
                return
        raise AssertionError("the bridge has not sent it")

    def received(self) -> list[str]:
        """The texts of all prompts that were written to the agent."""
        got: list[Body] = [entry["got"] for entry in self._log() if "got" in entry]
        prompts = [body["params"] for body in got if body.get("method") == "session/prompt"]
        return [params["prompt"][0]["text"] for params in prompts]

    def ran(self) -> list[str]:
        """The texts that the agent really began to work on."""
        return [entry["ran"] for entry in self._log() if "ran" in entry]

    def _log(self) -> list[Body]:
        lines = (self.peer.home.root / "log.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    async def finish(self, *sent: Sent) -> list[str]:
        """Run one more prompt, check what holds in every variant; the story after "one"."""
        last = await self.prompt(FOUR)
        await self.peer.answer(last)
        told = self.peer.story(self.session)

        assert told[-2:] == ["says D", "answers four: end_turn"]
        for one in sent:
            (answer,) = self.peer.answers(one)
            assert answer.at_s - one.at_s > FAKE_MAX_S
        assert len(self.peer.answers(last)) == 1
        assert not [
            seen for seen in self.peer.frames if any(text in seen.text for text in RECEIPTS)
        ]
        assert len(set(self.ran())) == len(self.ran()) == len(sent) + 2
        assert len(set(self.received())) == len(self.received())
        assert {seen.session for seen in self.peer.frames if seen.session} == {self.session}
        return told[2:-2]


def completion(peer: Peer, sent: Sent) -> str | None:
    """How the bridge says that it knows of the end."""
    (answer,) = peer.answers(sent)
    meta = answer.body["result"].get("_meta", {})
    return cast("str | None", meta.get("acpbridge", {}).get("completion"))


async def test_a_prompt_waits_for_work_that_was_seen(open_scripted: Open) -> None:
    """Variant a: it goes when the turn is over and is answered by its own response."""
    scene = await Scene.open(open_scripted, "redirect")
    work = script("work", ["say", "bg1"], ["gate", "g"], ["say", " bg2"])
    await scene.test("background", notice="a process ended", script=work)
    await scene.peer.wait_text("bg1")
    two = await scene.prompt(TWO)
    await scene.peer.fence()
    assert TWO not in scene.received()

    await scene.test("release", gate="g")
    await scene.peer.answer(two)

    assert completion(scene.peer, two) is None
    assert await scene.finish(two) == [
        "user a process ended",
        "says bg1 bg2 B",
        "answers two: end_turn",
    ]


@pytest.mark.parametrize("slips", [{}, {"before": "bg1 "}, {"between": "bg1 "}])
async def test_a_redirected_prompt_is_answered_at_the_end_of_the_unseen_turn(
    open_scripted: Open, slips: Body
) -> None:
    """Variants b and 5: the receipt is swallowed, chunks around it are not."""
    scene = await Scene.open(open_scripted, "redirect")
    await scene.test("background", script=script("work", ["gate", "g"], ["say", "bg2"]))
    await scene.test("receipt", **slips)
    two = await scene.prompt(TWO)
    await scene.reached(TWO)
    assert scene.peer.answers(two) == []

    await scene.test("release", gate="g")
    await scene.peer.answer(two)

    assert completion(scene.peer, two) in ("marked", "inferred")
    slipped = "".join(slips.values())
    assert await scene.finish(two) == [f"says {slipped}bg2 B", "answers two: end_turn"]


async def test_a_queued_prompt_is_answered_at_the_end_of_its_own_segment(
    open_scripted: Open,
) -> None:
    """Variant c: its echo opens the segment."""
    scene = await Scene.open(open_scripted, "queued")
    await scene.test("background", script=script("work", ["gate", "g"], ["say", "bg2"]))
    two = await scene.prompt(TWO)
    await scene.reached(TWO)
    assert scene.peer.answers(two) == []

    await scene.test("release", gate="g")
    await scene.peer.answer(two)

    assert completion(scene.peer, two) == "drained"
    assert await scene.finish(two) == [
        "says bg2",
        f"user {TWO}",
        "says  B",
        "answers two: end_turn",
    ]


async def test_a_third_prompt_waits_behind_a_redirected_one(open_scripted: Open) -> None:
    """Variant d: it is delivered after, exactly once."""
    scene = await Scene.open(open_scripted, "redirect")
    await scene.test("background", script=script("work", ["gate", "g"], ["say", "bg2"]))
    two = await scene.prompt(TWO)
    await scene.reached(TWO)
    three = await scene.prompt(THREE)
    await scene.peer.fence()
    assert THREE not in scene.received()

    await scene.test("release", gate="g")
    await scene.peer.answer(three)

    assert await scene.finish(two, three) == [
        "says bg2 B",
        "answers two: end_turn",
        "says C",
        "answers three: end_turn",
    ]


async def test_the_session_id_rotates_in_the_middle(open_scripted: Open) -> None:
    """Variant e: the client's id stays what it was, and nothing else changes."""
    scene = await Scene.open(open_scripted, "redirect")
    work = script("work", ["gate", "g"], ["rotate"], ["say", "bg2"])
    await scene.test("background", script=work)
    two = await scene.prompt(TWO)
    await scene.reached(TWO)

    await scene.test("release", gate="g")
    await scene.peer.answer(two)

    assert await scene.finish(two) == ["says bg2 B", "answers two: end_turn"]
