"""The goals, and whether what was measured meets them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from attrs import frozen

from tests.bench.rounds import Results
from tests.bench.targets import (
    BARE,
    BATCH,
    BRIDGE,
    RAW,
    UNIX,
    UNRECORDED,
    WEBSOCKET,
    WEBSOCKETD,
    Target,
)


@frozen
class Goal:
    """A number that acpbridge must reach."""

    name: str
    limit: float
    measured: Callable[[Results], Sequence[float]]
    """One value of each round or pass; empty if nothing was measured."""
    is_floor: bool = False
    """The limit is the least, else the most."""
    counts: Callable[[Sequence[float]], float] = statistics.median
    """Which of the values is judged."""


@frozen
class Verdict:
    """A goal and what was measured."""

    goal: Goal
    values: Sequence[float]

    @property
    def is_met(self) -> bool | None:
        """None: nothing was measured."""
        if not self.values:
            return None
        value, limit = self.goal.counts(self.values), self.goal.limit
        return value >= limit if self.goal.is_floor else value <= limit

    def __str__(self) -> str:
        """One line: the word that counts first."""
        goal, values = self.goal, self.values
        word = {True: "pass", False: "FAIL", None: "not measured"}[self.is_met]
        bound = f"{'at least' if goal.is_floor else 'at most'} {goal.limit:g}"
        line = f"{word:<13}{goal.name:<52}{bound:<15}"
        if values:
            line += f"{goal.counts(values):>7.4g}"
        if len(values) > 1:
            line += f"  ({min(values):.3g} to {max(values):.3g} of {len(values)})"
        return line.rstrip()


def ratios(results: Results, figure: str, target: str, base: str) -> list[float]:
    """The ratio within each round that has both."""
    return [
        figures[target][figure] / figures[base][figure]
        for figures in results.rounds
        # The bare agent stands behind nothing, which costs no CPU: no ratio to that.
        if figure in figures.get(target, {}) and figures.get(base, {}).get(figure)
    ]


def values(results: Results, figure: str, target: str) -> list[float]:
    """The figure of each round that has it."""
    return [
        figures[target][figure] for figures in results.rounds if figure in figures.get(target, {})
    ]


def over_imports(results: Results) -> list[float]:
    """Milliseconds of each start beyond that of the interpreter with its imports."""
    return [pair["start_ms"] - pair["import_ms"] for pair in results.starts]


def _against(
    figure: str, base: Target, of: Target = BRIDGE
) -> Callable[[Results], Sequence[float]]:
    return lambda results: ratios(results, figure, of.name, base.name)


def _small(base: Target, of: Target) -> Callable[[Results], Sequence[float]]:
    return _against("small_per_s", base, of)


def _beyond_sync(results: Results) -> Sequence[float]:
    """What a prompt costs more than without a journal, less one sync of the disk, each round."""
    return [
        figures[BRIDGE.name]["prompt_p50_ms"]
        - figures[UNRECORDED.name]["prompt_p50_ms"]
        - figures[BRIDGE.name]["sync_ms"]
        for figures in results.rounds
        if "sync_ms" in figures.get(BRIDGE.name, {})
        and "prompt_p50_ms" in figures.get(UNRECORDED.name, {})
    ]


def _own(figure: str) -> Callable[[Results], Sequence[float]]:
    return lambda results: values(results, figure, BRIDGE.name)


def _alone(figure: str) -> Callable[[Results], Sequence[float]]:
    return lambda results: results.alone.get(figure, ())


GOALS = (
    Goal("200-byte updates: rate to the bare agent's", 0.35, _against("small_per_s", BARE), True),
    Goal("200-byte updates: rate to the batch pipe's", 0.75, _against("small_per_s", BATCH), True),
    Goal("round trip p50 to the raw pipe's", 1.25, _against("trip_p50_us", RAW)),
    Goal("start beyond `import trio, orjson`, ms", 60, over_imports),
    Goal(
        "journal: 200-byte updates, rate to that without",
        0.9,
        _against("small_per_s", UNRECORDED),
        True,
    ),
    Goal("journal: a prompt beyond one without and a sync, ms", 1.5, _beyond_sync),
    Goal("idle RSS, MiB", 40, _own("idle_mib")),
    Goal("20 MiB frame: ways that kept its bytes", 2, _own("frame_20_ways"), True, min),
    Goal("stalled client: growth of RSS, MiB", 64, _alone("stall_mib"), counts=max),
    Goal("stalled client: MB then read, all there", 200, _alone("stall_read_mb"), True, min),
    Goal("long turn: time of an update to a short one's", 1.3, _alone("linear_ratio")),
    Goal("long turn: RSS that it adds, MiB", 16, _alone("linear_mib"), counts=max),
    Goal("many sessions: round trip to that of 10", 1.3, _alone("sessions_trip_ratio")),
    Goal("many sessions: time of an update to that of 10", 1.3, _alone("sessions_small_ratio")),
    Goal(
        "unix: 200-byte updates, rate to the bare agent's",
        0.3,
        _small(BARE, UNIX),
        True,
    ),
    Goal(
        "WebSocket: 200-byte updates, to the bare agent's",
        0.2,
        _small(BARE, WEBSOCKET),
        True,
    ),
    Goal(
        "WebSocket: 200-byte updates, to websocketd's",
        1,
        _small(WEBSOCKETD, WEBSOCKET),
        True,
    ),
    Goal("crowd: the daemon's highest RSS, MiB", 150, _alone("crowd_mib"), counts=max),
    Goal("crowd: clients that got all, of 31", 31, _alone("crowd_whole"), True, min),
    Goal("crowd: agents at the end", 1, _alone("crowd_agents"), counts=max),
)


def judge(results: Results) -> list[Verdict]:
    """Every goal with what was measured."""
    return [Verdict(goal, goal.measured(results)) for goal in GOALS]
