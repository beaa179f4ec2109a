"""An observer sees everything, and changes nothing."""

from __future__ import annotations

import pytest

from tests.core.hub.crowd import OBSERVES, Crowd, load, methods, resume, since, words
from tests.core.script import cancel, chunk, ended, prompt, request, tool

REFUSED = (
    prompt(5),
    request(5, "session/new", {"cwd": "/w", "mcpServers": []}),
    request(5, "session/set_mode", {"sessionId": "s1", "modeId": "x"}),
    request(5, "session/close", {"sessionId": "s1"}),
    request(5, "session/fork", {"sessionId": "s1"}),
    request(5, "authenticate", {"methodId": "x"}),
    request(5, "_session/steering", {"sessionId": "s1"}),
    load(5, "s9"),
    resume(5, "s9"),
)


def watched() -> Crowd:
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    crowd.greet(2, OBSERVES)
    return crowd


@pytest.mark.parametrize("frame", REFUSED, ids=lambda frame: str(frame["method"]))
def test_what_would_change_something_is_refused(frame: dict[str, object]) -> None:
    crowd = watched()
    crowd.say(2, frame)
    (heard,) = crowd.hears(2)
    assert heard["error"]["code"] == -32058
    assert heard["error"]["data"] == {"acpbridge": {"kind": "observer"}}
    assert "only watches" in heard["error"]["message"] or "opens none" in heard["error"]["message"]
    assert crowd.got() == []


def test_an_agent_that_nobody_has_greeted_is_asked_nothing() -> None:
    crowd = Crowd()
    crowd.greet(1, OBSERVES)
    crowd.say(1, request(5, "session/list", {}))
    (heard,) = crowd.hears(1)
    assert heard["error"]["code"] == -32058
    assert "Ask again later" in heard["error"]["message"]
    assert crowd.got() == []


def test_its_cancel_is_dropped_and_counted() -> None:
    crowd = watched()
    crowd.prompted(1, 1)
    crowd.agent(chunk())
    crowd.say(2, cancel())
    assert crowd.got() == []
    assert crowd.count("observer_notification_dropped") == 1


def test_it_may_list_and_ask_and_load_what_lives() -> None:
    crowd = watched()
    crowd.say(2, request(1, "session/list", {}))
    assert crowd.took("session/list")
    wire = crowd.prompted(1, 1)
    crowd.agent(chunk("said"), tool(), ended(wire))
    crowd.say(2, load(2), resume(3), since(4), request(5, "_acpbridge/stats", {}))
    heard = crowd.hears(2)
    assert words(heard) == "said"
    assert [frame["id"] for frame in heard if "id" in frame] == [2, 3, 4, 5]


def test_it_gets_the_rest_where_the_log_does_not_reach_back() -> None:
    """The agent is not asked for the sake of one who only watches."""
    crowd = Crowd(log_events_max=1)
    crowd.greet(1)
    crowd.start(1)
    wire = crowd.prompted(1, 1)
    crowd.agent(tool("a"), tool("b"), ended(wire))
    crowd.greet(2, OBSERVES)
    crowd.say(2, load(2))
    heard = crowd.hears(2)
    assert methods(heard)[-1] == "=2"
    assert heard[-1]["result"]["_meta"] == {"acpbridge": {"replay": "partial"}}
    assert crowd.got() == []


def test_a_session_with_observers_alone_is_an_orphan() -> None:
    crowd = watched()
    crowd.prompted(1, 1)
    crowd.say(2, load(2))
    crowd.go(1)
    assert ("orphan", "s1") in crowd.timers
