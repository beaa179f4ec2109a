"""A wedged session beside a live one: forked and aliased, or it waits (R24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, obey, owed, set_mode, texts
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    ended,
    error,
    new_result,
    notify,
    permission,
    prompt,
    request,
    tool,
    update,
    wedge,
)


def phase(talk: Talk, session: str = "s1") -> str:
    return talk.bridge.sessions[session].phase.value


# -- recovered by a fork ------------------------------------------------------------------------
def beside_another(**policy: Any) -> Talk:
    """s1 is wedged while s2 runs a turn."""
    talk = Talk("hermes", **policy)
    reach.wedged(talk)
    talk.new("s2")
    talk.client(prompt("x", "x", "s2"))
    talk.agent(chunk("x", "s2"))
    talk.wait(1.0)
    forget(talk)
    return talk


def test_beside_a_live_turn_it_is_forked_and_aliased() -> None:
    """R24, R25: the other session keeps its turn; ids are translated both ways."""
    talk = beside_another()

    talk.client(prompt(2, "two"))
    fork = owed(talk, "session/fork")
    talk.agent(answer(fork["id"], new_result("f1")))
    (sent,) = talk.got()
    talk.agent(chunk("b", "f1"), permission(7, "f1"), ended(2))
    shown = talk.seen()

    assert ("s1", []) == (fork["params"]["sessionId"], talk.stops)
    assert set() == talk.bridge.wedged
    assert ("f1", ["two"]) == (sent["params"]["sessionId"], texts([sent]))
    assert ["s1", "s1"] == [line["params"]["sessionId"] for line in shown[:2]]
    assert ["b", "session/request_permission", (2, "end_turn")] == kinds(shown)


def test_everything_that_the_client_sends_goes_to_the_fork() -> None:
    talk = beside_another()
    talk.client(prompt(2, "two"))
    obey(talk)
    talk.agent(chunk("b", "fork-1"))
    talk.wait(1.0)
    forget(talk)

    talk.client(set_mode("m"))
    talk.wait(0.05)
    talk.client(cancel())
    talk.wait(0.05)

    sent = talk.got()
    assert ["session/set_mode", "session/cancel"] == kinds(sent)
    assert ["fork-1", "fork-1"] == [line["params"]["sessionId"] for line in sent]


def test_settings_are_sent_to_the_fork_before_the_prompt() -> None:
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(set_mode("m", "plan"))
    talk.agent(answer("m", {}))
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"))
    talk.client(cancel())
    talk.wait(0.1)
    talk.agent(wedge(1))
    talk.new("s2")
    talk.client(prompt("x", "x", "s2"))
    forget(talk)
    talk.client(prompt(2, "two"))
    fork = owed(talk, "session/fork")

    talk.agent(answer(fork["id"], new_result("f1")))
    (setting,) = talk.got()
    talk.agent(answer(setting["id"], {}))

    assert ("f1", "plan") == (setting["params"]["sessionId"], setting["params"]["modeId"])
    assert ["two"] == texts(talk.got())


def test_what_the_stuck_turn_still_says_is_no_work_of_the_new_one() -> None:
    """R24: it comes under the id that the fork has left behind."""
    talk = beside_another()
    talk.client(prompt(2, "two"))
    obey(talk)
    forget(talk)

    talk.agent(chunk("old"), tool("t9"), permission(5), wedge(2))

    assert ["old", "tool_call"] == kinds(talk.seen())
    (told,) = [line for line in talk.got() if line.get("id") == 5]
    assert {"outcome": {"outcome": "cancelled"}} == told["result"]
    assert 1 == talk.count("prompt_taken_back")


@pytest.mark.parametrize(
    "reply", [error(0, -32603), answer(0, {"sessionId": ""})], ids=["error", "empty"]
)
def test_a_fork_that_fails_waits_for_the_others_and_restarts(reply: Json) -> None:
    """R24: the conversation is not lost, only copying it has failed."""
    talk = beside_another()
    talk.client(prompt(2, "two"))
    fork = owed(talk, "session/fork")

    talk.agent({**reply, "id": fork["id"]})
    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    stops = len(talk.stops)
    talk.agent(ended("x"))

    assert ([], 0) == (told, stops)
    assert 1 == len(talk.stops)
    assert ["two"] == texts(obey(talk))


def test_without_restart_it_is_forked_too() -> None:
    """R24: a fork needs no restart; with nothing else it is the remedy that is left."""
    talk = Talk("hermes", restart=False)
    reach.wedged(talk)

    talk.client(prompt(2, "two"))

    assert ["two"] == texts(obey(talk))
    assert [] == talk.stops


def test_without_restart_and_fork_the_prompt_is_refused_in_words() -> None:
    """I10: it cannot run, and says why."""
    talk = Talk("hermes", restart=False)
    reach.wedged(talk)
    talk.bridge.capabilities = {"loadSession": True}

    talk.client(prompt(2, "two"))

    assert [(2, "wedged")] == kinds(talk.seen())


def test_without_a_fork_it_waits_for_the_others_to_end() -> None:
    """R24: never restart over a live turn."""
    talk = beside_another()
    talk.bridge.capabilities = {"loadSession": True}
    talk.client(prompt(2, "two"))

    talk.wait(60.0)
    early = len(talk.stops)
    talk.agent(ended("x"))

    assert 0 == early
    assert 1 == len(talk.stops)
    assert ["two"] == texts(obey(talk))


def test_a_request_of_another_session_is_not_cut_off_by_a_restart() -> None:
    """R24: an open session/new is something live too."""
    talk = Talk("hermes")
    reach.wedged(talk)
    talk.client(request("n", "session/new", {"cwd": "/w"}))

    talk.client(prompt(2, "two"))

    assert [] == talk.stops
    assert ["session/new", "session/fork"] == kinds(talk.got())


def test_what_else_the_left_session_says_is_passed_on() -> None:
    """I6: only its work is old; a file request has to be answered as any other."""
    talk = beside_another()
    talk.client(prompt(2, "two"))
    obey(talk)
    forget(talk)

    talk.agent(
        request(6, "fs/read_text_file", {"sessionId": "s1", "path": "/w/a"}),
        notify("_x/y", {"sessionId": "s1"}),
    )
    talk.client(answer(6, {"content": "x"}))

    assert ["fs/read_text_file", "_x/y"] == kinds(talk.seen())
    assert [6] == [line["id"] for line in talk.got()]


def test_the_late_answer_of_the_left_turn_is_dropped() -> None:
    """I1: it was given up after `cancel_settle` and answered then."""
    talk = Talk("hermes")
    reach.cancelling(talk)
    talk.new("s2")
    talk.client(prompt("x", "x", "s2"))
    talk.agent(chunk("x", "s2"))
    talk.wait(30.0)
    talk.client(prompt(2, "two"))
    obey(talk)
    forget(talk)

    talk.agent(ended(1, "cancelled"), chunk("b", "fork-1"), ended(2))

    assert ["b", (2, "end_turn")] == kinds(talk.seen())
    assert 1 == talk.count("late_answer_dropped")


def test_a_failed_fork_waits_for_open_requests_too() -> None:
    """I10: the last thing that a restart would have cut off is answered; now it may be."""
    talk = Talk("hermes")
    reach.wedged(talk)
    talk.client(request("n", "session/new", {"cwd": "/w"}), prompt(2, "two"))
    fork = owed(talk, "session/fork")
    talk.agent(error(fork["id"], -32603))
    early = len(talk.stops)

    talk.agent(answer("n", new_result("s2")))

    assert 0 == early
    assert ["two"] == texts(obey(talk))
    assert 1 == len(talk.stops)


def test_a_fork_that_is_answered_too_late_is_not_used() -> None:
    """I9: after `restart_max` the other way is taken; a copy that nobody knows stays alone."""
    talk = beside_another()
    talk.client(prompt(2, "two"))
    fork = owed(talk, "session/fork")
    talk.wait(30.1)

    talk.agent(answer(fork["id"], new_result("f1")))
    early = texts(talk.got())
    talk.agent(ended("x"))

    assert [] == early
    assert ["two"] == texts(obey(talk))
    assert 1 == len(talk.stops)


def test_an_agent_that_was_never_initialized_is_not_restarted() -> None:
    """R23: it would refuse our initialize as it refused the client's; the prompt hears why."""
    talk = Talk("hermes")
    talk.client(request("i", "initialize", {"protocolVersion": 1}))
    talk.agent(error("i", -32603))
    talk.new()
    talk.client(prompt(1, "one"))
    talk.seen()

    talk.agent(wedge(1))

    assert [(1, "wedged")] == kinds(talk.seen())
    assert [] == talk.stops


def test_a_death_while_the_fork_is_open_goes_on_with_a_load() -> None:
    """R23: the chain can break anywhere; the other session's turn is lost with its process."""
    talk = beside_another()
    talk.client(prompt(2, "two"))
    owed(talk, "session/fork")

    talk.die()

    assert ["two"] == texts(obey(talk))
    assert [("x", "agent-exited")] == kinds(talk.seen())


def test_after_a_fork_the_fork_is_loaded_and_no_older_tip() -> None:
    """R25: a rotation before the fork named an id that the conversation has left."""
    talk = Talk("hermes")
    reach.idle(talk)
    told = {"acpSessionId": "s1", "currentHermesSessionId": "tip-1"}
    rotation = {"hermes": {"sessionProvenance": told}}
    talk.agent(update("session_info_update", title="t", _meta=rotation))
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"))
    talk.client(cancel())
    talk.wait(0.1)
    talk.agent(wedge(1))
    talk.new("s2")
    talk.client(prompt("x", "x", "s2"), prompt(2, "two"))
    obey(talk)
    talk.agent(chunk("b", "fork-1"), ended(2))
    forget(talk)
    talk.die()
    talk.client(prompt(3, "three"))
    reach.initialized(talk)

    loads = [line["params"]["sessionId"] for line in talk.got() if line["method"] == "session/load"]
    assert ["fork-1"] == loads
