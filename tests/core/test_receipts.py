"""The agent's "I have your message" is no answer, and nobody sees it (R10)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.profiles import agent_named
from tests.core.as_written import AS_WRITTEN
from tests.core.reach import forget, idle, joined, kept, kinds, running, texts, working
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    notify,
    permission,
    prompt,
    request,
    tool,
    update,
    usage,
)

BARE = ended(1, usage=False)
STEERED = "⏩ Steer queued for the active turn: one\nand two"
RECEIPTS = [QUEUED, "No active turn — queued for the next turn. (12 queued)", REDIRECTED, STEERED]


def open_one(reach: Any = running, **policy: Any) -> Talk:
    talk = Talk("hermes", **policy)
    reach(talk)
    forget(talk)
    return talk


def thought(text: str) -> Json:
    return update("agent_thought_chunk", content={"type": "text", "text": text})


# -- what is a receipt ------------------------------------------------------------------------
@pytest.mark.parametrize("shown", [chunk, thought])
@pytest.mark.parametrize("text", RECEIPTS)
@pytest.mark.parametrize("shaped", [True, False])
def test_a_receipt_is_no_answer_and_its_text_is_not_shown(
    text: str, shown: Any, shaped: bool
) -> None:
    """R10, S16b: whichever sentence, as message or thought, known by its shape or parsed."""
    talk = Talk("hermes", shaped=shaped)
    running(talk)
    talk.agent(shown(text))
    talk.wait(0.002)
    talk.agent(BARE)
    talk.wait(1.0)

    assert [] == talk.seen()
    assert 1 == talk.count("receipt_text_dropped")
    assert "held" == talk.bridge.sessions["s1"].phase.value


@pytest.mark.parametrize(
    "text",
    [
        "Queued for the next turn. (1 queued) ",
        "queued for the next turn. (1 queued)",
        "Queued for the next turn. (many queued)",
        "Redirected the active turn with your correction. And more.",
        "The agent said: Redirected the active turn with your correction.",
        "Queued",
    ],
)
def test_a_text_that_only_reads_like_one_is_a_text(text: str) -> None:
    """R10: the whole text or nothing; an answer is never searched for meaning."""
    talk = open_one()
    talk.agent(chunk(text), ended(1))

    assert [text, (1, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("command", ["/compact", "/help"])
def test_a_receipt_is_one_for_a_command_too(command: str) -> None:
    """R10: "for every prompt, commands too"."""
    talk = open_one(idle)
    talk.client(prompt(1, command))
    forget(talk)
    talk.agent(chunk(QUEUED), BARE)
    talk.wait(1.0)

    assert [] == talk.seen()


def test_a_model_that_says_the_sentence_is_believed() -> None:
    """R10: with usage in the result the text was the model's, and it is shown, in order."""
    talk = open_one()
    frames = [chunk(QUEUED), usage(), ended(1)]
    talk.agent(*frames)

    assert frames == talk.seen()
    assert "idle" == talk.bridge.sessions["s1"].phase.value


def test_other_work_around_a_receipt_changes_nothing() -> None:
    """R10, S16.5: "whatever else came between"."""
    talk = open_one()
    talk.agent(chunk("of the invisible turn"), chunk(QUEUED), tool(), usage(), BARE)

    assert ["of the invisible turn", "tool_call", "usage_update"] == kinds(talk.seen())
    assert "held" == talk.bridge.sessions["s1"].phase.value


def test_an_answer_with_more_than_a_stop_reason_is_no_receipt() -> None:
    """R10: only a bare answer; and an error is an error."""
    talk = open_one()
    talk.agent(chunk(QUEUED), error(1, -32000))

    assert [QUEUED, (1, -32000)] == kinds(talk.seen())


def test_a_receipt_text_where_no_prompt_is_open_is_shown_and_is_no_work() -> None:
    """R10, design "work": another surface's receipt opens no turn of ours."""
    talk = open_one(idle)
    talk.agent(chunk(QUEUED))

    assert [QUEUED] == kinds(talk.seen())
    assert "idle" == talk.bridge.sessions["s1"].phase.value


def test_the_texts_are_the_profile_s() -> None:
    """Configuration adds sentences; an agent without any gets no second look."""
    own = evolve(agent_named("generic"), receipts_redirected=(r"Got it: .*",))
    talk = Talk(own)
    running(talk)
    talk.agent(chunk("Got it: one"), BARE)
    talk.wait(1.0)

    assert [] == talk.seen()
    other = Talk("generic")
    running(other)
    other.agent(chunk(QUEUED))
    assert [QUEUED] == kinds(other.seen())


# -- the hold ---------------------------------------------------------------------------------
def test_every_later_frame_of_the_session_is_held_and_goes_on_in_order() -> None:
    """R10, I6: updates, questions, notices, answers to other requests."""
    talk = open_one()
    talk.client(request("m", "session/set_mode", {"sessionId": "s1", "modeId": "x"}))
    frames = [
        chunk(QUEUED),
        chunk("b"),
        permission(7),
        notify("_hermes/process", {"sessionId": "s1"}),
        answer("m", {}),
        usage(),
    ]
    talk.agent(*frames)

    assert [] == talk.seen()
    talk.agent(BARE)
    assert frames[1:] == talk.seen()


def test_other_sessions_are_not_held() -> None:
    """R10: "of that session"; and what names no session passes."""
    talk = open_one()
    talk.new("s2")
    forget(talk)
    frames = [chunk("x", "s2"), notify("_vendor/news", {})]
    talk.agent(chunk(QUEUED), *frames)

    assert frames == talk.seen()


def test_the_hold_lasts_a_quarter_of_a_second_at_most() -> None:
    """R10: a model that says the sentence and thinks must not look dead."""
    talk = open_one()
    frames = [chunk(QUEUED), usage()]
    talk.agent(*frames)
    talk.wait(0.24)

    assert [] == talk.seen()
    talk.wait(0.01)
    assert frames == talk.seen()


def test_a_receipt_whose_answer_comes_late_is_one_all_the_same() -> None:
    """R10: the text has been shown by then; the answer is still none."""
    talk = open_one(wait_notice=False)
    talk.agent(chunk(QUEUED))
    talk.wait(10.0)
    talk.agent(BARE)
    talk.wait(1.0)

    assert [QUEUED] == kinds(talk.seen())
    assert "held" == talk.bridge.sessions["s1"].phase.value
    assert 0 == talk.count("empty_answer_held")


def test_a_receipt_text_is_no_work_of_the_prompt() -> None:
    """Design, "work": shown after the hold, it still proves no turn."""
    talk = open_one()
    talk.agent(chunk(QUEUED))
    talk.wait(1.0)

    assert "started" not in [one.state for one in talk.persists]


def test_an_answer_to_another_prompt_ends_the_hold() -> None:
    """R10, I6: what came before that answer is written before it."""
    talk = open_one(working)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(1))

    assert [QUEUED, (1, "end_turn")] == kinds(talk.seen())


def test_an_agent_that_dies_over_the_hold_has_said_what_it_said() -> None:
    """R22, I6: updates and answers go on; a question of a dead agent is not asked any more."""
    talk = open_one()
    talk.client(request("m", "session/set_mode", {"sessionId": "s1", "modeId": "x"}))
    news = notify("_hermes/process", {"sessionId": "s1"})
    talk.agent(chunk(QUEUED), permission(7), chunk("b"), news, answer("m", {}))
    talk.die()

    assert [QUEUED, "b", "_hermes/process", ("m", "ok"), (1, "agent-exited")] == kinds(talk.seen())


def test_a_receipt_text_behind_the_answer_that_it_belongs_to_counts_too() -> None:
    """R10: since the prompt was written, whatever the order; the answer is held as empty then."""
    talk = open_one()
    talk.agent(BARE)
    talk.wait(0.3)
    talk.agent(chunk(QUEUED))
    talk.wait(60.0)

    assert (1, "end_turn") not in kinds(talk.seen())
    talk.agent(echo("one"), chunk("b"), usage())
    talk.wait(1.0)
    assert ["one", "b", "usage_update", (1, "end_turn")] == kinds(talk.seen())


def test_a_late_receipt_can_be_the_evidence_of_a_wedge() -> None:
    """R24: the prompt was written after a cancel that no turn has answered with a result."""
    talk = open_one(working)
    talk.client(cancel())
    talk.agent(error(1, -32000, "broke"))
    talk.wait(0.1)
    talk.client(prompt(2, "two"))
    talk.agent(ended(2, usage=False), chunk(QUEUED))

    assert "wedged" == talk.bridge.sessions["s1"].phase.value
    assert (0, 1) == (talk.bridge.running, talk.count("prompt_taken_back"))


# -- what it binds to -------------------------------------------------------------------------
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


def test_after_another_message_s_echo_the_next_prompt_waits_and_goes() -> None:
    """I10: a held session whose last prompt has ended is not held for ever."""
    talk = open_one(joined)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("reaction"), echo("another message"), chunk("its answer"))
    talk.wait(59.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["two"] == texts(talk.got())


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
