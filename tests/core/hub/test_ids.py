"""Ids are each client's own: rewritten toward the agent, and back."""

from __future__ import annotations

import pytest

from tests.core.hub.crowd import Crowd, load
from tests.core.script import Json, answer, chunk, ended, notify, prompt, request

IDS = (1, "1", 1.5, "é", 0)


def listing(id_: object) -> Json:
    return request(id_, "session/list", {})


def two() -> Crowd:
    crowd = Crowd()
    crowd.greet(1)
    crowd.greet(2)
    return crowd


@pytest.mark.parametrize("id_", IDS)
def test_equal_ids_of_two_clients_do_not_meet(id_: object) -> None:
    crowd = two()
    crowd.say(1, listing(id_))
    crowd.say(2, listing(id_))
    first, second = (frame["id"] for frame in crowd.got())
    assert first != second
    crowd.agent(answer(second, {"sessions": ["b"]}), answer(first, {"sessions": ["a"]}))
    assert crowd.hears(1) == [answer(id_, {"sessions": ["a"]})]
    assert crowd.hears(2) == [answer(id_, {"sessions": ["b"]})]


def test_an_id_comes_back_with_its_own_bytes() -> None:
    """1 and 1.0 are two ids."""
    crowd = two()
    crowd.say(1, b'{"jsonrpc":"2.0","id":1.0,"method":"session/list","params":{}}')
    crowd.agent(answer(crowd.took("session/list")["id"], {}))
    assert b'"id":1.0,' in crowd.raw(1)[0]


def test_an_id_that_is_open_already_is_answered_after_the_first() -> None:
    """R26, whatever the second one asks, and whoever answers it."""
    crowd = two()
    crowd.start(1)
    wire = crowd.prompted(1, 5)
    crowd.say(1, listing(5), request(5, "_acpbridge/stats", {}), listing(6))
    lists = [frame["id"] for frame in crowd.got()]
    crowd.agent(answer(lists[0], {"n": 1}), answer(lists[1], {"n": 2}))
    assert crowd.hears(1) == [answer(6, {"n": 2})]
    crowd.say(2, request(5, "_acpbridge/stats", {}))
    assert [frame["id"] for frame in crowd.hears(2)] == [5]
    crowd.agent(chunk(), ended(wire))
    heard = crowd.hears(1)[1:]
    assert [frame["id"] for frame in heard] == [5, 5, 5]
    assert "stopReason" in heard[0]["result"]
    assert heard[1]["result"] == {"n": 1}
    assert "epoch" in heard[2]["result"]


def test_a_second_open_id_is_kept_for_a_client_that_stays_only() -> None:
    crowd = two()
    crowd.start(1)
    wire = crowd.prompted(1, 5)
    crowd.say(1, listing(5))
    crowd.agent(answer(crowd.took("session/list")["id"], {}))
    crowd.go(1)
    crowd.agent(chunk(), ended(wire))
    assert 1 not in crowd.lines


def test_a_client_s_open_requests_have_a_limit_of_their_own() -> None:
    """An agent that answers nothing must not cost a client's flood more than that (I9)."""
    crowd = Crowd(client_requests_max=2)
    crowd.greet(1)
    crowd.greet(2)
    crowd.say(1, listing(1), listing(1))
    wires = [frame["id"] for frame in crowd.got()]
    crowd.say(1, listing(2), request(3, "_acpbridge/stats", {}))
    refused, told = crowd.hears(1)
    assert refused["error"]["data"]["acpbridge"]["kind"] == "queue-full"
    assert "client_requests_max" in refused["error"]["message"]
    assert told["id"] == 3
    crowd.say(2, listing(2))
    assert len(crowd.got()) == 1
    crowd.agent(answer(wires[1], {}), answer(wires[0], {}))
    assert [frame["id"] for frame in crowd.hears(1)] == [1, 1]
    assert crowd.hub.clients[1].open == {}
    crowd.say(1, listing(2))
    assert len(crowd.got()) == 1


def test_a_cancel_request_names_the_id_of_its_own_client() -> None:
    crowd = two()
    crowd.start(1)
    crowd.say(2, prompt(1, "of two"), prompt(2, "queued"))
    crowd.got()
    crowd.say(1, prompt(2, "of one"))
    crowd.say(1, notify("$/cancel_request", {"requestId": 2}))
    assert [frame["id"] for frame in crowd.hears(1) if "result" in frame] == [2]
    assert not [frame for frame in crowd.hears(2) if "result" in frame]
    crowd.say(1, notify("$/cancel_request", {"requestId": 1}))
    crowd.say(1, notify("$/cancel_request", {}))
    assert crowd.count("cancel_of_unknown_request") == 2
    assert crowd.got() == []


def test_a_cancel_request_for_what_the_agent_has_goes_there_by_its_id_there() -> None:
    crowd = two()
    crowd.say(1, listing("a"))
    wire = crowd.took("session/list")["id"]
    crowd.say(1, notify("$/cancel_request", {"requestId": "a"}))
    assert crowd.got() == [notify("$/cancel_request", {"requestId": wire})]


def test_an_elicitation_about_a_request_goes_to_who_sent_that() -> None:
    crowd = two()
    crowd.say(2, request("login", "authenticate", {"methodId": "m"}))
    wire = crowd.took("authenticate")["id"]
    ask = request(9, "elicitation/create", {"requestId": wire, "mode": "form"})
    crowd.agent(ask)
    assert crowd.hears(1) == []
    (seen,) = crowd.hears(2)
    assert seen["params"] == {"requestId": "login", "mode": "form"}
    crowd.say(1, answer(9, {"action": "accept"}))
    assert crowd.got() == []
    crowd.say(2, answer(9, {"action": "accept"}))
    assert crowd.got() == [answer(9, {"action": "accept"})]


@pytest.mark.parametrize("params", [{"requestId": "nobody's"}, {"mode": "form"}])
def test_an_elicitation_about_nothing_that_is_known_goes_to_all(params: Json) -> None:
    crowd = two()
    crowd.agent(request(9, "elicitation/create", params))
    assert crowd.hears(1) == crowd.hears(2) == [request(9, "elicitation/create", params)]


def test_an_elicitation_about_a_request_of_one_that_has_left_goes_to_those_who_are_there() -> None:
    crowd = two()
    crowd.say(2, request("login", "authenticate", {"methodId": "m"}))
    wire = crowd.took("authenticate")["id"]
    crowd.go(2)
    crowd.agent(request(9, "elicitation/create", {"requestId": wire}))
    assert [frame["id"] for frame in crowd.hears(1)] == [9]


def test_an_answer_for_one_that_has_left_is_counted() -> None:
    crowd = two()
    crowd.say(2, listing(1))
    wire = crowd.took("session/list")["id"]
    crowd.go(2)
    crowd.agent(answer(wire, {}))
    assert crowd.count("answer_to_nobody") == 1
    assert not crowd.bridge.unheard


def test_two_loads_of_one_session_under_one_id_are_both_answered() -> None:
    """The second one is answered from the log, in the very step that answers the first."""
    crowd = two()
    crowd.say(1, load(1), load(1), listing(2))
    asked = crowd.got()
    crowd.agent(answer(asked[0]["id"], {"modes": None}))
    assert [frame["id"] for frame in crowd.hears(1)] == [1, 1]
    crowd.agent(answer(asked[1]["id"], {}))
    assert [frame["id"] for frame in crowd.hears(1)] == [2]
    assert crowd.hub.clients[1].open == {}


def test_a_load_that_waits_has_its_place_among_those_of_its_id() -> None:
    """R26: what comes later under its id is not answered before it."""
    crowd = two()
    crowd.say(2, load("l"))
    crowd.say(1, load(5), request(5, "_acpbridge/prompts", {}))
    crowd.say(1, notify("$/cancel_request", {"requestId": 5}))
    assert crowd.raw(1) == []
    (asked,) = crowd.got()
    crowd.agent(answer(asked["id"], {"modes": None}))
    first, second = crowd.hears(1)
    assert first["result"] == {"modes": None}
    assert second["result"] == {"prompts": []}


def test_a_load_that_waits_goes_with_its_client() -> None:
    crowd = two()
    crowd.say(2, load("l"))
    crowd.say(1, load(5))
    crowd.go(1)
    assert len(crowd.hub.routes) == 1
    assert not crowd.bridge.unheard
