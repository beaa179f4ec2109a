"""An agent that does not come back, the breaker, and no restart at all (R23)."""

from __future__ import annotations

import pytest

from acpbridge.core.effects import StopAgent
from acpbridge.core.events import AgentExited
from tests.core import reach
from tests.core.reach import PLACES, forget, kinds, obey, owed, set_mode, texts
from tests.core.script import (
    Talk,
    cancel,
    chunk,
    error,
    prompt,
    request,
)


# -- it does not come back (restart_max) --------------------------------------------------------
@pytest.mark.parametrize("stage", ["start", "initialize"])
def test_what_waits_is_answered_after_restart_max(stage: str) -> None:
    """R23: 30 s; nobody waits for ever for an agent that hangs at its start."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.agent_starts = stage != "start"
    talk.die()
    talk.client(prompt(1, "one"), set_mode("m"), request("n", "session/new", {}))

    talk.wait(29.9)
    early = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    talk.wait(0.2)

    assert [] == early
    told = [(1, "agent-exited"), ("m", "agent-exited"), ("n", "agent-exited")]
    assert told == kinds(talk.seen())
    assert [StopAgent(2, now=True)] == talk.stops


def test_several_bad_starts_do_not_stretch_restart_max() -> None:
    """R23: 30 s in all, not 30 s for each attempt."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))
    for _ in range(2):
        talk.wait(12.0)
        talk.die()
    talk.seen()

    talk.wait(6.1)

    assert [(1, "agent-exited")] == kinds(talk.seen())


def test_after_that_the_next_prompt_tries_again() -> None:
    """I10: it runs, or is refused in words."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))
    talk.wait(30.0)
    talk.die("stopped")
    forget(talk)

    talk.client(prompt(2, "two"))

    assert ["two"] == texts(obey(talk))


def test_an_agent_that_refuses_initialize_is_not_started_for_ever() -> None:
    """R23: each refusal is a death for the breaker; without that this would spin."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))

    for _ in range(10):
        if talk.exit_code is None:
            asked = owed(talk, "initialize")
            talk.agent(error(asked["id"], -32603, "no config"))
            talk.die("stopped")

    assert 3 == talk.exit_code
    assert [(1, "agent-exited")] == kinds(talk.seen())
    assert 5 == len(talk.starts)


def test_too_much_that_waits_is_refused_in_words() -> None:
    """I9: `waiting_frames_max`."""
    talk = Talk("generic", waiting_frames_max=2)
    reach.lost(talk)

    talk.client(set_mode("a"), set_mode("b"), set_mode("c"))
    talk.client(*(request(id_, "session/list", {}) for id_ in ("x", "y", "z")))

    assert [("c", "queue-full"), ("z", "queue-full")] == kinds(talk.seen())


# -- the breaker --------------------------------------------------------------------------------
def crash(talk: Talk, times: int, every_s: float) -> None:
    """The agent comes back, takes the prompt and dies again."""
    for _ in range(times):
        obey(talk)
        talk.wait(every_s)
        talk.agent(chunk("x"))
        talk.die()


def test_five_deaths_in_ten_minutes_open_the_breaker() -> None:
    """R23, S10.6, field case 115: a successful start does not reset the count."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(*(prompt(number, f"p{number}") for number in range(10)))
    forget(talk)

    crash(talk, 5, 100.0)

    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert [(number, "agent-exited") for number in range(10)] == told
    assert (3, 5, 1) == (talk.exit_code, len(talk.starts), talk.count("breaker_open"))


def test_deaths_further_apart_do_not() -> None:
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(*(prompt(number, f"p{number}") for number in range(10)))

    crash(talk, 9, 150.0)

    assert (None, 10) == (talk.exit_code, len(talk.starts))


def test_a_stop_of_our_own_is_no_death() -> None:
    """R24's restarts are ours; only the agent's own ends count."""
    talk = Talk("hermes", breaker_deaths=1)
    reach.wedged(talk)

    talk.client(prompt(2, "two"))

    assert ["two"] == texts(obey(talk))
    assert talk.exit_code is None


# -- restart off, and never initialized ---------------------------------------------------------
@pytest.mark.parametrize(("place", "code"), [("idle", 0), ("working", 3), ("cancelling", 3)])
def test_without_restart_the_bridge_ends_with_the_agent(place: str, code: int) -> None:
    """R23, exit codes: 3 where work was open."""
    talk = Talk("hermes", restart=False)
    PLACES[place][1](talk)

    talk.die()

    assert (code, [1]) == (talk.exit_code, talk.starts)


def test_without_restart_everything_is_answered_first() -> None:
    """R22, R23, I1: the running prompt may have run, the queued ones were not sent."""
    talk = Talk("generic", restart=False)
    reach.working(talk)
    talk.client(prompt(2, "two"), set_mode("m"))
    forget(talk)

    talk.die()

    told = talk.seen()
    assert [(1, "agent-exited"), ("m", "agent-exited"), (2, "agent-exited")] == kinds(told)
    assert "it may have run" in told[0]["error"]["message"]
    assert "was not sent" in told[2]["error"]["message"]
    assert 3 == talk.exit_code


def test_what_comes_after_the_end_is_refused() -> None:
    talk = Talk("generic", restart=False)
    reach.idle(talk)
    talk.die()

    talk.client(prompt(1, "one"), set_mode("m"), prompt(2, "two"))

    told = [(1, "agent-exited"), ("m", "agent-exited"), (2, "agent-exited")]
    assert told == kinds(talk.seen())


@pytest.mark.parametrize("moment", ["cannot start", "before initialize", "during initialize"])
def test_an_agent_that_was_never_initialized_ends_the_bridge(moment: str) -> None:
    """R23: it could not start; exit 3, and the client's initialize is answered."""
    talk = Talk("generic", agent_starts=moment != "cannot start")
    if moment != "before initialize":
        talk.client(request("i", "initialize", {"protocolVersion": 1}))

    talk.feed(AgentExited(1, "exit status 1", started=moment != "cannot start"))

    expected = [("i", "agent-exited")] if moment != "before initialize" else []
    assert expected == kinds(talk.seen())
    assert (3, [1]) == (talk.exit_code, talk.starts)


def test_an_absence_that_nobody_waited_for_costs_the_next_prompt_nothing() -> None:
    """R23: `restart_max` counts from when somebody waits, not from the first bad start."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))
    talk.wait(20.0)
    talk.client(cancel())
    talk.die()
    talk.wait(100.0)
    talk.client(prompt(2, "two"))
    forget(talk)

    talk.wait(29.0)

    assert [] == [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
