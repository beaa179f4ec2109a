"""Steers go one at a time, in order; what waits behind one goes by R1 again (R14)."""

from __future__ import annotations

import pytest
from attrs import evolve

from acpbridge.core.model import Prompt
from acpbridge.core.phases import Phase
from acpbridge.profiles import agent_named
from tests.core.reach import kinds, texts, turn
from tests.core.script import Talk, cancel, chunk, ended, error, notify, prompt, request
from tests.core.steer_talk import (
    STEERING,
    asked,
    begin,
    injected,
    said,
    steering,
    steers,
    told,
    working,
)


def test_steers_go_one_at_a_time_and_in_order() -> None:
    """R14, I5: the next one waits for the agent's word about the one before."""
    talk = working()
    talk.client(prompt(2, "two"), prompt(3, "three"), prompt(4, "four"))

    assert ["two"] == steers(talk.got())
    talk.agent(said(2, "injected"))

    assert ["three"] == steers(talk.got())
    talk.agent(said(3, "injected"))

    assert ["four"] == steers(talk.got())
    talk.agent(said(4, "injected"), chunk("all of it"), ended(1))

    assert ["all of it", (1, "end_turn"), (2, "end_turn"), (3, "end_turn"), (4, "end_turn")] == (
        kinds(talk.seen())
    )


def test_a_steer_waits_for_the_owners_bytes() -> None:
    """Field case 30: before the owner is written there is no turn to steer."""
    talk = Talk()
    talk.open(steering=True)
    talk.disk = False
    talk.client(prompt(1, "one"), prompt(2, "two"))

    assert [] == talk.got()
    talk.persisted()
    talk.persisted()

    assert ["session/prompt", STEERING] == kinds(talk.got())


def test_what_waits_behind_a_steer_goes_by_the_first_rule_again() -> None:
    """R14: the steer became the owner, so the next one is steered into that turn."""
    talk = asked()
    talk.client(prompt(3, "three"), prompt(4, "/four"), prompt(5, "five"))
    talk.agent(ended(1), said(2, "promptRequired"))
    got = talk.got()

    assert ["session/prompt", STEERING] == kinds(got)
    assert (["two"], ["three"]) == (texts(got), steers(got))

    talk.agent(said(3, "injected"))

    assert [] == talk.got()
    waiting = [one for one in talk.bridge.sessions["s1"].queue if isinstance(one, Prompt)]
    assert [False, False] == [one.may_join for one in waiting]


def test_nothing_overtakes_a_refused_steer() -> None:
    """I5: the refused one stands at the head, so the session has a queue."""
    talk = asked()
    talk.client(prompt(3, "three"))
    talk.agent(said(2, "promptRequired"))

    assert [] == talk.got()

    talk.agent(ended(1))

    assert ["two"] == texts(talk.got())
    talk.agent(chunk("x"), ended(2))

    assert ["three"] == texts(talk.got())


def test_a_refused_steer_does_not_overtake_a_refused_owner() -> None:
    """I5, R7: the owner is refused as busy while the steer is open; it is the older one."""
    talk = Talk()
    talk.open(steering=True)
    turn(talk, "before")
    talk.client(prompt(1, "one"), prompt(2, "two"))
    talk.agent(error(1, -32000, "busy", {"reason": "session_busy"}), said(2, "promptRequired"))
    talk.got()
    talk.wait(1.0)

    assert ["one"] == texts(talk.got())


def test_a_load_waits_for_the_steers_answer() -> None:
    """R4: a session with an unanswered steer is not Idle."""
    talk = asked()
    talk.agent(ended(1))
    talk.client(request("l", "session/load", {"sessionId": "s1", "cwd": "/w", "mcpServers": []}))

    assert [] == talk.got()
    talk.agent(said(2, "promptRequired"))

    assert ["two"] == texts(talk.got())


def test_a_restart_for_a_wedge_waits_for_a_steer_elsewhere() -> None:
    """R24: the restart would cost another session its steer."""
    talk = asked("hermes")
    talk.agent(ended(1))
    talk.new("s2")
    talk.wait(1.0)
    talk.client(prompt("w", "w", "s2"))
    talk.agent(chunk("x", "s2"))
    talk.bridge.agent = evolve(agent_named("hermes"), wedge_errors=((-32603, "x"),))
    talk.agent(error("w", -32603, "x"))
    talk.client(prompt("w2", "again", "s2"))
    talk.wait(0.1)

    assert Phase.WEDGED is talk.bridge.sessions["s2"].phase
    assert [] == talk.stops


def test_a_steered_turn_ends_once_for_all_and_the_session_is_idle() -> None:
    """I1, I2: each prompt once, the owner first and byte for byte."""
    talk = injected()
    owner = ended(1)
    talk.agent(chunk("b"), owner)

    seen = talk.seen()
    assert owner == seen[1]
    assert {"completion": "shared"} == told(seen, 2)
    assert Phase.IDLE is talk.bridge.sessions["s1"].phase
    assert 0 == talk.bridge.running


def test_the_disk_answers_after_the_owner_did() -> None:
    """The turn is over before the steer's first byte: it goes as a prompt, once."""
    talk = Talk()
    begin(talk)
    talk.disk = False
    talk.client(prompt(2, "two"))
    talk.agent(ended(1))

    assert [] == talk.got()
    talk.persisted()
    talk.persisted()

    assert ["session/prompt"] == kinds(talk.got())


@pytest.mark.parametrize("how", ["cancel", "request", "refused"])
def test_what_came_behind_a_steer_that_does_not_go_is_not_overtaken(how: str) -> None:
    """I5: the mode was chosen before the cancel, or before the next prompt, and must hold there."""
    talk = Talk("claude")
    steering(talk)
    talk.client(request("m", "session/set_mode", {"sessionId": "s1", "modeId": "x"}))
    if how == "cancel":
        talk.client(cancel())
        last = "session/cancel"
    elif how == "request":
        # The owner alone: what was about to be steered waits for the turn's end.
        talk.client(notify("$/cancel_request", {"requestId": 1}))
        last = "$/cancel_request"
    else:
        talk.client(prompt(3, "three"))
        talk.persist_failed()
        talk.persisted()
        last = STEERING

    assert ["session/set_mode", last] == kinds(talk.got())
