"""The commands that play many seeds: what they say, and the exit code."""

from __future__ import annotations

import pytest

from tests.sim import many, mutants
from tests.sim.report import Report, play


def _play(count: int, batch: int) -> int:
    args = many.command_line("tests.sim", None, "seeds").parse_args([str(count)])
    return many.play_with_progress(play, Report, args, batch=batch)


def test_sound_seeds_end_with_nought(capsys: pytest.CaptureFixture[str]) -> None:
    """Every batch is played and added up, the short last one too."""
    assert _play(25, 10) == 0
    told = capsys.readouterr()
    assert told.out.startswith("25 seeds, ")
    assert "25/25 played, 0 violations" in told.err


def test_a_violation_is_named_and_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    """With a bug in the core; enough of them end the command early."""
    with mutants.overtaking_frame():
        assert _play(5_000, 50) == 1
    told = capsys.readouterr()
    assert "  seed " in told.out
    assert "5000/5000" not in told.err
