"""The agent dies: what is answered, what is kept, when it is started again (R22, R23; S10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.core.events import AgentExited, AgentGarbled, AgentSent, AgentStarted
from acpbridge.wire.frame import Frame, Malformed, peek
from tests.core import reach
from tests.core.reach import PLACES, forget, initialized, kinds, loaded, obey, set_mode, texts
from tests.core.script import (
    Talk,
    answer,
    chunk,
    dumps,
    ended,
    prompt,
    request,
    tool,
)

AT_DEATH: dict[str, list[Any]] = {
    "running": [(1, "agent-exited")],
    "working": [(1, "agent-exited")],
    "doubted": [(1, "end_turn")],
    "kept": [(1, "agent-exited")],
    "joined": [(1, "agent-exited")],
    "segment": [(1, "agent-exited")],
    "cancelling": [(1, "agent-exited")],
}
"""What a death answers at once, by the place where it strikes; nothing where it is not listed."""

KEPT_AT_DEATH = ("sending", "reviving")
"""Where prompt 1 was not sent yet: it goes to the next process."""


@pytest.mark.parametrize("place", [place for place in PLACES if place != "lost"])
def test_a_death_answers_what_was_with_the_agent_and_keeps_the_rest(place: str) -> None:
    """R22: what may have run is said so and never sent again (I3); the queue goes on (R23)."""
    talk = Talk("hermes")
    PLACES[place][1](talk)
    talk.client(prompt(2, "two"), prompt(3, "three"))
    forget(talk)

    talk.die()
    told = kinds(talk.seen())
    talk.disk = True
    talk.persisted()
    sent = obey(talk)
    for id_ in (1, 2, 3):
        if id_ in {int(one.id) for one in talk.bridge.sessions["s1"].at_agent}:
            talk.agent(chunk("x"), ended(id_))
            sent += obey(talk)

    if place == "idle":
        # Prompt 2 was with the agent already.
        assert [(2, "agent-exited")] == told
        assert ["three"] == texts(sent)
    else:
        assert AT_DEATH.get(place, []) == told
        wanted = ["one", "two", "three"] if place in KEPT_AT_DEATH else ["two", "three"]
        assert wanted == texts(sent), talk.show()


@pytest.mark.parametrize("place", PLACES)
def test_after_a_death_anywhere_the_next_prompt_runs(place: str) -> None:
    """I10: after any fault the next prompt on the same connection runs."""
    talk = Talk("hermes")
    PLACES[place][1](talk)
    if place != "lost":
        talk.die()
    talk.disk = True
    talk.persisted()

    talk.client(prompt(9, "nine"))
    sent = obey(talk)
    if texts(sent) == ["one"]:
        talk.agent(chunk("x"), ended(1))
        sent += obey(talk)
    talk.agent(chunk("y"), ended(9))

    assert "nine" == texts(sent)[-1]
    assert (9, "end_turn") == kinds(talk.seen())[-1]


def test_the_error_says_that_it_may_have_run_and_what_to_do() -> None:
    """R22: sent again by hand it might run twice; the person must know."""
    talk = Talk("generic")
    reach.working(talk)
    talk.die("exit status 143")

    (told,) = talk.seen()
    assert "exit status 143" in told["error"]["message"]
    assert "it may have run" in told["error"]["message"]


def test_a_response_that_came_with_the_death_is_the_answer() -> None:
    """S10.4: response and exit in one read."""
    talk = Talk("generic")
    reach.working(talk)

    talk.agent(ended(1))
    talk.die()

    assert [(1, "end_turn")] == kinds(talk.seen())


def test_every_other_open_request_is_answered_too() -> None:
    """R22: not only prompts; field case 46."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(set_mode("m"), request("n", "session/new", {}), request("x", "_ext/foo", {}))

    talk.die()

    told = [("m", "agent-exited"), ("n", "agent-exited"), ("x", "agent-exited")]
    assert told == kinds(talk.seen())


def test_late_lines_of_the_dead_process_are_not_taken_for_the_new_ones() -> None:
    """A frame names its run; one of an earlier run is dropped."""
    talk = Talk("generic")
    reach.working(talk)
    talk.client(prompt(1.5, "two"))
    talk.die()
    obey(talk)
    forget(talk)
    late, noise = peek(dumps(ended(1)), strict=False), peek(b"noise", strict=False)
    assert isinstance(late, Frame)
    assert isinstance(noise, Malformed)

    talk.feed(AgentSent(1, late))
    talk.feed(AgentGarbled(1, noise))
    talk.feed(AgentExited(1, "again"))
    talk.feed(AgentStarted(1))

    assert ([], [], 2) == (talk.seen(), talk.got(), talk.bridge.run)
    assert 0 == talk.count("agent_noise")
    talk.agent(chunk("b"), ended(owed_prompt(talk)))
    assert ["b", (1.5, "end_turn")] == kinds(talk.seen())


def owed_prompt(talk: Talk) -> Any:
    """The wire id of the one prompt that the agent has."""
    (prompt_,) = talk.bridge.sessions["s1"].at_agent
    return json.loads(prompt_.wire_id)


# -- when it is started again -------------------------------------------------------------------
def test_an_idle_death_restarts_nothing_until_somebody_needs_it() -> None:
    """R23: a lazy start; an agent that dies of boredom must not be kept alive by force."""
    talk = Talk("generic")
    reach.idle(talk)

    talk.die()
    early = (list(talk.starts), talk.seen())
    talk.client(prompt(1, "one"))

    assert ([1], []) == early
    assert [1, 2] == talk.starts
    assert ["one"] == texts(obey(talk))


@pytest.mark.parametrize("method", ["session/new", "session/list", "_ext/foo"])
def test_any_request_starts_it_again_and_is_answered(method: str) -> None:
    """R23: other requests wait and go on, also those that name no session."""
    talk = Talk("generic")
    reach.lost(talk)

    talk.client(request("r", method, {"cwd": "/w"}))
    initialized(talk)
    asked = talk.got()
    talk.agent(answer("r", {"sessionId": "s2"}))

    assert [method] == kinds(asked)
    assert [("r", "ok")] == kinds(talk.seen())


def test_requests_wait_in_order_and_behind_the_revival() -> None:
    """R23, I5: settings of the client come after what the bridge restores, in their order."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(set_mode("a"), set_mode("b"), prompt(1, "one"))

    initialized(talk)
    early = [line for line in talk.got() if line["method"] != "session/load"]
    talk.die()
    initialized(talk)
    loaded(talk)

    assert [] == early
    assert ["a", "b", 1] == [line["id"] for line in talk.got()]


def test_a_notification_waits_with_the_requests() -> None:
    """It has no id, and must neither be lost nor overtake."""
    talk = Talk("generic")
    reach.lost(talk)
    note = {"jsonrpc": "2.0", "method": "_ext/note", "params": {"sessionId": "s1"}}

    talk.client(set_mode("a"), note, set_mode("b"))
    initialized(talk)
    loaded(talk)

    assert ["session/set_mode", "_ext/note", "session/set_mode"] == kinds(talk.got())


def test_initialize_is_said_again_with_the_clients_own_params() -> None:
    """R23, field case 83: to the agent the bridge is one client for ever."""
    talk = Talk("generic")
    params = b'{"protocolVersion":1, "clientCapabilities":{"x":1.50}}'
    talk.client(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":' + params + b"}")
    talk.agent(answer(0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}))
    talk.new()
    talk.die()
    talk.agent_lines.clear()

    talk.client(prompt(1, "one"))

    (line,) = talk.agent_lines
    assert line.endswith(b'"method":"initialize","params":' + params + b"}")


def test_the_answer_to_the_bridges_own_initialize_stays_inside() -> None:
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))

    initialized(talk)

    assert [] == talk.seen()


def test_tools_of_a_dead_turn_mean_nothing_to_the_next() -> None:
    """R6: an open call of the dead process must not delay an end."""
    talk = Talk("generic")
    reach.working(talk)
    talk.agent(tool("t1"))
    talk.die()
    talk.client(prompt(2, "two"))
    obey(talk)
    talk.agent(chunk("b"), ended(2))

    assert (2, "end_turn") == kinds(talk.seen())[-1]
    assert "idle" == talk.bridge.sessions["s1"].phase.value


def test_what_is_written_before_the_agent_has_started_goes_in_order() -> None:
    """I5: an eager client must not have to wait for a process that is being made."""
    talk = Talk("generic", agent_starts=False)
    talk.client(request("i", "initialize", {"protocolVersion": 1}))
    talk.client(request("n", "session/new", {"cwd": "/w"}), prompt(1, "one", "known"))
    early = talk.got()

    talk.feed(AgentStarted(1))

    assert [] == early
    assert ["initialize", "session/new", "session/prompt"] == kinds(talk.got())
