"""The Codeg profile: results, errors and notices in words it can stand (codeg.md 4, 7)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, in_session, kinds, set_mode
from tests.core.script import (
    CAPABILITIES,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    dumps,
    ended,
    error,
    notify,
    permission,
    prompt,
    request,
)


def codeg(place: str = "idle", agent: str = "hermes", **policy: Any) -> Talk:
    talk = Talk(agent, "codeg", **policy)
    reach.PLACES[place][1](talk)
    return talk


def times(
    talk: Talk, frames: list[Json], until_s: float, step_s: float = 0.01
) -> list[tuple[float, Any]]:
    """Let the agent write `frames`, then time pass; (seconds since, what the client got)."""
    begun = talk.now
    talk.agent(*frames)
    told: list[tuple[float, Any]] = []
    while talk.now - begun < until_s:
        told += [(round(talk.now - begun, 2), kind) for kind in kinds(talk.seen())]
        talk.wait(step_s)
    return told


# -- null results, unasked cancels, id-less errors ----------------------------------------------
@pytest.mark.parametrize("method", [
    "session/load",
    "session/resume",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
])  # fmt: skip
@pytest.mark.parametrize("id_", [b"4", b"4.0"], ids=["plain id", "private id"])
def test_null_becomes_an_object(method: str, id_: bytes) -> None:
    """codeg.md 3, 7: `null` is a parse error there, and a new session or a red toast."""
    talk = Talk("generic", "codeg")
    reach.idle(talk)
    body = b',"method":"' + method.encode() + b'","params":{"sessionId":"s1","cwd":"/w"}}'
    talk.client(b'{"jsonrpc":"2.0","id":' + id_ + body)
    (asked,) = talk.got()

    talk.agent(chunk("h"), answer(asked["id"], None))

    assert b'{"jsonrpc":"2.0","id":' + id_ + b',"result":{}}' == talk.client_lines[-1]


def test_other_results_and_errors_keep_their_bytes() -> None:
    talk = codeg(agent="generic")
    talk.client(set_mode("a"), set_mode("b"), request("c", "_x/y", {}))
    lines = [dumps(answer("a", {"x": 1})), dumps(error("b", -32603)), dumps(answer("c", None))]

    talk.agent(*lines)

    assert lines == talk.client_lines


def test_an_unasked_cancelled_becomes_an_end_of_turn() -> None:
    """codeg.md 4: a `cancelled` that it did not ask for leaves the row stuck in progress."""
    talk = codeg("working")
    line = b'{"jsonrpc":"2.0","id":1,"result":{"stopReason" : "cancelled","usage":{"n":1.0}}}'

    talk.agent(line)

    assert [line.replace(b"cancelled", b"end_turn")] == talk.client_lines
    assert 1 == talk.count("unasked_cancel_reworded")


def test_an_unasked_cancelled_without_output_is_an_empty_end_of_turn() -> None:
    talk = codeg("running")

    talk.agent(ended(1, "cancelled"))
    talk.wait(0.2)

    assert "without any output" in kinds(talk.seen())[0]


def test_a_cancelled_that_it_asked_for_stays() -> None:
    talk = codeg("cancelling")
    line = dumps(ended(1, "cancelled"))

    talk.agent(line)

    assert [line] == talk.client_lines


def test_its_error_frames_without_an_id_go_nowhere() -> None:
    """codeg.md 7: it answers so to what it does not understand; the agent would choke on it."""
    talk = codeg("working")

    talk.client(b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"},"id":null}')
    talk.client(b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"}}')

    assert ([], []) == (talk.got(), talk.seen())


# -- errors as text -----------------------------------------------------------------------------
def test_an_error_of_the_agent_is_said_and_the_turn_ended() -> None:
    """codeg.md 0.a: an error on a prompt ends the process; this says it and goes on."""
    talk = codeg("working")

    talk.agent(error(1, -32603, "boom " + "x" * 1000))
    talk.wait(0.2)

    said, told = talk.seen()
    assert "agent_message_chunk" == said["params"]["update"]["sessionUpdate"]
    text = said["params"]["update"]["content"]["text"]
    assert text.startswith("The agent answered with an error: boom")
    assert len(text) < 600
    expected = {"stopReason": "end_turn", "_meta": {"acpbridge": {"kind": "agent-error"}}}
    assert expected == told["result"]


@pytest.mark.parametrize("body", [{"code": 1}, {"message": 7}, {"message": ""}], ids=str)
def test_an_error_without_a_message_is_said_too(body: Json) -> None:
    talk = codeg("working")

    talk.agent({"jsonrpc": "2.0", "id": 1, "error": body})
    talk.wait(0.2)

    assert "no reason given" in kinds(talk.seen())[0]


def test_an_error_on_a_cancelled_prompt_is_not_said() -> None:
    """codeg.md 4: its answer is swallowed there; words would land in the next turn."""
    talk = codeg("cancelling")

    talk.agent(error(1, -32000, "boom"))
    talk.wait(0.2)

    assert [(1, "end_turn")] == kinds(talk.seen())


def test_errors_of_other_requests_stay_errors() -> None:
    """Only a prompt's error kills the connection; a load has a ladder of its own for them."""
    talk = Talk("generic", "codeg")
    talk.initialize()
    talk.client(in_session("L", "session/load", "old"))
    forget(talk)
    line = dumps(error("L", -32002, "Resource not found"))

    talk.agent(line)

    assert [line] == talk.client_lines


# -- notices and withdrawals --------------------------------------------------------------------
def test_a_waiting_prompt_shows_one_thought_after_two_seconds() -> None:
    """Design, issue: on by default; a thought is a collapsible block, no part of the reply."""
    talk = codeg("cancelling")
    talk.client(prompt(2, "two"))

    told = times(talk, [], 10.0, 0.1)

    ((at_s, text),) = told
    assert at_s == pytest.approx(2.0, abs=0.11)
    assert "cancelled turn" in text


@pytest.mark.parametrize("how", ["cancel", "agent", "unknown", "death"])
def test_it_is_never_told_of_a_withdrawal(how: str) -> None:
    """codeg.md 7: a notification without a session id is answered by an error frame there."""
    talk = codeg("working")
    talk.agent(permission(9))
    forget(talk)

    if how == "cancel":
        talk.client(cancel())
    elif how == "death":
        talk.die()
    else:
        number = 9 if how == "agent" else 10
        talk.agent(notify("$/cancel_request", {"requestId": number}))
    talk.wait(0.5)

    assert [] == [line for line in talk.seen() if line.get("method") == "$/cancel_request"]


def test_it_is_chosen_by_its_name_too() -> None:
    """Today it sends no clientInfo; should it begin to, no option is needed."""
    talk = Talk("generic")
    talk.bridge.client_chosen = False
    params = {"protocolVersion": 1, "clientInfo": {"name": "codeg", "version": "1"}}

    talk.client(request("i", "initialize", params))
    talk.agent(answer("i", {"protocolVersion": 1, "agentCapabilities": CAPABILITIES}))

    assert "codeg" == talk.bridge.client.name
