"""A prompt that the agent acknowledged and of which nothing more is seen (R24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, obey, texts
from tests.core.script import (
    REDIRECTED,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    permission,
    prompt,
    tool,
)


def kept(policy: str, *, place: str = "kept", **more: Any) -> Talk:
    """Prompt 1 is under a receipt; Codeg would show nothing of it for hours."""
    return reach.at(place, "hermes", on_silent_receipt=policy, wait_notice=False, **more)


def is_told(talk: Talk) -> bool:
    return any("shown nothing for 120 s" in str(one) for one in kinds(talk.seen()))


@pytest.mark.parametrize("place", ["kept", "joined"])
def test_after_two_minutes_the_client_is_told_and_nothing_is_restarted(place: str) -> None:
    """R24: without evidence of a wedge an agent is never restarted unasked."""
    talk = kept("notify", place=place)
    talk.wait(119.0)
    assert not is_told(talk)
    talk.wait(2.0)
    assert is_told(talk)
    talk.wait(600.0)

    assert not is_told(talk), "once"
    assert [] == talk.stops
    assert 1 == talk.count("silent_receipt")


@pytest.mark.parametrize("place", ["kept", "joined"])
def test_with_restart_the_agent_is_started_again(place: str) -> None:
    """Only where the policy asks for it; what was acknowledged may have run and is not repeated."""
    talk = kept("restart", place=place)
    talk.client(prompt(2, "two"))
    talk.wait(121.0)
    assert 1 == len(talk.stops)
    sent = obey(talk)

    assert ["two"] == texts(sent)
    assert (1, "agent-exited") in kinds(talk.seen())


@pytest.mark.parametrize("why", ["restart is off", "another session works"])
def test_no_other_session_pays_for_it(why: str) -> None:
    """R24: a restart would end what runs elsewhere; then it is told instead."""
    talk = kept("restart", restart=why != "restart is off")
    if why == "another session works":
        talk.new("s2")
        talk.client(prompt(2, "elsewhere", "s2"))
    forget(talk)
    talk.wait(121.0)

    assert [] == talk.stops
    assert is_told(talk)


def test_an_agent_that_is_on_its_way_out_is_not_stopped_once_more() -> None:
    """Its end is to come by itself, and answers the prompt."""
    talk = kept("restart")
    talk.deaf()
    talk.wait(121.0)

    assert [] == talk.stops
    assert is_told(talk)


@pytest.mark.parametrize("policy", ["notify", "restart"])
def test_what_showed_something_or_was_cancelled_is_not_silent(policy: str) -> None:
    worked = kept(policy)
    worked.agent(echo("one"), chunk("a"))
    cancelled = kept(policy)
    cancelled.client(cancel())
    redirected = kept(policy, place="joined")
    redirected.agent(chunk("a"), tool())
    for talk in (worked, cancelled, redirected):
        forget(talk)
        talk.wait(130.0)

        assert not is_told(talk)
        assert [] == talk.stops


def test_two_minutes_count_from_the_last_work() -> None:
    """The turn before works on; what waits behind it under a receipt is not silent meanwhile."""
    talk = kept("restart")
    talk.wait(100.0)
    talk.agent(chunk("of the turn before"))
    talk.wait(100.0)
    assert [] == talk.stops
    talk.wait(21.0)

    assert 1 == len(talk.stops)


def test_an_open_card_is_no_silence() -> None:
    """R6: the agent waits for a person, who may take an hour."""
    talk = kept("restart")
    talk.agent(permission(7))
    talk.wait(3600.0)
    assert [] == talk.stops
    forget(talk)
    talk.client(answer(7, {"outcome": {"outcome": "cancelled"}}))
    talk.wait(130.0)

    assert 1 == len(talk.stops)


def test_after_the_client_has_gone_nothing_is_restarted() -> None:
    """R23."""
    talk = kept("restart", on_disconnect="finish")
    talk.leave()
    talk.wait(130.0)

    assert [] == talk.stops


def test_a_prompt_that_joined_by_a_receipt_behind_a_working_owner() -> None:
    """The owner's work is the joined prompt's sign too."""
    talk = reach.busy("hermes", midturn="queue", on_silent_receipt="restart")
    talk.agent(chunk(REDIRECTED), ended(1, usage=False), chunk("b"))
    talk.wait(130.0)

    assert [] == talk.stops
