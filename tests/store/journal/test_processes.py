"""Real processes on one state directory: many that write at once, some that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acpbridge.store.journal import Archive
from tests.store.journal.made import PATHS, die, go, open_journal

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]
KILLS = 30


def run(*argv: str) -> list[dict[str, Any]]:
    """What one of `programs` says: a process, and the processes that it forks."""
    command = [sys.executable, "-m", "tests.store.journal.programs", *argv]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (0, "") == (told.returncode, told.stderr)
    return [json.loads(line) for line in told.stdout.splitlines()]


@pytest.mark.parametrize(("writers", "prompts"), [(2, 40), (8, 10)])
def test_bridges_that_write_at_once(tmp_path: Path, writers: int, prompts: int) -> None:
    """They begin the journal at once too: nobody has made it before them."""
    said = run("write", str(tmp_path / "state"), str(writers), str(prompts))

    assert [{"ends": [0] * writers}] == said
    archive = Archive.open(tmp_path / "state")
    assert archive is not None
    rows = archive.list_prompts()
    expected = {(f"w{w}", n) for w in range(writers) for n in range(1, prompts + 1)}
    assert expected == {(row.nonce, row.number) for row in rows}
    assert {"answered"} == {row.state for row in rows}
    histories = [archive.prompt(row.id) for row in rows]
    steps = {tuple(step.state for step in one.history) for one in histories if one is not None}
    assert {PATHS["answered"]} == steps
    archive.close()


def test_eight_that_race_for_a_dead_run_share_it(tmp_path: Path) -> None:
    """Each prompt is taken once, by whomever."""
    dead = open_journal(tmp_path, "dead")
    for number in range(1, 101):
        go(dead, number, "accepted")
    die(dead)
    *taken, end = run("take", str(tmp_path / "state"), "8")

    assert {"ends": [0] * 8} == end
    assert list(range(1, 101)) == sorted(id_ for one in taken for id_ in one["taken"])


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    victims = run("kill", str(tmp_path / "state"), str(KILLS), "4711")

    assert KILLS == len(victims)
    archive = Archive.open(tmp_path / "state")
    assert archive is not None
    rows = {(row.nonce, row.number): row for row in archive.list_prompts()}
    acknowledged = 0
    for victim in victims:
        said: dict[int, list[str]] = {}
        for number, state in victim["said"]:
            said.setdefault(int(number), []).append(state)
        for number, states in said.items():
            found = archive.prompt(rows[victim["nonce"], number].id)
            assert found is not None
            kept = [step.state for step in found.history]
            # What the kill hit may be there or not, and is at most one more.
            assert states == kept[: len(states)]
            assert len(kept) <= len(states) + (number == max(said))
            acknowledged += len(states)
    archive.close()
    assert acknowledged > KILLS
    journal = open_journal(tmp_path, "after")
    taken = journal.take_over(2)
    assert {row.state for row in taken} <= {"accepted", "unknown", "settled"}
    assert () == journal.take_over(3)
    assert {row.id for row in taken} == {row.id for row in journal.untold("s-1")}
    others = {row.state for row in journal.list_prompts() if not row.is_kept}
    assert {"answered"} == others
    journal.close()
