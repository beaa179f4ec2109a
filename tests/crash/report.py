"""Many schedules, and what came of them."""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from acpbridge.store.journal import IllegalTransition
from tests.crash.verdict import fate
from tests.crash.world import World
from tests.sim import many
from tests.sim.violation import Violation


@define
class Report:
    """Of some schedules."""

    played: int = 0
    """Schedules."""
    crashes: int = 0
    fates: Counter[str] = field(factory=Counter)
    """Of the prompts, by how each ended."""
    counters: Counter[str] = field(factory=Counter)
    violations: dict[int, str] = field(factory=dict)
    """By seed."""

    def add(self, other: Report) -> None:
        """Take another one in."""
        self.played += other.played
        self.crashes += other.crashes
        self.fates += other.fates
        self.counters += other.counters
        self.violations |= other.violations

    def text(self) -> str:
        """For people."""
        fates = ", ".join(f"{count} {name}" for name, count in self.fates.most_common())
        prompts = sum(self.fates.values())
        lines = [
            f"{self.played} schedules, {self.crashes} kills, {prompts} prompts: {fates}",
            f"violations: {len(self.violations)}",
            *(f"  seed {seed}: {text}" for seed, text in sorted(self.violations.items())),
        ]
        return "\n".join(lines)


def play(seed: int) -> Report:
    """One schedule."""
    world = World(seed)
    report = Report(1)
    try:
        world.run()
        report.fates.update(fate(world, text) for text in world.texts)
    except Violation as violation:
        report.violations[seed] = f"{violation.invariant}: {violation}"
    except (AssertionError, IllegalTransition) as fault:
        report.violations[seed] = f"{type(fault).__name__}: {fault}"
    report.crashes = world.crashes
    report.counters = world.counters
    return report


def play_all(seeds: range) -> Report:
    """Some schedules, one after the other."""
    return many.play_all(play, Report, seeds)
