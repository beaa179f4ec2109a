"""Close, delete and fork; and a cancel before the client leaves (R20)."""

from __future__ import annotations

import pytest

from acpbridge.core.events import TimerFired
from tests.core import reach
from tests.core.reach import busy, forget, in_session, kinds, obey, set_mode, texts
from tests.core.script import (
    Talk,
    answer,
    cancel,
    chunk,
    ended,
    error,
    new_result,
    permission,
    prompt,
)


# -- close and delete ---------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_closing_is_a_cancel_and_goes_through_at_once(method: str) -> None:
    """R20: the queue is answered, the turn is told to stop, and the agent closes the session."""
    talk = busy()

    talk.client(in_session("c", method))
    asked = kinds(talk.got())
    talk.agent(ended(1, "cancelled"), answer("c", {}))

    assert ["session/cancel", method] == asked
    told = [(2, "cancelled"), (3, "cancelled"), (1, "cancelled"), ("c", "ok")]
    assert told == kinds(talk.seen())
    assert {} == talk.bridge.sessions


def test_closing_an_idle_session_sends_no_cancel() -> None:
    """R16: it would be a stray one."""
    talk = Talk("generic")
    reach.idle(talk)

    talk.client(in_session("c", "session/close"))

    assert ["session/close"] == kinds(talk.got())


@pytest.mark.parametrize("first", ["answer", "close"])
def test_the_turn_is_answered_whatever_comes_first(first: str) -> None:
    """I1: the agent may answer the close before the turn."""
    talk = busy()
    talk.client(in_session("c", "session/close"))
    talk.seen()
    frames = [ended(1, "cancelled"), answer("c", {})]

    talk.agent(*(frames if first == "answer" else frames[::-1]))

    assert {(1, "cancelled"), ("c", "ok")} == set(kinds(talk.seen()))


def test_a_refused_close_leaves_the_session_as_it_is() -> None:
    talk = Talk("generic")
    reach.idle(talk)

    talk.client(in_session("c", "session/close"))
    talk.agent(error("c", -32601))
    talk.client(prompt(1, "one"))

    assert [("c", -32601)] == kinds(talk.seen())
    assert ["session/close", "session/prompt"] == kinds(talk.got())


def test_a_closed_session_takes_no_response_with_it() -> None:
    """I1: with a profile that leaves a gap, the answer is still on its way when the close is."""
    talk = Talk("hermes", "codeg")
    reach.working(talk)
    talk.agent(chunk("b"), ended(1))
    talk.client(in_session("c", "session/close"))

    talk.agent(answer("c", {}))
    talk.wait(1.0)

    assert {(1, "end_turn"), ("c", "ok")} <= set(kinds(talk.seen())[-2:])


def test_closing_a_lost_session_needs_no_agent() -> None:
    """R22, R20: no process knows it; what waited for it is answered."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.agent_starts = False
    talk.client(prompt(1, "one"), set_mode("m"))

    talk.client(in_session("c", "session/close"))

    assert [(1, "cancelled"), ("m", "session-lost"), ("c", "ok")] == kinds(talk.seen())
    assert {} == talk.bridge.sessions


def test_deleting_a_lost_session_reaches_the_next_agent() -> None:
    """It is deleted from the agent's store; a success of our own would be a lie."""
    talk = Talk("generic")
    reach.lost(talk)

    talk.client(in_session("d", "session/delete"))
    reach.initialized(talk)
    asked = talk.got()
    talk.agent(answer("d", {}))

    assert ["session/delete"] == kinds(asked)
    assert [("d", "ok")] == kinds(talk.seen())


# -- fork ---------------------------------------------------------------------------------------
def test_a_fork_goes_at_once_and_the_queue_stays_with_the_source() -> None:
    """R20: a fork is a copy; nothing that waits for the source may land in it."""
    talk = busy()

    talk.client(in_session("f", "session/fork"))
    asked = kinds(talk.got())
    talk.agent(answer("f", new_result("s2")), ended(1))

    assert ["session/fork"] == asked
    assert [("f", "ok"), (1, "end_turn")] == kinds(talk.seen())
    (sent,) = talk.got()
    assert ("s1", "two") == (sent["params"]["sessionId"], texts([sent])[0])


def test_the_fork_takes_prompts_of_its_own() -> None:
    talk = busy()
    talk.client(in_session("f", "session/fork"))
    talk.agent(answer("f", new_result("s2")))
    forget(talk)

    talk.client(prompt(9, "nine", "s2"))

    assert ["nine"] == texts(talk.got())


# -- cancel, then the client leaves -------------------------------------------------------------
@pytest.mark.parametrize(("between_s", "undelivered"), [(0.0, 2), (0.9, 2), (1.1, 0)])
def test_a_cancel_right_before_the_end_leaves_the_queue_undelivered(
    between_s: float, undelivered: int
) -> None:
    """R20: a client that is closed cancels first (Codeg, section 9); nobody meant the queue."""
    talk = busy()

    talk.client(cancel())
    talk.wait(between_s)
    talk.leave()

    assert undelivered == len(states(talk, "accepted"))
    assert [2, 3] == [number - 1 for number in states(talk, "cancelled")]


def states(talk: Talk, state: str) -> list[int]:
    """The numbers of the prompts that were recorded so, in order. Number 1 is `before`."""
    return [one.prompt for one in talk.persists if one.state == state]


def test_what_was_on_its_way_to_the_disk_is_undelivered_too() -> None:
    talk = Talk("generic")
    reach.sending(talk)

    talk.client(cancel())
    talk.leave()

    assert [2] == states(talk, "accepted")


def test_the_cancelled_turn_itself_stays_cancelled() -> None:
    """Only what was never sent can be undelivered."""
    talk = busy()

    talk.client(cancel())
    talk.leave()

    assert 2 not in states(talk, "accepted")


def test_a_second_close_that_waits_out_the_gap_is_still_answered() -> None:
    """I1: the answer to the first must not take the session's waiting lines with it (R16)."""
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(in_session("c", "session/close"))
    talk.agent(chunk("a"))
    talk.wait(0.5)
    talk.client(in_session("d", "session/close"))
    early = kinds(talk.got())

    talk.agent(answer("c", {}))
    talk.wait(0.1)
    late = kinds(talk.got())
    talk.agent(answer("d", {}))

    assert (["session/close", "session/cancel"], ["session/close"]) == (early, late)
    assert [("c", "ok"), ("d", "ok")] == [kind for kind in kinds(talk.seen()) if kind != "a"]


def test_the_late_answer_of_a_closed_session_is_dropped() -> None:
    """R18: given up, closed, forgotten; and then the agent answers after all."""
    talk = Talk("generic")
    reach.cancelling(talk)
    talk.wait(30.0)
    talk.client(in_session("c", "session/close"))
    talk.agent(answer("c", {}))
    forget(talk)

    talk.agent(ended(1, "cancelled"))

    assert ([], {}) == (talk.seen(), talk.bridge.sessions)


def test_a_closed_alias_is_forgotten_whole() -> None:
    """R25: no id of the chain may lead to a session that is gone."""
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(prompt(0, "zero"))
    obey(talk)
    talk.agent(chunk("a", "new-2"), ended(0))
    talk.wait(1.0)
    talk.client(in_session("c", "session/close"))
    talk.agent(answer("c", {}))

    assert ({}, {}) == (talk.bridge.sessions, talk.bridge.by_agent_id)


def test_a_card_that_was_answered_for_the_client_is_not_answered_twice() -> None:
    """R17: the cancel has answered it; neither the client's end nor the agent's does again."""
    talk = Talk("generic")
    reach.working(talk)
    talk.agent(permission(9))
    talk.client(cancel())
    forget(talk)

    talk.leave()

    assert [] == [line for line in talk.got() if line.get("id") == 9]


def test_the_clocks_of_a_closed_session_run_out_in_silence() -> None:
    """Its cancel's clocks are armed still; there is nobody left whom they concern."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(in_session("c", "session/close"))
    talk.wait(0.1)
    talk.agent(answer("c", {}))
    forget(talk)

    talk.wait(60.0)
    # One that had run out before it could be stopped.
    talk.feed(TimerFired(("settle", "s1")))

    assert ([], [], {}) == (talk.seen(), talk.got(), talk.bridge.sessions)
