"""The simulator finds what it is for."""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS
from tests.sim.violation import Violation
from tests.sim.world import World

SEEDS_MAX = 2_000


@pytest.mark.parametrize("name", MUTANTS)
def test_each_planted_bug_is_found(name: str) -> None:
    """In under 2,000 seeds, and called by its right name."""
    plant, invariants = MUTANTS[name]
    with plant():
        found = next((seed for seed in range(SEEDS_MAX) if violated(seed) in invariants), None)

    assert found is not None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_taken_out_again(name: str) -> None:
    """Else every test behind this one would test another program."""
    plant, _ = MUTANTS[name]
    with plant():
        pass

    assert "" == violated(0)


def violated(seed: int) -> str:
    """The invariant that did not hold with this seed, or nothing."""
    try:
        World(seed).run()
    except Violation as violation:
        return violation.invariant
    return ""
