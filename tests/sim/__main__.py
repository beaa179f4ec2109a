"""Play seeds, with progress and a report; or show one seed as a dialogue.

    python -m tests.sim 20000 --from 100000 --jobs 2
    python -m tests.sim --seed 4711

Exit code 1 where an invariant did not hold. Nothing is drawn from anything but the seed, so a
seed that failed fails again until something is mended.
"""

from __future__ import annotations

import sys
import traceback

from tests.sim import many
from tests.sim.many import say
from tests.sim.report import Report, play
from tests.sim.violation import Violation
from tests.sim.world import BEGAN_S, World

CHARS_MAX = 240
BATCH_SEEDS = 100


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


def main() -> int:
    """Read the command line."""
    parser = many.command_line("tests.sim", __doc__, "seeds")
    parser.add_argument("--whole", action="store_true", help="do not cut long lines")
    args = parser.parse_args()
    if args.seed is not None:
        return show(args.seed, whole=args.whole)
    return many.play_with_progress(play, Report, args, batch=BATCH_SEEDS)


if __name__ == "__main__":
    sys.exit(main())
