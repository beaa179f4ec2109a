"""A sample of the real kills, and two real bridges on one state directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.crash.real import play
from tests.hermes.conftest import real_hermes
from tests.hermes.home import Home, scripted_command
from tests.hermes.peer import Peer
from tests.hermes.script import script

RUNS = (0, 2, 5)
LOOKS_MAX = 200
"""Looks at the journal, a process each; a bridge looks for another one's end every 5 s."""


@pytest.mark.hermes
@pytest.mark.process
@pytest.mark.parametrize("seed", RUNS)
async def test_a_real_kill_loses_nothing_and_runs_nothing_twice(seed: int, tmp_path: Path) -> None:
    """`python -m tests.crash.real` does it 50 times."""
    outcome = await play(seed, tmp_path, real_hermes())

    assert [] == outcome.faults, outcome.text()


def listed(peer: Peer) -> dict[str, tuple[str, int]]:
    """(state, pid) of each prompt by its label, as `acpbridge prompts` says it."""
    words = [sys.executable, "-m", "acpbridge", "prompts", "--json"]
    done = subprocess.run(words, env=peer.home.environment(), check=True, capture_output=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["firstWords"].split(" ")[0]: (row["state"], row["id"]) for row in rows}


async def until(peer: Peer, label: str, state: str) -> None:
    """Look, a process each time, until the journal says so."""
    found = ""
    for _ in range(LOOKS_MAX):
        found = (await trio.to_thread.run_sync(listed, peer)).get(label, ("", 0))[0]
        if found == state:
            return
    raise TimeoutError(f"{label} is {found}, not {state}")


@pytest.mark.process
async def test_two_bridges_on_one_state_directory(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Each keeps its own rows; what the one is at work on the other leaves alone until it is dead.

    Then the other one tells of it, once, in a turn of that session.
    """
    home = Home.make(tmp_path)
    command = scripted_command("bare", "--state", str(tmp_path / "agents.json"))
    one = await Peer.start(nursery, home, command, "bridged")
    await one.initialize()
    session = await one.new_session()
    await one.answer(await one.prompt(session, script("first", ["say", "A"])))
    # Its agent reads the conversations at its start.
    other = await Peer.start(nursery, home, command, "bridged")
    try:
        await other.initialize()
        own = await other.new_session()
        await other.answer(await other.prompt(own, script("elsewhere", ["say", "B"])))
        await one.prompt(session, script("working", ["say", "C"], ["gate", "never"]))
        await one.prompt(session, script("waiting", ["say", "D"]))
        await until(one, "waiting", "accepted")
        await until(one, "working", "started")

        params = {"sessionId": session, "cwd": str(home.work), "mcpServers": []}
        assert "result" in await other.request("session/load", params)
        await other.answer(await other.prompt(session, script("beside", ["say", "E"])))
        told = [seen.text for seen in other.frames if seen.is_notice]
        assert [str(one.process.pid) in text for text in told] == [True]
        states = {name: state for name, (state, _) in listed(one).items()}
        assert ("answered", "answered") == (states["elsewhere"], states["beside"])
        assert ("started", "accepted") == (states["working"], states["waiting"])

        one.process.kill()
        await other.prompt(session, script("after", ["say", "F"], ["gate", "never"]))
        said = await other.wait_for(lambda seen: "may have run" in seen.text, what="the notice")
        assert "Not delivered" in said.text
        assert len([seen for seen in other.frames if seen.is_notice]) == 2
    finally:
        await one.stop()
        await other.stop()
    states = {name: state for name, (state, _) in listed(other).items()}
    assert ("unknown", "undelivered") == (states["working"], states["waiting"])
