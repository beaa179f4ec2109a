"""Many seeds: in one process or several, with progress, until there is enough to look at."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Protocol, Self, TypeVar

FAILING_MAX = 20
"""Violations after which no more seeds are played."""


class Report(Protocol):
    """What came of some seeds."""

    played: int
    """How many."""
    violations: dict[int, str]
    """By seed."""

    def add(self, other: Self, /) -> None:
        """Take another one in."""

    def text(self) -> str:
        """All of it, for people."""


ReportT = TypeVar("ReportT", bound=Report)


def play_all(play: Callable[[int], ReportT], new: type[ReportT], seeds: Iterable[int]) -> ReportT:
    """Play some, one after the other, in this process."""
    whole = new()
    for seed in seeds:
        whole.add(play(seed))
    return whole


def in_batches(
    play: Callable[[int], ReportT], new: type[ReportT], seeds: range, *, jobs: int, batch: int
) -> Iterator[ReportT]:
    """Reports of batches as they are done, played in so many processes."""
    batches = [seeds[at : at + batch] for at in range(0, len(seeds), batch)]
    work = partial(play_all, play, new)
    if jobs == 1:
        yield from map(work, batches)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, batches)


def play_with_progress(
    play: Callable[[int], ReportT], new: type[ReportT], args: argparse.Namespace, *, batch: int
) -> int:
    """What the command line asked for, saying so far and how long it will take; the exit code."""
    seeds = range(args.first, args.first + args.count)
    whole, began_s = new(), time.perf_counter()
    for report in in_batches(play, new, seeds, jobs=args.jobs, batch=batch):
        whole.add(report)
        for seed, text in report.violations.items():
            say(f"\r{seed}: {text[:200]}")
        spent_s = time.perf_counter() - began_s
        left_s = spent_s / whole.played * (len(seeds) - whole.played)
        told = f"{whole.played}/{len(seeds)} played, {len(whole.violations)} violations"
        sys.stderr.write(f"\r{told}, {left_s:.0f} s to go ")
        sys.stderr.flush()
        if len(whole.violations) >= FAILING_MAX:
            break
    sys.stderr.write("\n")
    say(whole.text())
    return 1 if whole.violations else 0


def say(text: str) -> None:
    """One line for whoever called."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def command_line(name: str, description: str | None, what: str) -> argparse.ArgumentParser:
    """The options that every such command has."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument("count", metavar=what, type=int, nargs="?", default=2_000,
                        help="how many to play")  # fmt: skip
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="show this one as a dialogue")
    return parser
