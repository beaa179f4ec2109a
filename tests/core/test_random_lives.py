"""Random lives, from seeds: the invariants of section 4, whatever the two ends do.

A seed that ever failed stays in FAILED_ONCE. By hand: `LIVES=20000` lives that many.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.core.lives import Life, phases

LIVES = int(os.environ.get("LIVES", "300"))
STEPS = 60
FAILED_ONCE: tuple[int, ...] = ()


def lived(seed: int) -> Life:
    life = Life(seed)
    life.live(STEPS)
    return life


@pytest.mark.parametrize("block", range(10))
def test_every_life_keeps_the_invariants(block: int) -> None:
    """I1, I3, I5, I10; seeds of one block live one after the other."""
    for seed in (*FAILED_ONCE, *range(block, LIVES, 10)):
        keep_the_invariants(seed)


def keep_the_invariants(seed: int) -> None:
    life = lived(seed)
    life.settle()
    owed = life.unanswered()
    # I10: what is not answered by now waits, visibly, for a turn that the agent has promised.
    assert (
        not owed or life.talk.exit_code is not None or life.holds_a_receipt() or life.is_paused()
    ), (seed, owed)

    life.end()

    # I1: every request got exactly one response.
    assert {} == life.unanswered(), seed
    assert life.talk.exit_code is not None, seed
    # I3: written again only after something proved that it had not run.
    back = Counter(one.prompt for one in life.talk.persists if one.state == "accepted")
    again = sum(count - 1 for count in back.values())
    assert sum(count - 1 for count in life.writes.values()) <= again, seed
    # I5: the first write of each prompt comes in the order of arrival.
    for session, texts in life.written.items():
        first = list(dict.fromkeys(texts))
        assert sorted(first, key=life.texts.__getitem__) == first, (seed, session)


def test_the_same_seed_lives_the_same_life() -> None:
    """Without this a failing seed would be worth nothing."""
    assert lived(7).talk.dialogue == lived(7).talk.dialogue


def test_lives_go_everywhere() -> None:
    """The invariants above mean little where nothing happens: every phase and most faults."""
    seen: set[str] = set()
    counted: Counter[str] = Counter()
    for seed in range(150):
        life = Life(seed)
        for _ in range(STEPS):
            life.live(1)
            seen |= {phase.value for phase in phases(life)}
        counted.update(life.talk.bridge.counters)

    assert {
        "idle", "running", "held", "trailing", "ownerless", "cancelling", "wedged", "lost"
    } == seen  # fmt: skip
    wanted = (
        "session_revived", "session_aliased", "prompt_taken_back", "restart_for_wedge",
        "receipt_text_dropped", "doubted_answer_was_receipt", "late_content_kept",
        "cancelled_work_withheld", "request_id_reused", "agent_request_id_reused",
        "asked_after_cancel", "late_client_answer_dropped", "session_lost", "session_rotated",
    )  # fmt: skip
    assert [] == [name for name in wanted if not counted[name]]
