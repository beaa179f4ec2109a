"""The main job's verdict: it must be able to say no."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.hermes.mainjob import Run, judge
from tests.hermes.record import Seen

FAKE = Seen(1.0, "agent", {"id": 4, "result": {"stopReason": "end_turn"}})
DIRECT = Run(early=FAKE, is_honest=False, has_receipt=True, wait_ms=1.0)
BRIDGED = Run(early=None, is_honest=True, has_receipt=False, wait_ms=2000.0)


def test_the_cure_is_shown() -> None:
    assert judge(DIRECT, BRIDGED) == []


@pytest.mark.parametrize(
    ("direct", "bridged"),
    [
        (evolve(DIRECT, early=None), BRIDGED),
        (DIRECT, evolve(BRIDGED, early=FAKE)),
        (DIRECT, evolve(BRIDGED, is_honest=False)),
        (DIRECT, evolve(BRIDGED, has_receipt=True)),
    ],
)
def test_each_fault_is_named(direct: Run, bridged: Run) -> None:
    assert len(judge(direct, bridged)) == 1
