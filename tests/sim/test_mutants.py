"""The simulator finds what it is for."""

from __future__ import annotations

import pytest

from tests.sim.crowd import Crowd
from tests.sim.mutants import MUTANTS, MUTANTS_OF_CROWDS
from tests.sim.violation import Violation
from tests.sim.world import World

SEEDS_MAX = 2_000
CASES = [(World, name) for name in MUTANTS] + [(Crowd, name) for name in MUTANTS_OF_CROWDS]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_each_planted_bug_is_found(kind: type[World], name: str) -> None:
    """In under 2,000 seeds, and called by its right name."""
    plant, invariants = (MUTANTS | MUTANTS_OF_CROWDS)[name]
    with plant():
        seeds = range(SEEDS_MAX)
        found = next((seed for seed in seeds if violated(kind, seed) in invariants), None)

    assert found is not None


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_planted_bug_is_taken_out_again(kind: type[World], name: str) -> None:
    """Else every test behind this one would test another program."""
    plant, _ = (MUTANTS | MUTANTS_OF_CROWDS)[name]
    with plant():
        pass

    assert "" == violated(kind, 0)


def violated(kind: type[World], seed: int) -> str:
    """The invariant that did not hold with this seed, or nothing."""
    try:
        kind(seed).run()
    except Violation as violation:
        return violation.invariant
    return ""
