"""Loads and resumes among prompts, and the window in which nothing is work (R4, "load window")."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.events import AgentStarted
from tests.core.reach import PLACES, forget, idle, initialized, kinds, texts, working
from tests.core.script import (
    QUEUED,
    Json,
    Talk,
    answer,
    chunk,
    echo,
    ended,
    error,
    new_result,
    permission,
    prompt,
    request,
    tool,
    usage,
)


def load(id_: Any, method: str = "session/load", session: str = "s1") -> Json:
    return request(id_, method, {"sessionId": session, "cwd": "/w", "mcpServers": []})


def methods(talk: Talk) -> list[str]:
    return [one.get("method", "answer") for one in talk.got()]


# -- R4: the order ----------------------------------------------------------------------------
BUSY = ("running", "working", "doubted", "ownerless", "cancelling")
"""Places with a turn."""


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize(
    ("agent", "place"),
    [
        *(("claude", place) for place in BUSY),
        *(("hermes", place) for place in (*BUSY, "kept", "joined", "segment", "trailing")),
    ],
)
def test_a_load_waits_for_the_turn_before_it(agent: str, place: str, method: str) -> None:
    """R4: Hermes would replay the history into the middle of the live stream."""
    talk = Talk(agent)
    PLACES[place][1](talk)
    forget(talk)
    talk.client(load("l", method))

    assert [] == methods(talk)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_load_goes_when_the_turn_has_ended_and_the_prompt_behind_it_later(method: str) -> None:
    """R4, I5: load and prompts keep the client's order."""
    talk = Talk("hermes")
    working(talk)
    talk.client(prompt(2, "two"), load("l", method), prompt(3, "three"))
    talk.agent(ended(1))
    sent = [methods(talk)]
    talk.agent(chunk("b"), ended(2))
    sent.append(methods(talk))
    talk.agent(answer("l", new_result("s1")))
    sent.append(methods(talk))

    assert [["session/prompt"], [method], ["session/prompt"]] == sent


def test_two_loads_in_a_row_are_not_open_together() -> None:
    """Two replays at once could not be told apart."""
    talk = Talk("hermes")
    working(talk)
    talk.client(load("l1"), load("l2"))
    talk.agent(ended(1))

    assert ["session/load"] == methods(talk)
    talk.agent(answer("l1", new_result("s1")))
    assert ["session/load"] == methods(talk)


def test_a_prompt_behind_an_open_load_waits_for_it() -> None:
    """R4: its answer decides whether there is a conversation to put the prompt into."""
    talk = Talk("hermes")
    idle(talk)
    talk.client(load("l"), prompt(1, "one"))

    assert ["session/load"] == methods(talk)
    talk.agent(answer("l", new_result("s1")))
    assert ["session/prompt"] == methods(talk)


@pytest.mark.parametrize(
    ("agent", "answered"),
    [
        ("hermes", answer("l", {})),
        ("generic", error("l", -32002, "Resource not found")),
        ("claude", error("l", -32603, "Internal error")),
    ],
)
def test_a_prompt_behind_a_load_that_fails_is_session_lost(agent: str, answered: Json) -> None:
    """R4, R25: nothing goes into a session that is not there; Hermes "succeeds" with `{}`."""
    talk = Talk(agent)
    talk.initialize()
    talk.client(load("l", session="old"), prompt(1, "one", "old"), prompt(2, "two", "old"))
    forget(talk)
    talk.agent(answered)
    said = kinds(talk.seen())

    assert [(1, "session-lost"), (2, "session-lost")] == said[1:]
    assert "l" == said[0][0]
    assert [] == methods(talk)


def test_a_load_that_finds_nothing_of_a_known_session_loses_it_too() -> None:
    """R4, R25: the agent has said that what waits would go into an empty session."""
    talk = Talk("hermes")
    idle(talk)
    talk.client(load("l"), prompt(1, "one"))
    talk.agent(answer("l", {}))

    assert [("l", "session-lost"), (1, "session-lost")] == kinds(talk.seen())
    assert ["session/load"] == methods(talk)


@pytest.mark.parametrize("first", [load("l", session="other"), prompt("l", "x", "other")])
def test_what_is_for_a_session_unknown_to_a_dead_agent_starts_a_new_one(first: Json) -> None:
    """R23, I10: no bytes to a process that is gone, and no wait for one that nobody starts."""
    talk = Talk("hermes")
    idle(talk)
    talk.agent_starts = False
    talk.die()
    talk.client(first, prompt(2, "two", "other"))

    assert [2] == talk.starts[1:]
    assert [] == talk.got()
    talk.feed(AgentStarted(2))
    initialized(talk)
    assert [first] == talk.got()


# -- the load window --------------------------------------------------------------------------
NOTHINGS = [chunk("x"), tool(), echo("x"), usage(), permission(7), chunk(QUEUED)]


@pytest.mark.parametrize("frame", NOTHINGS, ids=lambda one: str(kinds([one])[0]))
@pytest.mark.parametrize("when", ["new", "load", "resume", "fork"])
def test_nothing_is_work_just_after_an_opening(when: str, frame: Json) -> None:
    """S8.1, case 73: banners, replays and late history open no turn; they are shown."""
    talk = Talk("hermes")
    idle(talk)
    session = "s1"
    if when in ("new", "fork"):
        session = "s2"
        params = {"cwd": "/w", "mcpServers": [], "sessionId": "s1"}
        talk.client(request("o", f"session/{when}", params))
        talk.agent(answer("o", new_result("s2")))
    else:
        talk.client(load("o", f"session/{when}"))
        talk.agent(answer("o", new_result("s1")))
    talk.wait(0.24)
    forget(talk)
    frame = {**frame, "params": {**frame["params"], "sessionId": session}}
    talk.agent(frame)

    assert "idle" == talk.bridge.sessions[session].phase.value
    assert [frame] == talk.seen()


def test_the_window_s_tail_is_a_quarter_of_a_second() -> None:
    """At its end, and not before it, a chunk is the agent's own work again."""
    talk = Talk("hermes")
    talk.initialize()
    talk.new()
    talk.wait(0.25)
    talk.agent(chunk("by itself"))

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value


def test_a_prompt_ends_the_window() -> None:
    """A turn that answers within the tail must be seen as the turn that it is."""
    talk = Talk("hermes")
    talk.initialize()
    talk.new()
    talk.client(prompt(1))
    talk.agent(chunk("a"), ended(1, usage=False))
    talk.wait(0.5)

    assert 0 == talk.count("empty_answer_held")
    assert 1 == talk.count("suspect_answer_held")


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_replay_is_shown_in_order_and_opens_nothing(method: str) -> None:
    """R4: while the load is open, however long it takes, its history is no work."""
    talk = Talk("hermes")
    idle(talk)
    talk.client(load("l", method))
    history = [echo("hello"), chunk("done"), tool(), chunk(QUEUED), usage()]
    talk.wait(60.0)
    forget(talk)
    talk.agent(*history, answer("l", new_result("s1")))

    assert [*history, answer("l", new_result("s1"))] == talk.seen()
    assert "idle" == talk.bridge.sessions["s1"].phase.value
    talk.client(prompt(1, "one"))
    assert ["one"] == texts(talk.got())
