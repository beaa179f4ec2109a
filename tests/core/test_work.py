"""What is work and what is not, variant by variant (design, "work"; R5, R11)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.work import CALLS_MAX, MESSAGES_MAX
from tests.core.reach import at, forget
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    chunk,
    echo,
    ended,
    notify,
    permission,
    prompt,
    request,
    tool,
    tool_update,
    update,
    usage,
)


def content(variant: str, **block: Any) -> Json:
    return update(variant, content=block)


def asks(method: str) -> Json:
    return request(7, method, {"sessionId": "s1"})


WORK: list[Json] = [
    chunk("x"),
    chunk("\n"),
    chunk('with "quotes" and \\'),
    content("agent_thought_chunk", type="text", text="x"),
    content("agent_message_chunk", type="image", data="", mimeType="image/png"),
    content("agent_thought_chunk", type="resource_link", uri="u", name="n"),
    tool(),
    tool("t2", kind="read"),
    update("plan", entries=[]),
    permission(7),
    asks("elicitation/create"),
    asks("fs/read_text_file"),
    asks("fs/write_text_file"),
    asks("terminal/create"),
    asks("terminal/output"),
    asks("terminal/wait_for_exit"),
    asks("terminal/kill"),
    asks("terminal/release"),
]

NO_WORK: list[Json] = [
    chunk(""),
    content("agent_thought_chunk", type="text", text=""),
    content("agent_message_chunk", type="text"),
    update("agent_message_chunk"),
    update("agent_message_chunk", content="x"),
    chunk(QUEUED),
    chunk(REDIRECTED),
    content("agent_thought_chunk", type="text", text=QUEUED),
    tool_update("never opened"),
    update("tool_call_update"),
    tool("hermes-subagent:1"),
    usage(),
    update("session_info_update", title="t"),
    update("available_commands_update", availableCommands=[]),
    update("current_mode_update", currentModeId="m"),
    update("config_option_update", configOptions=[]),
    update("some_new_variant", content={"type": "text", "text": "x"}),
    notify("session/update", {"sessionId": "s1"}),
    notify("_hermes/process", {"sessionId": "s1"}),
    notify("_hermes/notification", {"sessionId": "s1", "text": "x"}),
    asks("_vendor/ask"),
    asks("elicitation/complete"),
]


def name(frame: Json) -> str:
    return str(frame["params"].get("update", frame["method"]))[:70]


@pytest.mark.parametrize("frame", WORK, ids=name)
def test_work_opens_a_turn_and_keeps_an_answer_from_being_empty(frame: Json) -> None:
    """Only work moves a session's state or a timer."""
    talk = at("idle")
    talk.agent(frame)

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value
    again = at("running")
    again.agent(frame, ended(1, usage=False))
    assert 0 == again.count("empty_answer_held")


@pytest.mark.parametrize("frame", NO_WORK, ids=name)
def test_the_rest_opens_nothing_and_proves_nothing(frame: Json) -> None:
    """Usage, titles, notices, empty chunks and receipt texts come at any time."""
    talk = at("idle")
    talk.agent(frame)

    assert "idle" == talk.bridge.sessions["s1"].phase.value
    assert [frame] == talk.seen()
    again = at("running")
    again.agent(frame)
    # A receipt text is held for this long.
    again.wait(0.3)
    assert "started" not in [one.state for one in again.persists]
    assert "running" == again.bridge.sessions["s1"].phase.value
    assert not again.bridge.sessions["s1"].at_agent[0].worked


def test_an_echo_opens_a_turn_and_is_no_work() -> None:
    """A `user_message_chunk` "opens a segment or an ownerless turn but is no work"."""
    talk = at("idle")
    talk.agent(echo("x"))

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value
    again = at("running")
    again.agent(echo("one"), ended(1, usage=False))
    assert 1 == again.count("empty_answer_held")


@pytest.mark.parametrize("frame", [tool_update("t1"), tool_update("t1", status="in_progress")])
def test_an_update_of_a_call_opened_in_this_turn_is_work(frame: Json) -> None:
    """It moves the quiet clock of the turn that opened the call."""
    talk = at("ownerless")
    talk.agent(tool("t1"), tool_update("t1"))
    talk.wait(59.0)
    talk.agent(frame)
    talk.wait(59.0)

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value


def test_an_update_of_a_call_of_an_earlier_turn_is_none() -> None:
    """Hermes' subagents go on reporting in a later turn (hermes.md 4)."""
    talk = at("running")
    talk.agent(tool("old"), ended(1))
    talk.client(prompt(2, "two"))
    talk.agent(tool_update("old"), ended(2, usage=False))

    assert 1 == talk.count("empty_answer_held")


def test_a_call_that_is_told_again_is_not_new() -> None:
    """Only "a new `tool_call`": the same id in the same turn opens nothing again."""
    talk = at("ownerless")
    talk.agent(tool("t1"), tool_update("t1"))
    talk.wait(30.0)
    talk.agent(tool("t1"))
    talk.wait(30.0)

    assert "idle" == talk.bridge.sessions["s1"].phase.value


@pytest.mark.parametrize("shaped", [True, False])
def test_a_chunk_is_work_whether_its_shape_was_known_or_not(shaped: bool) -> None:
    talk = Talk("hermes", shaped=shaped)
    talk.open()
    talk.client(prompt(1))
    talk.agent(chunk("a"), chunk("b"), ended(1))
    talk.wait(1.0)
    talk.agent(chunk("c"))

    assert "ownerless" == talk.bridge.sessions["s1"].phase.value


@pytest.mark.parametrize(
    ("count", "then"), [(MESSAGES_MAX, "trailing"), (MESSAGES_MAX + 1, "ownerless")]
)
def test_the_messages_of_a_turn_are_remembered_up_to_a_limit(count: int, then: str) -> None:
    """I9; one past it, a tail of that message counts as new: the careful side."""
    talk = at("running")
    for number in range(count):
        talk.agent(chunk("x", messageId=f"m{number}"))
    talk.agent(ended(1), chunk("tail", messageId=f"m{count - 1}"))

    assert then == talk.bridge.sessions["s1"].phase.value


@pytest.mark.parametrize(("count", "held"), [(CALLS_MAX, 0), (CALLS_MAX + 1, 1)])
def test_the_calls_of_a_turn_are_remembered_up_to_a_limit(count: int, held: int) -> None:
    """I9; one past it, an update of that call moves nothing."""
    talk = at("ownerless")
    for number in range(count):
        talk.agent(tool(f"t{number}", kind="read"))
    forget(talk)
    talk.wait(59.0)
    talk.agent(tool_update(f"t{count - 1}"))
    talk.wait(1.0)

    assert ("idle" if held else "ownerless") == talk.bridge.sessions["s1"].phase.value
