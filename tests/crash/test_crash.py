"""2,000 crash schedules: nothing lost, nothing run twice, and the schedules can see it."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from acpbridge.store.journal import Archive
from tests.crash.both import RealWorld
from tests.crash.bugs import BUGS
from tests.crash.report import play, play_all
from tests.store.journal.conftest import MEMORY

SCHEDULES = 2_000
PER_TEST = 200
REAL = 40
"""Schedules that are played on a real file too."""
SEEDS_MAX = 600


@pytest.mark.parametrize("first", range(0, SCHEDULES, PER_TEST))
def test_no_crash_loses_a_prompt_or_runs_it_twice(first: int) -> None:
    """I3, I8, R20: the bridge is killed at a boundary of its effects or of the disk."""
    report = play_all(range(first, first + PER_TEST))

    assert {} == report.violations


def test_the_journal_in_memory_says_what_the_real_one_says() -> None:
    """On every question and every write, whole schedules long."""
    memory = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
    for seed in range(REAL):
        with tempfile.TemporaryDirectory(prefix="acpbridge-crash-", dir=memory) as folder:
            world = RealWorld(seed, Path(folder) / "state")
            world.run()
            archive = Archive.open(Path(folder) / "state")
            assert archive is not None
            with closing(archive):
                kept = [(row.id, row.state) for row in archive.list_prompts()]

        assert [(row.id, row.state) for row in reversed(world.shelf.rows)] == kept


@pytest.mark.parametrize("name", BUGS)
def test_each_planted_bug_is_found(name: str) -> None:
    plant, invariants = BUGS[name]
    with plant():
        found = next((seed for seed in range(SEEDS_MAX) if _is_found(seed, invariants)), None)

    assert found is not None


def _is_found(seed: int, invariants: tuple[str, ...]) -> bool:
    return any(text.startswith(invariants) for text in play(seed).violations.values())


def test_the_schedules_are_not_dull() -> None:
    """What is never met is never checked."""
    report = play_all(range(10_000, 10_300))

    assert {name for name in WANTED if not report.counters[name]} == set()
    assert {name for name in FATES if not report.fates[name]} == set()
    assert report.crashes > report.played


WANTED = (
    "agent_exited",
    "kept_prompts_told",
    "prompt_joined",
    "prompt_steered",
    "prompt_taken_back",
    "prompts_recovered",
    "receipt",
    "session_revived",
    "undelivered_sent",
)
FATES = ("answered", "unknown", "accepted", "settled", "not taken")
