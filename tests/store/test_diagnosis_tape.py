"""Swallowed sends on tapes: all that are on the recorded ones, and the shapes that are on none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acpbridge.store.diagnosis import Finding
from tests.core.tape_tables import RECEIPTS, UNKNOWN
from tests.store.diagnosing import FIXTURES, kinds, look_at, marks
from tests.store.tapes import answer, found_in, prompt, row, says, update, usage

QUEUED = "Queued for the next turn. (1 queued)"
REDIRECTED = "Redirected the active turn with your correction."


def prompt_id(path: Path, finding: Finding) -> str:
    line = path.read_text("utf-8").splitlines()[finding.marks[0].line - 1]
    return json.dumps(json.loads(line)["frame"]["id"])


# -- the recorded tapes ------------------------------------------------------------------------
def swallowed_of(folder: str) -> dict[tuple[str, str], Finding]:
    """(tape, id of the prompt): finding, for all tapes of a folder."""
    return {
        (f"{folder.split('-', maxsplit=1)[0]}/{path.stem}", prompt_id(path, one)): one
        for path in sorted((FIXTURES / folder).glob("*.jsonl"))
        for one in look_at(path)
        if one.kind == "swallowed"
    }


def test_every_receipt_of_the_tapes_is_found_and_nothing_else() -> None:
    """The table of the core's tests is the witness: it was read from the tapes by hand."""
    found = swallowed_of("hermes-0.19.0")
    unknown = {(name.split("#")[0], id_) for name, id_ in UNKNOWN}

    assert set(RECEIPTS) | unknown == set(found)
    assert set(RECEIPTS) == {key for key, one in found.items() if "receipt" in one.facts}
    assert {"refusal"} == {found[key].facts["stop_reason"] for key in unknown}


def test_what_became_of_each_receipt_is_told() -> None:
    """Drained ones came later, wedged ones never, steered ones in the running turn."""
    found = swallowed_of("hermes-0.19.0")
    expected = {"drained": "later", "wedged": "never", "shared": "in_turn", "waits": "never"}
    # Hermes runs what it has queued even after a cancel, unless the cancel has wedged it.
    answers = {key: one.facts["answer"] for key, one in found.items() if key in RECEIPTS}
    named = {key: what for key, what in RECEIPTS.items() if what in expected}

    assert {key: expected[what] for key, what in named.items()} == {
        key: answers[key] for key in named
    }
    assert "later" == answers["hermes/cancel-with-queued", "4"]
    assert "never" == answers["hermes/cancel-during-tool-with-queued", "4"]


@pytest.mark.parametrize("folder", ["claude-agent-acp-0.101.0", "codex-acp-2.6.0"])
def test_agents_that_serialise_honestly_swallow_nothing(folder: str) -> None:
    """107 tapes with steers, cancels, kills and loads, and not one false alarm."""
    paths = sorted((FIXTURES / folder).glob("*.jsonl"))

    assert 53 <= len(paths)
    assert [] == look_at(*paths)


def test_a_rotation_under_an_open_prompt_is_found() -> None:
    found = look_at(FIXTURES / "hermes-0.19.0" / "compact-rotation.jsonl")

    assert ["rotated", "rotated"] == kinds(found)
    assert {"15881929-11c6-4042-a180-1fa8da77f681"} == {one.session for one in found}


def test_the_lines_lead_from_the_prompt_to_its_answer() -> None:
    """mid-turn-prompt: prompt, receipt, fake completion, echo, first word of the answer."""
    (found,) = look_at(FIXTURES / "hermes-0.19.0" / "mid-turn-prompt.jsonl")

    assert [11, 12, 13, 27, 28] == marks(found)
    assert ("1.8058 s", 0.5, 2.1958) == (
        found.at,
        found.facts["duration_ms"],
        found.facts["later_s"],
    )


# -- receipts ----------------------------------------------------------------------------------
def test_a_redirect_into_a_turn_that_nobody_sees_is_found() -> None:
    """S16 b: no prompt is open, the agent works by itself, the send is folded in."""
    (found,) = found_in(
        says(1.0, "background"),
        prompt(2.0, 1),
        says(2.001, REDIRECTED),
        answer(2.0019, 1),
        says(4.0, "as you wish"),
    )

    assert ("swallowed", "redirected", "in_turn", [3, 4, 5, 6]) == (
        found.kind,
        found.facts["receipt"],
        found.facts["answer"],
        marks(found),
    )


def test_a_receipt_is_one_however_late_it_comes() -> None:
    """R10: its text says so; a loaded machine is slow."""
    (found,) = found_in(prompt(1.0, 1), says(3.0, QUEUED), answer(3.5, 1))

    assert ("swallowed", 2500.0, "never") == (
        found.kind,
        found.facts["duration_ms"],
        found.facts["answer"],
    )


def test_a_receipt_with_usage_is_an_answer() -> None:
    assert [] == found_in(prompt(1.0, 1), says(1.001, QUEUED), usage(1.002, 1))


def test_one_receipt_is_one_prompt_s() -> None:
    """The running turn's own bare end is not taken for a receipt because of another's."""
    (found,) = found_in(
        prompt(1.0, 1),
        says(1.5, "working"),
        prompt(2.0, 2, "more"),
        says(2.001, QUEUED),
        answer(2.002, 2),
        says(3.0, "API call failed"),
        answer(3.1, 1),
    )

    assert [4, 5, 6] == marks(found)


def test_a_drained_prompt_that_streams_nothing_says_so() -> None:
    (found,) = found_in(
        prompt(1.0, 1),
        says(1.5, "working"),
        prompt(2.0, 2, " more "),
        says(2.001, QUEUED),
        answer(2.002, 2),
        says(3.0, "more", "user_message_chunk"),
        usage(3.1, 1),
        prompt(4.0, 3),
        says(5.0, "this is the third"),
        usage(5.1, 3),
    )

    assert ("never", [4, 5, 6, 7]) == (found.facts["answer"], marks(found))
    assert "it ran" in found.says


# -- without a receipt -------------------------------------------------------------------------
@pytest.mark.parametrize(("ms", "kind"), [(19.9, "swallowed"), (20.1, "unstreamed")])
def test_an_answer_without_output_is_swallowed_below_20_ms(ms: float, kind: str) -> None:
    (found,) = found_in(prompt(1.0, 1), answer(1.0 + ms / 1000, 1))

    assert (kind, "never") == (found.kind, found.facts["answer"])


def test_output_behind_an_empty_answer_is_late() -> None:
    (found,) = found_in(prompt(1.0, 1), answer(3.0, 1), says(4.5, "here it is"))

    assert ("late", "later", 1.5, [2, 3, 4]) == (
        found.kind,
        found.facts["answer"],
        found.facts["later_s"],
        marks(found),
    )


def test_output_of_the_next_prompt_is_not_taken_for_it() -> None:
    (found,) = found_in(
        prompt(1.0, 1), answer(3.0, 1), prompt(4.0, 2), says(4.5, "two"), usage(5.0, 2)
    )

    assert ("unstreamed", [2, 3]) == (found.kind, marks(found))


def test_output_of_a_running_turn_is_not_taken_for_it() -> None:
    """An empty answer while another prompt is open: what goes on is that one's."""
    (found,) = found_in(
        prompt(1.0, 1),
        says(1.5, "working"),
        prompt(2.0, 2, "more"),
        answer(2.001, 2),
        says(3.0, "still working"),
        usage(4.0, 1),
    )

    assert ("swallowed", "never", [4, 5]) == (found.kind, found.facts["answer"], marks(found))


def test_output_of_another_session_is_not_taken_for_it() -> None:
    (found,) = found_in(prompt(1.0, 1), answer(3.0, 1), says(4.0, "x", session="other"))

    assert "unstreamed" == found.kind


def test_a_new_sentence_in_place_of_a_turn_is_found() -> None:
    """A build that words its receipt anew: no model answers within 20 ms (R12)."""
    text = "Noted for later."

    (found,) = found_in(prompt(1.0, 1), says(1.001, text), answer(1.002, 1), says(9.0, "done"))

    assert "sooner than any model answers" in found.says
    assert [] == found_in(prompt(1.0, 1), says(1.001, text), usage(1.002, 1))
    assert [] == found_in(prompt(1.0, 1), says(1.3, text), answer(1.4, 1))


@pytest.mark.parametrize("text", ["/help", "/mine now", ""])
def test_commands_and_blank_prompts_may_be_answered_at_once(text: str) -> None:
    """`/mine` is one because the agent has advertised it."""
    commands = update(0.5, "available_commands_update", availableCommands=[{"name": "mine"}])

    assert [] == found_in(commands, prompt(1.0, 1, text), answer(1.001, 1))


def test_an_unknown_slash_word_is_no_command() -> None:
    assert ["swallowed"] == kinds(found_in(prompt(1.0, 1, "/etc is full"), answer(1.001, 1)))


@pytest.mark.parametrize(
    ("stop", "ms", "expected"),
    [
        ("refusal", 5, ["swallowed"]),
        ("refusal", 500, []),
        ("cancelled", 5, ["swallowed"]),
        ("cancelled", 500, []),
        ("max_tokens", 5, []),
    ],
)
def test_other_ends_are_swallowed_only_at_once(stop: str, ms: float, expected: list[str]) -> None:
    assert expected == kinds(found_in(prompt(1.0, 1), answer(1.0 + ms / 1000, 1, stop)))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/cancel", {"sessionId": "s"}),
        ("session/close", {"sessionId": "s"}),
        ("$/cancel_request", {"requestId": 1}),
    ],
)
def test_what_the_client_has_cancelled_is_not_swallowed(
    method: str, params: dict[str, Any]
) -> None:
    cancel = row(1.001, "client", method=method, params=params)

    assert [] == found_in(prompt(1.0, 1), cancel, answer(1.002, 1, "cancelled"))


def test_an_error_is_said_and_not_swallowed() -> None:
    error = row(1.001, "agent", id=1, error={"code": -32603, "message": "Internal error"})

    assert [] == found_in(prompt(1.0, 1), error)
