"""Every limit of a queue, a retry and a wait: at the number and one past it (R2, R7, I9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.reach import forget, idle, kinds, lost, running, texts, turn, working
from tests.core.script import (
    QUEUED,
    Json,
    Talk,
    cancel,
    chunk,
    dumps,
    echo,
    ended,
    error,
    permission,
    prompt,
    request,
    usage,
)

BUSY = {"reason": "session_busy"}


def held(**policy: Any) -> Talk:
    """A session with a running turn, prompt 1."""
    talk = Talk("hermes", **policy)
    working(talk)
    return talk


def refused(talk: Talk) -> list[Any]:
    return [one for one in kinds(talk.seen()) if isinstance(one, tuple)]


def sized(id_: int, size: int, session: str = "s1") -> bytes:
    """A prompt whose line has exactly `size` bytes."""
    short = dumps(prompt(id_, "", session))
    return dumps(prompt(id_, "x" * (size - len(short)), session))


# -- R2: the queue ----------------------------------------------------------------------------
@pytest.mark.parametrize("limit", [1, 3, 64])
def test_a_queue_holds_its_number_of_prompts_and_not_one_more(limit: int) -> None:
    """R2: 64 by default; the one past it is refused in words and nothing of it is kept."""
    talk = held(**({} if limit == 64 else {"queue_prompts_max": limit}))
    talk.client(*(prompt(f"q{number}") for number in range(limit)))

    assert [] == talk.seen()
    talk.client(prompt("past"))
    assert [("past", "queue-full")] == refused(talk)
    assert limit == len(talk.bridge.sessions["s1"].queue)


def test_a_place_in_the_queue_is_free_again_when_one_has_gone() -> None:
    """R2: the limit is on what waits, not on what was ever sent."""
    talk = held(queue_prompts_max=1)
    talk.client(prompt(2, "two"))
    talk.agent(ended(1))
    talk.client(prompt(3, "three"), prompt(4, "four"))

    assert [(1, "end_turn"), (4, "queue-full")] == refused(talk)


def test_loads_count_in_the_queue_too() -> None:
    """I9: what waits among prompts is bounded with them."""
    talk = held(queue_prompts_max=2)
    load = {"sessionId": "s1", "cwd": "/w", "mcpServers": []}
    talk.client(*(request(f"l{number}", "session/load", load) for number in (1, 2, 3)))

    assert [("l3", "queue-full")] == refused(talk)


@pytest.mark.parametrize("first", [0, 150])
def test_a_session_s_queue_holds_its_bytes_and_not_one_more(first: int) -> None:
    """R2: whether the queue is empty or not."""
    talk = held(queue_bytes_max=1000)
    if first:
        talk.client(sized(2, first))
    talk.client(sized(3, 1001 - first))

    assert [(3, "queue-full")] == refused(talk)
    talk.client(sized(4, 1000 - first))
    assert [] == talk.seen()
    assert 1000 == talk.bridge.sessions["s1"].queue_bytes


def test_a_prompt_that_need_not_wait_is_not_measured_by_the_queue() -> None:
    """R1, R2: an idle session takes any prompt that the line's limit lets in."""
    talk = Talk("hermes", queue_bytes_max=100)
    idle(talk)
    talk.client(sized(1, 5000))

    assert 1 == len(talk.got())
    assert [] == talk.seen()


@pytest.mark.parametrize("size", [500, 501])
def test_all_sessions_together_hold_the_process_s_bytes_and_not_one_more(size: int) -> None:
    """R2: 256 MiB a process by default, whichever sessions they wait in."""
    talk = held(queue_total_bytes_max=1000)
    talk.new("s2")
    talk.client(prompt("other", "x", "s2"))
    forget(talk)
    talk.client(sized(2, 500), sized(3, size, "s2"))

    assert ([] if size == 500 else [(3, "queue-full")]) == refused(talk)


def test_bytes_are_given_back_however_a_prompt_leaves_the_queue() -> None:
    """I9: a limit that leaks would end in refusing everything."""
    talk = held()
    session = talk.bridge.sessions["s1"]
    talk.client(prompt(2, "two"), prompt(3, "three"))
    both = session.queue_bytes
    talk.client({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}})

    assert 0 < session.queue_bytes < both
    talk.agent(ended(1))
    assert (0, 0) == (session.queue_bytes, talk.bridge.queue_bytes)
    talk.agent(error(3, -32000, "busy", BUSY))
    assert session.queue_bytes == talk.bridge.queue_bytes > 0
    talk.client(cancel())
    assert (0, 0) == (session.queue_bytes, talk.bridge.queue_bytes)


# -- R7: refused as busy ----------------------------------------------------------------------
def attempts(talk: Talk, seconds: float) -> list[float]:
    """When the prompt was written, relative to now; each attempt is refused at once."""
    began_s, at = talk.now, []
    while talk.timers and min(talk.timers.values()) <= began_s + seconds:
        talk.wait(max(0.0, min(talk.timers.values()) - talk.now))
        if texts(talk.got()):
            at.append(round(talk.now - began_s, 3))
            talk.agent(error(1, -32000, "busy", BUSY))
    return at


def test_a_busy_refusal_is_tried_again_at_doubling_waits() -> None:
    """R7: 250 ms, doubling to 5 s; the agent that is busy for a moment costs the user nothing."""
    talk = Talk("generic")
    running(talk)
    talk.agent(error(1, -32000, "busy", BUSY))

    assert [0.25, 0.75, 1.75, 3.75, 7.75, 12.75, 17.75] == attempts(talk, 20.0)
    assert [] == refused(talk)


def test_the_attempts_end_with_the_agent_s_own_error() -> None:
    """R7: `busy_max` in all, then its error is its answer; the next prompt is tried for itself."""
    talk = Talk("generic", busy_max_s=10.0)
    running(talk)
    talk.client(prompt(2, "two"))
    talk.agent(error(1, -32000, "busy", BUSY))

    assert [0.25, 0.75, 1.75, 3.75, 7.75, 12.75] == attempts(talk, 1000.0)
    assert [(1, -32000)] == refused(talk)
    assert ["two"] == texts(talk.got())


def test_the_wait_is_jittered_by_the_shell() -> None:
    """R7: many clients of one agent must not come back in step."""
    talk = Talk("generic", busy_jitter=0.3)
    running(talk)
    talk.agent(error(1, -32000, "busy", BUSY))

    assert [(0.25, 0.3)] == [
        (one.delay_s, one.jitter) for one in talk.armed if one.key[0] == "busy"
    ]


@pytest.mark.parametrize("data", [None, "session_busy", {"reason": "other"}, {}])
def test_another_error_is_its_answer(data: Any) -> None:
    """R7: only a listed reason proves that nothing ran; English words prove nothing."""
    talk = Talk("generic")
    running(talk)
    talk.agent(error(1, -32000, "session_busy", data))

    assert [(1, -32000)] == refused(talk)


def test_a_busy_error_to_a_cancelled_prompt_is_its_answer() -> None:
    """R7, R16: what the user has stopped is not tried again."""
    talk = Talk("generic")
    running(talk)
    talk.client(cancel())
    talk.agent(error(1, -32000, "busy", BUSY))
    talk.wait(10.0)

    assert [(1, -32000)] == refused(talk)
    assert [] == texts(talk.got())


def test_a_busy_error_after_work_is_its_answer() -> None:
    """R7, I3: where something has run, the bytes are not written again."""
    talk = Talk("generic")
    working(talk)
    talk.agent(error(1, -32000, "busy", BUSY))

    assert [(1, -32000)] == refused(talk)
    talk.wait(10.0)
    assert [] == talk.got()


def test_a_wait_whose_prompt_was_taken_back_is_nobody_s() -> None:
    """R20: the clock of its back-off runs out over an empty queue."""
    talk = Talk("generic")
    running(talk)
    talk.agent(error(1, -32000, "busy", BUSY))
    talk.client({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
    talk.wait(10.0)

    assert [(1, "cancelled")] == refused(talk)
    assert [] == texts(talk.got())


def test_the_time_counts_from_the_first_refusal() -> None:
    """R7: an attempt that works ends the count; the next prompt has `busy_max` for itself."""
    talk = Talk("generic", busy_max_s=1.0)
    running(talk)
    talk.agent(error(1, -32000, "busy", BUSY))
    talk.wait(0.25)
    talk.agent(chunk("a"), ended(1))
    talk.wait(60.0)
    talk.client(prompt(2, "two"))
    talk.agent(error(2, -32000, "busy", BUSY))
    forget(talk)
    talk.wait(0.25)

    assert ["two"] == texts(talk.got())


# -- others -----------------------------------------------------------------------------------
@pytest.mark.parametrize("more", [0, 1])
def test_a_hold_keeps_its_number_of_frames_and_lets_all_go_at_one_more(more: int) -> None:
    """R10, I9: a flood behind a text that reads like a receipt ends the hold."""
    talk = Talk("hermes", hold_frames_max=3)
    running(talk)
    frames: list[Json] = [chunk(QUEUED), *(usage() for _ in range(2 + more))]
    talk.agent(*frames)

    assert (frames if more else []) == talk.seen()
    assert more == talk.count("hold_overflow")


def test_quiet_times_double_up_to_the_factor_s_limit() -> None:
    """R9, I9: each wrong inference doubles the session's quiet times, sixteenfold at most."""
    talk = Talk("hermes", quiet_factor_max=4, answer_quiet_s=10.0)
    idle(talk)
    seen = []
    for id_ in range(4):
        talk.client(prompt(id_, "x"))
        talk.agent(chunk(QUEUED), ended(id_, usage=False), echo("x"), chunk("b"))
        began_s = talk.now
        while talk.bridge.sessions["s1"].at_agent:
            talk.wait(1.0)
        seen.append(round(talk.now - began_s))
        talk.wait(1.0)
        talk.agent(chunk("late"), usage())
        talk.wait(1.0)

    assert [10, 20, 40, 40] == seen


def test_a_lost_session_s_queue_is_limited_too() -> None:
    """R2: while the agent is started again prompts wait, within the same limits."""
    talk = Talk("hermes", queue_prompts_max=2)
    lost(talk)
    talk.client(*(prompt(number) for number in (1, 2, 3)))

    assert [(3, "queue-full")] == refused(talk)


def test_limits_do_not_count_across_turns() -> None:
    """A thousand turns in a row leave nothing behind."""
    talk = Talk("hermes", queue_prompts_max=1, queue_bytes_max=400, queue_total_bytes_max=400)
    idle(talk)
    for number in range(1000):
        turn(talk, number)
    bridge = talk.bridge

    assert (0, 0, 0) == (bridge.queue_bytes, bridge.running, len(bridge.pending))
    assert (0, 0) == (len(bridge.open_ids), len(bridge.tokens))


def test_an_open_request_does_not_count_for_a_later_turn() -> None:
    """R6: a request that the client answers late stops no clock but its own turn's."""
    talk = Talk("hermes")
    working(talk)
    talk.agent(permission(7), ended(1))
    talk.wait(1.0)
    talk.agent(chunk("own"))
    forget(talk)
    talk.agent(permission(8))
    talk.client({"jsonrpc": "2.0", "id": 7, "result": {}})
    talk.wait(600.0)

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value


def test_a_notification_past_the_limit_is_named() -> None:
    """I6, I9: there is nobody to answer, so the log says what was lost."""
    talk = Talk("generic", agent_starts=False, waiting_frames_max=2)

    talk.client(*({"jsonrpc": "2.0", "method": "x/y", "params": {}} for _ in range(3)))

    assert 1 == talk.count("notification_dropped")


def test_what_a_cancel_ended_is_not_kept() -> None:
    """I9, R20: its bytes count in no queue, so `cancel_eof` after the cancel they are gone."""
    talk = held()
    talk.client(prompt(2, "two"), cancel())
    session = talk.bridge.sessions["s1"]
    talk.wait(0.9)
    at_first = len(session.dropped)
    talk.wait(0.2)

    assert 1 == at_first
    assert [] == session.dropped
