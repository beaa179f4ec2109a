"""Play crash schedules, with progress and a report; or show one as a dialogue.

    python -m tests.crash 100000 --jobs 2
    python -m tests.crash --seed 4711

Exit code 1 where a prompt was lost or ran twice. Nothing is drawn from anything but the seed.
"""

from __future__ import annotations

import sys

from tests.crash.report import Report, play
from tests.crash.world import World
from tests.sim import many

BATCH_SCHEDULES = 250


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


def main() -> int:
    """Read the command line."""
    args = many.command_line("tests.crash", __doc__, "schedules").parse_args()
    if args.seed is not None:
        return show(args.seed)
    return many.play_with_progress(play, Report, args, batch=BATCH_SCHEDULES)


if __name__ == "__main__":
    sys.exit(main())
