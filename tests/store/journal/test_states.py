"""Every pair of states: an edge that the core can take is legal, any other is named and refused."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import IllegalTransition
from acpbridge.store.journal_states import EDGES, STATES
from tests.store.journal.made import LATE, LEGAL, PATHS, TOLD, bring, entry, go

if TYPE_CHECKING:
    from acpbridge.store.journal import Journal


@pytest.mark.parametrize("new", STATES)
@pytest.mark.parametrize("old", STATES)
def test_every_pair_of_states(journal: Journal, old: str, new: str) -> None:
    prompt = bring(journal, 1, old)
    pair = (old, new)
    if pair in LEGAL:
        go(journal, 1, new)
        expected = new
    elif pair in TOLD | LATE or old == new:
        go(journal, 1, new)
        expected = old
    else:
        with pytest.raises(IllegalTransition, match=f"from {old} to {new}"):
            go(journal, 1, new)
        expected = old
    found = journal.prompt(prompt)

    assert found is not None
    assert expected == found.prompt.state
    steps = [*PATHS[old], *([new] if pair in LEGAL | TOLD | LATE else [])]
    assert steps == [step.state for step in found.history]
    is_told = old == "answered" or (new == "answered" and pair in LEGAL | TOLD)
    assert is_told == (found.prompt.told_ms is not None)


def test_the_table_is_the_one_that_was_read_off_the_core() -> None:
    table = {(old, new) for old, ends in EDGES.items() for new in ends}

    assert LEGAL | TOLD | {("answered", "accepted")} == table


@pytest.mark.parametrize("state", STATES)
def test_a_prompt_begins_accepted_or_refused_at_the_door(journal: Journal, state: str) -> None:
    if state in ("accepted", "refused", "answered"):
        go(journal, 1, state)

        assert state == journal.list_prompts()[0].state
        return
    with pytest.raises(IllegalTransition, match=f"from nothing to {state}"):
        go(journal, 1, state)

    assert () == journal.list_prompts()


@pytest.mark.parametrize("end", ["answered", "cancelled", "refused"])
def test_what_was_never_written_may_become_undelivered(journal: Journal, end: str) -> None:
    """R20: a cancel followed by the client's EOF makes the queue undelivered, not cancelled."""
    go(journal, 1, "accepted", end)
    go(journal, 1, "answered", "accepted", reason="undelivered: the client left")
    [row] = journal.undelivered("s-1")

    assert ("undelivered", None, "say hello") == (row.shown_state, row.told_ms, row.first_words)
    with pytest.raises(IllegalTransition, match="from accepted to sending"):
        go(journal, 1, "sending")


@pytest.mark.parametrize("end", ["answered", "cancelled", "refused"])
def test_what_was_written_never_becomes_undelivered(journal: Journal, end: str) -> None:
    """It may have run, and undelivered prompts may be sent (I3)."""
    go(journal, 1, "accepted", "sending", "written", end)
    with pytest.raises(IllegalTransition, match=f"from {end} to accepted"):
        go(journal, 1, "accepted")


def test_what_was_taken_back_counts_as_never_written(journal: Journal) -> None:
    go(journal, 1, "accepted", "sending", "written", "accepted", "answered", "accepted")

    assert ["undelivered"] == [row.shown_state for row in journal.undelivered("s-1")]


def test_a_late_verdict_corrects_the_record(journal: Journal) -> None:
    """R14: told unknown, and then the agent says what it did with the steer after all."""
    said = {"reason": "late verdict: injected"}
    for number in (1, 2):
        go(journal, number, *PATHS["written"], "unknown", "answered", key=f"k-{number}")
    go(journal, 1, "started", **said)
    go(journal, 1, "started", **said)
    go(journal, 2, "refused", reason="late verdict: promptRequired")
    one, two = (journal.prompt(number) for number in (1, 2))

    assert one is not None
    assert two is not None
    assert ("unknown", said["reason"]) == (one.prompt.state, one.prompt.reason)
    assert [*PATHS["unknown"], "answered", "started"] == [step.state for step in one.history]
    # What never ran gives its key back, and what ran does not.
    assert ("refused", False) == (two.prompt.state, two.prompt.is_written)
    assert journal.find_key("s-1", "k-1") is not None
    assert journal.find_key("s-1", "k-2") is None
    go(journal, 3, "accepted", key="k-2")


def test_what_ended_unsent_has_no_late_verdict(journal: Journal) -> None:
    go(journal, 1, "accepted", "answered")
    with pytest.raises(IllegalTransition, match="from answered to started"):
        go(journal, 1, "started")


def test_a_repeat_is_no_second_transition(journal: Journal) -> None:
    prompt = bring(journal, 1, "started")
    go(journal, 1, "started", "started")
    go(journal, 1, "started", reason="receipt: queued")
    go(journal, 1, "started", reason="receipt: queued")
    found = journal.prompt(prompt)

    assert found is not None
    assert [*PATHS["started"], "started"] == [step.state for step in found.history]
    assert "receipt: queued" == found.prompt.reason


def test_one_bad_entry_leaves_nothing_of_its_batch(journal: Journal) -> None:
    go(journal, 1, "accepted")
    batch = [entry(1, "sending"), entry(2, "accepted"), entry(1, "settled")]
    with pytest.raises(IllegalTransition, match="prompt 1 cannot go from sending to settled"):
        journal.record(batch)

    assert ["accepted"] == [row.state for row in journal.list_prompts()]
    journal.record(batch[:2])
    assert ["accepted", "sending"] == [row.state for row in journal.list_prompts()]


def test_an_answer_without_a_completion_kind_is_our_own_mistake(journal: Journal) -> None:
    """It is no fault of the disk, which the shell would meet by trying again for ever."""
    go(journal, 1, "accepted")
    with pytest.raises(IllegalTransition, match="answered_has_completion") as caught:
        go(journal, 1, "answered", completion="")

    assert (1, "answered") == (caught.value.number, caught.value.new)

    assert ["accepted"] == [row.state for row in journal.list_prompts()]


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("state = 'lost'", "state_is_known"),
        ("is_written = 1", "unsent_is_not_written"),
        ("state = 'written'", "sent_is_written"),
        ("state = 'answered', told_ms = 1", "answered_has_completion"),
        ("state = 'answered', completion = 'response'", "answered_has_completion"),
        ("state = 'sending', is_kept = 1", "kept_has_no_request"),
        ("told_ms = 1", "running_is_untold"),
        ("number = NULL", "running_has_a_number"),
        ("key = ''", "key <> ''"),
        ("turn = -1", "turn >= 0"),
        ("turn = 'x'", "cannot store TEXT"),
        ("run = 99", "FOREIGN KEY"),
    ],
)
def test_the_tables_keep_each_invariant(journal: Journal, change: str, constraint: str) -> None:
    go(journal, 1, "accepted")
    connection = journal._database._connection
    assert connection is not None
    with pytest.raises(sqlite3.IntegrityError, match=constraint):
        connection.execute(f"UPDATE prompt SET {change}")  # noqa: S608
