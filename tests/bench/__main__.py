"""The benchmark of acpbridge: python -m tests.bench [--rounds N] [--only PART,...] [--quick].

Measures acpbridge beside the bare agent, bare pipes of trio, and other programs that are
installed, in interleaved rounds. Prints tables and then each goal with what was measured; exit
code 1 if a goal is missed or something could not be measured, 0 otherwise.
"""

# ruff: noqa: T201 - what it prints is what it is for

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import asdict, evolve

from tests.bench.alone import ALONE
from tests.bench.judge import judge
from tests.bench.measure import PARTS, QUICK, Sizes
from tests.bench.report import report
from tests.bench.rounds import Results, note_fault, pair_of_starts, run_round
from tests.bench.targets import TARGETS, Target, compile_agent

_ROUNDS, _QUICK_ROUNDS = 15, 3
START = "start"
NAMES = (*PARTS, START, *ALONE)


def measure_all(
    parts: Sequence[str],
    *,
    rounds: int,
    sizes: Sizes,
    targets: Sequence[Target],
    say: Callable[[str], None],
) -> Results:
    """Compile the agent and measure; `say` is told how far it is.

    Raises:
        Missing: There is no C compiler.
    """
    results = Results(missing=[target.name for target in targets if target.is_missing])
    present = [target for target in targets if not target.is_missing]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        agent = compile_agent(Path(folder))
        if START in parts:
            # Not counted: it compiles what nobody has run yet.
            with note_fault(results, START):
                pair_of_starts(agent, 0)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            if any(part in PARTS for part in parts):
                run_round(results, number, targets=present, parts=parts, sizes=sizes, agent=agent)
            for again in range(sizes.starts if START in parts else 0):
                with note_fault(results, START):
                    pair = pair_of_starts(agent, number * sizes.starts + again)
                    results.starts.append(pair)
        for name, work in ALONE.items():
            if name in parts:
                say(f"acpbridge alone: {name}")
                with note_fault(results, name):
                    work(agent, sizes, results.alone)
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    options = _options(argv)
    sizes = evolve(QUICK if options.quick else Sizes(), verify=options.verify)
    targets = [target for target in TARGETS if target.name not in options.without]
    results = measure_all(
        options.only,
        rounds=options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS),
        sizes=sizes,
        targets=targets,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    print(report(results, sizes))
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(results), indent=1) + "\n", "utf-8")
    missed = any(verdict.is_met is False for verdict in judge(results))
    return 1 if missed or results.faults else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"default {_ROUNDS}, quick {_QUICK_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="small sizes: a look at the bench")
    parser.add_argument("--verify", action="store_true", help="compare every update's bytes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(NAMES),
        metavar="PART,...",
        help=f"some of {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=[target.name for target in TARGETS],
        help="leave a target out; may be given again",
    )
    options = parser.parse_args(argv)
    unknown = set(options.only) - set(NAMES)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: take some of {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
