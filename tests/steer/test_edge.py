"""The judge of the turn's edge: it must be able to say no."""

from __future__ import annotations

import pytest

from tests.hermes.record import Body
from tests.steer.edge import Fate, Report, Round, fate_of, order_faults, reach_faults


def done(**ours: str) -> Body:
    meta = {"_meta": {"acpbridge": ours}} if ours else {}
    return {"id": 4, "result": {"stopReason": "end_turn", **meta}}


def refused(kind: str) -> Body:
    return {"id": 4, "error": {"code": -32055, "data": {"acpbridge": {"kind": kind}}}}


@pytest.mark.parametrize(
    ("body", "fate"),
    [
        (done(), "own turn"),
        (done(completion="shared"), "shared"),
        (done(completion="shared", delivery="unproven"), "unproven"),
        (done(completion="inferred"), "other"),
        ({"id": 4, "result": {"stopReason": "cancelled"}}, "other"),
        (refused("delivery-unknown"), "unknown"),
        (refused("busy"), "other"),
        ({"id": 4, "error": {"code": -32603}}, "other"),
        ({"id": 4, "result": {"outcome": "promptRequired"}}, "promptRequired"),
        ({"id": 4, "result": {"outcome": "startedNewTurn"}}, "other"),
        ({"id": 4, "result": {"outcome": "injected"}}, "injected, silent"),
    ],
)
def test_an_answer_is_taken_at_its_word(body: Body, fate: Fate) -> None:
    assert fate == fate_of(body, has_spoken=False)


def test_a_bare_agents_injected_is_told_apart_by_its_words() -> None:
    assert fate_of({"id": 4, "result": {"outcome": "injected"}}, has_spoken=True) == "injected"


@pytest.mark.parametrize(
    ("fate", "spoken", "ends", "is_true"),
    [
        ("shared", [5], (7, 8), True),
        ("shared", [5], (8, 7), True),
        ("shared", [], (7, 8), False),
        ("shared", [9], (7, 8), False),
        ("unproven", [], (7, 8), True),
        ("unproven", [5], (7, 8), False),
        ("own turn", [9], (7, 10), True),
        ("own turn", [], (7, 10), False),
        ("own turn", [5], (7, 10), False),
        ("own turn", [11], (7, 10), False),
        ("unknown", [5], (7, 8), True),
        ("injected", [5], (7, 4), True),
        ("injected", [9], (7, 4), False),
        ("shared", [4, 5], (7, 8), False),
        ("unknown", [4, 5], (7, 8), False),
        ("injected, silent", [], (7, 4), True),
        ("promptRequired", [9], (7, 4), False),
        ("other", [], (7, 8), False),
    ],
)
def test_the_order_of_frames_is_held_against_the_answer(
    fate: Fate, spoken: list[int], ends: tuple[int, int], is_true: bool
) -> None:
    assert is_true == (order_faults(fate, spoken, ends) == [])


@pytest.mark.parametrize(
    ("fate", "times", "word"),
    [
        ("shared", 0, "LOST"),
        ("shared", 1, None),
        ("shared", 2, "TWICE"),
        ("unproven", 0, "LOST"),
        ("own turn", 2, "TWICE"),
        ("unknown", 0, None),
        ("unknown", 1, None),
        ("unknown", 2, "TWICE"),
        ("promptRequired", 0, None),
        ("promptRequired", 1, "TWICE"),
    ],
)
def test_lost_and_twice_are_seen(fate: Fate, times: int, word: str | None) -> None:
    faults = reach_faults(fate, times)

    assert len(faults) == (word is not None)
    assert all(str(word) in fault for fault in faults)


def test_a_run_that_met_no_edge_is_no_success() -> None:
    """All before the end or all after it: the races were not run."""
    inside = Round(0, 0.0, "shared", ())
    outside = Round(1, 0.1, "own turn", ())
    bad = Round(2, 0.1, "own turn", ("answered twice",))

    assert Report(0.02, (inside, outside)).faults == []
    assert len(Report(0.02, (inside,)).faults) == 1
    assert len(Report(0.02, (outside,)).faults) == 1
    assert Report(0.02, (inside, outside, bad)).faults == ["steer 2: answered twice"]
