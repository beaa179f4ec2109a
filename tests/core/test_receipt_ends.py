"""What a receipt binds a prompt to, and what ends that (R8 to R10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.reach import forget, idle, joined, kept, kinds, running, tags, texts
from tests.core.script import (
    QUEUED,
    Talk,
    cancel,
    chunk,
    echo,
    ended,
    prompt,
    request,
    tool,
    usage,
)

BARE = ended(1, usage=False)


def open_one(reach: Any = running, **policy: Any) -> Talk:
    talk = Talk("hermes", **policy)
    reach(talk)
    forget(talk)
    return talk


def test_a_queued_prompt_waits_for_its_own_echo_and_its_segment_s_end() -> None:
    """R10, S16c: other turns, markers and silence before its echo end nothing of it."""
    talk = open_one(kept)
    talk.agent(chunk("other"), usage())
    talk.wait(600.0)
    talk.agent(echo("another message"), chunk("its answer"), usage())
    talk.wait(600.0)

    assert (1, "end_turn") not in kinds(talk.seen())
    talk.agent(echo("one"), chunk("b"), usage())
    talk.wait(1.0)
    assert ["one", "b", "usage_update", (1, "end_turn")] == kinds(talk.seen())


def test_each_echo_is_compared_for_itself() -> None:
    """R8: 3: another message's echo is no part of ours, nor is its segment ours."""
    talk = open_one(kept)
    talk.agent(echo("another message"), chunk("its answer"), echo("one"), chunk("b"), usage())
    talk.wait(1.0)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_where_nothing_may_be_inferred_no_quiet_clock_runs() -> None:
    """R10: for a kept prompt until its echo, for a redirected one until the first work."""
    for reach in (kept, joined):
        talk = open_one(reach)
        talk.agent(usage())

        assert ("quiet", "s1") not in talk.timers


def test_its_silence_counts_from_its_echo() -> None:
    """R9: however long the agent slept before, a segment that has just begun is not over."""
    talk = open_one(kept)
    talk.wait(3600.0)
    talk.agent(echo("one"))
    talk.wait(59.9)

    assert (1, "end_turn") not in kinds(talk.seen())
    talk.wait(0.1)
    assert [(1, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("pieces", [["one"], ["  one "], ["on", "e"], ["o", "n", "e\n"]])
def test_an_echo_is_compared_stripped_and_joined(pieces: list[str]) -> None:
    """R8: 3: Hermes strips the text; others send it in pieces."""
    talk = open_one(kept)
    talk.agent(*(echo(piece) for piece in pieces), chunk("b"), usage())
    talk.wait(1.0)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_the_echo_of_several_blocks_is_their_lines() -> None:
    """R8: 3, tape image-mid-turn: text blocks joined by a new line, pictures not echoed."""
    talk = open_one(idle)
    blocks = [
        {"type": "text", "text": "  see this "},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "text", "text": "second block"},
    ]
    talk.client(request(1, "session/prompt", {"sessionId": "s1", "prompt": blocks}))
    talk.agent(chunk(QUEUED), BARE, echo("see this \nsecond block"), chunk("b"), usage())
    talk.wait(1.0)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_the_echo_of_a_picture_alone_is_hermes_word_for_it() -> None:
    """Tape image-mid-turn: a prompt without text is echoed as `[Image attachment]`."""
    talk = open_one(idle)
    blocks = [{"type": "image", "data": "", "mimeType": "image/png"}]
    talk.client(request(1, "session/prompt", {"sessionId": "s1", "prompt": blocks}))
    talk.agent(chunk(QUEUED), BARE, echo("[Image attachment]"), chunk("b"), usage())
    talk.wait(1.0)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_a_redirected_prompt_waits_for_the_end_of_the_turn_it_is_in() -> None:
    """R10, S16b: until the first work nothing is inferred, then the turn's end answers it."""
    talk = open_one(joined)
    talk.wait(3600.0)

    assert (1, "end_turn") not in kinds(talk.seen())
    talk.agent(chunk("reaction"))
    talk.wait(59.9)
    assert ["reaction"] == kinds(talk.seen())
    talk.wait(0.1)
    assert [(1, "end_turn")] == kinds(talk.seen())


def test_the_echo_of_another_message_ends_a_redirected_prompt_s_turn() -> None:
    """R9: "the next echo", and what then runs is nobody's of ours."""
    talk = open_one(joined)
    talk.agent(chunk("reaction"), echo("another message"))

    assert ["reaction", (1, "end_turn"), "another message"] == kinds(talk.seen())
    assert "ownerless" == talk.bridge.sessions["s1"].phase.value


@pytest.mark.parametrize("pieces", [["one"], ["o", "ne"]])
def test_the_echo_of_its_own_text_is_not_its_end(pieces: list[str]) -> None:
    """R8: 3, I2: where the agent echoes what it was redirected with, its segment begins there."""
    talk = open_one(joined)
    talk.agent(*(echo(piece) for piece in pieces), chunk("b"))
    talk.wait(10.0)

    assert (1, "end_turn") not in kinds(talk.seen())
    talk.agent(chunk("c"), usage())
    talk.wait(1.0)
    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_another_message_s_echo_ends_it_even_without_work() -> None:
    """R9: nothing is inferred: the agent itself shows that the turn is over."""
    talk = open_one(joined)
    talk.agent(echo("another message"))
    said = talk.seen()

    assert [(1, "end_turn"), "another message"] == kinds(said)
    assert ["marked"] == tags(said)


def test_the_next_prompt_waits_for_such_a_turn_as_for_any_ownerless_one() -> None:
    """R5: 300 s at most, counted from where it became nobody's."""
    talk = open_one(joined)
    talk.client(prompt(2, "two"))
    talk.wait(30.0)
    talk.agent(chunk("reaction"), echo("another message"))
    for _ in range(299):
        talk.wait(1.0)
        talk.agent(chunk("on and on"))

    assert [] == texts(talk.got())
    talk.wait(1.0)
    assert ["two"] == texts(talk.got())


def test_after_another_message_s_echo_the_next_prompt_waits_and_goes() -> None:
    """I10: a held session whose last prompt has ended is not held for ever."""
    talk = open_one(joined)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("reaction"), echo("another message"), chunk("its answer"))
    talk.wait(59.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["two"] == texts(talk.got())


def test_a_marked_end_that_an_open_call_delays_is_marked() -> None:
    """R6, R8: 4: the agent said that it has ended; the call is what never came back."""
    talk = open_one(joined)
    talk.agent(tool("t1"), usage())
    talk.wait(599.9)

    assert [] == tags(talk.seen())
    talk.wait(0.1)
    assert ["marked"] == tags(talk.seen())


def test_the_next_prompt_goes_when_the_held_one_is_answered() -> None:
    """I4, S16d: once, and not before."""
    talk = open_one(joined)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("reaction"), usage())
    talk.wait(0.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["two"] == texts(talk.got())


def test_a_kept_prompt_can_be_cancelled() -> None:
    """I10, R19: the way out of a wait that has no end of its own."""
    talk = open_one(kept)
    talk.wait(1.0)
    talk.client(cancel())

    assert [(1, "cancelled")] == kinds(talk.seen())
