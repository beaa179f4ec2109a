"""A prompt arrives, waits and goes (R1 to R5, I5, I8)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.events import Persisted, PersistFailed
from tests.core.reach import (
    PLACES,
    at,
    forget,
    initialized,
    kinds,
    loaded,
    running,
    sending,
    texts,
    working,
)
from tests.core.script import Json, Talk, cancel, chunk, dumps, ended, notify, prompt, request, tool

REJECTED = {
    "sending", "running", "working", "doubted", "kept", "joined", "segment", "trailing",
    "ownerless", "cancelling", "reviving",
}  # fmt: skip
"""Places where a turn, or another prompt, is in the way of a new one."""


def states(talk: Talk, number: int) -> list[str]:
    return [one.state for one in talk.persists if one.prompt == number]


# -- R1, R2 -----------------------------------------------------------------------------------
def test_a_prompt_of_an_idle_session_goes_at_once_byte_for_byte() -> None:
    """R1, I7: what need not be changed has the bytes that we received."""
    talk = at("idle")
    line = dumps(prompt(1, "né ☃")).replace(b'"text":"', b'"x" : 1e400, "text" : "')
    talk.client(line)

    assert [line] == talk.agent_lines


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("midturn", ["auto", "steer", "queue"])
def test_a_prompt_waits_where_a_turn_is_in_the_way(place: str, midturn: str) -> None:
    """R1: an agent without steering gets the next prompt when the turn has really ended."""
    talk = at(place, midturn=midturn)
    talk.client(prompt(2, "two"))

    assert (["two"] if place == "idle" else []) == texts(talk.got())
    assert [] == talk.seen()


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("place", ["trailing", "ownerless"])
def test_an_agent_that_serialises_honestly_gets_it_beside_its_own_work(
    agent: str, place: str
) -> None:
    """R1: `fifo` agents keep their own order, so that waiting would be for nothing."""
    talk = at(place, agent)
    talk.client(prompt(2, "two"))

    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_no_second_prompt_goes_beside_one_of_ours_even_there(agent: str) -> None:
    """I4: at most one prompt of ours is at an agent session."""
    talk = at("working", agent)
    talk.client(prompt(2, "two"))

    assert [] == talk.got()


def test_a_codex_that_is_too_old_to_serialise_is_waited_for() -> None:
    """R1: codex serialises from 2.3; an older build counts as one that aborts."""
    talk = Talk("codex")
    talk.client(request("i", "initialize", {"protocolVersion": 1}))
    info = {"name": "@agentclientprotocol/codex-acp", "version": "2.2.9"}
    talk.agent({"jsonrpc": "2.0", "id": "i", "result": {"agentInfo": info}})
    talk.new()
    talk.wait(1.0)
    talk.agent(chunk("by itself"))
    talk.got()
    talk.client(prompt(1, "one"))
    talk.wait(59.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["one"] == texts(talk.got())


@pytest.mark.parametrize("place", PLACES)
def test_reject_answers_busy_only_where_something_is_in_the_way(place: str) -> None:
    """R2, I10: under `reject` too, a lost session must be revived by its next prompt."""
    talk = at(place, midturn="reject")
    talk.client(prompt(2, "two"))

    assert ([(2, "busy")] if place in REJECTED else []) == kinds(talk.seen())


@pytest.mark.parametrize("place", ["trailing", "ownerless"])
def test_reject_lets_through_what_needs_no_waiting(place: str) -> None:
    """R1, R2: where a prompt is sent at once there is nothing to refuse."""
    talk = at(place, "claude", midturn="reject")
    talk.client(prompt(2, "two"))

    assert ["two"] == texts(talk.got())
    assert [] == talk.seen()


def test_a_prompt_for_a_lost_session_without_restart_is_agent_exited() -> None:
    """R1: refused in words, not kept for an agent that will not come back."""
    talk = at("idle", restart=False)
    talk.die()
    talk.client(prompt(2, "two"))

    assert [(2, "agent-exited")] == kinds(talk.seen())
    assert [] == talk.got()


def test_prompts_keep_their_order() -> None:
    """I5: nothing overtakes, whatever is answered in between."""
    talk = at("working")
    talk.client(*(prompt(id_, f"p{id_}") for id_ in (2, 3, 4)))
    sent = []
    for id_ in (1, 2, 3, 4):
        talk.agent(chunk("w"), ended(id_))
        sent += texts(talk.got())

    assert ["p2", "p3", "p4"] == sent
    assert [1, 2, 3, 4] == [one["id"] for one in talk.seen() if "id" in one]


def test_sessions_do_not_wait_for_each_other() -> None:
    """States: a turn in one session is no reason to wait in another."""
    talk = at("working")
    talk.new("s2")
    talk.client(prompt(2, "two"), prompt(3, "three", "s2"))

    assert ["three"] == texts(talk.got())


# -- R3 ---------------------------------------------------------------------------------------
def blocks(*words: str) -> list[Json]:
    return [{"type": "text", "text": text} for text in words]


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        (["/queue x y"], ["x y"]),
        (["/steer x"], ["x"]),
        (["  /steer\n be brief "], ["be brief "]),
        (["/queue", "x"], ["", "x"]),
        (["", "/queue x"], ["", "x"]),
        (["/queue /steer x"], ["x"]),
        (["/queue /compact"], ["/compact"]),
        (["/queue", "/queue"], ["", "/queue"]),
        (["/queue"], ["/queue"]),
        (["/queue ", " "], ["/queue ", " "]),
        (["/ queue hello"], ["/ queue hello"]),
        (["/queuex y"], ["/queuex y"]),
        (["/compact"], ["/compact"]),
        (["say /queue x"], ["say /queue x"]),
        (["hi", "/queue x"], ["hi", "/queue x"]),
    ],
)
def test_hermes_queue_and_steer_are_taken_as_their_argument(
    typed: list[str], taken: list[str]
) -> None:
    """R3: an idle `/queue x` would run inside the next prompt, and a `/steer x` be lost."""
    talk = at("idle")
    talk.client(request(1, "session/prompt", {"sessionId": "s1", "prompt": blocks(*typed)}))
    (sent,) = talk.got()

    assert blocks(*taken) == sent["params"]["prompt"]


def test_other_agents_get_such_a_text_as_it_is() -> None:
    """R3 is Hermes' own: to claude, `/queue x` is a text like any other."""
    talk = at("idle", "claude")
    talk.client(prompt(1, "/queue x"))

    assert ["/queue x"] == texts(talk.got())


def test_a_queue_command_queues_behind_a_running_turn() -> None:
    """R3: taken as x under the policy, so it waits like any prompt and is answered for itself."""
    talk = at("working")
    talk.client(prompt(2, "/queue two"))
    talk.agent(ended(1))

    assert ["two"] == texts(talk.got())
    talk.agent(chunk("b"), ended(2))
    assert [(1, "end_turn"), "b", (2, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("params", [{"prompt": "no list"}, {"prompt": [1, {"type": "x"}]}, {}])
def test_a_prompt_of_no_known_shape_goes_as_it_came(params: Json) -> None:
    """Passing through: what a prompt may be is between the client and the agent."""
    talk = at("idle")
    line = dumps(request(1, "session/prompt", {"sessionId": "s1", **params}))
    talk.client(line)

    assert [line] == talk.agent_lines


# -- Persist ----------------------------------------------------------------------------------
def test_nothing_is_written_before_the_intent_is_durable() -> None:
    """I8: a crash between the two must find the intent on the disk."""
    talk = Talk("hermes")
    sending(talk)
    talk.wait(100.0)

    assert [] == talk.got()
    talk.persisted()
    assert ["one"] == texts(talk.got())


def test_a_prompt_s_way_is_recorded_step_by_step() -> None:
    """I8, case 10: the states in order, and the line with `accepted` alone."""
    talk = Talk("hermes")
    running(talk)
    talk.persists.clear()
    line = prompt(2, "two")
    talk.client(line)
    talk.agent(ended(1), chunk("b"), ended(2))

    way = ["accepted", "sending", "written", "started", "settled", "answered"]
    assert ["settled", "answered"] == states(talk, 2)
    assert way == states(talk, 3)
    assert [dumps(line)] == [one.line for one in talk.persists if one.line]
    assert 1 == sum(bool(one.token) for one in talk.persists)


def test_what_comes_behind_a_prompt_on_its_way_to_the_disk_keeps_its_place() -> None:
    """R26, I5: a mode that is set behind a prompt must not hit it, however slow the disk is."""
    talk = Talk("generic")
    sending(talk)
    mode = request(8, "session/set_mode", {"sessionId": "s1", "modeId": "m"})
    talk.client(mode, notify("_own/note", {"sessionId": "s1"}), request(9, "session/list", {}))
    assert ["session/list"] == kinds(talk.got())
    talk.persisted()
    assert ["session/prompt", "session/set_mode", "_own/note"] == kinds(talk.got())

    refused = Talk("generic")
    sending(refused)
    refused.client(mode)
    refused.persist_failed("no space left")
    assert ["session/set_mode"] == kinds(refused.got())


def test_a_disk_that_refuses_refuses_the_prompt_and_frees_the_session() -> None:
    """I8, R7: `not-durable` in words; the next prompt goes as if nothing had been."""
    talk = Talk("hermes")
    sending(talk)
    talk.client(prompt(2, "two"))
    talk.disk = True
    talk.persist_failed("no space left")
    refused, *_ = talk.seen()

    assert "not-durable" == refused["error"]["data"]["acpbridge"]["kind"]
    assert "no space left" in refused["error"]["message"]
    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize("answer", [Persisted, lambda token: PersistFailed(token, "late")])
def test_an_answer_of_the_disk_to_what_is_over_changes_nothing(answer: Any) -> None:
    """The prompt was cancelled, or taken back and sent again under another token."""
    talk = Talk("hermes")
    sending(talk)
    (owed,) = talk.unanswered
    talk.die()
    talk.unanswered.clear()
    talk.disk = True
    talk.feed(answer(owed.token))
    talk.feed(answer(99))

    assert [] == talk.seen()
    assert [] == texts(talk.got())
    assert 0 == talk.count("unexpected_event")


@pytest.mark.parametrize("answer", [Persisted, lambda token: PersistFailed(token, "late")])
def test_an_old_token_s_answer_does_not_count_for_a_new_one(answer: Any) -> None:
    """Taken back by a death and about to go again: only the newest intent's answer counts."""
    talk = Talk("hermes")
    sending(talk)
    (old,) = talk.unanswered
    talk.die()
    initialized(talk)
    loaded(talk)
    forget(talk)
    talk.feed(answer(old.token))

    assert [] == talk.seen() + talk.got()
    talk.persisted()
    assert ["one"] == texts(talk.got())


def test_a_cancel_before_the_disk_answers_keeps_the_bytes_back() -> None:
    """R16, I3: what was not written is never written once it is cancelled."""
    talk = Talk("hermes")
    sending(talk)
    talk.client(cancel())
    talk.persisted()

    assert [(1, "cancelled")] == kinds(talk.seen())
    assert [] == talk.got()
    assert 0 == talk.count("unexpected_event")


@pytest.mark.parametrize("end", [Talk.stop, Talk.leave])
def test_nothing_is_sent_after_the_end_was_asked_for(end: Any) -> None:
    """R23: the disk answers late, and the prompt is recorded as undelivered."""
    talk = Talk("hermes")
    sending(talk)
    end(talk)
    talk.persisted()

    assert [] == texts(talk.got())
    assert "accepted" == states(talk, 2)[-1]
    assert "undelivered" in talk.persists[-1].reason


def test_work_before_the_write_is_not_the_prompt_s() -> None:
    """R11: what the agent said while the disk was busy proves nothing about this prompt."""
    talk = Talk("hermes")
    sending(talk)
    talk.agent(tool())
    talk.disk = True
    talk.persisted()
    talk.agent(ended(1, usage=False))

    assert 1 == talk.count("empty_answer_held")


def test_a_turn_that_takes_minutes_is_left_alone() -> None:
    """S16.1: no watchdog of ours ends, answers or cancels a running turn."""
    talk = Talk("hermes")
    working(talk)
    talk.wait(3600.0)

    assert [] == talk.seen() + talk.got()
