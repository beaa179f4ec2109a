"""What needs what: small tapes, each for one rule, and every tape there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acpbridge.store.tape_causes import IMMEDIATE_S, find_causes
from acpbridge.store.tape_reader import read_tape
from tests.store.taped import (
    Json,
    Row,
    all_tapes,
    answer,
    cancel,
    chunk,
    done,
    name_of,
    prompt,
    recording,
    request,
)

if TYPE_CHECKING:
    from pathlib import Path

ASKS: Json = request(0, "session/request_permission", sessionId="s", options=[])
LOAD: Json = request(5, "session/load", sessionId="s", cwd="/w", mcpServers=[])
LONG_S = 2 * IMMEDIATE_S


def needs_of(tmp_path: Path, *steps: tuple[str, Json | str] | float) -> list[tuple[int, ...]]:
    """What each line of the agent needs, by place; a number lets that much time pass."""
    rows: list[Row] = []
    t = 0.0
    for step in steps:
        if isinstance(step, float):
            t += step
        else:
            rows.append((t, {">": "client", "<": "agent"}[step[0]], step[1]))
    causes = find_causes(recording(tmp_path, rows).entries)
    return [one for row, one in zip(rows, causes.needs, strict=True) if row[1] == "agent"]


def test_what_the_agent_says_before_anyone_spoke_needs_nothing(tmp_path: Path) -> None:
    assert [()] == needs_of(tmp_path, ("<", "Starting …"), (">", prompt(1, "a")))


def test_a_turn_needs_its_prompt(tmp_path: Path) -> None:
    steps = ((">", prompt(1, "a")), ("<", chunk("x")), ("<", done(1)), ("<", chunk("tail")))

    assert [(0,), (0,), (0,)] == needs_of(tmp_path, *steps)


def test_a_new_session_is_moved_by_its_opening(tmp_path: Path) -> None:
    new, made = request(1, "session/new", cwd="/w"), answer(1, sessionId="s")
    steps = ((">", new), (">", request(2, "ping")), ("<", made), ("<", chunk("x")))

    assert [(0,), (0,)] == needs_of(tmp_path, *steps)


def test_a_receipt_needs_the_prompt_that_it_acknowledges(tmp_path: Path) -> None:
    """And the running turn goes on without it; hermes/mid-turn-prompt."""
    steps = (
        (">", prompt(1, "a")),
        ("<", chunk("A0")),
        (">", prompt(2, "b")),
        ("<", chunk("Queued")),
        ("<", done(2)),
        ("<", chunk("A1")),
        ("<", chunk(" b ", kind="user_message_chunk")),
        ("<", chunk("B0")),
        ("<", done(1)),
    )

    assert [(0,), (2,), (2,), (0,), (2,), (2,), (0,)] == needs_of(tmp_path, *steps)


def test_a_queued_prompt_needs_itself_once_the_first_has_ended(tmp_path: Path) -> None:
    """First come, first served; claude/second-prompt-mid-turn."""
    steps = (
        (">", prompt(1, "a")),
        (">", prompt(2, "b")),
        LONG_S,
        ("<", chunk("A")),
        ("<", done(1)),
        ("<", chunk("B")),
        ("<", done(2)),
    )

    assert [(0,), (0,), (1,), (1,)] == needs_of(tmp_path, *steps)


@pytest.mark.parametrize(("pause_s", "owner"), [(IMMEDIATE_S, 1), (LONG_S, 0)])
def test_only_an_immediate_answer_takes_what_came_before_it(
    pause_s: float, owner: int, tmp_path: Path
) -> None:
    steps = (
        (">", prompt(1, "a")),
        (">", request(2, "_session/steering", sessionId="s")),
        ("<", chunk("x")),
        pause_s,
        ("<", answer(2, outcome="injected")),
        ("<", chunk("y")),
    )

    assert [(owner,), (1,), (0,)] == needs_of(tmp_path, *steps)


def test_the_end_of_a_cancelled_turn_needs_the_cancel_too(tmp_path: Path) -> None:
    steps = (
        (">", prompt(1, "a")),
        ("<", chunk("x")),
        (">", cancel()),
        ("<", chunk("y")),
        ("<", done(1, "cancelled")),
        ("<", chunk("z")),
    )

    assert [(0,), (2,), (0, 2), (2,)] == needs_of(tmp_path, *steps)


def test_a_cancel_while_idle_moves_nothing(tmp_path: Path) -> None:
    """hermes/cancel-idle: a bridge does not forward it, and the next prompt still runs."""
    steps = ((">", cancel()), (">", prompt(1, "a")), ("<", chunk("x")), ("<", done(1)))

    assert [(1,), (1,)] == needs_of(tmp_path, *steps)


def test_what_followed_a_permission_needs_the_answer_to_it(tmp_path: Path) -> None:
    steps = (
        (">", prompt(1, "a")),
        ("<", ASKS),
        (">", answer(0, outcome={})),
        ("<", chunk("x")),
        ("<", done(1)),
    )

    assert [(0,), (2,), (0, 2)] == needs_of(tmp_path, *steps)


def test_an_answer_to_nothing_moves_nothing(tmp_path: Path) -> None:
    steps = ((">", prompt(1, "a")), (">", answer(9)), ("<", chunk("x")), ("<", done(7)))

    assert [(0,), (1,)] == needs_of(tmp_path, *steps)


def test_a_replay_needs_its_load(tmp_path: Path) -> None:
    """Its user messages are no echoes, and the turn that runs goes on behind it."""
    steps = (
        (">", prompt(1, "a")),
        (">", prompt(2, "b")),
        (">", LOAD),
        ("<", chunk("b", kind="user_message_chunk")),
        ("<", chunk("old")),
        LONG_S,
        ("<", answer(5)),
        ("<", chunk("A")),
    )

    assert [(2,), (2,), (2,), (0,)] == needs_of(tmp_path, *steps)


def test_a_loaded_session_is_moved_by_its_load(tmp_path: Path) -> None:
    steps = ((">", LOAD), ("<", chunk("old")), ("<", answer(5)), ("<", chunk("tail")))

    assert [(0,), (0,), (0,)] == needs_of(tmp_path, *steps)


def test_a_fork_moves_the_session_that_it_makes(tmp_path: Path) -> None:
    steps = (
        (">", request(1, "session/fork", sessionId="s")),
        ("<", answer(1, sessionId="s2")),
        (">", request(2, "ping")),
        ("<", chunk("x", session="s2")),
    )

    assert [(0,), (0,)] == needs_of(tmp_path, *steps)


def test_what_names_no_session_needs_the_line_before_it(tmp_path: Path) -> None:
    status: Json = {"method": "_auth/status_update", "params": {}}
    steps = ((">", prompt(1, "a")), (">", request(2, "ping")), ("<", status), ("<", answer(2)))

    assert [(1,), (1,)] == needs_of(tmp_path, *steps)


def test_noise_stays_where_it_stood(tmp_path: Path) -> None:
    steps = (
        (">", prompt(1, "a")),
        ("<", chunk("x")),
        ("<", "noise"),
        (">", request(2, "ping")),
        ("<", "more"),
    )

    assert [(0,), (0,), (3,)] == needs_of(tmp_path, *steps)


def test_a_second_process_begins_with_nothing_running(tmp_path: Path) -> None:
    """The prompt that the first one died of is not what moves the second."""
    steps = (
        (">", prompt(1, "a")),
        ("<", chunk("A")),
        (">", request(2, "initialize")),
        ("<", answer(2)),
        (">", prompt(3, "b")),
        ("<", chunk("B")),
        ("<", done(3)),
    )

    assert [(0,), (2,), (4,), (4,)] == needs_of(tmp_path, *steps)


@pytest.mark.parametrize("path", all_tapes(), ids=name_of)
def test_on_every_tape_the_cause_comes_before_its_effect(path: Path) -> None:
    entries = read_tape(path).entries
    causes = find_causes(entries)

    assert len(entries) == len(causes.needs) == len(causes.streams)
    for index, (entry, needs) in enumerate(zip(entries, causes.needs, strict=True)):
        assert (entry.side == "agent") == bool(needs)
        assert all(one < index and entries[one].side == "client" for one in needs)
    for index, request_ in causes.responses.items():
        assert entries[index].id == entries[request_].id
        assert request_ in causes.needs[index]
    for asked, answered in causes.answers.items():
        assert entries[asked].id == entries[answered].id
        assert asked < answered
