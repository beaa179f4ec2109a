"""A cancel takes the running turn and the canceller's own queue; close by one of several leaves."""

from __future__ import annotations

from typing import Any

from tests.core.hub.crowd import EVENTS, Crowd, load, methods, since
from tests.core.script import Json, answer, cancel, chunk, ended, notify, prompt, request

TOLD = "Another client stopped the running turn; what you sent and has not begun still waits."


def close(id_: object, method: str = "session/close") -> Json:
    return request(id_, method, {"sessionId": "s1"})


def pair(**policy: Any) -> Crowd:
    """Two that follow one session."""
    crowd = Crowd(**policy)
    crowd.greet(1)
    crowd.start(1)
    crowd.greet(2, EVENTS)
    crowd.say(2, load("l"))
    crowd.hears(2)
    return crowd


def answers(frames: list[Json]) -> dict[object, str]:
    """Stop reasons by id."""
    return {frame["id"]: frame["result"]["stopReason"] for frame in frames if "result" in frame}


def thoughts(frames: list[Json]) -> list[str]:
    updates = [frame["params"].get("update", {}) for frame in frames if "params" in frame]
    kind = "agent_thought_chunk"
    return [one["content"]["text"] for one in updates if one.get("sessionUpdate") == kind]


def test_a_cancel_takes_the_turn_and_the_canceller_s_own_queue() -> None:
    crowd = pair()
    wire = crowd.prompted(1, 1, "runs")
    crowd.agent(chunk())
    crowd.say(1, prompt(2, "mine"))
    crowd.say(2, prompt(2, "theirs"))
    crowd.say(1, prompt(3, "mine too"))
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(1, cancel())
    assert answers(crowd.hears(1)) == {2: "cancelled", 3: "cancelled"}
    assert thoughts(crowd.hears(2)) == [TOLD]
    assert [frame["method"] for frame in crowd.got()] == ["session/cancel"]
    crowd.agent(ended(wire, "cancelled"))
    assert answers(crowd.hears(1)) == {1: "cancelled"}
    sent = crowd.took("session/prompt")
    assert sent["params"]["prompt"][0]["text"] == "theirs"
    crowd.agent(chunk(), ended(sent["id"]))
    assert answers(crowd.hears(2)) == {2: "end_turn"}


def test_another_s_turn_is_stopped_and_its_owner_told() -> None:
    crowd = pair()
    wire = crowd.prompted(1, 1)
    crowd.agent(chunk())
    crowd.hears(1)
    crowd.say(2, cancel())
    assert thoughts(crowd.hears(1)) == [TOLD]
    assert thoughts(crowd.hears(2)) == []
    assert [frame["method"] for frame in crowd.got()] == ["session/cancel"]
    crowd.agent(ended(wire, "cancelled"))
    assert answers(crowd.hears(1)) == {1: "cancelled"}


def test_a_cancel_in_a_session_of_nobody_is_no_matter() -> None:
    crowd = pair()
    crowd.say(1, cancel("s9"), notify("session/cancel", {}))
    assert crowd.hears(1) == []


def test_a_prompt_of_another_that_has_not_gone_yet_is_no_turn() -> None:
    """It is on its way to the disk: nobody has seen anything of it run."""
    crowd = pair(disk=False)
    crowd.say(1, prompt(1, "one"))
    crowd.say(2, cancel())
    heard = crowd.hears(1)
    assert answers(heard) == {}
    assert thoughts(heard) == []
    crowd.persisted()
    assert crowd.took("session/prompt")


def test_a_prompt_of_its_own_that_has_not_gone_yet_never_goes() -> None:
    crowd = pair(disk=False)
    crowd.say(1, prompt(1, "one"))
    crowd.say(1, cancel())
    assert answers(crowd.hears(1)) == {1: "cancelled"}
    crowd.persisted()
    assert crowd.got() == []


def test_a_notice_still_comes_for_another_s_prompt_that_waits() -> None:
    crowd = pair()
    crowd.agent(chunk("background"))
    crowd.say(1, prompt(1))
    crowd.say(2, prompt(2))
    crowd.hears(1)
    crowd.say(1, cancel())
    assert answers(crowd.hears(1)) == {1: "cancelled"}
    assert ("notice", "s1") in crowd.timers
    crowd.say(2, cancel())
    assert ("notice", "s1") not in crowd.timers


def test_a_steer_of_another_that_has_not_gone_yet_stays() -> None:
    crowd = Crowd("claude", disk=False)
    crowd.join(1)
    crowd.say(1, request("i", "initialize", {"protocolVersion": 1}))
    result: Json = {
        "protocolVersion": 1,
        "agentInfo": {"name": "@agentclientprotocol/claude-agent-acp", "version": "0.101.0"},
        "_meta": {"steering": {"supported": True}},
    }
    crowd.agent(answer(crowd.took("initialize")["id"], result))
    crowd.start(1)
    crowd.greet(2)
    crowd.say(2, load("l"))
    crowd.say(1, prompt(1))
    crowd.persisted()
    wire = crowd.took("session/prompt")["id"]
    crowd.agent(chunk())
    crowd.say(2, prompt(2, "steered"))
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(1, cancel())
    assert answers(crowd.hears(2)) == {}
    crowd.agent(ended(wire, "cancelled"))
    crowd.wait(2.0)
    crowd.persisted()
    assert crowd.took("session/prompt")["params"]["prompt"][0]["text"] == "steered"


# -- close ------------------------------------------------------------------------------------
def test_close_by_one_of_several_only_leaves() -> None:
    crowd = pair()
    wire = crowd.prompted(1, 1)
    crowd.hears(1)
    crowd.hears(2)
    crowd.say(1, close("c"))
    assert crowd.hears(1) == [answer("c", {})]
    assert crowd.got() == []
    crowd.agent(chunk("on"), ended(wire))
    assert methods(crowd.hears(1)) == ["=1"]
    assert methods(crowd.hears(2)) == ["agent_message_chunk", "_acpbridge/turn_ended"]


def test_close_by_the_last_one_ends_it_at_the_agent() -> None:
    crowd = pair()
    crowd.go(2)
    crowd.say(1, close("c"))
    crowd.agent(answer(crowd.took("session/close")["id"], {}))
    assert crowd.hears(1) == [answer("c", {})]
    assert crowd.hub.conversations == {}
    crowd.say(1, load("l"))
    assert crowd.took("session/load")


def test_close_by_one_that_does_not_follow_leaves_the_others_theirs() -> None:
    crowd = pair()
    crowd.greet(3)
    crowd.say(3, close("c"))
    assert crowd.hears(3) == [answer("c", {})]
    assert crowd.got() == []


def test_a_delete_is_for_all() -> None:
    crowd = pair()
    crowd.say(1, close("d", "session/delete"))
    crowd.agent(answer(crowd.took("session/delete")["id"], {}))
    assert crowd.hub.conversations == {}
    crowd.say(2, since("e"))
    (heard,) = crowd.hears(2)
    assert heard["result"]["frames"] == []


def test_a_close_that_fails_changes_nothing() -> None:
    crowd = pair()
    crowd.go(2)
    crowd.say(1, close("c"))
    wire = crowd.took("session/close")["id"]
    crowd.agent({"jsonrpc": "2.0", "id": wire, "error": {"code": -32603, "message": "no"}})
    assert crowd.hub.conversations["s1"].result


def test_a_close_of_what_nobody_knows_goes_to_the_agent() -> None:
    crowd = pair()
    crowd.say(1, request("c", "session/close", {"sessionId": "s9"}))
    crowd.agent(answer(crowd.took("session/close")["id"], {}))
    assert crowd.hears(1) == [answer("c", {})]


def test_what_a_closed_turn_still_says_is_told_before_its_answer() -> None:
    """I6: the agent closes at once and ends the cancelled turn afterwards."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    wire = crowd.prompted(1, 1)
    crowd.agent(chunk("first"))
    crowd.say(1, close("c"))
    crowd.hears(1)
    crowd.agent(answer(crowd.took("session/close")["id"], {}), chunk("last"))
    crowd.agent(ended(wire, "cancelled"))
    assert methods(crowd.hears(1)) == ["=c", "agent_message_chunk", "=1"]
    crowd.say(1, load("l"))
    assert crowd.took("session/load"), "the log does not speak for what is closed"


def test_a_load_behind_a_close_is_answered() -> None:
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    crowd.greet(2)
    crowd.say(1, close("c"))
    closing = crowd.took("session/close")["id"]
    crowd.hub.conversations["s1"].result = b""
    crowd.say(1, load("l"))
    loading = crowd.took("session/load")["id"]
    crowd.say(2, load("l"))
    crowd.agent(answer(closing, {}), answer(loading, {"modes": None}))
    assert methods(crowd.hears(1)) == ["=c", "=l"]
    assert methods(crowd.hears(2)) == ["=l"]
