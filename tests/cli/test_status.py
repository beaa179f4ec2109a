"""`acpbridge status` beside a bridge that lives and one that died."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from click.testing import CliRunner

from acpbridge.cli.main import main
from acpbridge.store.journal import Entry, Journal
from tests.store.journal.made import die

if TYPE_CHECKING:
    from pathlib import Path

WORK = b'[{"type":"text","text":"work"}]'


def opened(folder: Path, nonce: str, session: str) -> Journal:
    """A run with one prompt at work and one that waits."""
    journal = Journal.open(folder, nonce, 1)
    for number in (1, 2):
        journal.record([Entry(number, "accepted", session, 1, content=WORK)])
    journal.record([Entry(1, state, session, 1) for state in ("sending", "written")])
    return journal


def said(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(main, ["status", "--state-dir", str(folder), *words])
    assert 0 == done.exit_code, done.output
    return done.stdout


def test_it_names_who_lives_what_they_hold_and_what_was_left(tmp_path: Path) -> None:
    """Where a load finds its session held, this is where a person sees by whom."""
    live = opened(tmp_path, "live", "s1")
    die(opened(tmp_path, "dead", "s2"))
    text = said(tmp_path)
    whole = json.loads(said(tmp_path, "--json"))
    live.close()

    assert f"process {os.getpid()}: 2 prompts in session s1" in text
    assert "left: 1 undelivered, 1 unknown" in text
    assert [{"pid": os.getpid(), "sessions": {"s1": 2}}] == whole["bridges"]
    assert {"undelivered": 1, "unknown": 1} == whole["left"]
    assert whole["journalBytes"] > 0


def test_a_session_id_cannot_move_the_terminal(tmp_path: Path) -> None:
    """It is a peer's text."""
    live = opened(tmp_path, "live", "s\x1b[2J\n")
    text = said(tmp_path)
    live.close()

    assert "in session s\\x1b[2J\\n" in text
    assert "\x1b" not in text


def test_a_directory_that_nobody_has_used_is_said_to_be_empty(tmp_path: Path) -> None:
    text = said(tmp_path / "never")

    assert "journal: none yet" in text
    assert "no bridge is running" in text
    assert "left: nothing" in text
