"""When a cancel goes to the agent, and what keeps away from it (R16, R18)."""

from __future__ import annotations

import pytest

from acpbridge.core.bridge import step
from acpbridge.core.effects import ArmTimer, ToAgent
from acpbridge.core.events import ClientSent
from acpbridge.wire.frame import Frame, peek
from tests.core import reach
from tests.core.reach import kinds, set_mode, texts
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    dumps,
    ended,
    permission,
    prompt,
    tool,
    usage,
)


# -- when it goes (Hermes) ----------------------------------------------------------------------
def test_a_cancel_right_behind_its_prompt_waits_for_a_second() -> None:
    """R16: Hermes wedges on a cancel in the same read as its prompt (tape cancel-immediately).

    One before the turn's stream has begun lets that stream run into the next turn (measured).
    """
    talk = Talk("hermes")
    reach.idle(talk)

    talk.client(prompt(1, "one"), cancel())
    talk.wait(0.999)

    assert ["session/prompt"] == kinds(talk.got())
    talk.wait(0.002)
    assert ["session/cancel"] == kinds(talk.got())


@pytest.mark.parametrize(
    "work", [chunk("a"), tool("t1"), permission(0)], ids=["chunk", "tool", "ask"]
)
def test_the_first_work_lets_the_cancel_go(work: Json) -> None:
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(prompt(1, "one"), cancel())
    talk.wait(0.05)
    talk.got()

    talk.agent(work)

    assert "session/cancel" in kinds(talk.got())


@pytest.mark.parametrize("nothing", [usage(), chunk("")], ids=["usage", "empty chunk"])
def test_what_is_no_work_does_not_let_it_go(nothing: Json) -> None:
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(prompt(1, "one"), cancel())
    talk.wait(0.05)
    talk.got()

    talk.agent(nothing)

    assert [] == talk.got()


def test_other_agents_get_the_cancel_at_once() -> None:
    talk = Talk("claude")
    talk.open()

    talk.client(prompt(1, "one"), cancel())

    assert ["session/prompt", "session/cancel"] == kinds(talk.got())


def test_no_other_frame_of_the_session_is_near_a_cancel() -> None:
    """R16: 20 ms on both sides; Hermes deadlocks on two frames of a session in one read."""
    talk = Talk("hermes")
    reach.working(talk)

    talk.client(set_mode("m1"))
    talk.wait(0.005)
    talk.client(cancel())
    first = kinds(talk.got())
    talk.wait(0.016)
    second = kinds(talk.got())
    talk.client(set_mode("m2", "x"), set_mode("m3", "y"))
    talk.wait(0.018)
    third = kinds(talk.got())
    talk.wait(0.003)

    assert ["session/set_mode"] == first
    assert ["session/cancel"] == second
    assert [] == third
    assert ["m2", "m3"] == [line["id"] for line in talk.got()]


def test_frames_of_other_sessions_do_not_wait_for_the_gap() -> None:
    talk = Talk("hermes")
    reach.working(talk)
    talk.new("s2")
    reach.forget(talk)

    talk.client(cancel("s1"), set_mode("m", "x", "s2"))
    talk.wait(0.02)

    assert {"session/set_mode", "session/cancel"} == set(kinds(talk.got()))


def test_the_next_prompt_keeps_the_gap_too() -> None:
    """The turn may end within 20 ms of the cancel: the queue must not jump at it."""
    talk = Talk("hermes")
    reach.working(talk)
    talk.client(cancel(), prompt(2, "two"))
    talk.got()

    talk.agent(ended(1, "cancelled"))
    talk.wait(0.019)
    early = talk.got()
    talk.wait(0.002)

    assert [] == early
    assert ["two"] == texts(talk.got())


def test_a_held_back_cancel_is_dropped_when_its_turn_is_answered() -> None:
    """R16: sent now it would hit the next turn (tape cancel-just-after-end)."""
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(prompt(1, "one"), cancel(), prompt(2, "two"))

    talk.agent(ended(1))
    talk.wait(1.0)

    assert [(1, "end_turn")] == [kind for kind in kinds(talk.seen()) if kind[0] == 1]
    assert ["session/prompt", "session/prompt"] == kinds(talk.got())


def test_the_settle_timer_is_armed_before_the_cancel_is_written() -> None:
    """R18: a write that blocks must not escape it."""
    talk = Talk("generic")
    reach.working(talk)
    line = dumps(cancel())
    frame = peek(line, strict=True)
    assert isinstance(frame, Frame)

    effects = step(talk.bridge, talk.now, ClientSent(frame))

    arms = [at for at, one in enumerate(effects) if one == ArmTimer(("settle", "s1"), 30.0)]
    assert 1 == len(arms)
    assert arms[0] < effects.index(ToAgent(line))


def test_a_cancel_while_the_disk_works_leaves_nothing_to_send() -> None:
    """R16, I8: the intent is on its way to the disk, the bytes are not on the wire yet."""
    talk = Talk("generic")
    reach.sending(talk)

    talk.client(cancel())
    talk.persisted()
    talk.wait(60.0)

    assert [] == talk.got()
    assert [(1, "cancelled")] == kinds(talk.seen())
    assert [("cancelled", 2)] == [
        (one.state, one.prompt) for one in talk.persists if one.state == "cancelled"
    ]


def test_a_cancel_crosses_an_agent_that_answers_its_requests_late() -> None:
    """An answer to a client's other request is no end of the turn."""
    talk = Talk("generic")
    reach.working(talk)
    talk.client(set_mode("m"), cancel())

    talk.agent(answer("m", {}))

    assert "cancelling" == talk.bridge.sessions["s1"].phase.value
