"""One seed played, and what many add up to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from attrs import define, field

from tests.sim import many
from tests.sim.crowd import Crowd, is_crowded
from tests.sim.violation import Violation
from tests.sim.world import World


@define
class Report:
    """What a number of worlds had in them."""

    played: int = 0
    """Seeds."""
    events: int = 0
    seconds: float = 0.0
    """Of work, in all processes together."""
    slowest_s: float = 0.0
    slowest: int = -1
    """The seed that took longest."""
    agents: Counter[str] = field(factory=Counter)
    clients: Counter[str] = field(factory=Counter)
    faults: Counter[str] = field(factory=Counter)
    answers: Counter[str] = field(factory=Counter)
    """Answers to prompts: the kind of a refusal, the tag of a completion, else the stop reason."""
    counters: Counter[str] = field(factory=Counter)
    """The bridge's own, by name."""
    violations: dict[int, str] = field(factory=dict)

    def add(self, other: Report) -> None:
        """Take in another report."""
        self.played += other.played
        self.events += other.events
        self.seconds += other.seconds
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest
        for name in ("agents", "clients", "faults", "answers", "counters"):
            getattr(self, name).update(getattr(other, name))
        self.violations |= other.violations

    def text(self) -> str:
        """For people, at 100 columns or less."""
        rate = self.played / self.seconds if self.seconds else 0.0
        rows = [
            f"{self.played} seeds, {self.events} events, {self.seconds:.1f} s of work",
            f"{rate:.0f} seeds a second; slowest {self.slowest}: {self.slowest_s * 1000:.0f} ms",
            *_rows("agents", self.agents),
            *_rows("clients", self.clients),
            *_rows("faults", self.faults),
            *_rows("answers", self.answers),
            *_rows("bridge", self.counters),
            f"violations: {len(self.violations)}",
        ]
        rows += [f"  seed {seed}: {text}" for seed, text in sorted(self.violations.items())]
        return "\n".join(rows)


def _rows(title: str, counts: Counter[str]) -> Iterator[str]:
    row = f"{title}:"
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        word = f" {name} {count}"
        if len(row) + len(word) > 98:
            yield row
            row = "   "
        row += word
    yield row


def play(seed: int) -> Report:
    """Play one seed, and the life of a crowd beside it where it has one."""
    report = _play(seed, World(seed))
    report.played = 1
    if is_crowded(seed):
        report.add(_play(seed, Crowd(seed)))
    return report


def _play(seed: int, world: World) -> Report:
    """A fault of ours (an assertion, a KeyError) counts as a violation too."""
    began_s = time.perf_counter()
    report = Report(slowest=seed)
    try:
        world.run()
    except Violation as violation:
        report.violations[seed] = f"{world.name}{violation}"
    except Exception as fault:  # noqa: BLE001 - whatever it is, the seed must be named
        report.violations[seed] = f"{world.name}crash: {type(fault).__name__}: {fault}"
    report.seconds = report.slowest_s = time.perf_counter() - began_s
    report.events = world.clock.done
    report.agents[world.mix.agent] += 1
    report.clients[world.mix.client] += 1
    report.faults.update(world.mix.faults | world.mix.mischief)
    report.answers.update(world.toward_client.tags)
    report.counters.update(world.bridge.counters)
    return report


def play_all(seeds: Iterable[int]) -> Report:
    """Play many in this process."""
    return many.play_all(play, Report, seeds)
