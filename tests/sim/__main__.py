"""Play seeds, with progress and a report; or show one seed as a dialogue.

    python -m tests.sim 20000 --from 100000 --jobs 2
    python -m tests.sim --seed 4711

Exit code 1 where an invariant did not hold. Nothing is drawn from anything but the seed, so a
seed that failed fails again until something is mended.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.sim.report import Report, in_batches
from tests.sim.violation import Violation
from tests.sim.world import BEGAN_S, World

CHARS_MAX = 240
FAILING_MAX = 20


def show(seed: int, *, whole: bool) -> int:
    """Print one seed as a dialogue, the violation at its place."""
    world = World(seed, verbose=True)
    text, code = "no violation", 0
    try:
        world.run()
    except Violation as violation:
        text, code = f"VIOLATION {violation}", 1
    except Exception:  # noqa: BLE001 - the dialogue that led there is what is wanted
        text, code = traceback.format_exc(), 1
    say(world.mix.text())
    for line in world.dialogue:
        say(line if whole or len(line) <= CHARS_MAX else line[:CHARS_MAX] + " …")
    say(f"{world.clock.now_s - BEGAN_S:10.4f}  {text}")
    return code


def say(text: str) -> None:
    """One line for whoever called."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def play(seeds: range, jobs: int) -> int:
    """Play many; stop early where there is enough to look at."""
    whole = Report()
    began_s = time.perf_counter()
    for report in in_batches(seeds, jobs):
        whole.add(report)
        for seed, text in report.violations.items():
            say(f"\r{seed}: {text[:200]}")
        spent_s = time.perf_counter() - began_s
        left_s = spent_s / whole.seeds * (len(seeds) - whole.seeds)
        told = f"{whole.seeds}/{len(seeds)} seeds, {len(whole.violations)} violations"
        sys.stderr.write(f"\r{told}, {left_s:.0f} s to go ")
        sys.stderr.flush()
        if len(whole.violations) >= FAILING_MAX:
            break
    sys.stderr.write("\n")
    say(whole.text())
    return 1 if whole.violations else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=2_000, help="how many to play")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="show this one as a dialogue")
    parser.add_argument("--whole", action="store_true", help="do not cut long lines")
    args = parser.parse_args()
    if args.seed is not None:
        return show(args.seed, whole=args.whole)
    return play(range(args.first, args.first + args.seeds), args.jobs)


if __name__ == "__main__":
    sys.exit(main())
