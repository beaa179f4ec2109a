"""Play seeds, with progress and a report; or show one seed as a dialogue.

    python -m tests.sim 20000 --from 100000 --jobs 2
    python -m tests.sim --seed 4711
    python -m tests.sim --seed 4711 --crowd

One seed in five has a second life, in which a daemon has many clients (`crowd.py`).
Exit code 1 where an invariant did not hold. Nothing is drawn from anything but the seed, so a
seed that failed fails again until something is mended.
"""

from __future__ import annotations

import sys
import traceback

from tests.sim import many
from tests.sim.crowd import Crowd
from tests.sim.many import say
from tests.sim.report import Report, play
from tests.sim.violation import Violation
from tests.sim.world import BEGAN_S, World

CHARS_MAX = 240
BATCH_SEEDS = 100


def show(world: World, *, whole: bool) -> int:
    """Print a life as a dialogue, the violation at its place."""
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
    parser.add_argument("--crowd", action="store_true", help="of --seed: the life of its crowd")
    args = parser.parse_args()
    if args.seed is not None:
        kind = Crowd if args.crowd else World
        return show(kind(args.seed, verbose=True), whole=args.whole)
    return many.play_with_progress(play, Report, args, batch=BATCH_SEEDS)


if __name__ == "__main__":
    sys.exit(main())
