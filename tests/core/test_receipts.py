"""The agent's "I have your message" is no answer, and nobody sees it (R10)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.profiles import agent_named
from tests.core.as_written import AS_WRITTEN
from tests.core.reach import forget, idle, kinds, running, working
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
HERMES = agent_named("hermes")
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
    assert (1, 1) == (talk.count("receipt_text_dropped"), talk.count("receipt"))
    assert "held" == talk.bridge.sessions["s1"].phase.value
    started = [one.reason for one in talk.persists if one.state == "started"]
    assert [f"receipt: {HERMES.receipt_kind(text)}"] == started
    assert 0 == talk.bridge.running


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


@pytest.mark.parametrize("usage_told", [True, False])
def test_an_answer_to_another_prompt_ends_the_hold(usage_told: bool) -> None:
    """R10, I6: what came before that answer is written before it, be it bare or not."""
    talk = open_one(working)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(1, usage=usage_told))

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
    assert (0, 1) == (talk.bridge.running, talk.count("receipt_text_dropped"))
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


def test_what_the_agent_takes_back_does_not_overtake_what_is_held() -> None:
    """I6: a `$/cancel_request` names no session, and its request waits behind a receipt text."""
    talk = open_one(working)
    gone = notify("$/cancel_request", {"requestId": 9})

    talk.agent(chunk(QUEUED), permission(9), gone, notify("$/cancel_request", {}))
    at_once = talk.seen()
    talk.wait(1.0)

    assert [notify("$/cancel_request", {})] == at_once
    assert [chunk(QUEUED), permission(9), gone] == talk.seen()
