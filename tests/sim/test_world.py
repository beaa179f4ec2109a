"""2,000 seeded lives, and every seed that ever found something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.crowd import Crowd
from tests.sim.report import play, play_all
from tests.sim.violation import Violation
from tests.sim.world import World

SEEDS = 2_000
PER_TEST = 100
PAST = Path(__file__).with_name("seeds.txt")
LINES_SHOWN = 60


def past() -> list[int]:
    """The seeds of seeds.txt; behind each stands what it found."""
    rows = PAST.read_text(encoding="utf-8").splitlines()
    return [int(row.split()[0]) for row in rows if row.strip() and not row.startswith("#")]


def told(violations: dict[int, str]) -> str:
    """The first of these as the end of its dialogue; the command shows all of it."""
    if not violations:
        return ""
    seed, text = min(violations.items())
    is_crowd = text.startswith(Crowd.name)
    world = Crowd(seed, verbose=True) if is_crowd else World(seed, verbose=True)
    try:
        world.run()
    except Exception as fault:  # noqa: BLE001 - it is shown, whatever it is
        text = f"{type(fault).__name__}: {fault}"
    lines = [line[:200] for line in world.dialogue[-LINES_SHOWN:]]
    command = f"python -m tests.sim --seed {seed}{' --crowd' if is_crowd else ''}"
    return "\n".join([*lines, f"seed {seed}: {text}", command])


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_no_life_breaks_a_promise(first: int) -> None:
    """I1 to I10, in worlds of every agent with faults and mischief drawn from the seed."""
    report = play_all(range(first, first + PER_TEST))

    assert "" == told(report.violations)


@pytest.mark.parametrize("seed", past())
def test_what_was_found_once_stays_mended(seed: int) -> None:
    assert "" == told(play(seed).violations)


def test_a_seed_is_a_history() -> None:
    """The same seed gives the same dialogue, line by line: else no failure could be shown."""
    for kind in (World, Crowd):
        first, second = kind(11, verbose=True), kind(11, verbose=True)
        first.run()
        second.run()

        assert first.dialogue == second.dialogue


def test_the_worlds_are_not_dull() -> None:
    """What is never met is never checked: each of these must happen in 300 lives."""
    report = play_all(range(300))

    counted = report.counters
    assert {name for name in WANTED if not counted[name]} == set()
    assert {"end_turn", "cancelled", "agent-exited", "session-lost"} <= set(report.answers)


WANTED = (
    "receipt",
    "ownerless_turn",
    "session_revived",
    "session_wedged",
    "empty_answer_held",
    "late_content_kept",
    "cancelled_work_withheld",
    "replay_hidden",
    "prompt_taken_back",
    "session_rotated",
    "request_id_reused",
    "agent_noise",
    "completed",
    "clients_joined",
    "answered_from_log",
    "session_abandoned",
    "late_client_answer_dropped",
)


def test_a_violation_is_told_with_its_dialogue() -> None:
    """A red run must say more than a number."""
    assert told({0: "as if"}).splitlines()[-1].endswith("--seed 0")
    assert told({0: "crowd: as if"}).splitlines()[-1].endswith("--seed 0 --crowd")
    assert Violation("I1", "x").invariant == "I1"
