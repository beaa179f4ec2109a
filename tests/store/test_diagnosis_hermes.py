"""What swallowed sends leave behind in logs of Hermes, as it wrote them and as it would."""

from __future__ import annotations

import pytest

from acpbridge.store.diagnosis import Diagnosis
from tests.store.diagnosing import FIXTURES, A, diagnosed, kinds, look_at, marks, source

RECORDED = FIXTURES / "hermes-0.19.0-stderr"
WEDGE = RECORDED / "cancel-during-tool.log"
ROTATION = RECORDED / "compact-rotation.log"
DAY = "2026-11-29"


def prompt(clock: str, session: str = A) -> str:
    return f"{DAY} {clock} [INFO] acp_adapter.server: Prompt on session {session}: hello there\n"


def turn(clock: str, own: str = A) -> str:
    return f"{DAY} {clock} [INFO] agent.turn_context: conversation turn: session={own} model=m\n"


def ended(clock: str, own: str = A, reason: str = "text_response(finish_reason=stop)") -> str:
    where = "[INFO] agent.conversation_loop:"
    return f"{DAY} {clock} {where} Turn ended: reason={reason} model=m x=1 session={own}\n"


def whole(begin: str, end: str, session: str = A, own: str = "") -> str:
    return prompt(begin, session) + turn(begin, own or session) + ended(end, own or session)


def cancelled(clock: str, session: str = A) -> str:
    return f"{DAY} {clock} [INFO] acp_adapter.server: Cancelled session {session}\n"


def failed(clock: str, error: str = "Internal error") -> str:
    head = f"{DAY} {clock} [ERROR] root: Background task failed\nTraceback (most recent call last):"
    return f'{head}\n  File "x.py", line 1\nacp.exceptions.RequestError: {error}\n'


# -- recorded ----------------------------------------------------------------------------------
def test_a_recorded_wedge_is_found() -> None:
    """Two prompts came after it; Hermes wrote not a line about them."""
    (found,) = look_at(WEDGE)
    lines = WEDGE.read_text().splitlines()
    cancel, end, failure = (lines[number - 1] for number in marks(found))

    assert "wedged" == found.kind
    assert "Cancelled session" in cancel
    assert "Turn ended: reason=interrupted_by_user" in end
    assert "Background task failed" in failure


def test_a_recorded_rotation_is_found_each_time() -> None:
    """Two compressions, each in the middle of a turn."""
    first, second = look_at(ROTATION)

    assert ["rotated", "rotated"] == kinds([first, second])
    assert first.session == second.session
    assert first.facts["became"] in second.says
    assert f"session={second.facts['became']}" in ROTATION.read_text()


# -- wedges ------------------------------------------------------------------------------------
def test_an_honest_cancel_is_no_wedge() -> None:
    text = prompt("10:00:00") + turn("10:00:00") + cancelled("10:00:05")
    text += ended("10:00:05", reason="interrupted_by_user") + whole("10:00:09", "10:00:10")

    assert [] == diagnosed(text)


@pytest.mark.parametrize(
    ("clock", "error", "expected"),
    [
        ("10:00:10", "Internal error", ["wedged"]),
        ("10:00:11", "Internal error", []),
        ("10:00:05", "Method not found", []),
    ],
)
def test_only_an_internal_error_right_behind_it_wedges(
    clock: str, error: str, expected: list[str]
) -> None:
    text = prompt("10:00:00") + turn("10:00:00") + cancelled("10:00:05")
    text += ended("10:00:05", reason="interrupted_by_user") + failed(clock, error)

    assert expected == kinds(diagnosed(text))


def test_an_internal_error_without_a_cancel_is_no_wedge() -> None:
    assert [] == diagnosed(whole("10:00:00", "10:00:05") + failed("10:00:05"))


def test_a_cancel_while_idle_wedges_the_next_turn() -> None:
    """hermes-agent#94597: it hits the next prompt, which then ends as interrupted."""
    text = whole("10:00:00", "10:00:05") + cancelled("10:00:06")
    text += prompt("10:01:00") + turn("10:01:00")
    text += ended("10:01:00", reason="interrupted_by_user") + failed("10:01:00")

    (found,) = diagnosed(text)

    assert ("wedged", [4, 7, 8]) == (found.kind, marks(found))


# -- rotation ----------------------------------------------------------------------------------
def test_a_first_id_is_no_rotation() -> None:
    """A log may begin long after a session was compressed."""
    assert [] == diagnosed(whole("10:00:00", "10:00:05", A, "20261129_100000_aa"))


def test_an_id_that_changes_between_two_turns_is_found() -> None:
    """The compression itself may stand in a log that was rotated away."""
    text = whole("10:00:00", "10:00:05") + whole("10:01:00", "10:01:05", A, "20261129_100030_aa")

    (found,) = diagnosed(text)

    assert ("rotated", A, "20261129_100030_aa") == (
        found.kind,
        found.session,
        found.facts["became"],
    )


def test_a_compression_in_place_is_no_rotation() -> None:
    where = f"{DAY} 10:00:01 [INFO] agent.conversation_compression: context compression"
    text = prompt("10:00:00") + turn("10:00:00")
    text += f"{where} started: session={A} messages=5\n{where} done: session={A} messages=5->4\n"

    assert [] == diagnosed(text + ended("10:00:05"))


def test_turns_of_two_sessions_do_not_mix() -> None:
    """Two prompts before either turn names itself: nobody can say which is which."""
    text = prompt("10:00:00", "a") + prompt("10:00:00", "b")
    text += turn("10:00:00", "own-a") + turn("10:00:00", "own-b")
    text += ended("10:00:09", "own-a") + ended("10:00:09", "own-b")

    assert [] == diagnosed(text, stuck_s=0)


# -- the rest ----------------------------------------------------------------------------------
def test_a_folded_send_is_found() -> None:
    """The one line that Hermes writes about a redirect."""
    text = prompt("10:00:00") + turn("10:00:00")
    text += f"{DAY} 10:00:03 [INFO] run_agent: Delivered /steer to agent after tool batch (9 chars)"

    (found,) = diagnosed(text)

    assert ("folded", A, [3]) == (found.kind, found.session, marks(found))


def test_an_unknown_session_swallows_the_send() -> None:
    text = f"{DAY} 10:00:03 [ERROR] acp_adapter.server: prompt: session {A} not found\n"

    (found,) = diagnosed(text)

    assert ("swallowed", A, f"{DAY} 10:00:03") == (found.kind, found.session, found.at)


def test_the_log_file_has_milliseconds_and_the_session_in_brackets() -> None:
    text = f"{DAY} 10:00:03,417 ERROR [{A}] acp_adapter.server: prompt: session {A} not found\n"

    (found,) = diagnosed(text)

    assert (A, f"{DAY} 10:00:03,417") == (found.session, found.at)


def test_a_turn_without_an_end_is_stuck_once_it_is_old() -> None:
    text = prompt("10:00:00") + turn("10:00:00") + whole("10:10:00", "10:10:00", "other")

    (found,) = diagnosed(text)

    assert ("stuck", A, [1]) == (found.kind, found.session, marks(found))


def test_a_prompt_that_no_turn_takes_up_is_stuck_too() -> None:
    """Hermes runs four turns at once; the fifth waits without a word."""
    text = prompt("10:00:00") + whole("10:10:00", "10:10:00", "other")

    assert ["stuck"] == kinds(diagnosed(text))


def test_a_young_turn_still_runs() -> None:
    diagnosis = Diagnosis()
    text = prompt("10:00:00") + turn("10:00:00") + whole("10:09:59", "10:09:59", "other")

    assert [] == [*diagnosis.look(source([text.encode()])), *diagnosis.end()]
    assert (1, 1) == (diagnosis.running, diagnosis.hermes.turns)


def test_the_text_of_a_prompt_is_no_line_of_the_log() -> None:
    """What people write about the bug must not be taken for it."""
    words = 'status_changed session=Some("x") Connected -> Prompting, Cancelled session x'
    text = f"{DAY} 10:00:00 [INFO] acp_adapter.server: Prompt on session {A}: {words}\n"

    assert [] == diagnosed(text + turn("10:00:00") + ended("10:00:01"), stuck_s=0)


@pytest.mark.parametrize(
    "line",
    [
        "Prompt on session x",
        "conversation turn: session=x",
        "Turn ended: reason=x",
        "Cancelled session ",
        "context compression failed",
        "prompt: session x",
        "RequestError: Internal error",
    ],
)
def test_a_line_that_only_begins_like_one_is_skipped(line: str) -> None:
    assert [] == diagnosed(line)
