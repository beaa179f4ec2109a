"""Frames of every shape on a tape: what is output, what ends a prompt, what is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.store.diagnosis import Diagnosis
from acpbridge.store.diagnosis.tape import SESSIONS_MAX
from tests.store.diagnosing import diagnosed, kinds, marks, source
from tests.store.tapes import HEADER, answer, found_in, prompt, row, says, update, usage


# -- what is no output -------------------------------------------------------------------------
def test_a_replay_is_no_answer() -> None:
    """The load window: history streams before the answer to a load, and a little behind it."""
    load = {"sessionId": "s", "cwd": "/", "mcpServers": []}
    (found,) = found_in(
        prompt(1.0, 1),
        answer(1.001, 1),
        row(2.0, "client", id=2, method="session/load", params=load),
        says(2.1, "old words"),
        row(2.2, "agent", id=2, result={}),
        says(2.3, "more old words"),
    )

    assert "never" == found.facts["answer"]


@pytest.mark.parametrize(
    ("kind", "more", "answer_"),
    [
        ("agent_thought_chunk", {"content": {"type": "text", "text": "hm"}}, "later"),
        ("agent_message_chunk", {"content": {"type": "image", "data": ""}}, "later"),
        ("agent_message_chunk", {"content": {"type": "text", "text": ""}}, "never"),
        ("tool_call", {"toolCallId": "1"}, "later"),
        ("tool_call", {"toolCallId": "hermes-subagent:1"}, "never"),
        ("plan", {"entries": []}, "later"),
        ("usage_update", {"used": 1}, "never"),
        ("session_info_update", {"title": "x"}, "never"),
    ],
)
def test_only_work_counts_as_an_answer(kind: str, more: dict[str, Any], answer_: str) -> None:
    (found,) = found_in(prompt(1.0, 1), answer(1.001, 1), update(2.0, kind, **more))

    assert answer_ == found.facts["answer"]


# -- ends --------------------------------------------------------------------------------------
def test_a_prompt_that_a_new_process_finds_open_is_stuck() -> None:
    start = row(5.0, "client", id=9, method="initialize", params={})

    (found,) = found_in(prompt(1.0, 1), start, prompt(6.0, 2), says(6.5, "x"), usage(7.0, 2))

    assert ("stuck", [2, 3]) == (found.kind, marks(found))


@pytest.mark.parametrize(("stuck_s", "expected"), [(9.0, ["stuck"]), (9.1, [])])
def test_a_prompt_without_an_answer_is_stuck_once_it_is_old(
    stuck_s: float, expected: list[str]
) -> None:
    rows = (prompt(1.0, 1), says(10.0, "still working"))

    assert expected == kinds(found_in(*rows, stuck_s=stuck_s))


def test_sends_that_are_swallowed_together_are_a_burst() -> None:
    found = found_in(prompt(1.0, 1), answer(1.001, 1), prompt(5.0, 2), answer(5.001, 2))

    assert ["swallowed", "swallowed", "burst"] == kinds(found)


# -- damage ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "line",
    [
        "half a li",
        '{"t":1,"from":"agent"',
        '{"t":"x","from":"agent","frame":{}}',
        "[1]",
        '"text"',
        '{"from":"agent","frame":{}}',
    ],
)
def test_a_damaged_line_is_counted(line: str) -> None:
    diagnosis = Diagnosis()
    text = HEADER + line + "\n" + prompt(1.0, 1) + answer(1.001, 1)

    found = [*diagnosis.look(source([text.encode()])), *diagnosis.end()]

    assert ["swallowed"] == kinds(found)
    assert 1 == diagnosis.looked[0].damaged


@pytest.mark.parametrize(
    "frame",
    [
        {"id": 1},
        {"id": 1, "result": None},
        {"method": "session/update"},
        {"method": "session/update", "params": {"sessionId": "s"}},
        {"method": "session/update", "params": {"update": {"content": []}}},
        {"method": "session/prompt", "id": 1, "params": {"prompt": "text"}},
        {"method": "session/prompt", "id": 1, "params": []},
        {"method": "$/cancel_request", "params": {}},
        {"method": "initialize"},
    ],
)
@pytest.mark.parametrize("side", ["client", "agent"])
def test_frames_of_any_shape_are_read(side: str, frame: dict[str, Any]) -> None:
    assert [] == found_in(row(1.0, side, **frame), row(2.0, side, **frame))


def test_a_line_that_is_no_frame_is_skipped() -> None:
    assert [] == found_in('{"t":1.0,"from":"agent","line":"noise \\u0007"}\n')


def test_a_frame_that_was_cut_is_output_all_the_same() -> None:
    """Its head names the session: an answer of 20 MiB is an answer."""
    head = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"x":"'
    elided = {"t": 2.0, "from": "agent", "frame": {"__elided__": "3 bytes", "head": head}}
    cut = '{"t":2.0,"from":"agent","frame":' + head + "aaaa"

    for line in (json.dumps(elided), cut):
        assert [] == found_in(prompt(1.0, 1), line + "\n", answer(3.0, 1))


def test_a_tape_needs_no_header() -> None:
    """The end of one, as `tail` gives it."""
    text = prompt(1.0, 1) + answer(1.001, 1)

    (found,) = diagnosed(text)

    assert [1, 2] == marks(found)


def test_the_oldest_of_too_many_sessions_is_forgotten() -> None:
    """Its answer is then nobody's: memory has a limit, and a forgotten prompt is no finding."""
    rows = [prompt(1.0, number, session=str(number)) for number in range(SESSIONS_MAX + 1)]

    found = found_in(*rows, answer(1.001, 0), answer(1.001, 1))

    assert ["1"] == [one.session for one in found]
