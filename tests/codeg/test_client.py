"""The client is as delicate as Codeg: without a bridge it dies, loses and drops.

These tests are what makes the conversations through the bridge worth something: each way in
which they could fail is shown to be seen.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.codeg.client import Codeg, Died
from tests.codeg.conversation import Habits, Talk
from tests.codeg.plans import GO_ON, Plan, bare_words, chats, quoted, scripted
from tests.codeg.runs import through_bridge
from tests.hermes.home import Home
from tests.hermes.script import script

pytestmark = pytest.mark.process

WAIT_S = 30.0
RACES = 40
CHATTY = Habits(cancels=0.5, idle_cancels=0.0, probes=0.0, reopens=0.0, turn_s=WAIT_S)

Connect = Callable[..., Awaitable[Codeg]]


@pytest.fixture
async def connect(nursery: trio.Nursery, tmp_path: Path) -> AsyncIterator[Connect]:
    """Opens a Codeg directly on a module of ours: its name, then its arguments."""
    opened: list[Codeg] = []

    async def connect_one(module: str, *words: str) -> Codeg:
        command = [sys.executable, "-m", module, *words]
        opened.append(Codeg(Home.make(tmp_path), command, random.Random(5), nursery))
        await opened[-1].open()
        return opened[-1]

    yield connect_one
    for codeg in opened:
        await codeg.close()


@pytest.mark.parametrize(
    ("deed", "cause"),
    [
        ("error", "an error answer to a prompt"),
        ("reason", "an unknown stop reason"),
        ("bytes", "bytes that are no UTF-8"),
        ("session", "a session id that is no string"),
        ("quit", "the process ended with 0"),
    ],
)
async def test_what_kills_it_in_a_turn(connect: Connect, deed: str, cause: str) -> None:
    codeg = await connect("tests.codeg.hostile", deed)
    turn = codeg.prompt("hello")

    with pytest.raises(Died, match=cause):
        await codeg.ended(turn, WAIT_S)
    assert turn.row == "in_progress"


async def test_a_session_id_that_is_no_string_kills_it(connect: Connect) -> None:
    with pytest.raises(Died, match="a session id that is no string"):
        await connect("tests.codeg.hostile", "new")


async def test_null_for_a_load_kills_it(connect: Connect) -> None:
    codeg = await connect("tests.codeg.hostile", "load")

    with pytest.raises(Died, match="session/load was answered"):
        await codeg.reopen()


async def test_an_error_for_a_cancelled_prompt_is_swallowed(connect: Connect) -> None:
    codeg = await connect("tests.codeg.hostile", "error")
    turn = codeg.prompt("hello")
    codeg.cancel()

    assert await codeg.settled([turn], WAIT_S)
    assert (turn.outcome, turn.row, codeg.death) == ("cancelled", "cancelled", None)


async def test_an_end_without_output_is_empty(connect: Connect) -> None:
    codeg = await connect("tests.codeg.hostile", "nothing")
    turn = codeg.prompt("hello")

    assert await codeg.ended(turn, WAIT_S)
    assert (turn.outcome, turn.row) == ("empty", "cancelled")


async def test_output_right_in_front_of_its_response_is_sometimes_lost(connect: Connect) -> None:
    codeg = await connect("tests.codeg.agent", "bare")
    for number in range(RACES):
        assert await codeg.ended(codeg.prompt(script(f"{number}", ["say", "word"])), WAIT_S)
    lost = [turn for turn in codeg.turns if turn.lost]

    assert 0 < len(lost) < RACES / 2, "one branch of four"
    assert {turn.outcome for turn in lost} == {"empty"}
    assert {turn.outcome for turn in codeg.turns if turn not in lost} == {"end_turn"}
    assert len(codeg.dropped) == len(lost), "what was lost arrives while nothing is live"


async def test_a_swallowed_send_is_what_codeg_sees_without_a_bridge(connect: Connect) -> None:
    """Issue #590: the receipt ends the turn, and the answer comes while nobody listens."""
    codeg = await connect("tests.codeg.agent", "queued")
    codeg.on_permission = lambda: WAIT_S
    codeg.prompt(script("one", ["permission", "may I?"], ["say", "#0-0 "]))
    assert await codeg.asks(WAIT_S)
    codeg.cancel()
    second = codeg.prompt(script("two", ["say", "#1-0 "]))

    assert await codeg.ended(second, WAIT_S)
    assert "#1-0" not in "".join(seen.text for seen in second.shown)


@pytest.mark.parametrize("mode", ["queued", "redirect"])
async def test_the_judge_finds_fault_with_an_agent_that_nobody_bridges(
    nursery: trio.Nursery, tmp_path: Path, mode: str
) -> None:
    """Without fault through the bridge, see below. A poison would end it before its time."""
    command = [sys.executable, "-m", "tests.codeg.agent", f"{mode},no-poison"]
    rng = random.Random(1)
    codeg = Codeg(Home.make(tmp_path), command, rng, nursery)
    talk = Talk(codeg, rng, chats, CHATTY)
    await talk.hold(RACES)

    assert any(" shows " in finding.text for finding in talk.findings), talk.text()


@pytest.mark.parametrize(("profile", "is_clean"), [("codeg", True), ("generic", False)])
async def test_it_takes_the_profile_of_codeg_to_leave_nothing_to_find(
    nursery: trio.Nursery, tmp_path: Path, profile: str, is_clean: bool
) -> None:
    """Without the gap of the profile the last words and their response race, at one end of four."""
    command = through_bridge([sys.executable, "-m", "tests.codeg.agent", "queued"], profile)
    rng = random.Random(1)
    talk = Talk(Codeg(Home.make(tmp_path), command, rng, nursery), rng, chats, CHATTY)
    await talk.hold(RACES if is_clean else 3 * RACES)

    assert (not talk.findings) is is_clean, talk.text()


def test_plans_carry_their_serial_in_every_word() -> None:
    make = scripted()
    plans = [make(random.Random(seed), seed) for seed in range(200)]

    assert {plan.kind for plan in plans} >= {"chat", "think", "tool", "permission", "silent"}
    for plan in plans:
        assert plan.shows or plan.kind == "silent"
        # A word without one could not be told from a late word of the turn before.
        assert re.fullmatch(rf"(#{plan.serial}-\d+(\.\w+)?)*", plan.shows)
        notice = f'Not delivered when the bridge last ended: "{plan.text[:30]}…" (7).'
        assert quoted(notice) == [plan.serial]
    assert bare_words(" a\n b ") == "ab"


@pytest.mark.parametrize(
    ("words", "is_whole", "has_leaks", "is_right"),
    [
        ("#1-0#1-1", True, False, True),
        ("#1-0", True, False, False),
        ("#1-0#1-1#1-1", True, False, False),
        ("#1-0#1-1error", False, False, True),
        ("#1-0#1-1error", True, False, False),
        (f"#1-0{GO_ON}", True, False, False),
        ("#1-0#1-1", True, True, True),
        ("#1-0", True, True, False),
        (f"#1-0#1-1{GO_ON}", True, True, True),
        (f"#1-0{GO_ON}", True, True, True),
        (f"#1-1{GO_ON}", True, True, False),
        (f"#1-0#1-1#1-1{GO_ON}", True, True, False),
    ],
)
def test_what_a_turn_has_to_show(
    words: str, is_whole: bool, has_leaks: bool, is_right: bool
) -> None:
    """Hermes breaks its own stream where it leaks, and not only at its end."""
    plan = Plan(1, "chat", "", "#1-0#1-1", is_whole=is_whole)

    assert plan.is_shown_by(words, has_leaks=has_leaks) is is_right
