"""acpx, which keeps its connection in a process of its own, talks through the bridge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.clients.acpx import Acpx, seen
from tests.clients.conversation import FOUR, ONE, THREE, agent_command, reached
from tests.clients.lines import said_by_agent, story
from tests.clients.serving import attach_command, serving
from tests.hermes.home import Home, command_line
from tests.hermes.script import script

pytestmark = [pytest.mark.clients, pytest.mark.process]

OpenAcpx = Callable[[str, Sequence[str]], Acpx]


@pytest.fixture
def open_acpx(tmp_path: Path, npm: str) -> Iterator[OpenAcpx]:
    """Takes the name of a home and the agent's command."""
    people: list[Acpx] = []

    def opened(name: str, agent: Sequence[str]) -> Acpx:
        people.append(Acpx(npm, Home.make(tmp_path / name), agent))
        return people[-1]

    yield opened
    for one in people:
        one.end_owner()


async def converse(acpx: Acpx, agent_home: Home) -> str:
    """Permission, a prompt that meets a turn, a cancel; returns the session."""
    session = await acpx.new_session()
    gate = agent_home.root / "gate"
    held = script("held", ["say", "H0 "], ["file", str(gate)], ["say", "H1"])
    said = await acpx.run("prompt", ONE)
    assert story(seen(said)) == [
        "says A0 ",
        "asks rm -rf ./build",
        "says allow_once, A1",
        "answers one: end_turn",
    ]
    async with acpx.running("prompt", held) as first:
        await first.until(lambda frame: "H0 " in said_by_agent(frame))
        await acpx.run("prompt", "--no-wait", script("two", ["say", "B"]))
        gate.touch()
        assert await first.leave() == 0
        assert story(seen(first.said)) == ["says H0 H1", "answers held: end_turn"]
    async with acpx.running("prompt", THREE) as third:
        await third.until(lambda frame: said_by_agent(frame) == "C")
        await acpx.run("cancel")
        assert await third.leave() == 0
        assert story(seen(third.said))[-1] == "answers three: cancelled"
    assert reached(agent_home)[-4:] == ["held", "two", "three", "session/cancel"]
    return session


async def test_a_whole_conversation_through_a_run(open_acpx: OpenAcpx, home: Home) -> None:
    acpx = open_acpx("person", command_line("bridged", agent_command(home)))

    await converse(acpx, home)

    said = await acpx.run("prompt", FOUR)
    assert story(seen(said)) == ["says never", "answers four: end_turn"]


async def test_two_people_share_a_conversation_of_the_daemon(
    open_acpx: OpenAcpx, home: Home
) -> None:
    """The second one's message meets a turn of the first: it waits for that turn's end."""
    gate = home.root / "gate"
    held = script("held two", ["say", "H2 "], ["file", str(gate)], ["say", "H3"])
    async with serving(home):
        one, two = [open_acpx(name, attach_command(home)) for name in ("one", "two")]
        session = await converse(one, home)
        assert session == await two.new_session("--resume-session", session)
        async with one.running("prompt", held) as first:
            await first.until(lambda frame: "H2 " in said_by_agent(frame))
            async with two.running("prompt", FOUR) as second:
                await second.until(lambda frame: frame.get("method") == "session/prompt")
                gate.touch()
                assert await second.leave() == 0
            assert await first.leave() == 0

    # Who is slow to leave sees the second one's turn begin.
    assert "answers held two: end_turn" in story(seen(first.said))
    assert story(seen(second.said))[-2:] == ["says never", "answers four: end_turn"]
    assert reached(home)[-2:] == ["held two", "four"]
    assert reached(home).count("initialize") == 1, "one agent for all"
