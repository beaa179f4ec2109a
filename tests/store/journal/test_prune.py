from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Pruned, Retention
from acpbridge.store.journal_prune import PRUNE_BYTES_MAX, PRUNE_PAGES_MAX, PRUNE_ROWS_MAX
from acpbridge.store.journal_record import PART_BYTES
from tests.store.journal.made import PATHS, bring, die, entry, go

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.store.journal import Journal

OLD = Retention(age_ms_max=100)
"""Everything that the tests record at 1,000 ms is older than that at 2,000."""
NOW = 2_000
HUGE = b'"' + b"x" * (PRUNE_BYTES_MAX + 4 * PART_BYTES) + b'"'


def test_what_is_old_and_over_goes_and_what_runs_stays(journal: Journal) -> None:
    for number, state in enumerate(PATHS, start=1):
        bring(journal, number, state)
    for number, state in enumerate(("cancelled", "refused", "unknown"), start=7):
        assert state == journal.prompt(number).prompt.state  # type: ignore[union-attr]
        go(journal, number, "answered")

    assert Pruned(0, 0, is_done=True) == journal.prune(OLD, 1_100)
    assert 4 == journal.prune(OLD, NOW).prompts
    assert ["settled", "started", "written", "sending", "accepted"] == [
        row.state for row in journal.list_prompts()
    ]


def test_what_nobody_was_told_of_goes_by_age_alone(opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    for number, state in enumerate(("accepted", "written", "settled"), start=1):
        bring(one, number, state)
    die(one)
    two.take_over(1_000)

    assert 0 == two.prune(Retention(size_bytes_max=0), NOW).prompts
    two.tell([1], 1_000)
    # Still undelivered, but somebody knows.
    assert 1 == two.prune(Retention(size_bytes_max=0), NOW).prompts
    assert 2 == two.prune(OLD, NOW).prompts


def test_one_step_is_bounded_in_prompts(journal: Journal) -> None:
    for number in range(1, PRUNE_ROWS_MAX + 2):
        journal.record([entry(number, "accepted"), entry(number, "answered")])

    assert [PRUNE_ROWS_MAX, 1, 0] == [journal.prune(OLD, NOW).prompts for _ in range(3)]


def test_one_step_is_bounded_in_bytes(journal: Journal) -> None:
    """A prompt of many megabytes goes part by part, and its row last."""
    journal.record([entry(1, "accepted", content=HUGE), entry(1, "answered")])
    first, second, *rest = [journal.prune(OLD, NOW) for _ in range(20)]

    assert (0, 1) == (first.prompts, second.prompts)
    assert [False] * 3 == [first.is_done, second.is_done, rest[0].is_done]
    assert Pruned(0, 0, is_done=True) == rest[-1]
    assert PRUNE_PAGES_MAX == max(step.pages for step in (first, second, *rest))


def test_size_takes_the_oldest_first_and_no_more_than_it_must(journal: Journal) -> None:
    big = b'"' + b"x" * 100_000 + b'"'
    for number in range(1, 21):
        journal.record([entry(number, "accepted", content=big)])
        go(journal, number, "answered") if number > 1 else None
    limits = Retention(size_bytes_max=1_500_000)
    steps = [journal.prune(limits, 1_000)]
    while not steps[-1].is_done:
        steps.append(journal.prune(limits, 1_000))
    left = [row.number for row in journal.list_prompts()]

    # The first one still runs.
    assert [*range(20, 21 - len(left), -1), 1] == left
    connection = journal._database._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    assert 1_300_000 < pages * 4_096 <= 1_500_000


def test_the_disk_gets_its_space_back(journal: Journal) -> None:
    journal.record([entry(1, "accepted", content=HUGE), entry(1, "answered")])
    connection = journal._database._connection
    assert connection is not None
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = journal.path.stat().st_size
    while not journal.prune(OLD, NOW).is_done:
        pass
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    assert before > len(HUGE) > 10 * journal.path.stat().st_size


def test_ended_runs_without_prompts_go_too(opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted", "answered")
    one.close()
    go(two, 1, "accepted")
    two.prune(OLD, NOW)
    connection = two._database._connection
    assert connection is not None

    assert [("two",)] == connection.execute("SELECT nonce FROM run").fetchall()
    # A run that lives keeps its row, prompts or not.
    go(two, 1, "answered")
    two.prune(OLD, NOW)
    go(two, 2, "accepted")


@pytest.mark.parametrize("now", [-(10**15), 0])
def test_a_clock_that_went_back_deletes_nothing(journal: Journal, now: int) -> None:
    go(journal, 1, "accepted", "answered")

    assert 0 == journal.prune(OLD, now).prompts
