"""Play crash schedules, with progress and a report; or show one as a dialogue.

    python -m tests.crash 100000 --jobs 2
    python -m tests.crash --seed 4711

Exit code 1 where a prompt was lost or ran twice. Nothing is drawn from anything but the seed.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.crash.report import Report, in_batches
from tests.crash.world import World

FAILING_MAX = 20


def show(seed: int) -> int:
    """Print one schedule as a dialogue, and the journal that it leaves."""
    world = World(seed, verbose=True)
    told, code = "no violation", 0
    try:
        world.run()
    except Exception as fault:  # noqa: BLE001 - the dialogue that led there is what is wanted
        told, code = f"{type(fault).__name__}: {fault}", 1
    rows = [
        f"   {row.id} {row.content.decode()} {row.state} {row.history} {row.reason}"
        for row in world.shelf.rows
    ]
    sys.stdout.write("\n".join([world.draw.text(), *world.dialogue, *rows, told, ""]))
    return code


def play(seeds: range, jobs: int) -> int:
    """Play many; stop early where there is enough to look at."""
    whole, began_s = Report(), time.perf_counter()
    for report in in_batches(seeds, jobs):
        whole.add(report)
        spent_s = time.perf_counter() - began_s
        left_s = spent_s / whole.schedules * (len(seeds) - whole.schedules)
        told = f"{whole.schedules}/{len(seeds)} schedules, {len(whole.violations)} violations"
        sys.stderr.write(f"\r{told}, {left_s:.0f} s to go ")
        sys.stderr.flush()
        if len(whole.violations) >= FAILING_MAX:
            break
    sys.stderr.write("\n")
    sys.stdout.write(f"{whole.text()}\n")
    return 1 if whole.violations else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=2_000, help="how many to play")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="show this one as a dialogue")
    args = parser.parse_args()
    if args.seed is not None:
        return show(args.seed)
    return play(range(args.first, args.first + args.schedules), args.jobs)


if __name__ == "__main__":
    sys.exit(main())
