"""Lines that are refused are answered to the client that wrote them, whoever else is there."""

from __future__ import annotations

import pytest

from acpbridge.core.hub.inward import STRAYS_MAX
from acpbridge.wire.lines import Oversize
from tests.core.hub.crowd import Crowd, load, methods
from tests.core.script import Json, answer, chunk, ended, notify, permission, prompt


def long_line(head: str) -> Oversize:
    return Oversize(head.encode(), 1 << 30, b"")


def big(id_: str, method: str = "session/prompt", session: str = "s1") -> Oversize:
    text = '{"jsonrpc":"2.0","id":%s,"method":"%s","params":{"sessionId":"%s","prompt":[{"te'
    return long_line(text % (id_, method, session))


def pair(client: str = "generic") -> Crowd:
    crowd = Crowd(client=client)
    crowd.greet(1)
    crowd.start(1)
    crowd.greet(2)
    crowd.say(2, load("l"))
    crowd.hears(2)
    return crowd


def kind(frame: Json) -> str:
    return str(frame["error"]["data"]["acpbridge"]["kind"])


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        (b"not json", None, -32700),
        (b"[]", None, -32600),
        (b'{"jsonrpc":"2.0","id":5,"id":5,"method":"x"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"x","method":"y"}', 5, -32600),
    ],
)
def test_a_line_that_cannot_be_read(line: bytes, id_: object, code: int) -> None:
    crowd = pair()
    crowd.say(2, line)
    (heard,) = crowd.hears(2)
    assert (heard["id"], heard["error"]["code"]) == (id_, code)
    assert crowd.hears(1) == []
    assert crowd.got() == []
    assert crowd.count("client_line_refused") == 1


@pytest.mark.parametrize("method", ["session/prompt", "session/list", "_nobody/knows"])
@pytest.mark.parametrize("session", ["s1", "s9"])
def test_a_line_that_is_too_long(method: str, session: str) -> None:
    crowd = pair()
    crowd.say(2, big('"b"', method, session))
    (heard,) = crowd.hears(2)
    assert heard["id"] == "b"
    assert kind(heard) == "frame-too-large"
    assert crowd.hears(1) == []


def test_equal_ids_of_two_that_are_too_long() -> None:
    crowd = pair()
    crowd.say(2, big("1"))
    crowd.say(1, big("1"))
    assert [frame["id"] for frame in crowd.hears(1)] == [1]
    assert [frame["id"] for frame in crowd.hears(2)] == [1]


def test_one_that_is_too_long_and_names_no_id() -> None:
    crowd = pair()
    crowd.say(2, long_line('{"jsonrpc":"2.0","method":"session/cancel","params":{"sess'))
    (heard,) = crowd.hears(2)
    assert heard["id"] is None
    crowd.say(2, long_line("[1,2"))
    assert crowd.hears(2)[0]["id"] is None


def test_one_whose_answer_waits_comes_to_who_wrote_it() -> None:
    """Codeg's profile keeps its distance, and says errors as text in the session."""
    crowd = pair("codeg")
    crowd.prompted(1, "p")
    crowd.agent(chunk())
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(2, big('"b"'))
    crowd.wait(2.0)
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "=b"]
    assert methods(crowd.hears(1)) == ["agent_message_chunk"]


def test_one_that_has_left_is_not_answered() -> None:
    crowd = pair("codeg")
    crowd.prompted(1, "p")
    crowd.agent(chunk())
    crowd.say(2, big('"b"'))
    crowd.hears(2)
    crowd.go(2)
    crowd.wait(2.0)
    assert 2 not in crowd.lines


def test_with_too_many_that_wait_the_oldest_is_forgotten() -> None:
    crowd = pair("codeg")
    crowd.prompted(1, "p")
    crowd.agent(chunk())
    for number in range(STRAYS_MAX + 1):
        crowd.say(2, big(str(number)))
    assert len(crowd.hub.strays) == STRAYS_MAX
    crowd.hears(2)
    crowd.wait(5.0)
    assert [frame["id"] for frame in crowd.hears(2) if "id" in frame] == list(
        range(1, STRAYS_MAX + 1)
    )
    assert crowd.count("answer_to_nobody") == 1


def test_one_with_an_open_id_of_the_hub_s_own_steals_no_answer() -> None:
    crowd = pair()
    wire = crowd.prompted(1, "p")
    crowd.hears(2)
    crowd.say(2, big(f'"{wire}"'))
    (heard,) = crowd.hears(2)
    assert (heard["id"], kind(heard)) == (wire, "frame-too-large")
    crowd.agent(chunk(), ended(wire))
    assert methods(crowd.hears(1)) == ["agent_message_chunk", "=p"]


def test_one_with_an_id_that_is_open_waits_for_the_older_one() -> None:
    crowd = pair()
    wire = crowd.prompted(2, 5)
    crowd.say(2, big("5", "session/list"))
    assert crowd.hears(2) == []
    crowd.agent(chunk(), ended(wire))
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "=5", "=5"]


# -- an answer that is too long ---------------------------------------------------------------
def test_an_answer_that_is_too_long_wins_and_the_agent_is_told() -> None:
    crowd = pair()
    crowd.prompted(1, "p")
    crowd.agent(chunk(), permission(9))
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(2, long_line('{"jsonrpc":"2.0","id":9,"result":{"outc'))
    (told,) = crowd.got()
    assert (told["id"], kind(told)) == (9, "frame-too-large")
    assert crowd.hears(1) == [notify("$/cancel_request", {"requestId": 9})]
    crowd.say(1, long_line('{"jsonrpc":"2.0","id":9,"result":{"outc'), answer(9, {}))
    assert crowd.got() == []
    assert crowd.count("late_client_answer_dropped") == 2


def test_the_next_message_runs() -> None:
    crowd = pair()
    crowd.say(2, b"{", big("1"), prompt(1))
    assert crowd.took("session/prompt")
