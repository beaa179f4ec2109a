"""The Codeg profile, rule by rule: what this client can stand, and what it must not see.

Sources: `codeg.md` sections 4, 5, 8 and 10, read from Codeg's source; design section 7.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, obey, set_mode
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    dumps,
    ended,
    notify,
    prompt,
    tool,
    tool_update,
    update,
    usage,
)


def codeg(place: str = "idle", agent: str = "hermes", **policy: Any) -> Talk:
    talk = Talk(agent, "codeg", **policy)
    reach.PLACES[place][1](talk)
    return talk


def times(
    talk: Talk, frames: list[Json], until_s: float, step_s: float = 0.01
) -> list[tuple[float, Any]]:
    """Let the agent write `frames`, then time pass; (seconds since, what the client got)."""
    begun = talk.now
    talk.agent(*frames)
    told: list[tuple[float, Any]] = []
    while talk.now - begun < until_s:
        told += [(round(talk.now - begun, 2), kind) for kind in kinds(talk.seen())]
        talk.wait(step_s)
    return told


# -- the gap before a response ------------------------------------------------------------------
def test_a_response_keeps_a_tenth_of_a_second_from_the_last_update() -> None:
    """codeg.md 0.4: its loop takes the response first at random, and drops the last words."""
    told = times(codeg("working"), [chunk("b"), ended(1)], 0.3)

    assert [(0.0, "b"), (0.1, (1, "end_turn"))] == told


def test_a_response_long_after_the_last_update_goes_at_once() -> None:
    talk = codeg("working")

    assert [(0.0, (1, "end_turn"))] == times(talk, [ended(1)], 0.3)


def test_any_update_counts_for_the_gap() -> None:
    """A usage update is in the same channel as a chunk."""
    told = times(codeg("working"), [usage(), ended(1)], 0.3)

    assert (0.1, (1, "end_turn")) == told[-1]


def test_an_update_within_the_gap_stretches_it() -> None:
    """Hermes' title comes right behind its answer (tape simple-turn)."""
    talk = codeg("working")
    talk.agent(chunk("b"), ended(1))
    talk.wait(0.06)
    told = times(talk, [update("session_info_update", title="t")], 0.3)

    assert [(0.0, "b"), (0.0, "session_info_update"), (0.1, (1, "end_turn"))] == told


def test_the_stretching_is_bounded() -> None:
    """I9: `answer_gap_max`, one second, however much the agent says about the session."""
    talk = codeg("working")
    talk.agent(chunk("b"), ended(1))
    begun = talk.now
    answered_s = 0.0
    for _ in range(200):
        talk.wait(0.01)
        talk.agent(usage())
        if (1, "end_turn") in kinds(talk.seen()):
            answered_s = talk.now - begun
            break

    assert answered_s == pytest.approx(1.0, abs=0.02)


def test_the_next_prompt_does_not_overtake_the_response() -> None:
    """I5, I6: what the next turn says must not come before this one's answer."""
    talk = codeg("working")
    talk.agent(chunk("b"), ended(1))
    talk.client(prompt(2, "two"))
    early = talk.got()

    talk.wait(0.2)
    talk.agent(chunk("c"))

    assert [] == early
    assert ["b", (1, "end_turn"), "c"] == kinds(talk.seen())


def test_responses_that_wait_together_go_together_and_in_order() -> None:
    talk = codeg("working")
    talk.client(prompt(2, "two"), prompt(3, "three"))
    talk.agent(chunk("b"))
    forget(talk)

    talk.client(cancel())
    told = times(talk, [], 0.3)

    assert [(0.1, (2, "cancelled")), (0.1, (3, "cancelled"))] == told


def test_other_requests_are_answered_at_once() -> None:
    """codeg.md 4: it awaits settings inside its turn loop; each moment freezes it."""
    talk = codeg("working")
    talk.client(set_mode("m"))

    assert [(0.0, "b"), (0.0, ("m", "ok"))] == times(talk, [chunk("b"), answer("m", {})], 0.2)


# -- at least one visible update ----------------------------------------------------------------
@pytest.mark.parametrize("before", [
    [],
    [usage()],
    [update("plan", entries=[])],
    [update("session_info_update", title="t")],
    [update("user_message_chunk", content={"type": "text", "text": "u"})],
], ids=["nothing", "usage", "plan", "title", "echo"])  # fmt: skip
def test_an_end_of_turn_without_output_gets_one_word(before: list[Json]) -> None:
    """codeg.md 4: otherwise "ended the turn without producing any response", and Cancelled."""
    talk = codeg("running")

    talk.agent(*before, ended(1))
    talk.wait(0.2)

    told = talk.seen()
    assert (1, "end_turn") == kinds(told)[-1]
    said = [line for line in told if "update" in line.get("params", {})][-1]["params"]["update"]
    assert "agent_thought_chunk" == said["sessionUpdate"]
    assert "without any output" in said["content"]["text"]


@pytest.mark.parametrize("output", [
    chunk("a"),
    chunk(""),
    update("agent_thought_chunk", content={"type": "text", "text": "t"}),
    tool("t1"),
    tool_update("t1"),
], ids=["text", "empty text", "thought", "tool", "tool update"])  # fmt: skip
def test_with_any_output_nothing_is_added(output: Json) -> None:
    talk = codeg("running")

    talk.agent(output, ended(1))
    talk.wait(0.2)

    assert 2 == len(talk.seen())


@pytest.mark.parametrize("stop", ["cancelled", "refusal", "max_tokens"])
def test_only_an_end_of_turn_needs_it(stop: str) -> None:
    talk = codeg("cancelling")

    talk.agent(ended(1, stop))
    talk.wait(0.2)

    assert [(1, stop)] == kinds(talk.seen())


def test_each_prompt_needs_its_own() -> None:
    """What was shown for one turn is no output of the next."""
    talk = codeg("working")
    talk.agent(ended(1))
    talk.client(prompt(2, "two"))
    talk.wait(0.2)
    forget(talk)

    talk.agent(ended(2))
    talk.wait(0.2)

    assert 2 == len(talk.seen())


# -- content outside an open prompt -------------------------------------------------------------
def test_late_content_is_kept_and_put_in_front_of_the_next_prompts_stream() -> None:
    """codeg.md 4, 8: outside a prompt it is dropped or becomes a ghost; it is real work."""
    talk = codeg()
    talk.agent(chunk("late 1"), tool("t1"), chunk("late 2"))
    early = talk.seen()

    talk.client(prompt(1, "one"))

    assert [] == early
    assert ["late 1", "tool_call", "late 2"] == kinds(talk.seen())
    assert 3 == talk.count("late_content_kept")


def test_it_is_shown_once() -> None:
    talk = codeg()
    talk.agent(chunk("late"))
    talk.client(prompt(1, "one"))
    talk.wait(10.0)
    talk.agent(chunk("a"), ended(1))
    talk.wait(1.0)
    forget(talk)

    talk.client(prompt(2, "two"))

    assert [] == talk.seen()


def test_what_is_no_content_is_shown_at_any_time() -> None:
    """codeg.md 4: titles, usage, commands and modes apply outside a prompt too."""
    talk = codeg()
    lines = [usage(), update("session_info_update", title="t"), update("_new", x=1)]

    talk.agent(*lines)

    assert ["usage_update", "session_info_update", "_new"] == kinds(talk.seen())


def test_the_kept_content_is_bounded_by_frames_and_the_oldest_go() -> None:
    """I6, I9: `kept_frames_max`; the number of the lost ones is counted."""
    talk = codeg(kept_frames_max=3)
    talk.agent(*(chunk(f"{number}") for number in range(5)))

    talk.client(prompt(1, "one"))

    assert ["2", "3", "4"] == kinds(talk.seen())
    assert 2 == talk.count("kept_frames_dropped")


def test_the_kept_content_is_bounded_by_bytes() -> None:
    """I9: `kept_bytes_max`."""
    size = len(dumps(chunk("xx")))
    talk = codeg(kept_bytes_max=2 * size)
    talk.agent(chunk("aa"), chunk("bb"), chunk("cc"))

    talk.client(prompt(1, "one"))

    assert ["bb", "cc"] == kinds(talk.seen())


def test_a_frame_over_the_whole_limit_is_dropped_and_counted() -> None:
    talk = codeg(kept_bytes_max=10)

    talk.agent(chunk("long enough"))
    talk.client(prompt(1, "one"))

    assert ([], 1) == (talk.seen(), talk.count("kept_frames_dropped"))


def test_trailing_content_while_the_response_waits_is_shown_with_its_turn() -> None:
    """The prompt is still open for this client: its tail needs not to wait for the next."""
    talk = codeg("working")
    talk.agent(chunk("b"), ended(1), chunk("tail"))
    talk.wait(0.3)

    assert ["b", "tail", (1, "end_turn")] == kinds(talk.seen())


def test_late_content_is_translated_when_it_is_kept() -> None:
    """R25: it is the client's session id that it will be read under."""
    talk = Talk("generic", "codeg")
    talk.open()
    talk.die()
    talk.client(prompt(0, "zero"))
    obey(talk)
    talk.agent(chunk("a", "new-2"), ended(0))
    talk.wait(1.0)
    talk.agent(chunk("late", "new-2"))
    forget(talk)

    talk.client(prompt(1, "one"))

    assert ["s1"] == [line["params"]["sessionId"] for line in talk.seen()]


def test_taking_back_an_answered_prompt_that_waits_out_its_gap_does_nothing() -> None:
    """R20: for the agent it is over; a cancel now would be a stray one."""
    talk = codeg("working")
    talk.agent(chunk("b"), ended(1))

    talk.client(notify("$/cancel_request", {"requestId": 1}))
    talk.wait(0.2)

    assert [] == talk.got()
    assert ["b", (1, "end_turn")] == kinds(talk.seen())


def test_what_is_shown_while_a_prompt_waits_is_output_for_it() -> None:
    """To this client it is one turn from its prompt on; a notice would only confuse."""
    talk = codeg("ownerless")
    talk.client(prompt(1, "one"))
    talk.agent(chunk("by itself"), usage())
    talk.wait(1.5)
    talk.agent(ended(1))
    talk.wait(0.2)

    told = [kind for kind in kinds(talk.seen()) if kind != "usage_update"]
    assert "by itself" in told
    assert [] == [kind for kind in told if "without any output" in str(kind)]
    assert (1, "end_turn") == told[-1]
