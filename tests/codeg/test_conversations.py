"""Long random conversations of a client like Codeg through the bridge: nothing is lost.

More of them: ``python -m tests.codeg --turns 1000 --agent hermes``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from tests.codeg.conversation import TOLD, Talk
from tests.codeg.plans import chats
from tests.codeg.runs import SCRIPTED, connect, converse
from tests.hermes.conftest import real_hermes
from tests.hermes.script import script

SCRIPTED_TURNS = 80
HERMES_TURNS = 40
REOPENS_MAX = 5
SEED = 590
WAIT_S = 60.0


@pytest.fixture
def hermes() -> str:
    """The name of real Hermes for `converse`, where it is installed."""
    real_hermes()
    return "hermes"


@pytest.mark.process
@pytest.mark.parametrize("mode", SCRIPTED)
async def test_a_long_conversation_with_a_scripted_agent(tmp_path: Path, mode: str) -> None:
    run = await converse(tmp_path, mode, SCRIPTED_TURNS, SEED)

    assert not run.findings, run.text()
    assert run.counts["turns"] == SCRIPTED_TURNS
    assert run.counts["sent with a cancelled one unanswered"] > 0, "else nothing was tried"
    assert run.counts["outcome end_turn"] > SCRIPTED_TURNS / 3


@pytest.mark.process
async def test_what_was_cancelled_before_a_row_was_closed_is_told_in_it_once(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """R20. Cancelled as soon as it was sent, a prompt hardly ever reaches the agent."""
    rng = random.Random(SEED)
    codeg = await connect(nursery, tmp_path, "queued", rng)
    talk = Talk(codeg, rng, chats)
    try:
        await codeg.open()
        while not talk.counts[TOLD] and talk.counts["reopened rows"] < REOPENS_MAX:
            for _ in range(2):
                talk.ask()
                codeg.cancel()
            await talk.reopen()
            for _ in range(2):
                turn, plan = talk.ask()
                assert await codeg.ended(turn, WAIT_S)
                talk.judge(turn, plan)
    finally:
        await codeg.close()

    assert not talk.findings, talk.text()
    assert 1 <= talk.counts[TOLD] <= 2


@pytest.mark.hermes
@pytest.mark.process
async def test_a_long_conversation_with_real_hermes(tmp_path: Path, hermes: str) -> None:
    run = await converse(tmp_path, hermes, HERMES_TURNS, SEED)

    assert not run.findings, run.text()
    assert run.counts["turns"] == HERMES_TURNS
    assert run.counts["sent with a cancelled one unanswered"] > 0, "else nothing was tried"


@pytest.mark.hermes
@pytest.mark.process
async def test_a_resumed_row_outlives_a_wedge(
    nursery: trio.Nursery, tmp_path: Path, hermes: str
) -> None:
    """Codeg's resume has no `mcpServers`, and Hermes refuses a load without them.

    Found by a conversation of 40 turns: a cancel during a permission wedges Hermes, the bridge
    starts it again, and has to load a session that the client itself had only resumed.
    """
    codeg = await connect(nursery, tmp_path, hermes, random.Random(0))
    try:
        await codeg.open()
        assert await codeg.ended(codeg.prompt(script("one", ["say", "A"])), WAIT_S)
        await codeg.reopen()
        codeg.on_permission = lambda: WAIT_S
        codeg.prompt(script("two", ["tool", "terminal", {"command": "rm -rf ./build"}]))
        assert await codeg.asks(WAIT_S)
        codeg.cancel()
        third = codeg.prompt(script("three", ["say", "C"]))
        assert await codeg.ended(third, WAIT_S)
    finally:
        await codeg.close()

    assert "".join(seen.text for seen in third.shown if not seen.is_notice) == "C"
    assert not any("session-lost" in str(answer) for answer in third.answers)
