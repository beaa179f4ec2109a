"""Long random conversations of a client like Codeg through the bridge, with a report.

    python -m tests.codeg --turns 1000 [--seed N] [--agent hermes|bare|queued|redirect]

Exit code 1 where anything was found; every finding stands with the frames before it. The seed
fixes prompts and intentions; what meets what in time is the machine's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import trio

from tests.codeg.runs import SCRIPTED, converse


class Progress:
    """One line on stderr, written anew."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.done = 0
        self.began_s = time.monotonic()

    def __call__(self) -> None:
        """Count one turn."""
        self.done += 1
        spent_s = time.monotonic() - self.began_s
        left_s = spent_s / self.done * (self.turns - self.done)
        sys.stderr.write(f"\r{self.done}/{self.turns} turns, {left_s:.0f} s to go   ")
        sys.stderr.flush()


def main() -> int:
    """Read the command line, converse, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.codeg", description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--agent", choices=("hermes", *SCRIPTED), default="hermes")
    args = parser.parse_args()
    progress = Progress(args.turns)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = trio.run(converse, Path(folder), args.agent, args.turns, args.seed, progress)
    spent_s = time.monotonic() - progress.began_s
    head = f"{args.agent}, seed {args.seed}: {progress.done} turns in {spent_s:.0f} s"
    sys.stdout.write(f"\n{head}\n{run.text()}\n")
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
