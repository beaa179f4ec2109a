"""The client closes its end: stop or finish, and what was never sent (R20, R23)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.effects import Persist, StopAgent
from tests.core import reach
from tests.core.reach import PLACES, busy, forget, in_session, obey, texts
from tests.core.script import (
    Talk,
    chunk,
    echo,
    ended,
    prompt,
    usage,
)


def undelivered(talk: Talk) -> list[Persist]:
    return [one for one in talk.persists if one.reason.startswith("undelivered")]


# -- stdin EOF, stop ----------------------------------------------------------------------------
@pytest.mark.parametrize("place", [place for place in PLACES if place != "lost"])
def test_when_the_client_leaves_the_agent_is_stopped_wherever_the_session_is(place: str) -> None:
    """The default of `--on-disconnect`: nobody reads the answer any more."""
    talk = Talk("hermes")
    PLACES[place][1](talk)

    talk.leave()

    assert [StopAgent(talk.bridge.run)] == talk.stops
    assert talk.exit_code is None
    talk.die("exit status 0")
    assert 0 == talk.exit_code


def test_without_an_agent_the_end_comes_at_once() -> None:
    talk = Talk("generic")
    reach.lost(talk)

    talk.leave()

    assert (0, []) == (talk.exit_code, talk.stops)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["leave", "stop"])
def test_after_the_end_was_asked_for_nothing_is_started_recovered_or_sent(
    place: str, how: str
) -> None:
    """R23: whatever happens between the end's beginning and its end."""
    talk = Talk("hermes")
    PLACES[place][1](talk)
    talk.client(prompt(2, "two"))
    obey(talk)
    starts = len(talk.starts)

    (talk.leave if how == "leave" else talk.stop)()
    talk.disk = True
    talk.persisted()
    talk.agent(chunk("x"))
    talk.wait(1.0)
    if talk.exit_code is None:
        talk.die("stopped")
    talk.wait(600.0)

    assert [] == texts(talk.got())
    assert (0, starts) == (talk.exit_code, len(talk.starts))


def test_a_client_that_has_closed_its_end_still_reads_its_answers() -> None:
    """I1: `printf … | acpbridge run -- AGENT` is answered as the agent itself would answer."""
    talk = busy()

    talk.leave()
    talk.agent(chunk("x"), ended(1))
    talk.die("stopped")

    told = talk.seen()
    assert [2, 3, "session/update", 1] == [one.get("method", one.get("id")) for one in told]
    assert "agent-exited" == told[0]["error"]["data"]["acpbridge"]["kind"]
    assert "end_turn" == told[3]["result"]["stopReason"]


def test_what_was_queued_is_undelivered_and_named() -> None:
    """R20: it was never sent, and says so to whoever looks it up."""
    talk = busy()

    talk.leave()

    assert [("accepted", 3), ("accepted", 4)] == [
        (one.state, one.prompt) for one in undelivered(talk)
    ]
    assert 2 == talk.count("undelivered")


def test_a_prompt_on_its_way_to_the_disk_is_undelivered_too() -> None:
    """I8, R23: the disk answers after the EOF; the bytes must not go."""
    talk = Talk("generic")
    reach.sending(talk)
    talk.leave()

    talk.persisted()

    assert [] == talk.got()
    assert {2} == {one.prompt for one in undelivered(talk)}
    assert ["agent-exited"] == [one["error"]["data"]["acpbridge"]["kind"] for one in talk.seen()]


def test_a_load_that_waits_is_no_prompt_and_is_not_recorded() -> None:
    talk = Talk("generic")
    reach.working(talk)
    talk.client(in_session("L", "session/load"))

    talk.leave()

    assert [] == undelivered(talk)


def test_leaving_twice_is_leaving_once() -> None:
    talk = busy()

    talk.leave()
    talk.leave()

    assert (1, 2) == (len(talk.stops), len(undelivered(talk)))


# -- stdin EOF, finish --------------------------------------------------------------------------
def finishing(place: str, **policy: Any) -> Talk:
    talk = Talk("hermes", on_disconnect="finish", **policy)
    PLACES[place][1](talk)
    talk.leave()
    return talk


@pytest.mark.parametrize("place", ["running", "working", "cancelling"])
def test_a_running_turn_is_finished(place: str) -> None:
    """`--on-disconnect finish`: its work is worth something without a reader."""
    talk = finishing(place)

    early = list(talk.stops)
    talk.agent(chunk("b"), ended(1))

    assert [] == early
    assert [StopAgent(1)] == talk.stops
    assert "finish" not in {name for name, _ in talk.timers}


@pytest.mark.parametrize("place", ["kept", "joined", "segment"])
def test_a_turn_that_the_agent_has_answered_with_a_receipt_is_finished_too(place: str) -> None:
    """R10: the receipt is no end, so it is not the end of the turn here either."""
    talk = finishing(place)

    early = list(talk.stops)
    talk.agent(*([echo("one")] if place == "kept" else []), chunk("b"), usage())
    talk.wait(1.1)

    assert [] == early
    assert [StopAgent(1)] == talk.stops


@pytest.mark.parametrize("place", ["idle", "trailing", "ownerless", "wedged", "lost"])
def test_without_a_turn_of_ours_there_is_nothing_to_finish(place: str) -> None:
    talk = finishing(place)

    assert 1 == len(talk.stops) or talk.exit_code == 0


def test_the_queue_is_not_sent_after_the_turn() -> None:
    """R23: only what runs is finished."""
    talk = Talk("generic", on_disconnect="finish")
    reach.working(talk)
    talk.client(prompt(2, "two"))
    forget(talk)
    talk.leave()

    talk.agent(ended(1))
    talk.wait(60.0)

    assert [] == texts(talk.got())
    assert [3] == [one.prompt for one in undelivered(talk)]


def test_the_last_of_several_turns_ends_it() -> None:
    talk = Talk("generic", on_disconnect="finish")
    reach.working(talk)
    talk.new("s2")
    talk.client(prompt(2, "two", "s2"))
    talk.leave()

    talk.agent(ended(1))
    early = list(talk.stops)
    talk.agent(chunk("x", "s2"), ended(2))

    assert [] == early
    assert [StopAgent(1)] == talk.stops


def test_a_turn_that_does_not_end_is_stopped_in_time() -> None:
    """I9: `finish_max`, ten minutes."""
    talk = finishing("working")

    talk.wait(599.0)
    early = list(talk.stops)
    talk.wait(1.1)

    assert [] == early
    assert [StopAgent(1)] == talk.stops


def test_a_signal_ends_the_finishing() -> None:
    talk = finishing("working")

    talk.stop()

    assert [StopAgent(1)] == talk.stops


def test_an_agent_that_dies_over_it_is_not_started_again() -> None:
    """Exit 3: it ended by itself while work was open."""
    talk = finishing("working")

    talk.die()

    assert (3, [1]) == (talk.exit_code, talk.starts)


def test_a_prompt_on_its_way_to_the_disk_is_not_finished() -> None:
    """It does not run yet; with it the last thing to wait for is gone."""
    talk = finishing("sending")

    talk.persisted()

    assert [] == texts(talk.got())
    assert [StopAgent(1)] == talk.stops
