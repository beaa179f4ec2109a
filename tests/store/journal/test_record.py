from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Alias, Archive, IllegalTransition, KeyTaken
from acpbridge.store.journal_record import ALIASES_MAX, HISTORY_STEPS_MAX, PART_BYTES
from acpbridge.store.journal_states import REASON_CHARS_MAX, SKIPPED_MAX, Numbers
from tests.store.journal.made import CONTENT, PATHS, S, bring, die, entry, go

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from acpbridge.store.journal import Journal


def test_every_transition_keeps_what_came_with_it(journal: Journal) -> None:
    more = {"turn": 7, "trace": "t-1"}
    journal.record([entry(1, "accepted", at_ms=5), entry(1, "sending", at_ms=4, **more)])
    go(journal, 1, "written", "started", at_ms=3)
    journal.record(
        [
            entry(1, "settled", at_ms=2, completion="drained", answer=b'{"stopReason":"x"}'),
            entry(1, "answered", at_ms=1, completion=""),
        ]
    )
    found = journal.prompt(1)

    assert found is not None
    assert list(PATHS["answered"]) == [step.state for step in found.history]
    # The clock went backwards all the time, and nothing was put in order by it.
    assert [5, 4, 3, 3, 2, 1] == [step.at_ms for step in found.history]
    assert (5, 1, 1) == (
        found.prompt.accepted_ms,
        found.prompt.changed_ms,
        found.prompt.told_ms,
    )
    assert (7, "t-1", "drained") == (
        found.prompt.turn,
        found.prompt.trace,
        found.prompt.completion,
    )
    assert (CONTENT, b'{"stopReason":"x"}') == (found.content, found.answer)
    assert (CONTENT, b'{"stopReason":"x"}') == (journal.content(1), journal.result_of(1))


def test_newer_prompts_come_first_whatever_the_clock_says(journal: Journal) -> None:
    for number, at_ms in ((1, 9_000), (2, 5_000), (3, -1)):
        journal.record([entry(number, "accepted", at_ms=at_ms)])

    assert [3, 2, 1] == [row.number for row in journal.list_prompts()]
    assert [3, 2] == [row.number for row in journal.list_prompts(limit=2)]


def test_a_large_prompt_is_kept_byte_for_byte(journal: Journal) -> None:
    content = b'[{"type":"text","text":"' + bytes([65 + n % 26 for n in range(PART_BYTES)]) + b'"}]'
    journal.record([entry(1, "accepted", content=content)])

    assert content == journal.content(1)
    assert (f"({len(content)} bytes)",) == tuple(row.first_words for row in journal.list_prompts())


def test_a_lone_surrogate_and_a_nul_are_no_reason_to_fail(journal: Journal) -> None:
    """Field case 102: a text of a peer must never end the process."""
    for number, session in enumerate(("\ud800", "a\0b", "ünï"), start=1):
        journal.record([entry(number, "accepted", session=session, key="k\udfff", reason="\udc00")])

        assert [number] == [row.number for row in journal.list_prompts(session=session)]
        assert journal.find_key(session, "k\udfff") is not None


def test_a_reason_is_scrubbed_and_cut(journal: Journal) -> None:
    long = "x" * (REASON_CHARS_MAX + 1)
    go(journal, 1, "accepted", reason="it said --token hunter2hunter2")
    go(journal, 2, "accepted", reason=long)

    assert [long[:-1], "it said --token <scrubbed>"] == [
        row.reason for row in journal.list_prompts()
    ]


def test_the_history_of_a_long_refusal_is_bounded(journal: Journal) -> None:
    go(journal, 1, "accepted")
    rounds = HISTORY_STEPS_MAX // 3 + 5
    for _ in range(rounds):
        journal.record([entry(1, one, at_ms=2) for one in ("sending", "written", "accepted")])
    found = journal.prompt(1)

    assert found is not None
    assert HISTORY_STEPS_MAX == len(found.history)
    assert (1_000, "accepted") == (found.history[0].at_ms, found.history[0].state)
    assert ["sending", "written", "accepted"] == [step.state for step in found.history[-3:]]


def test_a_prompt_that_a_person_forgot_does_not_end_the_bridge(
    journal: Journal, tmp_path: Path
) -> None:
    """Its late transition (R20) finds no row; it was there, so that is no mistake of ours."""
    go(journal, 1, "accepted", "cancelled", "answered")
    archive = Archive.open(tmp_path / "state")
    assert archive is not None
    assert "forgotten" == archive.forget(1)
    archive.close()
    go(journal, 1, "accepted", reason="undelivered: the client left")

    assert () == journal.list_prompts()


def test_one_whose_key_was_looked_up_begins_behind_a_later_one(journal: Journal) -> None:
    """Its number is lower than the last: taken for forgotten, it would be sent unrecorded (I8)."""
    go(journal, 3, "accepted")
    go(journal, 1, "accepted", "sending", key="k")
    go(journal, 3, "sending")

    assert {1: "sending", 3: "sending"} == {row.number: row.state for row in journal.list_prompts()}
    with pytest.raises(IllegalTransition, match="prompt 2 cannot go from nothing to written"):
        go(journal, 2, "written")


def test_the_intent_to_send_a_prompt_that_is_gone_is_not_durable(
    journal: Journal, tmp_path: Path
) -> None:
    """I8: whoever removed it, nothing may be sent on the word of a row that is not there."""
    go(journal, 1, "accepted", "cancelled", "answered")
    archive = Archive.open(tmp_path / "state")
    assert archive is not None
    assert "forgotten" == archive.forget(1)
    archive.close()
    with pytest.raises(IllegalTransition, match="prompt 1 cannot go from nothing to sending"):
        go(journal, 1, "sending")


def test_the_numbers_that_were_skipped_are_bounded() -> None:
    """I9: the oldest are given up; a prompt of theirs is then refused, not sent unrecorded."""
    numbers = Numbers()
    for number in range(2, 4 * SKIPPED_MAX, 2):
        numbers.add(number)
    assert SKIPPED_MAX == len(numbers.skipped)
    assert [False, True, False] == [
        numbers.is_new(number) for number in (1, 4 * SKIPPED_MAX - 3, 4 * SKIPPED_MAX - 2)
    ]
    numbers.add(10**9)

    assert SKIPPED_MAX == len(numbers.skipped)
    assert numbers.is_new(10**9 - 1)


# -- prompt keys -------------------------------------------------------------------------------
@pytest.mark.parametrize("state", sorted(PATHS.keys() - {"cancelled", "refused"}))
def test_a_key_never_runs_twice(journal: Journal, state: str) -> None:
    prompt = bring(journal, 1, state, key="k")
    with pytest.raises(KeyTaken) as caught:
        go(journal, 2, "accepted", key="k")

    assert (2, prompt) == (caught.value.number, caught.value.prompt_id)
    assert [1] == [row.number for row in journal.list_prompts()]
    found = journal.find_key(S, "k")
    assert found is not None
    assert (prompt, True, state) == (found.prompt.id, found.is_own, found.prompt.state)
    has_answer = state in ("settled", "answered")
    assert (b'{"stopReason":"end_turn"}' if has_answer else b"") == found.answer


@pytest.mark.parametrize("end", ["cancelled", "refused", "answered"])
def test_a_key_whose_prompt_never_ran_may_come_again(journal: Journal, end: str) -> None:
    go(journal, 1, "accepted", end, key="k")

    assert journal.find_key(S, "k") is None
    go(journal, 2, "accepted", key="k")
    found = journal.find_key(S, "k")
    assert found is not None
    assert 2 == found.prompt.number
    # The client leaves: the first one is undelivered, and the key is the second one's.
    go(journal, 1, "accepted")
    assert [""] == [row.key for row in journal.undelivered(S)]


def test_a_key_is_the_sessions(journal: Journal) -> None:
    go(journal, 1, "accepted", key="k")
    go(journal, 2, "accepted", key="k", session="s-2")

    assert journal.find_key("s-3", "k") is None
    assert ["s-2", S] == [row.session for row in journal.list_prompts()]


def test_a_key_of_another_bridge_is_found_there(opened: Callable[..., Journal]) -> None:
    one, two = opened("one"), opened("two")
    go(one, 1, "accepted", "sending", key="k")
    found = two.find_key(S, "k")

    assert found is not None
    assert (False, True) == (found.is_own, found.prompt.is_live)
    with pytest.raises(KeyTaken):
        go(two, 1, "accepted", key="k")
    die(one)
    found = two.find_key(S, "k")
    assert found is not None
    assert not found.prompt.is_live


# -- aliases -----------------------------------------------------------------------------------
def test_a_chain_is_appended_and_its_tip_is_read(
    journal: Journal, opened: Callable[..., Journal]
) -> None:
    assert journal.tip(S) is None
    journal.record([Alias(S, 1, "a-1", 5), entry(1, "accepted"), Alias(S, 2, "a-2", 4)])
    journal.record([Alias(S, 3, "a-2", 4), Alias("s-2", 1, "b-1", 4)])

    other = opened("two")
    assert ((1, "a-1"), (2, "a-2")) == other.aliases(S)
    assert ((2, "a-2"), (1, "b-1")) == (other.tip(S), other.tip("s-2"))


def test_a_generation_is_used_once(journal: Journal) -> None:
    """A bridge that has not read the chain begins at 1 again; its word is the newer one."""
    journal.record([Alias(S, 1, "a-1", 5), Alias(S, 1, "a-2", 6), Alias(S, 9, "a-3", 6)])

    assert ((1, "a-1"), (2, "a-2"), (9, "a-3")) == journal.aliases(S)


@pytest.mark.parametrize("more", [0, 1])
def test_a_chain_is_bounded(journal: Journal, more: int) -> None:
    count = ALIASES_MAX + more
    journal.record([Alias(S, n, f"a-{n}", 1) for n in range(1, count + 1)])
    chain = journal.aliases(S)

    assert (ALIASES_MAX, 1 + more) == (len(chain), chain[0][0])
    assert (count, f"a-{count}") == journal.tip(S)
