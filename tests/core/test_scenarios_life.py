"""Ready-made scenarios S5, S6, S7 and S10 (1, 2, 4, 5, 6), played whole (field cases).

The parts have tests of their own; here the order of everything that both sides see is the promise.
S10.5 is in test_revival, S10.6 in test_restart_limits, S14's lines in test_input and tests/wire.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, initialized, kinds, loaded, obey, owed, texts
from tests.core.script import Talk, answer, cancel, chunk, echo, ended, permission, prompt

ALLOW = {"outcome": {"outcome": "selected", "optionId": "a"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def opened(**policy: Any) -> Talk:
    """A session with a settled turn, so that it can be loaded after a restart."""
    talk = Talk("generic", **policy)
    reach.idle(talk)
    return talk


def states(talk: Talk, number: int) -> list[str]:
    """What was recorded of the prompt of this number; `before` of the reach is number 1."""
    return [one.state for one in talk.persists if one.prompt == number]


# -- S5: a cancel with a queue ------------------------------------------------------------------
def test_s5_a_cancel_takes_the_queue_and_not_what_comes_after_it() -> None:
    talk = opened()
    talk.client(prompt(1, "one"), prompt(2, "two"), prompt(3, "three"))
    assert ["one"] == texts(talk.got())

    talk.client(cancel(), prompt(4, "four"))
    assert ["session/cancel"] == kinds(talk.got())

    talk.wait(1.9)
    assert [(2, "cancelled"), (3, "cancelled")] == kinds(talk.seen())

    talk.agent(chunk("late"), ended(1, "cancelled"))
    assert ["late", (1, "cancelled")] == kinds(talk.seen())
    assert ["four"] == texts(talk.got())

    talk.agent(chunk("d"), ended(4))
    assert ["d", (4, "end_turn")] == kinds(talk.seen())
    assert ["accepted", "cancelled", "answered"] == states(talk, 3) == states(talk, 4)


def test_s5_variant_the_cancelled_turn_never_ends() -> None:
    talk = opened()
    talk.client(prompt(1, "one"), cancel(), prompt(4, "four"))

    talk.wait(30.0)
    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert [(1, "wedged")] == told

    assert ["four"] == texts(obey(talk))
    talk.agent(chunk("d"), ended(4))
    assert ["d", (4, "end_turn")] == kinds(talk.seen())


# -- S6: late and idle cancels ------------------------------------------------------------------
def test_s6_stray_cancels_touch_nothing() -> None:
    talk = opened()
    talk.client(cancel())
    assert [] == talk.got()

    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), ended(1))
    talk.client(cancel(), prompt(2, "two"))
    assert ["one", "two"] == texts(talk.got())

    talk.agent(chunk("b"))
    talk.client(cancel(), cancel(), cancel())
    assert ["session/cancel"] == kinds(talk.got())

    talk.agent(ended(2, "cancelled"))
    talk.client({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}})
    talk.client(prompt(3, "three"))
    talk.agent(chunk("c"))
    talk.client(cancel(), prompt(4, "four"))
    talk.agent(ended(3, "cancelled"), chunk("d"), ended(4))

    sent = talk.got()
    assert (["three", "four"], 1) == (texts(sent), kinds(sent).count("session/cancel"))
    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert [(1, "end_turn"), (2, "cancelled"), (3, "cancelled"), (4, "end_turn")] == told


# -- S7: a cancel with open permission requests -------------------------------------------------
def test_s7_a_cancel_answers_the_cards() -> None:
    talk = opened()
    talk.client(prompt(1, "one"))
    talk.agent(permission(9), permission(10))
    assert ["session/request_permission"] * 2 == kinds(talk.seen())
    talk.got()

    talk.client(cancel())
    sent = talk.got()
    answers = {line["id"]: line["result"] for line in sent if "result" in line}
    assert {9: CANCELLED, 10: CANCELLED} == answers
    assert "session/cancel" in kinds(sent)
    assert ["$/cancel_request"] * 2 == kinds(talk.seen())

    talk.client(answer(9, ALLOW))
    assert ([], 1) == (talk.got(), talk.count("late_client_answer_dropped"))

    talk.agent(ended(1, "cancelled"))
    assert [(1, "cancelled")] == kinds(talk.seen())


# -- S10: the agent dies mid-turn with a queue --------------------------------------------------
def test_s10_a_death_costs_one_turn_and_nothing_else() -> None:
    talk = opened()
    talk.client(prompt(1, "one"), prompt(2, "two"), prompt(3, "three"))
    talk.agent(chunk("half"))
    talk.got()

    talk.die("exit status 143")
    shown, told = talk.seen()
    assert ["half", (1, "agent-exited")] == kinds([shown, told])
    assert "may have run" in told["error"]["message"]

    initialized(talk)
    load = loaded(talk, echo("one"), chunk("half"))
    assert {"cwd": "/w", "mcpServers": [], "sessionId": "s1"} == load["params"]
    assert [] == talk.seen()
    assert ["two"] == texts(talk.got())

    talk.agent(chunk("b"), ended(2), chunk("c"), ended(3))
    assert ["b", (2, "end_turn"), "c", (3, "end_turn")] == kinds(talk.seen())
    assert ["three"] == texts(talk.got())


@pytest.mark.parametrize("agent", ["generic", "hermes", "claude", "codex"])
def test_s10_a_response_that_came_with_the_death_stands(agent: str) -> None:
    """S10.4, for every profile: its queue goes on with the new process."""
    talk = Talk(agent)
    reach.idle(talk)
    talk.client(prompt(1, "one"), prompt(2, "two"))
    talk.agent(chunk("a"), ended(1))
    forget(talk)
    talk.agent(chunk("b"), ended(2))
    talk.die()

    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert [(2, "end_turn")] == told
    talk.client(prompt(3, "three"))
    assert ["three"] == texts(obey(talk))


def test_s10_a_death_between_the_disk_and_the_wire() -> None:
    """I8, I3: the intent is durable, the bytes are not written: it runs once, in the next one."""
    talk = Talk("generic")
    reach.sending(talk)
    talk.client(prompt(2, "two"))
    talk.die()
    talk.persisted()
    talk.disk = True

    sent = obey(talk)
    talk.persisted()
    sent += obey(talk)
    talk.agent(chunk("a"), ended(1))
    sent += obey(talk)

    assert ["one", "two"] == texts(sent)


def test_s10_a_second_death_during_the_load() -> None:
    """The chain starts over, and the prompt is still written once."""
    talk = opened()
    talk.client(prompt(1, "one"), prompt(2, "two"))
    talk.die()
    initialized(talk)
    owed(talk, "session/load")

    talk.die()
    initialized(talk)
    loaded(talk)

    assert ["two"] == texts(talk.got())
    assert [(1, "agent-exited")] == kinds(talk.seen())
