"""`initialize`: answered from the first one's, with the asker's id."""

from __future__ import annotations

from typing import Any

from acpbridge.core.hub.first import LATE_MAX
from tests.core.hub.crowd import EVENTS, OBSERVES, Crowd, load, since
from tests.core.script import (
    CAPABILITIES,
    INFOS,
    Json,
    answer,
    dumps,
    error,
    new_result,
    notify,
    request,
)

RESULT: Json = {
    "protocolVersion": 1,
    "agentInfo": INFOS["generic"],
    "agentCapabilities": CAPABILITIES,
}


def hello(id_: Any, **capabilities: Any) -> Json:
    return request(id_, "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})


def test_the_agent_hears_the_first_initialize_and_no_other() -> None:
    crowd = Crowd()
    assert crowd.greet(1)["result"] == RESULT
    assert crowd.greet(2)["result"] == RESULT
    assert crowd.got() == []


def test_a_second_initialize_meanwhile_waits_for_the_answer_to_the_first() -> None:
    crowd = Crowd()
    crowd.join(1, 2, 3)
    for number in (1, 2, 3):
        crowd.say(number, hello(7))
    first = crowd.took("initialize")
    assert [crowd.raw(number) for number in (1, 2, 3)] == [[], [], []]
    crowd.go(3)
    crowd.agent(answer(first["id"], RESULT))
    assert crowd.hears(1) == crowd.hears(2) == [answer(7, RESULT)]


def test_after_an_error_the_next_one_asks() -> None:
    crowd = Crowd()
    crowd.join(1, 2, 3, 4)
    for number in (1, 2, 3, 4):
        crowd.say(number, hello(f"i{number}"))
    crowd.go(2)
    crowd.agent(error(crowd.took("initialize")["id"], -32603, "not yet"))
    assert [frame["error"]["message"] for frame in crowd.hears(1)] == ["not yet"]
    crowd.agent(answer(crowd.took("initialize")["id"], RESULT))
    assert crowd.hears(3) == [answer("i3", RESULT)]
    assert crowd.hears(4) == [answer("i4", RESULT)]
    crowd.say(1, hello("again"))
    assert crowd.hears(1) == [answer("again", RESULT)]


def test_the_answer_for_one_that_has_left_serves_the_others() -> None:
    crowd = Crowd()
    crowd.join(1, 2, 3)
    crowd.say(1, hello(1))
    crowd.say(2, hello(2))
    crowd.say(3, hello(3))
    first = crowd.took("initialize")
    crowd.go(1)
    crowd.agent(error(first["id"], -32603))
    second = crowd.took("initialize")
    crowd.go(2)
    crowd.agent(answer(second["id"], RESULT))
    assert crowd.hears(3) == [answer(3, RESULT)]


def test_an_observer_that_comes_first_is_not_taken_for_all() -> None:
    """The agent is not to believe that nobody can read files."""
    crowd = Crowd()
    crowd.join(1)
    crowd.say(1, hello("o", _meta=OBSERVES))
    (heard,) = crowd.hears(1)
    assert heard["result"]["_meta"] == {"acpbridge": {"epoch": Crowd.nonce}}
    assert crowd.got() == []
    crowd.join(2)
    crowd.say(2, hello("p", fs={"readTextFile": True}))
    params = crowd.took("initialize")["params"]
    assert params["clientCapabilities"] == {"fs": {"readTextFile": True}}


def test_a_client_whose_capabilities_differ_is_told_which() -> None:
    crowd = Crowd()
    crowd.greet(1, fs={"readTextFile": True, "writeTextFile": False}, elicitation={})
    same = crowd.greet(2, fs={"readTextFile": True}, elicitation={}, terminal=False)
    assert same["result"] == RESULT
    other = crowd.greet(3, terminal=True)
    said = {"capabilitiesDiffer": ["elicitation", "fs.readTextFile", "terminal"]}
    assert other["result"]["_meta"] == {"acpbridge": said}
    watcher = crowd.greet(4, OBSERVES)
    assert watcher["result"]["_meta"] == {"acpbridge": {"epoch": Crowd.nonce}}
    assert crowd.count("capabilities_differ") == 2


def test_what_is_no_object_is_no_capability() -> None:
    crowd = Crowd()
    crowd.join(1)
    crowd.say(1, request(1, "initialize", {"clientCapabilities": [1]}))
    crowd.agent(answer(crowd.took("initialize")["id"], RESULT))
    assert crowd.hears(1) == [answer(1, RESULT)]


def test_capabilities_within_capabilities_end_somewhere() -> None:
    """A line may nest a thousand deep, and what one client says of itself must end nobody."""
    crowd = Crowd()
    crowd.greet(1)
    line = dumps(request(1, "initialize", {"clientCapabilities": "deep"}))
    crowd.join(2)
    crowd.say(2, line.replace(b'"deep"', b'{"a":' * 995 + b"{}" + b"}" * 995))
    differs = ".".join("a" * 8)
    assert crowd.hears(2)[0]["result"]["_meta"] == {"acpbridge": {"capabilitiesDiffer": [differs]}}


def test_who_asks_for_events_is_told_the_epoch() -> None:
    crowd = Crowd()
    assert crowd.greet(1, EVENTS)["result"]["_meta"] == {"acpbridge": {"epoch": Crowd.nonce}}
    assert "_meta" not in crowd.greet(2)["result"]


def test_what_a_client_says_behind_its_initialize_need_not_wait_for_the_answer() -> None:
    """As it may in front of the agent itself, and in `run`; also where another asked first."""
    crowd = Crowd()
    crowd.join(1, 2)
    for number in (1, 2):
        crowd.say(number, hello(7), request(8, "session/new", {"cwd": "/w", "mcpServers": []}))
    asked = crowd.got()
    assert [one["method"] for one in asked] == ["initialize", "session/new", "session/new"]
    crowd.agent(answer(asked[0]["id"], RESULT))
    crowd.agent(*[answer(one["id"], new_result(f"s{at}")) for at, one in enumerate(asked[1:])])
    assert [one["id"] for one in crowd.hears(1)] == [7, 8]
    assert [one["id"] for one in crowd.hears(2)] == [7, 8]


def test_nothing_goes_before_initialize() -> None:
    crowd = Crowd()
    crowd.join(1)
    crowd.say(1, load(3), since(4), notify("session/cancel", {"sessionId": "s1"}))
    assert [frame["error"]["code"] for frame in crowd.hears(1)] == [-32600, -32600]
    assert crowd.count("notification_dropped") == 1
    assert crowd.got() == []


def test_a_second_initialize_of_one_client_changes_nothing() -> None:
    """Else a client could turn into an observer in the middle of its own turn."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.say(1, hello(2, _meta=OBSERVES))
    assert crowd.hears(1) == [answer(2, RESULT)]
    assert not crowd.hub.clients[1].observes
    crowd.greet(2, OBSERVES)
    crowd.say(2, hello(3))
    assert crowd.hears(2)[0]["id"] == 3
    assert crowd.hub.clients[2].observes


def test_initialize_waits_so_often_and_no_more() -> None:
    crowd = Crowd()
    crowd.join(1, 2)
    crowd.say(1, hello(0))
    crowd.say(2, *[hello(number) for number in range(LATE_MAX + 1)])
    (refused,) = crowd.hears(2)
    assert (refused["id"], refused["error"]["code"]) == (LATE_MAX, -32600)
    crowd.agent(answer(crowd.took("initialize")["id"], RESULT))
    assert [frame["id"] for frame in crowd.hears(2)] == list(range(LATE_MAX))


def test_an_observer_that_came_first_may_ask_again() -> None:
    crowd = Crowd()
    crowd.join(1)
    crowd.say(1, hello(1, _meta=OBSERVES), hello(2))
    first, second = crowd.hears(1)
    assert first["result"] == second["result"]
    assert crowd.got() == []


def test_a_client_that_is_not_known_is_not_heard() -> None:
    crowd = Crowd()
    crowd.say(9, hello(1), b"nonsense")
    crowd.go(9)
    assert crowd.got() == []
    assert crowd.lines == {}
