"""Runs of conversations: which agent stands behind the bridge, in rows of a bounded length."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import trio
from attrs import define, field

from tests.codeg.client import Codeg
from tests.codeg.conversation import Finding, Habits, Talk
from tests.codeg.plans import hermes, scripted
from tests.hermes.home import Home, hermes_executable
from tests.hermes.model import start_model

SCRIPTED = ("bare", "queued", "redirect")
ROW_TURNS = 100
"""Then a new row begins: a conversation that grows for ever tests the agent's compression."""
SCRIPTED_HABITS = Habits()
HERMES_HABITS = Habits(
    probes=0.005,
    reopens=0.005,
    cancel_after_s=0.6,
    next_after_s=0.008,
    think_s=0.2,
    agent_leaks=True,
    turn_s=90.0,
)


@define(eq=False)
class Run:
    """What a number of rows came to."""

    counts: Counter[str] = field(factory=Counter)
    findings: list[Finding] = field(factory=list)

    def text(self) -> str:
        """The counts, one a line, then the findings with their frames."""
        told = [f"{count:7d}  {name}" for name, count in sorted(self.counts.items())]
        told += [f"\nFINDING {one.text}\n{one.tape}" for one in self.findings]
        return "\n".join([*told, f"{len(self.findings)} findings"])


def through_bridge(agent: Sequence[str], profile: str = "codeg") -> list[str]:
    """How the README puts the bridge into Codeg."""
    bridge = [sys.executable, "-m", "acpbridge", "run", "--client-profile", profile]
    return [*bridge, "--", *agent]


async def converse(
    root: Path, agent: str, turns: int, seed: int, progress: Callable[[], None] = lambda: None
) -> Run:
    """Hold ``turns`` turns with "hermes" or a mode of the scripted agent, row after row.

    Raises what `connect` does.
    """
    run = Run()
    for row, begins in enumerate(range(0, turns, ROW_TURNS)):
        count = min(ROW_TURNS, turns - begins)
        async with trio.open_nursery() as nursery:
            rng = random.Random(f"{seed} {row}")
            codeg = await connect(nursery, root / f"row{row}", agent, rng)
            make = scripted() if agent in SCRIPTED else hermes
            habits = SCRIPTED_HABITS if agent in SCRIPTED else HERMES_HABITS
            talk = Talk(codeg, rng, make, habits)
            await talk.hold(count, progress)
            nursery.cancel_scope.cancel()
        run.counts += talk.counts
        run.findings += talk.findings
        if talk.findings:
            run.counts[f"rows with findings, of seed {seed}: row {row}"] += 1
    return run


async def connect(nursery: trio.Nursery, root: Path, agent: str, rng: random.Random) -> Codeg:
    """A client in front of the bridge in front of an agent; not opened yet.

    Raises FileNotFoundError where real Hermes is meant and not installed.
    """
    if agent in SCRIPTED:
        state = str(root / "state.json")
        command = [sys.executable, "-m", "tests.codeg.agent", agent, "--state", state]
        return Codeg(Home.make(root), through_bridge(command), rng, nursery)
    executable = hermes_executable()
    if executable is None:
        raise FileNotFoundError("real Hermes is not installed: run .ci/hermes")
    home = Home.make(root, (await start_model(nursery)).url)
    return Codeg(home, through_bridge([str(executable), "acp"]), rng, nursery)
