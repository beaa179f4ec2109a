"""Who comes late is told the mode, model and options of now."""

from __future__ import annotations

import pytest

from tests.core.hub.crowd import Crowd, load, resume
from tests.core.script import Json, answer, error, request, update

OPENED: Json = {
    "sessionId": "s1",
    "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]},
    "models": {"currentModelId": "small", "availableModels": []},
    "configOptions": [{"id": "o", "currentValue": 1}],
}
OPTIONS = [{"id": "o", "currentValue": 2}]


def opened(result: Json | None = None) -> Crowd:
    crowd = Crowd()
    crowd.greet(1)
    crowd.greet(2)
    crowd.say(1, request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    crowd.agent(answer(crowd.took("session/new")["id"], result or OPENED))
    crowd.wait(1.0)
    return crowd


def told(crowd: Crowd) -> Json:
    crowd.say(2, resume("r"))
    (heard,) = [frame for frame in crowd.hears(2) if frame.get("id") == "r"]
    found: Json = heard["result"]
    return found


def set_(crowd: Crowd, method: str, params: Json, reply: Json) -> None:
    crowd.say(1, request("s", method, {"sessionId": "s1", **params}))
    crowd.agent(reply | {"id": crowd.took(method)["id"]})


def test_what_the_agent_said_at_the_opening_is_said_again() -> None:
    assert told(opened()) == {name: OPENED[name] for name in OPENED if name != "sessionId"}


def test_a_mode_and_a_model_that_were_set() -> None:
    crowd = opened()
    set_(crowd, "session/set_mode", {"modeId": "code"}, answer(0, {}))
    set_(crowd, "session/set_model", {"modelId": "large"}, answer(0, {}))
    found = told(crowd)
    assert found["modes"]["currentModeId"] == "code"
    assert found["models"]["currentModelId"] == "large"


def test_a_setting_that_was_refused_is_none() -> None:
    crowd = opened()
    set_(crowd, "session/set_mode", {"modeId": "code"}, error(0, -32602))
    assert told(crowd)["modes"]["currentModeId"] == "ask"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [({"configOptions": OPTIONS}, OPTIONS), ({}, OPENED["configOptions"])],
)
def test_options_are_those_of_the_answer(reply: Json, expected: object) -> None:
    crowd = opened()
    params = {"configId": "o", "value": 2}
    set_(crowd, "session/set_config_option", params, answer(0, reply))
    assert told(crowd)["configOptions"] == expected


def test_what_the_agent_changes_by_itself() -> None:
    crowd = opened()
    crowd.agent(update("current_mode_update", currentModeId="code"))
    crowd.agent(update("config_option_update", configOptions=OPTIONS))
    crowd.agent(update("current_mode_update"))
    found = told(crowd)
    assert found["modes"]["currentModeId"] == "code"
    assert found["configOptions"] == OPTIONS


def test_nothing_is_put_where_the_agent_said_nothing() -> None:
    crowd = opened({"sessionId": "s1"})
    set_(crowd, "session/set_mode", {"modeId": "code"}, answer(0, {}))
    crowd.agent(update("current_mode_update", currentModeId="code"))
    assert told(crowd) == {}


def test_a_setting_without_its_value_sets_nothing() -> None:
    crowd = opened()
    set_(crowd, "session/set_mode", {}, answer(0, {}))
    assert told(crowd)["modes"]["currentModeId"] == "ask"


def test_a_mode_of_a_session_that_nobody_loaded() -> None:
    crowd = opened()
    crowd.say(2, load("l", "s2"))
    wire = crowd.took("session/load")["id"]
    crowd.agent(update("current_mode_update", "s2", currentModeId="code"))
    crowd.say(1, request("s", "session/set_mode", {"sessionId": "s3", "modeId": "x"}))
    crowd.agent(answer(crowd.took("session/set_mode")["id"], {}), answer(wire, {}))
    assert [frame.get("id") for frame in crowd.hears(1)][-1] == "s"
