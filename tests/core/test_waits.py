"""How long a prompt waits, and what stops the clocks (R5, R6)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.profiles import agent_named
from acpbridge.profiles.agents import BusyHabit
from tests.core.reach import (
    forget,
    idle,
    joined,
    kinds,
    ownerless,
    texts,
)
from tests.core.script import (
    Json,
    Talk,
    answer,
    chunk,
    error,
    notify,
    permission,
    prompt,
    request,
    tool,
    tool_update,
    usage,
)


def by_habit(busy: BusyHabit, **policy: Any) -> Talk:
    """A generic agent that does `busy` with a prompt that meets a running turn."""
    return Talk(evolve(agent_named("generic"), busy=busy), **policy)


# -- R5: the quiet of an ownerless turn --------------------------------------------------------
@pytest.mark.parametrize(
    ("busy", "quiet_s"),
    [("receipt", 5.0), ("refuses", 5.0), ("redirect", 60.0), ("aborts", 60.0)],
)
def test_an_ownerless_turn_is_over_after_the_quiet_of_the_agent_s_habit(
    busy: BusyHabit, quiet_s: float
) -> None:
    """R5: a prompt sent too early costs a receipt there, and the agent's work here."""
    talk = by_habit(busy)
    ownerless(talk)
    talk.client(prompt(1, "one"))
    talk.wait(3.0)
    talk.agent(chunk("more"))
    talk.wait(quiet_s - 0.1)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["one"] == texts(talk.got())


def test_unknown_agents_are_treated_as_those_that_abort() -> None:
    """R5: the safe side."""
    assert "aborts" == agent_named("generic").busy
    assert "redirect" == agent_named("hermes").busy


def test_only_work_moves_the_clock() -> None:
    """Design, "work": usage, titles, commands and empty chunks do not keep a turn alive."""
    talk = by_habit("receipt")
    ownerless(talk)
    talk.client(prompt(1, "one"))
    for _ in range(5):
        talk.wait(1.0)
        talk.agent(usage(), chunk(""))

    assert ["one"] == texts(talk.got())


def test_a_prompt_waits_three_hundred_seconds_at_most_for_work_without_end() -> None:
    """R5: `oob_wait_max` counts from when the prompt began to wait."""
    talk = Talk("hermes")
    ownerless(talk)
    talk.wait(30.0)
    talk.client(prompt(1, "one"))
    for _ in range(299):
        talk.wait(1.0)
        talk.agent(chunk("on and on"))

    assert [] == texts(talk.got())
    talk.wait(1.0)
    assert ["one"] == texts(talk.got())
    assert 1 == talk.count("sent_into_ownerless_turn")


def test_the_wait_counts_from_the_turn_s_beginning_where_that_is_later() -> None:
    """R5: the prompt was refused as busy before; for this turn it has not waited yet."""
    talk = Talk("hermes", busy_first_s=100.0, busy_cap_s=100.0)
    idle(talk)
    busy(talk)
    talk.wait(50.0)
    talk.agent(chunk("own work"))
    forget(talk)
    for _ in range(299):
        talk.wait(1.0)
        talk.agent(chunk("on and on"))

    assert [] == texts(talk.got())
    talk.wait(1.0)
    assert ["one"] == texts(talk.got())


def test_a_wait_that_is_over_without_a_prompt_is_none() -> None:
    """R20: the prompt was taken back; nothing was sent, and nothing says so."""
    talk = Talk("hermes")
    ownerless(talk)
    talk.client(prompt(1, "one"), notify("$/cancel_request", {"requestId": 1}))
    for _ in range(301):
        talk.wait(1.0)
        talk.agent(chunk("on and on"))

    assert [] == talk.got()
    assert 0 == talk.count("sent_into_ownerless_turn")


# -- R6: what stops the clocks -----------------------------------------------------------------
ASKS: list[Json] = [
    permission(7),
    request(7, "elicitation/create", {"sessionId": "s1", "mode": "form"}),
    request(7, "fs/read_text_file", {"sessionId": "s1", "path": "/p"}),
    request(7, "fs/write_text_file", {"sessionId": "s1", "path": "/p", "content": ""}),
    request(7, "terminal/create", {"sessionId": "s1", "command": "c"}),
    request(7, "terminal/wait_for_exit", {"sessionId": "s1", "terminalId": "t"}),
]


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: str(ask["method"]))
def test_no_quiet_clock_runs_while_the_agent_asks(ask: Json) -> None:
    """R6: a person thinks longer than any quiet time; the silence counts from the answer."""
    talk = by_habit("receipt")
    ownerless(talk)
    talk.agent(ask)
    talk.client(prompt(1, "one"))
    talk.wait(200.0)

    assert [] == texts(talk.got())
    talk.client(answer(7, {}))
    talk.wait(4.9)
    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["one"] == texts(talk.got())


def test_an_answer_that_waits_for_quiet_waits_for_the_person_too() -> None:
    """R6, R8: the same for the quiet behind which a prompt is answered."""
    talk = Talk("hermes")
    joined(talk)
    talk.agent(permission(7))
    talk.wait(500.0)

    assert (1, "end_turn") not in kinds(talk.seen())
    talk.client(answer(7, {}))
    talk.wait(60.0)
    assert [(1, "end_turn")] == kinds(talk.seen())


def test_a_question_that_the_agent_takes_back_stops_no_clock_any_more() -> None:
    """R6: `$/cancel_request` of the agent ends it; the client's late answer changes nothing."""
    talk = by_habit("receipt")
    ownerless(talk)
    talk.agent(permission(7), permission(8))
    talk.agent(notify("$/cancel_request", {"requestId": 7}))
    talk.client(answer(7, {}))
    talk.client(prompt(1, "one"))
    talk.wait(100.0)

    assert [] == texts(talk.got())
    talk.client(answer(8, {}))
    talk.wait(5.0)
    assert ["one"] == texts(talk.got())


def test_other_requests_of_the_agent_stop_no_clock() -> None:
    """R6 names them: an extension's question that nobody answers must not block for ever."""
    talk = by_habit("receipt")
    ownerless(talk)
    talk.agent(request(7, "_vendor/ask", {"sessionId": "s1"}))
    talk.client(prompt(1, "one"))
    talk.wait(5.0)

    assert ["one"] == texts(talk.got())


def test_an_open_tool_call_delays_an_end_by_ten_minutes_at_most() -> None:
    """R6: a build runs in silence; but some agents never close a call."""
    talk = by_habit("receipt")
    ownerless(talk)
    talk.agent(tool("t1"))
    talk.client(prompt(1, "one"))
    talk.wait(299.0)

    assert [] == texts(talk.got())
    other = by_habit("receipt", oob_wait_max_s=10_000.0)
    ownerless(other)
    other.agent(tool("t1"))
    other.client(prompt(1, "one"))
    other.wait(599.9)
    assert [] == texts(other.got())
    other.wait(0.1)
    assert ["one"] == texts(other.got())


def test_each_open_call_counts_from_its_own_last_sign_of_life() -> None:
    """R6: an old call that was never closed must not take the time of a young one."""
    talk = by_habit("receipt", oob_wait_max_s=10_000.0)
    ownerless(talk)
    talk.agent(tool("old"))
    talk.wait(500.0)
    talk.agent(tool("young"))
    talk.wait(100.0)
    talk.agent(tool_update("young", status="in_progress"))
    talk.client(prompt(1, "one"))
    talk.wait(599.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["one"] == texts(talk.got())


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_call_that_has_ended_delays_nothing(status: str) -> None:
    talk = by_habit("receipt")
    ownerless(talk)
    talk.agent(tool("t1"), tool_update("t1", status=status))
    talk.client(prompt(1, "one"))
    talk.wait(5.0)

    assert ["one"] == texts(talk.got())


@pytest.mark.parametrize("kind", ["read", "edit"])
def test_calls_that_hermes_never_closes_delay_nothing(kind: str) -> None:
    """R6: tape tool-completions: `read_file` and edits get no update."""
    talk = Talk("hermes")
    ownerless(talk)
    talk.agent(tool("t1", kind=kind), usage())
    talk.client(prompt(1, "one"))
    talk.wait(1.0)

    assert ["one"] == texts(talk.got())


def test_an_update_does_not_open_a_call_that_is_never_closed() -> None:
    """R6: the kind stands in the `tool_call` alone; its updates do not name it."""
    talk = Talk("hermes")
    ownerless(talk)
    talk.agent(tool("t1", kind="read"), tool_update("t1", status="in_progress"), usage())
    talk.client(prompt(1, "one"))
    talk.wait(1.0)

    assert ["one"] == texts(talk.got())


def test_an_open_call_delays_a_marker_s_end_too() -> None:
    """R6, R9: Hermes writes a `usage_update` for `/queue` in the middle of a turn."""
    talk = Talk("hermes", oob_wait_max_s=10_000.0)
    ownerless(talk)
    talk.agent(tool("t1"), usage())
    talk.client(prompt(1, "one"))
    talk.wait(599.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["one"] == texts(talk.got())


@pytest.mark.parametrize("agent", ["hermes", "codex"])
def test_an_open_question_delays_a_marker_s_end_too(agent: str) -> None:
    """R6: looked at again once a second, also where the marker itself needs no silence."""
    talk = Talk(agent)
    ownerless(talk)
    idle_info: Json = {"codex": {"threadStatus": {"type": "idle"}}}
    mark = usage() if agent == "hermes" else info(idle_info)
    talk.agent(permission(7), mark)
    forget(talk)
    talk.armed.clear()
    talk.wait(10.0)

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value
    assert 10 <= len([one for one in talk.armed if one.key[0] == "marker"]) <= 11
    talk.client(answer(7, {}))
    talk.wait(1.0)
    assert "idle" == talk.bridge.sessions["s1"].phase.value


def info(meta: Json) -> Json:
    return notify(
        "session/update",
        {"sessionId": "s1", "update": {"sessionUpdate": "session_info_update", "_meta": meta}},
    )


def test_in_a_cancelled_turn_an_open_call_delays_nothing() -> None:
    """R6: Hermes leaves the last tool of a cancelled turn open."""
    talk = Talk("hermes")
    ownerless(talk)
    talk.agent(tool("t1"))
    talk.wait(1.0)
    talk.client(notify("session/cancel", {"sessionId": "s1"}))
    talk.wait(5.0)

    assert "idle" == talk.bridge.sessions["s1"].phase.value


def busy(talk: Talk) -> None:
    talk.client(prompt(1, "one"))
    talk.agent(error(1, -32000, "busy", {"reason": "session_busy"}))


def load(id_: int) -> Json:
    return request(id_, "session/load", {"sessionId": "s1", "cwd": "/w", "mcpServers": []})


def test_a_prompt_behind_a_load_goes_in_any_case_too() -> None:
    """R4, R5, I10: work without an end holds neither up for ever, and the wait is said."""
    talk = Talk("generic")
    ownerless(talk)
    talk.client(load(5), prompt(6, "two"))
    talk.wait(2.0)
    (said,) = kinds(talk.seen())
    for _ in range(76):
        talk.wait(4.0)
        talk.agent(chunk("and on"))
    loads = kinds(talk.got())
    talk.agent(answer(5, {}))
    talk.wait(0.0)

    assert said.startswith("The agent is busy with work of its own")
    assert {"and on", (5, "ok")} == set(kinds(talk.seen()))
    assert ["session/load"] == loads
    assert ["two"] == texts(talk.got())


def test_a_load_alone_waits_for_the_end_of_the_work() -> None:
    """R4: nothing presses, and a load inside a turn would hide the turn's work."""
    talk = Talk("generic")
    ownerless(talk)
    talk.client(load(5))
    for _ in range(100):
        talk.wait(4.0)
        talk.agent(chunk("and on"))

    assert [] == talk.got()
