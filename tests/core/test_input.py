"""What comes from either side, well-formed or not, and what the bridge makes of it (R26; S14).

The tables of lines are `tests/wire`'s business; here they go through the whole core.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.core.events import AgentGarbled, ClientGarbled
from acpbridge.wire.lines import Oversize
from tests.core import reach
from tests.core.reach import forget, initialized, kinds, set_mode, texts
from tests.core.script import (
    Json,
    Talk,
    answer,
    chunk,
    ended,
    error,
    permission,
    prompt,
    request,
    update,
)

DEEP = b'{"jsonrpc":"2.0","id":5,"method":"_x","params":' + b"[" * 1001 + b"]" * 1001 + b"}"

REFUSED: list[tuple[str, bytes, Any, int]] = [
    ("array", b'[{"jsonrpc":"2.0","id":5,"method":"x"}]', None, -32600),
    ("two ids", b'{"jsonrpc":"2.0","id":5,"id":6,"method":"_x"}', None, -32600),
    ("two methods", b'{"jsonrpc":"2.0","id":5,"method":"_x","method":"_y"}', 5, -32600),
    (
        "two session ids",
        b'{"jsonrpc":"2.0","id":5,"method":"_x","params":{"sessionId":"a","sessionId":"b"}}',
        5,
        -32600,
    ),
    ("too deep", DEEP, 5, -32600),
    ("no JSON", b"hello", None, -32700),
    ("cut off", b'{"jsonrpc":"2.0","id":5,"method"', None, -32700),
    ("no UTF-8", b'{"jsonrpc":"2.0","id":5,"method":"_x","params":{"a":"\xff\xfe"}}', None, -32700),
    ("scalar", b"42", None, -32600),
    ("no method", b'{"jsonrpc":"2.0","id":5}', 5, -32600),
]


def idle(agent: str = "generic", **policy: Any) -> Talk:
    talk = Talk(agent, **policy)
    reach.idle(talk)
    return talk


# -- from the client ----------------------------------------------------------------------------
@pytest.mark.parametrize(("what", "line", "id_", "code"), REFUSED, ids=[row[0] for row in REFUSED])
def test_an_ambiguous_line_of_the_client_is_refused_and_not_forwarded(
    what: str, line: bytes, id_: Any, code: int
) -> None:
    """R26: log and agent must never see different values; and the reader lives."""
    talk = idle()

    talk.client(line, prompt(1, "one"))

    (told,) = talk.seen()
    assert (id_, code) == (told["id"], told["error"]["code"]), what
    assert ["one"] == texts(talk.got())


def test_a_request_that_reuses_an_open_id_gets_a_private_one() -> None:
    """R26: the agent may key what it does by the id; both are answered under the client's."""
    talk = idle()
    talk.client(set_mode(7, "a"), set_mode(7, "b"))
    first, second = talk.got()

    talk.agent(answer(7, {"n": 1}), answer(second["id"], {"n": 2}))

    assert 7 == first["id"] != second["id"]
    assert [(7, 1), (7, 2)] == [(line["id"], line["result"]["n"]) for line in talk.seen()]
    assert 1 == talk.count("request_id_reused")


def test_it_is_answered_after_the_first_whatever_the_agent_does() -> None:
    """R26: the client takes the first answer under an id for its first request."""
    talk = idle()
    talk.client(set_mode(7, "a"), set_mode(7, "b"), set_mode(7, "c"))
    _, second, third = (line["id"] for line in talk.got())

    talk.agent(answer(third, {"n": 3}), error(second, -32000))
    early = talk.seen()
    talk.agent(answer(7, {"n": 1}))

    assert [] == early
    assert [(7, "ok"), (7, -32000), (7, "ok")] == kinds(talk.seen())


def test_a_prompt_that_reuses_the_id_of_a_prompt_is_its_own_prompt() -> None:
    """I1: exactly one response for each of two requests under one id."""
    talk = idle()
    talk.client(prompt(7, "one"), prompt(7, "two"))
    talk.agent(chunk("a"), ended(7))
    _, second = talk.got()

    talk.agent(chunk("b"), ended(second["id"]))

    assert ["a", (7, "end_turn"), "b", (7, "end_turn")] == kinds(talk.seen())


def test_an_id_is_free_again_when_it_is_answered() -> None:
    """Clients that use one id for everything, one after the other, see no private ids."""
    talk = idle()
    for _ in range(3):
        talk.client(set_mode(7))
        talk.agent(answer(7, {}))

    assert [7, 7, 7] == [line["id"] for line in talk.got()]
    assert ({}, {}, {}) == (talk.bridge.open_ids, talk.bridge.client_ids, talk.bridge.early)


@pytest.mark.parametrize("id_", [b"1.0", b"1e2", b"-0", b'"\\u00e9"', '"é"'.encode(), b'"a/b"'])
def test_an_id_that_an_encoder_may_change_is_private_at_the_agent(id_: bytes) -> None:
    """R26, field case 107: 1.0 may come back as 1; the client must get its own bytes."""
    talk = idle()
    talk.client(b'{"jsonrpc":"2.0","id":' + id_ + b',"method":"_x/y","params":{}}')
    (sent,) = talk.got()

    talk.agent(answer(sent["id"], {"ok": 1}))

    assert isinstance(sent["id"], str)
    assert sent["id"].startswith("acpbridge-")
    assert [b'{"jsonrpc":"2.0","id":' + id_ + b',"result":{"ok":1}}'] == talk.client_lines


@pytest.mark.parametrize("id_", [1, "1", "acpbridge-n0nce-1", None, ""], ids=repr)
def test_any_other_id_is_passed_as_it_is(id_: Any) -> None:
    talk = Talk("generic")
    line = b'{"jsonrpc":"2.0","id":' + json.dumps(id_).encode() + b',"method":"_x/y"}'

    talk.client(line)
    talk.agent(answer(id_, {}))

    assert [line] == talk.agent_lines
    assert [(id_, "ok")] == kinds(talk.seen())


def test_the_bridges_own_ids_do_not_meet_a_client_that_imitates_them() -> None:
    """Ids of ours begin with a nonce; an answer to ours is never taken for the client's."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt("acpbridge-n0nce-2", "one"))
    initialized(talk)
    (load,) = talk.got()
    talk.agent(chunk("old"), answer(load["id"], {}))
    (sent,) = talk.got()

    talk.agent(chunk("b"), ended(sent["id"]))

    assert [("acpbridge-n0nce-2", "end_turn")] == kinds(talk.seen())[-1:]


def test_a_prompt_without_a_session_is_the_agents_to_answer() -> None:
    """It has no queue to stand in; the agent says what is wrong with it."""
    talk = idle()
    line = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"prompt":[]}}'

    talk.client(line % 3, line % 4)
    talk.agent(error(3, -32602))

    assert [line % 3, line % 4] == talk.agent_lines
    assert [(3, -32602)] == kinds(talk.seen())


# -- from the agent -----------------------------------------------------------------------------
NOISE = [
    b"[log] hi",
    b"\x1b[31mred\x1b[0m",
    b"42",
    b'"s"',
    b"[1]",
    b'{"level":"info","id":1}',
    b'{"id":1,"result":{"stopReason":"end_turn"}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"method":"x"}',
]


@pytest.mark.parametrize("line", NOISE, ids=repr)
def test_noise_of_the_agent_goes_to_the_log_and_nowhere_else(line: bytes) -> None:
    """R26, field cases 103, 104: a log object with an id must not become a response."""
    talk = idle()
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(line, chunk("a"), ended(1))

    assert ["a", (1, "end_turn")] == kinds(talk.seen())
    assert 1 == talk.count("agent_noise")


def test_noise_is_shown_in_the_log_in_part() -> None:
    """I9: a megabyte of garbage must not become a megabyte of log."""
    talk = idle()
    forget(talk)

    talk.agent(b"x" * 5000)

    (note,) = [note for note in talk.notes if note.name == "agent_noise"]
    assert 200 == len(note.fields["line"])


@pytest.mark.parametrize("second", [ended(1), error(1, -32603)], ids=["result", "error"])
def test_a_second_response_to_an_id_is_dropped_and_counted(second: Json) -> None:
    """R26, I1."""
    talk = idle()
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), ended(1))
    forget(talk)

    talk.agent(second)

    assert ([], 1) == (talk.seen(), talk.count("unknown_answer_dropped"))


@pytest.mark.parametrize("id_", [99, "x", None], ids=repr)
def test_a_response_that_nobody_asked_for_is_dropped_and_counted(id_: Any) -> None:
    talk = idle()

    talk.agent(answer(id_, {}))

    assert ([], 1) == (talk.seen(), talk.count("unknown_answer_dropped"))


# -- too long, from the client ------------------------------------------------------------------
def oversize(head: bytes, tail: bytes = b"}") -> Oversize:
    """A line over the limit as the decoder reports it."""
    return Oversize(head, 70_000_000, tail)


@pytest.mark.parametrize(
    ("fault", "id_"),
    [
        (oversize(b'{"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"x":"'), "a"),
        (oversize(b'{"jsonrpc":"2.0","method":"session/prompt","params":{"x":"', b'","id":8}'), 8),
        (oversize(b'{"jsonrpc":"2.0","method":"_note","params":{"x":"', b'"}}'), None),
        (oversize(b"garbage", b"garbage"), None),
        (
            oversize(b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"s'),
            5,
        ),
    ],
    ids=["id first", "id last", "notification", "garbage", "cut in the session's name"],
)
def test_a_line_of_the_client_over_the_limit_is_an_error_on_its_id(
    fault: Oversize, id_: Any
) -> None:
    """R26, S14.3, field case 99: a clear error, and the connection lives."""
    talk = idle()

    talk.feed(ClientGarbled(fault))
    talk.client(prompt(1, "one"))

    (told,) = talk.seen()
    assert [(id_, "frame-too-large")] == kinds([told])
    assert "70000000 bytes" in told["error"]["message"]
    assert "line_bytes_max" in told["error"]["message"]
    assert ["one"] == texts(talk.got())


def test_an_answer_of_the_client_over_the_limit_is_an_error_to_the_agent() -> None:
    """The agent waits for it (fs/read_text_file of a huge file), and nobody else tells it."""
    talk = Talk("generic")
    reach.working(talk)
    talk.agent(request(4, "fs/read_text_file", {"sessionId": "s1", "path": "/w/a"}))
    forget(talk)

    talk.feed(ClientGarbled(oversize(b'{"jsonrpc":"2.0","id":4,"result":{"content":"')))

    (told,) = talk.got()
    assert (4, -32057) == (told["id"], told["error"]["code"])
    assert [] == talk.seen()


# -- too long, from the agent -------------------------------------------------------------------
@pytest.mark.parametrize("fault", [
    oversize(b'{"jsonrpc":"2.0","id":1,"result":{"x":"'),
    oversize(b'{"jsonrpc":"2.0","result":{"x":"', b'"},"id":1}'),
    oversize(b'{"jsonrpc":"2.0","id":1,'),
])  # fmt: skip
def test_an_answer_of_the_agent_over_the_limit_is_an_error_on_its_id(fault: Oversize) -> None:
    """R26, I1: the client must not wait for an answer that was thrown away."""
    talk = idle()
    talk.client(set_mode(1))

    talk.feed(AgentGarbled(1, fault))

    (told,) = talk.seen()
    assert [(1, "frame-too-large")] == kinds([told])
    assert "line_bytes_max" in told["error"]["message"]


def test_a_prompts_answer_over_the_limit_ends_its_turn() -> None:
    talk = Talk("generic")
    reach.working(talk)
    talk.client(prompt(2, "two"))

    talk.feed(AgentGarbled(1, oversize(b'{"jsonrpc":"2.0","id":1,"result":{"x":"')))

    assert [(1, "frame-too-large")] == kinds(talk.seen())
    assert ["two"] == texts(talk.got())


def test_a_request_of_the_agent_over_the_limit_is_an_error_to_the_agent() -> None:
    """The client never sees it: without this the agent would wait for ever."""
    talk = Talk("generic")
    reach.working(talk)

    talk.feed(
        AgentGarbled(
            1, oversize(b'{"jsonrpc":"2.0","id":6,"method":"fs/write_text_file","params":{"c":"')
        )
    )

    (told,) = talk.got()
    assert (6, -32057) == (told["id"], told["error"]["code"])
    assert [] == talk.seen()


@pytest.mark.parametrize("head", [
    b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"',
    b'{"jsonrpc":"2.0","id":77,"result":{"x":"',
    b"garbage",
])  # fmt: skip
def test_anything_else_over_the_limit_is_said_in_the_log(head: bytes) -> None:
    """I6 cannot be kept for it; so it is an error in the log, with its size and method."""
    talk = Talk("generic")
    reach.working(talk)

    talk.feed(AgentGarbled(1, oversize(head, b"")))

    assert ([], []) == (talk.seen(), talk.got())
    (note,) = [note for note in talk.notes if note.name == "agent_line_too_long"]
    assert ("error", 70_000_000) == (note.level, note.fields["bytes"])


def test_a_load_of_our_own_whose_answer_is_over_the_limit_loses_the_session() -> None:
    """R25: whether it was loaded cannot be known."""
    talk = Talk("generic")
    reach.reviving(talk)
    (load,) = talk.got()
    head = b'{"jsonrpc":"2.0","id":"' + load["id"].encode() + b'","result":{"x":"'

    talk.feed(AgentGarbled(2, oversize(head)))

    assert [(1, "session-lost")] == kinds(talk.seen())


def test_a_permission_is_no_answer_however_it_is_spelled() -> None:
    """Method present means request, also under the id of an open request (hermes.md, 5.11)."""
    talk = idle()
    talk.client(prompt(0, "one"))
    forget(talk)

    talk.agent(permission(0))

    assert ["session/request_permission"] == kinds(talk.seen())
    assert "running" == talk.bridge.sessions["s1"].phase.value


def test_steering_toward_an_agent_that_does_not_advertise_it_is_answered_here() -> None:
    """Hermes would answer `null`, which reads as success (hermes.md, section 3)."""
    talk = idle("hermes")

    talk.client(request(3, "_session/steering", {"sessionId": "s1", "prompt": []}))

    assert [(3, -32601)] == kinds(talk.seen())
    assert [] == talk.got()


@pytest.mark.parametrize("listed", [None, 3, [None, 7, {"name": 5}, {}]], ids=repr)
def test_a_strange_list_of_commands_passes_and_teaches_nothing(listed: Any) -> None:
    talk = idle()
    line = update("available_commands_update", availableCommands=listed)

    talk.agent(line)

    assert [line] == talk.seen()
    assert frozenset() == talk.bridge.sessions["s1"].commands
