"""What a prompt is answered by, and what the answer says about that (R8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.as_written import AS_WRITTEN
from tests.core.reach import (
    at,
    doubted,
    joined,
    kept,
    kinds,
    segment,
    tags,
    working,
)
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Talk,
    answer,
    chunk,
    dumps,
    echo,
    ended,
    error,
    prompt,
    request,
    tool,
    usage,
)

BARE = ended(1, usage=False)


# -- R8: 1 ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "result",
    [
        b'{"stopReason":"end_turn","usage":{"totalTokens":1e400},"x":1.0}',
        b'{"stopReason":"max_tokens"}',
        b'{ "stopReason" : "max_turn_requests" }',
        b'{"stopReason":"some_new_reason"}',
        b'{"stopReason":null}',
        b"null",
        b"[]",
        b'"done"',
    ],
)
def test_the_agent_s_own_response_goes_out_byte_for_byte(result: bytes) -> None:
    """R8: 1, I7: no tag, no new encoding, whatever the agent thinks a completion is."""
    talk = at("working")
    line = b'{"jsonrpc":"2.0","id":1,"result":%b}' % result
    talk.agent(line)

    assert [line] == talk.client_lines


def test_an_error_is_an_answer_too_byte_for_byte() -> None:
    """R8: 1: any error but those of R7 and R24 is the prompt's answer."""
    talk = at("working")
    line = dumps(error(1, -32000, "provider broke", {"n": 1.50}))
    talk.agent(line)

    assert [line] == talk.client_lines
    assert "idle" == talk.bridge.sessions["s1"].phase.value


def test_an_update_that_came_before_a_response_is_written_before_it() -> None:
    """I6: clients take the response for the end of the stream."""
    talk = at("working")
    frames = [chunk("b"), usage(), tool(), ended(1)]
    talk.agent(*frames)

    assert frames == talk.seen()


def test_a_prompt_is_answered_under_its_own_id_whatever_the_wire_says() -> None:
    """R26: an id that is in use gets a private one toward the agent."""
    talk = at("working")
    talk.client(prompt(1, "again", "s1"))
    talk.agent(ended(1))
    (second,) = [one for one in talk.got() if one.get("method") == "session/prompt"]
    talk.agent(chunk("b"), ended(second["id"]))

    assert 1 != second["id"]
    assert [(1, "end_turn"), "b", (1, "end_turn")] == kinds(talk.seen())


@pytest.mark.parametrize("minutes", [1, 60, 60 * 24])
def test_a_completion_comes_when_the_agent_says_so_however_late(minutes: int) -> None:
    """Section 1: however late it comes."""
    talk = at("working")
    talk.wait(60.0 * minutes)

    assert [] == talk.seen()
    talk.agent(ended(1))
    assert [(1, "end_turn")] == kinds(talk.seen())


# -- R8: 2 to 5 -------------------------------------------------------------------------------
def shared(talk: Talk) -> None:
    """Prompt 2 was put into the turn of prompt 1, whose response ends both."""
    working(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False), chunk("both"), ended(1))


def drained(talk: Talk) -> None:
    """Prompt 2 ran inside the request of prompt 1, behind its own echo (tape mid-turn-prompt)."""
    working(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(2, usage=False), echo("two"), chunk("b"), ended(1))


def marked(talk: Talk) -> None:
    joined(talk)
    talk.agent(chunk("b"), usage())
    talk.wait(1.0)


def inferred(talk: Talk) -> None:
    joined(talk)
    talk.agent(chunk("b"))
    talk.wait(60.0)


def segment_marked(talk: Talk) -> None:
    segment(talk)
    talk.agent(usage())
    talk.wait(1.0)


def segment_quiet(talk: Talk) -> None:
    segment(talk)
    talk.wait(60.0)


def segment_echo(talk: Talk) -> None:
    segment(talk)
    talk.agent(echo("something else"))


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (shared, ["response", "shared"]),
        (drained, ["response", "drained"]),
        (marked, ["marked"]),
        (inferred, ["inferred"]),
        (segment_marked, ["drained"]),
        (segment_quiet, ["inferred"]),
        (segment_echo, ["drained"]),
    ],
)
def test_a_completion_of_ours_says_what_it_goes_by(act: Any, expected: list[str]) -> None:
    """R8: 2 to 5 carry `_meta.acpbridge.completion`; 1 carries nothing of ours."""
    talk = Talk("hermes")
    act(talk)

    assert expected == tags(talk.seen())[-len(expected) :]


def test_a_turn_that_ended_without_a_reason_ended() -> None:
    """R8: 2: where the owner's response names none, the plain one is said."""
    talk = Talk("hermes")
    working(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False), chunk("x"), answer(1, {}))

    assert [(1, "ok"), (2, "end_turn")] == kinds(talk.seen())[-2:]


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "cancelled"])
def test_what_shared_a_turn_shares_its_stop_reason(stop: str) -> None:
    """R8: 2: one turn, one end."""
    talk = Talk("hermes")
    working(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False), chunk("x"), ended(1, stop))

    assert [(1, stop), (2, stop)] == kinds(talk.seen())[-2:]


def test_what_shared_a_turn_that_failed_is_unknown() -> None:
    """R8, I3: the error is the owner's; whether the other ran, nobody can say."""
    talk = Talk("hermes")
    working(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk(REDIRECTED), ended(2, usage=False), chunk("x"), error(1, -32000, "broke"))

    assert [(1, -32000), (2, "delivery-unknown")] == kinds(talk.seen())[-2:]


def test_other_requests_go_on_while_a_prompt_is_open_or_held() -> None:
    """Case 49: a turn that does not end must not block what is no prompt."""
    for reach in (working, doubted, kept):
        talk = Talk("hermes")
        reach(talk)
        talk.client(request("q", "session/list", {}))
        talk.agent(answer("q", {"sessions": []}))

        assert [("q", "ok")] == kinds(talk.seen())
