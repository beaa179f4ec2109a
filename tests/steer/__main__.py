"""Steers at the edge of a turn, many of them, with a real agent.

    python -m tests.steer --agent claude|codex --steers 200 --seed N [--direct] [--midturn auto]

Installs the agents with `.ci/steer` if they are not there, serves the scripted model on loopback
(no key is needed), and prints what became of each steer. Exit code 0 only if none was lost, none
was run twice, each answer was true, and the run met the edge from both sides.
"""

# ruff: noqa: T201 - what it prints is what it is for

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast

import trio

from tests.hermes.home import ROOT, How
from tests.hermes.peer import AgentGone
from tests.steer.edge import Report, run_edge
from tests.steer.home import DIALECTS, NAMES, VERSIONS, Name, SteerHome, steer_command, why_missing
from tests.steer.model import start_steer_model
from tests.steer.talk import SteerPeer

FAULTS_SHOWN_MAX = 20


async def _run(arguments: argparse.Namespace, command: list[str], folder: Path) -> Report | str:
    """The report, or why there is none."""
    name = cast("Name", arguments.agent)
    how: How = "direct" if arguments.direct else "bridged"
    options = () if arguments.direct else ("--midturn", arguments.midturn)
    async with trio.open_nursery() as nursery:
        model = await start_steer_model(nursery, DIALECTS[name])
        home = SteerHome.prepare(folder, name, model.url)
        peer = await SteerPeer.begin(nursery, home, command, how, options)
        try:
            await peer.initialize()
            return await run_edge(
                peer, model, arguments.steers, arguments.seed, through_bridge=how == "bridged"
            )
        except (AgentGone, TimeoutError) as error:
            return str(error)
        finally:
            await peer.stop()
            nursery.cancel_scope.cancel()
    raise AssertionError("the nursery is left by a return")


def _show(arguments: argparse.Namespace, report: Report) -> None:
    way = "bare" if arguments.direct else f"behind acpbridge run --midturn {arguments.midturn}"
    version = VERSIONS[cast("Name", arguments.agent)]
    print(f"{arguments.agent} {version}, {way}: {arguments.steers} steers, seed {arguments.seed}")
    offsets_ms = [one.offset_s * 1000 for one in report.rounds]
    print(
        f"  written {min(offsets_ms):.1f} to {max(offsets_ms):.1f} ms after the model's last words,"
        f" in turns that end {report.tail_s * 1000:.1f} ms after them"
    )
    for fate, count in report.fates.most_common():
        print(f"  {count:5} {fate}")
    for fault in report.faults[:FAULTS_SHOWN_MAX]:
        print(f"  FAULT {fault}")
    print(f"  {len(report.faults)} faults")


def main() -> int:
    """Read the command line, install, run, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.steer")
    parser.add_argument("--agent", choices=NAMES, required=True)
    parser.add_argument("--steers", type=int, default=200, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--midturn", default="auto", choices=("auto", "steer", "queue"))
    parser.add_argument("--direct", action="store_true", help="without the bridge")
    arguments = parser.parse_args()
    if arguments.steers < 1:
        parser.error("--steers must be at least 1")
    name = cast("Name", arguments.agent)
    if steer_command(name) is None:
        print("installing the agents (.ci/steer) …", flush=True)
        subprocess.run([ROOT / ".ci" / "steer"], check=True)
    command = steer_command(name)
    if command is None:
        print(why_missing())
        return 2
    with tempfile.TemporaryDirectory() as folder:
        report = trio.run(_run, arguments, command, Path(folder))
    if isinstance(report, str):
        print(f"NOT FINISHED: {report}")
        return 1
    _show(arguments, report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
