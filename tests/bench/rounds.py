"""Rounds: every target in turn, so that a slow second of the machine meets all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from attrs import define, field

from tests.bench.alone import Passes
from tests.bench.client import Lost
from tests.bench.measure import PARTS, Figures, Sizes
from tests.bench.targets import BRIDGE, Running, Target, environment, running

IMPORTS = ("-c", "import trio, orjson")
"""The start that a bridge of trio and orjson cannot avoid."""

ItemT = TypeVar("ItemT")


@define
class Results:
    """Everything that was measured."""

    rounds: list[dict[str, Figures]] = field(factory=list)
    """Of each round: a target's name, and its figures."""
    starts: list[Figures] = field(factory=list)
    """Pairs of starts: `start_ms` of acpbridge, `import_ms` of the interpreter and its imports."""
    loads: list[float] = field(factory=list)
    """The machine's load average at the begin of each round."""
    alone: Passes = field(factory=dict)
    """What was measured of acpbridge alone."""
    faults: list[str] = field(factory=list)
    """What could not be measured, and why."""
    missing: list[str] = field(factory=list)
    """Targets that are not installed."""


def order(items: Sequence[ItemT], number: int) -> Iterator[ItemT]:
    """The items of a round: A B C, C B A, B C A, A C B, ..."""
    if not items:
        return iter(())
    turn = number // 2 % len(items)
    turned = [*items[turn:], *items[:turn]]
    return iter(turned if number % 2 == 0 else turned[::-1])


def run_round(
    results: Results,
    number: int,
    *,
    targets: Sequence[Target],
    parts: Sequence[str],
    sizes: Sizes,
    agent: Path,
) -> None:
    """Start each target once, then measure part by part, each part of one target after another.

    So what is compared was measured within a second or two. One that fails is noted and left out
    of the rest of the round, and the others go on.
    """
    figures: dict[str, Figures] = {target.name: {} for target in targets}
    runs: dict[str, tuple[Running, str]] = {}
    results.rounds.append(figures)
    results.loads.append(os.getloadavg()[0])
    with ExitStack() as stack:
        for target in order(targets, number):
            with note_fault(results, f"{target.name}, round {number + 1}, start"):
                run = stack.enter_context(running(target, agent))
                session = run.client.open_session()
                runs[target.name] = (run, session)
                figures[target.name] |= {"start_ms": run.start_ms, "idle_mib": run.cost().rss_mib}
        for part in (part for part in PARTS if part in parts):
            for name in order(sorted(runs), number):
                faults = len(results.faults)
                with note_fault(results, f"{name}, round {number + 1}, {part}"):
                    PARTS[part](*runs[name], sizes, figures[name])
                if len(results.faults) > faults:
                    del runs[name]


@contextmanager
def note_fault(results: Results, what: str) -> Iterator[None]:
    """If a target loses something, ends or hangs, note that, and go on behind the block."""
    try:
        yield
    except (Lost, EOFError, OSError) as fault:
        results.faults.append(f"{what}: {type(fault).__name__}: {fault}")


def pair_of_starts(agent: Path, number: int) -> Figures:
    """Start acpbridge until it has answered `initialize`, and the bare interpreter."""
    figures: Figures = {}

    def bridge() -> None:
        with running(BRIDGE, agent) as run:
            figures["start_ms"] = run.start_ms

    def imports() -> None:
        begin_s = time.perf_counter()
        subprocess.run([sys.executable, *IMPORTS], check=True, env=environment(agent.parent))
        figures["import_ms"] = (time.perf_counter() - begin_s) * 1e3

    for start in order((bridge, imports), number):
        start()
    return figures
