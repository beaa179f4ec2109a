"""The generic client: what no rule names leaves with the bytes it came with, in order (I6, I7)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core import reach
from tests.core.reach import PLACES, kinds
from tests.core.script import Json, Talk, answer, chunk, dumps, ended, prompt, tool, update

NAMED = frozenset(
    {
        "initialize",
        "session/new",
        "session/load",
        "session/resume",
        "session/fork",
        "session/list",
        "session/prompt",
        "session/cancel",
        "session/close",
        "session/delete",
        "$/cancel_request",
        "_session/steering",
    }
)
"""Methods that a rule names; anything else is nobody's business but the two ends'."""

TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
METHODS = (TEXT | st.sampled_from(["session/set_mode", "session/update", "_a/b"])).filter(
    lambda name: name not in NAMED
)
PARAMS = st.dictionaries(TEXT | st.sampled_from(["sessionId", "update"]), VALUES, max_size=4)
SESSIONS = st.sampled_from(["s1", "s2", "elsewhere"])
IDS = st.integers(0, 10**9) | st.text("abcXYZ019_-", max_size=6)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" ,  ", " :\t")])


def spelled(frame: Json, style: tuple[str, str], upside_down: bool) -> bytes:
    """A frame as some JSON library might write it; escapes everywhere, so surrogates may be in."""
    members = list(frame.items())
    body = dict(reversed(members)) if upside_down else frame
    return json.dumps(body, separators=style).encode("ascii")


@st.composite
def frames(draw: st.DrawFn, kind: str, number: int) -> bytes:
    """One frame that no rule names; ids are made unique by `number`."""
    params = draw(PARAMS)
    if draw(st.booleans()):
        params["sessionId"] = draw(SESSIONS)
    frame: Json = {"jsonrpc": "2.0", "method": draw(METHODS), "params": params}
    if kind == "request":
        id_ = draw(IDS)
        frame["id"] = id_ * 1000 + number if isinstance(id_, int) else f"{id_}#{number}"
    if draw(st.booleans()):
        frame["extra"] = draw(VALUES)
    return spelled(frame, draw(STYLES), draw(st.booleans()))


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    """(who writes, the line), in the order of writing; at most eight lines."""
    who = draw(st.lists(st.sampled_from(["client", "agent"]), max_size=8))
    kinds_ = st.sampled_from(["request", "notification"])
    return [(side, draw(frames(draw(kinds_), number))) for number, side in enumerate(who)]


@given(conversations())
@example([("agent", b'{"jsonrpc":"2.0","method":"","params":{},"extra":1.0}')])
def test_a_frame_that_no_rule_names_leaves_with_the_bytes_it_came_with(
    talked: list[tuple[str, bytes]],
) -> None:
    """I6, I7: in order, both ways, whatever is in it."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client_lines.clear()

    for side, line in talked:
        (talk.client if side == "client" else talk.agent)(line)

    assert [line for side, line in talked if side == "client"] == talk.agent_lines
    assert [line for side, line in talked if side == "agent"] == talk.client_lines


@given(VALUES, STYLES, IDS, st.booleans(), st.sampled_from(["result", "error"]))
def test_so_do_the_answers_to_it(
    value: Any, style: tuple[str, str], id_: Any, upside_down: bool, kind: str
) -> None:
    """A response under the id that was asked, in both directions."""
    body = value if kind == "result" else {"code": -1, "message": "m", "data": value}
    line = spelled({"jsonrpc": "2.0", "id": id_, kind: body}, style, upside_down)
    talk = Talk("generic")
    reach.idle(talk)
    asked = {"jsonrpc": "2.0", "id": id_, "method": "_x/y"}
    talk.client(asked)
    talk.agent(asked)
    talk.client_lines.clear()
    talk.agent_lines.clear()

    talk.agent(line)
    talk.client(line)

    assert ([line], [line]) == (talk.client_lines, talk.agent_lines)


@given(
    st.lists(st.tuples(TEXT, VALUES, STYLES, st.booleans()), max_size=6),
    st.sampled_from([place for place in PLACES if place not in {"lost", "reviving"}]),
)
def test_updates_of_kinds_that_nobody_knows_pass_in_every_phase(
    updates: list[tuple[str, Any, tuple[str, str], bool]], place: str
) -> None:
    """I6: new kinds of the protocol must not need a new bridge."""
    talk = Talk("hermes")
    PLACES[place][1](talk)
    lines = []
    for variant, value, style, upside_down in updates:
        body = {"sessionUpdate": f"_{variant}", "content": value}
        frame = {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "s1", "update": body},
        }
        lines.append(spelled(frame, style, upside_down))

    talk.agent(*lines)

    assert lines == talk.client_lines
    assert PLACES[place][0] == talk.bridge.sessions["s1"].phase.value


@given(st.lists(st.text(max_size=20), min_size=1, max_size=12))
def test_the_chunks_of_a_turn_pass_byte_for_byte(words: list[str]) -> None:
    """I7 on the fast path and off it: escapes, empty texts and foreign letters in between."""
    talk = Talk("hermes")
    reach.running(talk)
    lines = [dumps(chunk(word)) for word in words]

    talk.agent(*lines)

    assert lines == talk.client_lines


CONTENT = [
    chunk("a"),
    update("agent_thought_chunk", content={"type": "text", "text": "t"}),
    update("user_message_chunk", content={"type": "text", "text": "u"}),
    tool("t1"),
    update("tool_call_update", toolCallId="t9", status="completed"),
    update("plan", entries=[]),
    update("usage_update", used=1, size=2),
    update("session_info_update", title="x"),
    update("current_mode_update", currentModeId="m"),
    update("available_commands_update", availableCommands=[{"name": "x"}]),
]


@pytest.mark.parametrize("place", [place for place in PLACES if place not in {"lost", "reviving"}])
def test_this_client_is_shown_everything_at_once_in_every_phase(place: str) -> None:
    """I6: no profile of its own, so nothing is withheld, kept, paced or reworded."""
    talk = Talk("hermes")
    PLACES[place][1](talk)
    lines = [dumps(frame) for frame in CONTENT]

    talk.agent(*lines)

    assert lines == [line for line in talk.client_lines if b'"method"' in line]


def test_an_answer_follows_the_last_update_at_once() -> None:
    """The gap before a response is Codeg's; here it would only be a delay."""
    talk = Talk("generic")
    reach.working(talk)
    line = b'{"jsonrpc":"2.0", "id":1,"result":{"stopReason":"end_turn","usage":{"n":1.0}}}'

    talk.agent(chunk("b"), line)

    assert line == talk.client_lines[-1]


@pytest.mark.parametrize("result", [None, {}, [], 7], ids=repr)
@pytest.mark.parametrize("method", ["session/set_mode", "session/set_model", "_x/y"])
def test_results_of_any_shape_pass(method: str, result: Any) -> None:
    """`null` of a setting is what the agent said; only Codeg cannot read it."""
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client({"jsonrpc": "2.0", "id": 4, "method": method, "params": {"sessionId": "s1"}})
    line = dumps(answer(4, result))

    talk.agent(line)

    assert [line] == talk.client_lines


def test_an_unasked_cancelled_passes_and_is_counted() -> None:
    """R21, field case 61: the reason is the agent's; the text before it is not thrown away."""
    talk = Talk("generic")
    reach.working(talk)
    line = dumps(ended(1, "cancelled"))

    talk.agent(chunk("b"), line)

    assert ["b", (1, "cancelled")] == kinds([json.loads(one) for one in talk.client_lines])
    assert line == talk.client_lines[-1]
    assert 1 == talk.count("cancelled_without_cancel")


def test_an_end_without_any_output_passes_as_it_is() -> None:
    """Only Codeg needs a word before it."""
    talk = Talk("generic")
    reach.running(talk)
    line = dumps(ended(1))

    talk.agent(line)

    assert [line] == talk.client_lines


def test_a_prompt_of_an_ordinary_client_is_written_byte_for_byte() -> None:
    """I7 for prompts: the agent gets what the person's client wrote."""
    line = (
        b'{"id" : "3f", "jsonrpc":"2.0","method":"session/prompt", "params":'
        b'{"prompt":[{"type":"text","text":"\\u00e9 \\ud83d","_meta":{"n":1.50}}],'
        b'"sessionId":"s1"}}'
    )
    talk = Talk("generic")
    reach.idle(talk)

    talk.client(line)

    assert [line] == talk.agent_lines


def test_a_waiting_prompt_is_told_why_after_two_seconds() -> None:
    """I10: visibly waits for something that has a name; one thought, once."""
    talk = Talk("generic")
    reach.ownerless(talk)
    talk.client(prompt(1, "one"))

    talk.wait(1.9)
    early = talk.seen()
    talk.wait(30.0)

    assert [] == early
    (told,) = talk.seen()
    assert "agent_thought_chunk" == told["params"]["update"]["sessionUpdate"]
    assert {"acpbridge": {"notice": True}} == told["params"]["update"]["_meta"]
    assert "work of its own" in told["params"]["update"]["content"]["text"]


def test_the_notice_can_be_switched_off() -> None:
    talk = Talk("generic", wait_notice=False)
    reach.ownerless(talk)
    talk.client(prompt(1, "one"))

    talk.wait(10.0)

    assert [] == talk.seen()
