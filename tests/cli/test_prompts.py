"""`acpbridge prompts` over a journal that a bridge still writes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from acpbridge.cli.main import main
from acpbridge.cli.prompts import STATES as CHOICES
from acpbridge.store.journal import Entry, Journal
from acpbridge.store.journal_states import STATES, UNDELIVERED
from tests.store.journal.made import die

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

TEXT = "count the sheep in the field behind the house and tell me how many there are, please, now"
SURROGATE = b'[{"type":"text","text":"half \\ud83d"}]'


def content(text: str) -> bytes:
    return json.dumps([{"type": "text", "text": text}]).encode()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """Three prompts: one answered, one that runs, one that waits."""
    now_ms = time.time_ns() // 1_000_000
    made = Journal.open(tmp_path, "run", now_ms)
    for number in (1, 2, 3):
        made.record(
            [Entry(number, "accepted", f"s{number % 2}", now_ms - 90_000, content=content(TEXT))]
        )
    for state in ("sending", "written", "started"):
        made.record([Entry(number, state, f"s{number % 2}", now_ms) for number in (1, 2)])
    answer = b'{"stopReason":"end_turn"}'
    made.record([Entry(1, "settled", "s1", now_ms, completion="response", answer=answer)])
    made.record([Entry(1, "answered", "s1", now_ms, completion="response")])
    yield made
    made.close()


def ran(tmp_path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["prompts", "--state-dir", str(tmp_path), *words])


def test_the_list_says_what_became_of_each(journal: Journal, tmp_path: Path) -> None:
    lines = ran(tmp_path).stdout.splitlines()

    assert ["3", "accepted", "1m", "s1"] == lines[1].split()[:4]
    assert ["2", "started", "1m", "s0"] == lines[2].split()[:4]
    assert ["1", "answered", "1m", "response", "s1"] == lines[3].split()[:5]
    assert lines[3].endswith("…")


def test_every_state_of_the_journal_can_be_asked_for() -> None:
    """Written down once more, for the command line starts without the journal."""
    assert {*STATES, UNDELIVERED} == {*CHOICES}


def test_the_list_can_be_cut_to_a_state_and_a_session(journal: Journal, tmp_path: Path) -> None:
    assert 2 == len(ran(tmp_path, "--state", "started").stdout.splitlines())
    assert 3 == len(ran(tmp_path, "--session", "s1").stdout.splitlines())
    assert "no prompts\n" == ran(tmp_path, "--state", "unknown").stdout


def test_a_program_gets_an_object_a_line(journal: Journal, tmp_path: Path) -> None:
    objects = [json.loads(line) for line in ran(tmp_path, "--json").stdout.splitlines()]

    assert [3, 2, 1] == [one["id"] for one in objects]
    assert ["accepted", "started", "answered"] == [one["state"] for one in objects]


def test_one_is_shown_with_its_history_text_and_answer(journal: Journal, tmp_path: Path) -> None:
    shown = ran(tmp_path, "show", "1").stdout
    steps = [line.split()[2] for line in shown.splitlines() if line.startswith("  ")]

    assert ["accepted", "sending", "written", "started", "settled", "answered"] == steps
    assert 'answer: {"stopReason":"end_turn"}' in shown
    assert TEXT in shown
    full = json.loads(ran(tmp_path, "show", "1", "--json").stdout)
    assert (TEXT, 6) == (full["text"], len(full["history"]))


def test_the_directory_may_stand_before_or_behind_the_subcommand(
    journal: Journal, tmp_path: Path
) -> None:
    where = ["--state-dir", str(tmp_path)]
    before = CliRunner().invoke(main, ["prompts", *where, "text", "3"])
    behind = CliRunner().invoke(main, ["prompts", "text", "3", *where])

    assert TEXT == before.stdout == behind.stdout


def test_what_a_dead_bridge_left_is_listed_as_the_next_one_will_find_it(
    journal: Journal, tmp_path: Path
) -> None:
    """Right after a kill is when somebody looks: nobody has taken it over yet."""
    die(journal)
    shown = {
        one["id"]: one["state"]
        for one in map(json.loads, ran(tmp_path, "--json").stdout.splitlines())
    }

    assert {1: "answered", 2: "unknown", 3: "undelivered"} == shown
    for state, number in (("undelivered", "3"), ("unknown", "2")):
        lines = ran(tmp_path, "--state", state).stdout.splitlines()
        assert [number] == [line.split()[0] for line in lines[1:]]
    assert "no prompts\n" == ran(tmp_path, "--state", "accepted").stdout


def test_a_text_comes_as_it_was_sent(journal: Journal, tmp_path: Path) -> None:
    """Without a line feed of ours, for what is piped elsewhere is sent again; half a character too.

    A lone surrogate has no UTF-8 of its own; it must not cost the rest of the text.
    """
    journal.record([Entry(4, "accepted", "s", 1, content=SURROGATE)])

    assert TEXT.encode() == ran(tmp_path, "text", "3").stdout_bytes
    assert b"half \xed\xa0\xbd" == ran(tmp_path, "text", "4").stdout_bytes


def test_one_can_be_forgotten_unless_a_bridge_has_it(journal: Journal, tmp_path: Path) -> None:
    assert "forgotten: prompt 1\n" == ran(tmp_path, "forget", "1").stdout
    assert 2 == ran(tmp_path, "show", "1").exit_code
    refused = ran(tmp_path, "forget", "2")
    assert 2 == refused.exit_code
    assert "cancel it in its client" in refused.stderr


@pytest.mark.parametrize("words", [["show", "99"], ["text", "99"], ["forget", "99"]])
def test_a_number_that_is_not_there_is_told(
    journal: Journal, tmp_path: Path, words: list[str]
) -> None:
    done = ran(tmp_path, *words)

    assert 2 == done.exit_code
    assert "there is no prompt 99" in done.stderr


def test_a_directory_without_a_journal_is_told(tmp_path: Path) -> None:
    done = ran(tmp_path)

    assert 2 == done.exit_code
    assert str(tmp_path) in done.stderr
    assert "--state-dir" in done.stderr


def test_a_terminal_obeys_nothing_that_a_session_or_a_prompt_says(
    journal: Journal, tmp_path: Path
) -> None:
    """A session id is the agent's and a text may be pasted; half a surrogate fits no encoding."""
    odd = b'[{"type":"text","text":"a \\ud83d \\u001b[2J\\n\\tb"}]'
    journal.record([Entry(4, "accepted", "s\x1b[31m\nX", 1, content=odd)])
    listed, shown = ran(tmp_path), ran(tmp_path, "show", "4")

    for result in (listed, shown):
        assert 0 == result.exit_code, result.output
        assert "\x1b" not in result.stdout
        assert "s\\x1b[31m\\nX" in result.stdout
        assert "\\ud83d" in result.stdout
    assert 5 == len(listed.stdout.splitlines())
    assert "\\x1b[2J\n\tb" in shown.stdout


@pytest.mark.parametrize("command", ["show", "text", "forget"])
def test_a_number_that_none_can_have_is_a_mistake_that_is_told(
    journal: Journal, tmp_path: Path, command: str
) -> None:
    result = ran(tmp_path, command, str(1 << 64))

    assert 2 == result.exit_code
    assert "Traceback" not in result.output
