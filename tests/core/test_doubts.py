"""Which answers are not believed at once: the empty and the suspect (R11, R12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.reach import (
    at,
    doubted,
    forget,
    idle,
    kinds,
    running,
    tags,
    texts,
)
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    permission,
    prompt,
    tool,
    tool_update,
    usage,
)

BARE = ended(1, usage=False)


# -- R11: empty -------------------------------------------------------------------------------
def test_an_empty_answer_without_work_goes_out_as_it_came() -> None:
    """R11: half a second later, byte for byte, and counted."""
    talk = at("running")
    line = b'{"jsonrpc":"2.0", "id":1,"result":{"stopReason":"end_turn","usage":null}}'
    talk.agent(line)
    talk.wait(0.49)

    assert [] == talk.client_lines
    talk.wait(0.01)
    assert [line] == talk.client_lines
    assert (1, 1) == (talk.count("empty_answer_held"), talk.count("doubted_answer_passed"))


@pytest.mark.parametrize(
    "work", [chunk("real"), tool(), permission(7)], ids=["chunk", "tool", "ask"]
)
def test_work_behind_an_empty_answer_makes_it_a_receipt(work: Json) -> None:
    """R11, S8.5: the real answer comes now, and its end ends the prompt."""
    talk = at("running")
    talk.agent(BARE)
    talk.wait(0.4)
    talk.agent(work)
    talk.wait(10.0)

    assert (1, "end_turn") not in kinds(talk.seen())
    assert 1 == talk.count("doubted_answer_was_receipt")
    assert "started" in [one.state for one in talk.persists]
    talk.client(answer(7, {}))
    talk.agent(tool_update(), chunk("more"), usage())
    talk.wait(1.0)
    assert ["marked"] == tags(talk.seen())


def test_the_quiet_that_ends_it_counts_also_in_a_turn_that_was_nobody_s_before() -> None:
    """R8: 5, R5: the prompt went into the agent's own work, whose clock ran already."""
    talk = at("ownerless", "claude")
    talk.client(prompt(1))
    talk.agent(BARE, chunk("real"))
    talk.wait(59.9)

    assert [] == tags(talk.seen())
    talk.wait(0.1)
    assert ["inferred"] == tags(talk.seen())


@pytest.mark.parametrize("idle_frame", [usage(), chunk(""), echo("x")])
def test_what_is_no_work_does_not_make_it_one(idle_frame: Json) -> None:
    """R11: the agent's housekeeping behind an empty turn is no answer of its own."""
    talk = at("running")
    talk.agent(BARE, idle_frame)
    talk.wait(0.5)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


@pytest.mark.parametrize(
    "result",
    [
        {"stopReason": "end_turn", "usage": {"totalTokens": 0}},
        {"stopReason": "end_turn", "_meta": {}},
        {"stopReason": "end_turn", "x": None},
        {"stopReason": "refusal"},
        {"stopReason": "cancelled"},
        {"stopReason": "max_tokens"},
        {},
        None,
    ],
)
def test_only_a_bare_end_turn_is_doubted(result: Any) -> None:
    """Design, "bare": any other member, or another reason, is the agent's own word."""
    talk = Talk("generic")
    running(talk)
    forget(talk)
    talk.agent(answer(1, result))

    assert [answer(1, result)] == talk.seen()


@pytest.mark.parametrize("command", ["/compact", "/help x", "/advertised"])
def test_a_command_s_empty_answer_is_believed(command: str) -> None:
    """R11, R12: commands answer at once and say nothing."""
    talk = at("idle")
    listed = [{"name": "advertised", "description": "d"}, "no entry", {"name": 1}]
    variant = "available_commands_update"
    update = {"sessionUpdate": variant, "availableCommands": listed}
    talk.agent(
        {"jsonrpc": "2.0", "method": "session/update",
         "params": {"sessionId": "s1", "update": update}}
    )  # fmt: skip
    talk.client(prompt(1, command))
    forget(talk)
    talk.agent(BARE)

    assert [(1, "end_turn")] == kinds(talk.seen())


def test_a_slash_that_is_no_command_is_doubted_like_any_text() -> None:
    talk = at("idle")
    talk.client(prompt(1, "/etc/x is full"))
    forget(talk)
    talk.agent(BARE)

    assert [] == talk.seen()


def test_while_an_answer_is_doubted_the_next_prompt_waits() -> None:
    """I4: if it was a receipt, the agent has the first one still."""
    talk = at("doubted")
    talk.client(prompt(2, "two"))

    assert [] == talk.got()
    talk.wait(0.5)
    assert ["two"] == texts(talk.got())


def test_a_cancelled_prompt_s_empty_answer_is_believed() -> None:
    """R16: a held answer goes out at once, and an answer to a cancelled one is not held."""
    talk = at("working")
    talk.client(cancel())
    talk.agent(BARE)

    assert [(1, "end_turn")] == kinds(talk.seen())
    again = at("doubted")
    again.client(cancel())
    assert [(1, "end_turn")] == kinds(again.seen())


def test_a_grace_of_nothing_believes_at_once() -> None:
    """S8.5 with `empty_grace = 0`: the answer, then the late text."""
    talk = at("running", empty_grace_s=0.0)
    talk.agent(BARE)
    talk.wait(0.0)

    assert [(1, "end_turn")] == kinds(talk.seen())


# -- R12: suspect -----------------------------------------------------------------------------
def suspect(agent: str = "hermes", after_s: float = 0.0, **policy: Any) -> Talk:
    talk = at("running", agent, **policy)
    talk.agent(chunk("Some sentence that nobody knows yet."))
    talk.wait(after_s)
    forget(talk)
    talk.agent(BARE)
    return talk


def test_a_suspect_answer_without_work_goes_out_as_it_came() -> None:
    """R12: two seconds later; counted and named, so that a new sentence is a report."""
    talk = suspect()
    talk.wait(1.99)

    assert [] == talk.seen()
    talk.wait(0.01)
    assert [BARE] == talk.seen()
    assert ["suspect_answer_held"] == [n.name for n in talk.notes if n.level == "warning"]


def test_work_behind_a_suspect_answer_makes_it_a_receipt() -> None:
    """R12: an agent's new receipt sentence is not the old bug back."""
    talk = suspect()
    talk.wait(1.9)
    talk.agent(chunk("the turn goes on"))
    talk.wait(30.0)

    assert ["the turn goes on"] == kinds(talk.seen())
    talk.agent(chunk("and ends"), usage())
    talk.wait(1.0)
    assert ["marked"] == tags(talk.seen())


@pytest.mark.parametrize(("after_s", "held"), [(0.25, 1), (0.26, 0)])
def test_only_an_answer_within_a_quarter_of_a_second_is_suspect(after_s: float, held: int) -> None:
    """R12: a receipt takes a millisecond, a model does not."""
    talk = suspect(after_s=after_s)

    assert held == talk.count("suspect_answer_held")


def test_an_agent_whose_completions_never_carried_usage_is_not_suspected() -> None:
    """R12: of a bare answer there nothing is missing."""
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(1))
    talk.agent(chunk("a"), BARE)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_a_null_usage_shows_nothing() -> None:
    """R12, design "bare": "a null `usage` counts as none"."""
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(0))
    talk.agent(chunk("a"), answer(0, {"stopReason": "end_turn", "usage": None}))
    talk.client(prompt(1))
    talk.agent(chunk("a"), BARE)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]


def test_an_earlier_turn_of_the_process_shows_what_to_expect() -> None:
    """R12: "profile or earlier turn in this process", in any session of it."""
    talk = Talk("generic")
    idle(talk)
    talk.new("s2")
    talk.client(prompt(1, "one", "s2"))
    talk.agent(chunk("a", "s2"), BARE)

    assert 1 == talk.count("suspect_answer_held")


def test_a_usage_update_since_the_write_clears_the_suspicion() -> None:
    """R12: the agent has run a model for it."""
    talk = at("running")
    talk.agent(chunk("a"), usage(), BARE)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]
    assert 0 == talk.count("suspect_answer_held")


def test_a_usage_update_before_the_write_does_not() -> None:
    talk = at("idle")
    talk.agent(usage())
    talk.client(prompt(1))
    talk.agent(chunk("a"), BARE)

    assert 1 == talk.count("suspect_answer_held")


def test_a_usage_update_while_the_disk_is_busy_does_not_either() -> None:
    """R12: "since the write": it belongs to the turn before."""
    talk = at("sending")
    talk.agent(usage())
    talk.disk = True
    talk.persisted()
    talk.agent(chunk("a"), BARE)

    assert 1 == talk.count("suspect_answer_held")


def test_a_usage_update_before_a_refusal_does_not_either() -> None:
    """R7, R12: a prompt that is written again begins anew."""
    talk = at("running")
    talk.agent(usage(), error(1, -32000, "busy", {"reason": "session_busy"}))
    talk.wait(0.25)
    talk.agent(chunk("a"), BARE)

    assert 1 == talk.count("suspect_answer_held")


def test_a_second_answer_to_a_held_one_is_dropped() -> None:
    """R26, I1: one response, also while the first is doubted."""
    talk = Talk("hermes")
    doubted(talk)
    talk.agent(ended(1))
    talk.wait(0.5)

    assert [(1, "end_turn")] == kinds(talk.seen())
    assert 1 == talk.count("unknown_answer_dropped")
