"""The rest before an agent that keeps dying is started again (R23)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.effects import ArmTimer
from acpbridge.core.policy import Policy
from tests.core import reach
from tests.core.reach import forget, kinds, obey, texts
from tests.core.script import Talk, cancel, chunk, ended, prompt

REAL: dict[str, Any] = {
    "restart_first_s": Policy().restart_first_s,
    "breaker_deaths": 50,
    "restart_max_s": 300.0,
}


def dying(deaths: int, **policy: Any) -> Talk:
    """An agent that has died so many times while prompt 1 waits for it."""
    talk = Talk("generic", **{**REAL, **policy})
    reach.idle(talk)
    talk.agent_starts = False
    talk.die()
    talk.client(prompt(1, "one"))
    for _ in range(deaths - 1):
        talk.wait(20.0)
        talk.die()
    forget(talk)
    return talk


def rests(talk: Talk) -> list[float]:
    return [one.delay_s for one in talk.armed if one.key[0] == "rest"]


def test_the_first_death_costs_nothing_and_each_further_one_twice_as_much() -> None:
    """A process that cannot live is not started in a tight circle."""
    talk = dying(8)

    assert [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0] == rests(talk)
    assert 8 == len(talk.starts), "the last rest is not over"


def test_its_length_is_partly_chance() -> None:
    """Many bridges of one machine do not start their agents in the same moment."""
    talk = dying(2)
    (armed,) = [one for one in talk.armed if one.key[0] == "rest"]

    assert ArmTimer(("rest", ""), 0.5, 0.2) == armed


def test_nothing_is_started_before_the_rest_is_over() -> None:
    talk = dying(2)
    started = len(talk.starts)
    talk.wait(0.3)
    talk.client(prompt(2, "two"), reach.set_mode("m"))
    talk.wait(0.19)
    assert started == len(talk.starts)
    talk.agent_starts = True
    talk.wait(0.02)

    assert started + 1 == len(talk.starts)
    assert ["one"] == texts(obey(talk))


def test_the_rest_is_part_of_what_a_prompt_waits_at_most() -> None:
    """R23: `restart_max` in all."""
    talk = dying(2, restart_first_s=60.0, restart_cap_s=60.0, restart_max_s=30.0)
    talk.wait(9.0)
    assert [] == [one for one in kinds(talk.seen()) if isinstance(one, tuple)]
    talk.wait(2.0)

    assert [(1, "agent-exited")] == kinds(talk.seen())


def test_where_nothing_waits_any_more_nothing_is_started() -> None:
    """And the next prompt has the whole of `restart_max` before it."""
    talk = dying(2, restart_max_s=30.0)
    started = len(talk.starts)
    talk.client(cancel())
    talk.wait(9.0)
    assert started == len(talk.starts)
    forget(talk)
    talk.client(prompt(3, "three"))
    talk.wait(29.0)
    assert [] == [one for one in kinds(talk.seen()) if isinstance(one, tuple)]
    talk.wait(2.0)
    assert [(3, "agent-exited")] == kinds(talk.seen())


def test_after_a_rest_that_nobody_needed_the_next_prompt_starts_it_at_once() -> None:
    talk = dying(2)
    started = len(talk.starts)
    talk.client(cancel())
    talk.wait(5.0)
    talk.agent_starts = True
    talk.client(prompt(2, "two"))
    talk.wait(5.0)
    (sent,) = obey(talk)
    talk.agent(chunk("x"), ended(sent["id"]))

    assert started + 1 == len(talk.starts)
    assert (2, "end_turn") == kinds(talk.seen())[-1]


def test_deaths_long_ago_cost_nothing() -> None:
    """`breaker_window`: a death every quarter of an hour is no circle."""
    talk = Talk("generic", **REAL)
    reach.idle(talk)
    for number in range(4):
        talk.client(prompt(number, f"p{number}"))
        obey(talk)
        talk.die()
        talk.wait(900.0)

    assert [] == rests(talk)


@pytest.mark.parametrize("how", ["stop", "leave"])
def test_an_end_during_the_rest_starts_nothing(how: str) -> None:
    """R23: after a stop signal or the client's EOF nothing is started."""
    talk = dying(2)
    started = len(talk.starts)
    getattr(talk, how)()
    talk.wait(60.0)

    assert 0 == talk.exit_code
    assert started == len(talk.starts)
    assert [(1, "agent-exited")] == kinds(talk.seen())
