"""A signal ends the bridge, and what is owed before the last effect (R20, R23)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.effects import StopAgent
from tests.core import reach
from tests.core.reach import busy, forget, in_session, kinds, set_mode
from tests.core.script import (
    QUEUED,
    Talk,
    cancel,
    chunk,
    ended,
    permission,
    prompt,
    request,
)


# -- signals ------------------------------------------------------------------------------------
def test_a_signal_stops_the_agent_and_ends_with_zero() -> None:
    """Exit 0: asked to stop."""
    talk = busy()

    talk.stop("SIGTERM")
    early = talk.exit_code
    talk.die("killed by SIGTERM")

    assert ([StopAgent(1)], None, 0) == (talk.stops, early, talk.exit_code)


def test_everything_is_answered_before_the_end() -> None:
    """I1: the client is still there, and every request of it has one response."""
    talk = busy()
    talk.client(set_mode("m"), in_session("L", "session/load"))

    talk.stop()
    at_once = kinds(talk.seen())
    talk.die("killed by SIGTERM")

    queued = [(2, "agent-exited"), (3, "agent-exited"), ("L", "agent-exited")]
    assert queued == at_once
    assert [(1, "agent-exited"), ("m", "agent-exited")] == kinds(talk.seen())


def test_what_was_on_its_way_to_the_disk_is_answered_as_unsent() -> None:
    talk = Talk("generic")
    reach.sending(talk)
    talk.stop()
    talk.persisted()

    talk.die("stopped")

    (told,) = talk.seen()
    assert [(1, "agent-exited")] == kinds([told])
    assert "was not sent" in told["error"]["message"]


def test_a_turn_that_ends_in_time_is_answered_by_its_own_response() -> None:
    """The agent gets a moment between its stdin's end and the signal."""
    talk = Talk("generic")
    reach.working(talk)
    talk.stop()

    talk.agent(chunk("b"), ended(1))
    talk.die("exit status 0")

    assert ["b", (1, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("frame", [prompt(9), set_mode("m"), request("n", "session/new", {})])
def test_what_comes_while_it_ends_is_refused(frame: dict[str, Any]) -> None:
    talk = Talk("generic")
    reach.idle(talk)
    talk.stop()

    talk.client(frame)

    assert [(frame["id"], "agent-exited")] == kinds(talk.seen())
    assert [] == talk.got()


def test_a_second_signal_changes_nothing() -> None:
    talk = busy()

    talk.stop("SIGTERM")
    talk.stop("SIGINT")
    talk.leave()
    talk.die("stopped")

    assert (1, 0) == (len(talk.stops), talk.exit_code)


def test_a_signal_during_a_restart_ends_it() -> None:
    """The process that is being started is stopped as any other."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.agent_starts = False
    talk.die()
    talk.client(prompt(1, "one"))

    talk.stop()
    told = kinds(talk.seen())
    talk.die("stopped")

    assert [(1, "agent-exited")] == told
    assert ([StopAgent(2)], 0) == (talk.stops, talk.exit_code)


def test_a_signal_while_a_wedge_is_mended_stops_once() -> None:
    talk = Talk("hermes")
    reach.wedged(talk)
    talk.client(prompt(2, "two"))

    talk.stop()
    talk.die("stopped")

    assert ([StopAgent(1, now=True)], [1], 0) == (talk.stops, talk.starts, talk.exit_code)
    assert [(2, "agent-exited")] == [kind for kind in kinds(talk.seen()) if kind[0] == 2]


def test_a_signal_before_anything_has_begun() -> None:
    talk = Talk("generic", agent_starts=False)
    talk.client(request("i", "initialize", {}))

    talk.stop()
    talk.die("stopped")

    assert [("i", "agent-exited")] == kinds(talk.seen())
    assert 0 == talk.exit_code


# -- the last effects ---------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["stop", "death"])
def test_responses_that_wait_out_a_gap_go_before_the_end(how: str) -> None:
    """I1: the 100 ms of the Codeg profile must not swallow the last answer."""
    talk = Talk("hermes", "codeg", restart=False)
    reach.working(talk)
    talk.agent(chunk("b"), ended(1))
    early = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]

    if how == "stop":
        talk.stop()
    talk.die("stopped")

    assert [] == early
    assert [(1, "end_turn")] == kinds(talk.seen())
    assert talk.exit_code is not None


def test_errors_of_the_last_moment_go_before_the_end() -> None:
    talk = Talk("hermes", "codeg", restart=False)
    reach.working(talk)

    talk.die()

    assert (1, "end_turn") == kinds(talk.seen())[-1]
    assert 3 == talk.exit_code


def test_the_end_is_said_once() -> None:
    """A doubted answer goes out at the death, its turn ends, and the bridge ends: all at once."""
    talk = Talk("hermes", on_disconnect="finish")
    reach.doubted(talk)
    talk.leave()
    talk.die("stopped")

    assert [3] == talk.finishes
    assert [] == talk.stops


def test_a_permission_is_answered_when_the_client_leaves() -> None:
    """R17: the agent must be able to end its turn."""
    talk = Talk("generic", on_disconnect="finish")
    reach.working(talk)
    talk.agent(permission(4))
    forget(talk)

    talk.leave()

    assert [4] == [line["id"] for line in talk.got()]


def test_a_cancel_after_the_stop_still_reaches_the_turn() -> None:
    """Nothing is sent that begins work; what ends it may go."""
    talk = Talk("generic")
    reach.working(talk)
    talk.stop()

    talk.client(cancel())

    assert ["session/cancel"] == kinds(talk.got())


def test_a_receipt_over_the_end_is_no_answer() -> None:
    """R10 holds to the last: the client hears that it may have run, not that it is done."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.stop()

    talk.agent(chunk(QUEUED), ended(1, usage=False))
    talk.die("stopped")

    assert [(1, "agent-exited")] == kinds(talk.seen())


def test_a_gap_that_ends_after_the_signal_wakes_nothing() -> None:
    """R23: the dead agent's answers went out as text; their gap must not begin a revival."""
    talk = Talk("hermes", "codeg")
    reach.working(talk)
    talk.client(prompt(2, "two"))
    talk.die()
    talk.stop()
    forget(talk)

    talk.wait(0.5)

    assert [] == talk.got()
    assert [(1, "end_turn"), (2, "end_turn")] == kinds(talk.seen())
