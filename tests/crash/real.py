"""Real Hermes behind a bridge that is killed at a random moment, over and over.

    python -m tests.crash.real --runs 50

Each run: a turn, then prompts queued into the next one, kill -9 of the bridge, a new bridge on the
same state directory, a load of the session, one more prompt. What reached the model and what
`acpbridge prompts` says must agree: nothing lost, nothing run twice. Exit code 1 where they do not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from tests.hermes.home import Home, hermes_executable
from tests.hermes.model import ModelServer, start_model
from tests.hermes.peer import Peer
from tests.hermes.processes import wait_gone
from tests.hermes.record import Sent
from tests.hermes.script import label, script

if TYPE_CHECKING:
    from collections.abc import Sequence

TAKEN_S = 1.0
"""A prompt that was written this long before the kill must be in the journal."""
KILL_S_MAX = 2.5
"""The kill comes within this time of the first prompt of the turn."""
GONE_S = 30.0
"""How long the Hermes of a dead bridge may take to leave."""
QUEUED = "bcdef"


@define
class Outcome:
    """What one run came to."""

    seed: int
    policy: str
    keyed: bool
    killed_s: float
    """After the first of the prompts."""
    fates: dict[str, str] = field(factory=dict)
    """By label."""
    faults: list[str] = field(factory=list)

    def text(self) -> str:
        """One line."""
        fates = " ".join(f"{name}:{fate}" for name, fate in self.fates.items())
        keys = "keys" if self.keyed else "    "
        told = "; ".join(self.faults) or "ok"
        return f"{self.seed:4} {self.policy} {keys} kill at {self.killed_s:5.2f} s  {fates}  {told}"


@define
class Run:
    """One run on one home."""

    chance: Random
    peer: Peer
    model: ModelServer
    session: str = ""
    killed_at_s: float = 0.0
    """On trio's clock."""
    sent: dict[str, list[Sent]] = field(factory=dict)
    """By label, oldest first."""
    texts: dict[str, str] = field(factory=dict)

    async def prompt(self, text: str, *, keyed: bool) -> None:
        """Send it, under its key where it has one."""
        body, sent = self.peer.prompt_frame(self.session, text)
        if keyed:
            body["params"]["_meta"] = {"acpbridge": {"promptKey": f"k-{label(text)}"}}
        self.sent.setdefault(label(text), []).append(sent)
        self.texts[label(text)] = text
        await self.peer.send_many(body)

    def is_answered(self, name: str) -> bool:
        """Whether the client has a response to it."""
        return any(self.peer.answers(sent) for sent in self.sent[name])

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """What the command says of each label."""
        words = [sys.executable, "-m", "acpbridge", "prompts", "--json"]
        done = subprocess.run(words, env=self.peer.home.environment(), check=True, stdout=-1)
        found: dict[str, list[dict[str, Any]]] = {}
        for row in map(json.loads, done.stdout.splitlines()):
            found.setdefault(row["firstWords"].split(" ")[0], []).append(row)
        return found


def _texts(chance: Random) -> list[str]:
    """A long turn, and short ones for its queue."""

    def steps(most_s: float) -> Sequence[list[Any]]:
        return ["say", "x"], ["sleep", round(chance.random() * most_s, 3)], ["say", "y"]

    count = chance.randint(2, len(QUEUED))
    return [script("a", *steps(1.5)), *(script(name, *steps(0.4)) for name in QUEUED[:count])]


async def play(seed: int, folder: Path, hermes: Path) -> Outcome:
    """One run."""
    chance = Random(seed)
    policy, keyed = chance.choice(("keep", "send")), chance.random() < 0.5
    outcome = Outcome(seed, policy, keyed, 0.0)
    async with trio.open_nursery() as nursery:
        model = await start_model(nursery)
        home = Home.make(folder, model.url)
        command = [str(hermes), "acp"]
        peer = await Peer.start(nursery, home, command, "bridged", ["--undelivered", policy])
        run = Run(chance, peer, model)
        try:
            await _one_life(run, outcome)
            await _next_life(run, outcome)
        finally:
            await peer.stop()
        judge(run, outcome, await trio.to_thread.run_sync(run.rows))
        nursery.cancel_scope.cancel()
    return outcome


async def _one_life(run: Run, outcome: Outcome) -> None:
    peer, chance = run.peer, run.chance
    await peer.initialize()
    run.session = await peer.new_session()
    await run.prompt(script("zero", ["say", "z"]), keyed=outcome.keyed)
    await peer.answer(run.sent["zero"][0])
    began_s = trio.current_time()
    kill_s = began_s + chance.random() * KILL_S_MAX
    texts = _texts(chance)
    with trio.move_on_at(kill_s):
        for text in texts:
            await run.prompt(text, keyed=outcome.keyed)
            with trio.move_on_after(chance.choice((0.0, 0.0, 0.05, 0.3))):
                # A person's pace; nothing is waited for.
                await trio.sleep_forever()
        await trio.sleep_forever()
    agent = peer.agent_pid()
    run.killed_at_s = trio.current_time()
    outcome.killed_s = run.killed_at_s - began_s
    peer.process.kill()
    await peer.wait_exit()
    try:
        await wait_gone(agent, GONE_S)
    except TimeoutError:
        outcome.faults.append(f"Hermes outlived its bridge by {GONE_S:.0f} s")
        with suppress(ProcessLookupError):
            os.kill(agent, signal.SIGKILL)


async def _next_life(run: Run, outcome: Outcome) -> None:
    peer = run.peer
    await peer.spawn()
    await peer.initialize()
    params = {"sessionId": run.session, "cwd": str(peer.home.work), "mcpServers": []}
    await peer.request("session/load", params)
    if outcome.keyed:
        for name in [one for one in run.sent if not run.is_answered(one)]:
            await run.prompt(run.texts[name], keyed=True)
    await run.prompt(script("last", ["say", "l"]), keyed=False)
    for name in run.sent:
        if len(run.sent[name]) > 1 or name == "last":
            await peer.answer(run.sent[name][-1])


def judge(run: Run, outcome: Outcome, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Hold the model, the journal and what the client saw against each other."""
    ran = Counter(label(text) for text in run.model.prompts())
    told = " ".join(seen.text for seen in run.peer.frames if seen.is_notice)
    for name, sents in run.sent.items():
        found = rows.get(name, [])
        states = [row["state"] for row in found]
        if ran[name] > 1:
            outcome.faults.append(f"{name} ran {ran[name]} times")
        if run.is_answered(name):
            outcome.fates[name] = "answered"
        elif not found:
            outcome.fates[name] = "not-taken"
            is_late = sents[0].at_s + TAKEN_S > run.killed_at_s
            if ran[name] or not is_late:
                outcome.faults.append(f"{name} is lost")
        else:
            outcome.fates[name] = states[0]
            if states[0] not in ("undelivered", "unknown", "settled", "answered"):
                outcome.faults.append(f"{name} is {states[0]}, and nobody has it")
            is_told = any(f"({row['id']})" in told or " more" in told for row in found)
            if states[0] != "answered" and not is_told:
                outcome.faults.append(f"{name} is {states[0]}, and nobody was told")
        if ran[name] and states and set(states) <= {"undelivered", "refused"}:
            outcome.faults.append(f"{name} ran, and the journal says {states}")


async def _play_all(seeds: range) -> list[Outcome]:
    hermes = hermes_executable()
    if hermes is None:
        sys.exit("real Hermes is not installed: run .ci/hermes")
    outcomes = []
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="acpbridge-crash-") as folder:
            outcomes.append(await play(seed, Path(folder), hermes))
        sys.stdout.write(f"{outcomes[-1].text()}\n")
        sys.stdout.flush()
    return outcomes


def main() -> int:
    """Read the command line, play, and sum up."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.real", description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    outcomes = trio.run(_play_all, range(args.first, args.first + args.runs))
    fates = Counter(fate for one in outcomes for fate in one.fates.values())
    faults = sum(len(one.faults) for one in outcomes)
    told = ", ".join(f"{count} {fate}" for fate, count in fates.most_common())
    sys.stdout.write(f"{len(outcomes)} kills, {fates.total()} prompts: {told}; {faults} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
