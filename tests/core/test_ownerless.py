"""Work that no request of ours owns: segments, markers, what trails an answer (R9, R13)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.reach import at, forget, joined, kinds, tags, texts
from tests.core.script import (
    QUEUED,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    notify,
    permission,
    prompt,
    request,
    tool,
    tool_update,
    update,
    usage,
)


def phase(talk: Talk) -> str:
    return talk.bridge.sessions["s1"].phase.value


def status(type_: Any) -> Json:
    """Codex' thread status, as in tape codex-acp-2.6.0/background-task."""
    return update("session_info_update", _meta={"codex": {"threadStatus": {"type": type_}}})


# -- R9: an ownerless turn ----------------------------------------------------------------------
@pytest.mark.parametrize("work", [chunk("x"), tool(), echo("x"), update("plan", entries=[])])
def test_the_agent_s_own_work_opens_an_ownerless_turn_and_is_shown(work: Json) -> None:
    """S8.3: one record, nothing is asked of the client, and nothing is hidden from it."""
    talk = at("idle")
    talk.agent(work, chunk("more"), chunk("and more"))

    assert "ownerless" == phase(talk)
    assert [work, chunk("more"), chunk("and more")] == talk.seen()
    assert 1 == talk.count("ownerless_turn")


@pytest.mark.parametrize(
    ("agent", "marker", "after_s"),
    [
        ("hermes", usage(), 1.0),
        ("claude", usage(cost={"amount": 1, "currency": "USD"}), 1.0),
        ("codex", status("idle"), 0.0),
        ("codex", status("systemError"), 0.0),
    ],
)
def test_an_ownerless_turn_is_over_at_its_agent_s_marker(
    agent: str, marker: Json, after_s: float
) -> None:
    """R9: what the profile names, and the silence that it needs."""
    talk = at("ownerless", agent)
    talk.wait(2.0)
    talk.agent(marker)
    talk.wait(after_s - 0.01 if after_s else 0.0)

    assert ("ownerless" if after_s else "idle") == phase(talk)
    talk.wait(0.01)
    assert "idle" == phase(talk)


@pytest.mark.parametrize(
    ("agent", "frame"),
    [
        ("generic", usage(cost={"amount": 1, "currency": "USD"})),
        ("generic", status("idle")),
        ("hermes", status("idle")),
        ("claude", usage()),
        ("claude", usage(cost=None)),
        ("claude", status("idle")),
        ("codex", usage()),
        ("codex", status("active")),
        ("codex", status(None)),
        ("codex", update("session_info_update", _meta={"codex": "x"})),
        ("codex", update("session_info_update", title="t")),
        ("hermes", update("current_mode_update", currentModeId="m")),
    ],
)
def test_what_is_no_marker_of_that_agent_ends_nothing(agent: str, frame: Json) -> None:
    """R9: each profile names its own."""
    talk = at("ownerless", agent)
    talk.agent(frame)
    talk.wait(4.0)

    assert "ownerless" == phase(talk)


def test_hermes_usage_counts_only_after_content() -> None:
    """R9: "after content": a usage_update that comes first belongs to what was before."""
    talk = at("idle")
    talk.agent(echo("queued text"), usage())
    talk.wait(10.0)

    assert "ownerless" == phase(talk)


def test_a_new_segment_s_usage_counts_only_after_its_own_content() -> None:
    """R9: "content" is that of the segment, not of the turn before the echo."""
    talk = at("ownerless")
    talk.agent(echo("next"), usage())
    talk.wait(10.0)

    assert "ownerless" == phase(talk)


def test_work_behind_a_marker_unmarks() -> None:
    """R9: "then 1 s without work": Hermes writes usage in the middle of a turn, too."""
    talk = at("ownerless")
    talk.agent(usage())
    talk.wait(0.9)
    talk.agent(chunk("goes on"))
    talk.wait(30.0)

    assert "ownerless" == phase(talk)
    talk.agent(usage())
    talk.wait(1.0)
    assert "idle" == phase(talk)


def test_the_next_echo_unmarks_too() -> None:
    """R9: another segment has begun in that second."""
    talk = at("ownerless")
    talk.agent(usage())
    talk.wait(0.9)
    talk.agent(echo("next"))
    talk.wait(30.0)

    assert "ownerless" == phase(talk)


def test_two_sessions_have_turns_of_their_own() -> None:
    """I6, States: sessions never wait for each other."""
    talk = at("idle")
    talk.new("s2")
    talk.wait(1.0)
    talk.agent(chunk("x", "s2"))
    forget(talk)
    talk.client(prompt(1, "one"), prompt(2, "two", "s2"))

    assert ["one"] == texts(talk.got())


# -- R9: after an inference ---------------------------------------------------------------------
def inferred(talk: Talk) -> None:
    """Prompt 1 was answered because it was quiet for a minute."""
    joined(talk)
    talk.agent(chunk("b"))
    talk.wait(60.0)
    assert ["inferred"] == tags(talk.seen())
    talk.wait(1.0)
    forget(talk)


@pytest.mark.parametrize("late", [chunk("late"), tool(), echo("x")])
def test_work_after_an_inference_is_shown_counted_and_doubles_the_quiet(late: Json) -> None:
    """R9: the agent needed longer than we waited; this session waits longer from now on."""
    talk = Talk("hermes")
    inferred(talk)
    talk.agent(late)

    assert [late] == talk.seen()
    assert 1 == talk.count("late_after_inferred")
    talk.wait(119.9)
    assert "ownerless" == phase(talk) or late["params"]["update"].get("toolCallId")
    talk.agent(tool_update())
    talk.wait(120.0)
    assert "idle" == phase(talk)


def test_late_work_is_counted_once() -> None:
    talk = Talk("hermes")
    inferred(talk)
    talk.agent(chunk("late"), chunk("and later"))

    assert 1 == talk.count("late_after_inferred")
    assert 2 == talk.bridge.sessions["s1"].quiet_factor


def test_work_behind_the_next_prompt_is_that_prompt_s() -> None:
    """R9: "no prompt has been written since": after a write nobody can tell."""
    talk = Talk("hermes")
    inferred(talk)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("b"), ended(2))

    assert 0 == talk.count("late_after_inferred")
    assert 1 == talk.bridge.sessions["s1"].quiet_factor


def test_work_after_an_answer_of_the_agent_doubles_nothing() -> None:
    """R9: only a wrong guess of ours is a reason to wait longer."""
    talk = at("idle")
    talk.agent(chunk("own work"))

    assert 0 == talk.count("late_after_inferred")


# -- R13: trailing ----------------------------------------------------------------------------
def just_answered(agent: str = "hermes", **chunks: Any) -> Talk:
    talk = at("running", agent)
    talk.agent(chunk("a", **chunks), ended(1))
    forget(talk)
    return talk


@pytest.mark.parametrize(("after_s", "then"), [(0.25, "trailing"), (0.26, "ownerless")])
@pytest.mark.parametrize("variant", ["agent_message_chunk", "agent_thought_chunk"])
def test_a_chunk_within_a_quarter_of_a_second_trails_the_answer(
    variant: str, after_s: float, then: str
) -> None:
    """R13, case 71: the tail of an answer is no turn of its own."""
    talk = just_answered()
    talk.wait(after_s)
    talk.agent(update(variant, content={"type": "text", "text": "tail"}))

    assert then == phase(talk)
    assert ["tail"] == kinds(talk.seen())


def test_trailing_is_over_after_a_quarter_of_a_second_without_work() -> None:
    """R13: and the prompt that waited for that goes."""
    talk = just_answered()
    talk.agent(chunk("tail"))
    talk.wait(0.2)
    talk.agent(chunk("tail"))
    talk.client(prompt(2, "two"))
    talk.wait(0.24)

    assert [] == texts(talk.got())
    talk.wait(0.01)
    assert ["two"] == texts(talk.got())


def test_housekeeping_does_not_prolong_a_tail() -> None:
    """R13: "without work": usage and titles come after every turn of Hermes."""
    talk = just_answered()
    talk.agent(chunk("tail"))
    talk.wait(0.2)
    talk.agent(usage(), update("session_info_update", title="t"))
    talk.wait(0.05)

    assert "idle" == phase(talk)


@pytest.mark.parametrize(("eighths", "then"), [(16, "trailing"), (17, "ownerless")])
def test_a_tail_of_more_than_two_seconds_is_a_turn(eighths: int, then: str) -> None:
    """R13: then it waits as for any ownerless turn."""
    talk = just_answered()
    talk.agent(chunk("tail"))
    for _ in range(eighths):
        talk.wait(0.125)
        talk.agent(chunk("tail"))

    assert then == phase(talk)


@pytest.mark.parametrize(
    "frame",
    [
        tool("new"),
        update("plan", entries=[]),
        permission(7),
        echo("x"),
        chunk("x", messageId="another"),
    ],
)
@pytest.mark.parametrize("trails", [True, False])
def test_what_only_a_new_turn_does_is_a_turn(frame: Json, trails: bool) -> None:
    """R13: a new call, plan, question, echo, or a message that the answered turn did not use."""
    talk = just_answered(messageId="m1")
    if trails:
        talk.agent(chunk("tail", messageId="m1"))
        assert "trailing" == phase(talk)
    talk.agent(frame)

    assert "ownerless" == phase(talk)


def test_a_prompt_that_waits_when_a_tail_becomes_a_turn_goes_by_its_end() -> None:
    """R13, R5: its wait goes on, with a limit."""
    talk = just_answered()
    talk.agent(chunk("tail"))
    talk.client(prompt(2, "two"))
    talk.agent(tool(kind="read"))
    talk.wait(300.0)

    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize(
    "frame", [tool_update("old"), chunk(""), usage(), chunk(QUEUED), tool("hermes-subagent:1")]
)
def test_late_news_of_an_ended_turn_open_nothing(frame: Json) -> None:
    """Design, "work": updates of a call of an ended turn, snapshots, notices."""
    talk = at("running")
    talk.agent(tool("old"), ended(1))
    talk.wait(1.0)
    forget(talk)
    talk.agent(frame)

    assert "idle" == phase(talk)
    assert [frame] == talk.seen()


def test_updates_of_a_session_that_nobody_opened_pass() -> None:
    """I6: another surface's session is not ours to judge; its frames are not lost either."""
    talk = at("idle")
    frames = [chunk("x", "unknown"), notify("session/update", {"update": {}})]
    talk.agent(*frames)

    assert frames == talk.seen()
    assert ["s1"] == list(talk.bridge.sessions)


def test_a_silent_turn_that_is_cancelled_gets_its_time_to_stop() -> None:
    """R18: `wait_quiet` counts from the cancel where the silence is older than that.

    A prompt right behind the cancel would meet the agent while it still stops.
    """
    talk = at("ownerless")
    talk.wait(30.0)
    talk.client(cancel(), prompt(2, "two"))
    talk.wait(4.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["two"] == texts(talk.got())


def test_a_prompt_on_its_way_waits_where_a_cancelled_one_runs_after_all() -> None:
    """R19, I4: its bytes have not gone; behind the ghost it goes, once."""
    talk = at("kept")
    talk.wait(1.0)
    talk.client(cancel())
    talk.agent(chunk("other"), usage())
    talk.wait(5.0)
    forget(talk)
    talk.disk = False
    talk.client(prompt(2, "two"))
    talk.agent(echo("one"))
    talk.disk = True
    talk.persisted()
    talk.wait(0.1)

    assert ["session/cancel"] == kinds(talk.got())
    talk.agent(chunk("of the ghost"), usage())
    talk.wait(1.0)
    assert ["two"] == texts(talk.got())


def test_the_clocks_of_a_closed_session_do_not_wake_one_of_the_same_name() -> None:
    """R20, R25: a client may load what it closed."""
    talk = at("ownerless")
    talk.agent(usage())
    talk.client(request("c", "session/close", {"sessionId": "s1"}))
    talk.agent(answer("c", {}))
    forget(talk)
    talk.new("s1")
    talk.wait(0.5)
    talk.agent(chunk("work"))
    talk.wait(10.0)

    assert "ownerless" == phase(talk)
