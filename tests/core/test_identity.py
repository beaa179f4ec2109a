"""The session id that the client knows never changes for it (R25)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.bridge import start, step
from acpbridge.core.events import AgentSent, AgentStarted, ClientSent
from acpbridge.core.policy import Policy
from acpbridge.wire.frame import Frame, peek
from tests.core import reach
from tests.core.reach import forget, in_session, initialized, kinds, owed
from tests.core.script import (
    Json,
    Talk,
    answer,
    chunk,
    dumps,
    ended,
    new_result,
    permission,
    prompt,
    request,
    update,
)


def provenance(current: str, acp: str = "s1", root: str = "s1") -> Json:
    """What Hermes says of a session that its compression has rotated (tape compact-rotation)."""
    told = {
        "acpSessionId": acp,
        "currentHermesSessionId": current,
        "rootHermesSessionId": root,
        "reason": "compression",
    }
    return {"hermes": {"sessionProvenance": told}}


def rotated(*tips: str) -> Talk:
    """A Hermes session whose id rotated at the end of each of these turns."""
    talk = Talk("hermes")
    talk.open()
    for tip in tips:
        talk.client(prompt(tip, tip))
        said = update("session_info_update", title="t", _meta=provenance(tip))
        talk.agent(chunk("a"), said, ended(tip))
        talk.wait(1.0)
    forget(talk)
    return talk


def after_restart(talk: Talk) -> Json:
    """The agent dies and comes back for prompt 1; its load request is returned, unanswered."""
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    return owed(talk, "session/load")


# -- rotation -----------------------------------------------------------------------------------
def test_a_rotated_session_keeps_its_id_while_its_process_lives() -> None:
    """Hermes goes on using the old ACP id (tape compact-rotation); S13.2."""
    talk = rotated("tip-1")

    talk.client(prompt(1, "one"))
    (sent,) = talk.got()
    talk.agent(chunk("b"), ended(1))

    assert "s1" == sent["params"]["sessionId"]
    assert ["b", (1, "end_turn")] == kinds(talk.seen())


def test_a_rotation_is_shown_to_the_client_as_it_came() -> None:
    """I7: it is about the session, and the client may use what it says."""
    talk = rotated()
    line = dumps(update("session_info_update", title="t", _meta=provenance("tip-1")))
    talk.agent(line)

    assert [line] == talk.client_lines


@pytest.mark.parametrize("tips", [("tip-1",), ("tip-1", "tip-2"), ("a", "b", "c", "d")])
def test_after_a_restart_the_tip_is_loaded(tips: tuple[str, ...]) -> None:
    """R25, S13.3: a load of the old id would silently lose what came after the rotation."""
    talk = rotated(*tips)

    load = after_restart(talk)

    assert (tips[-1], "/w") == (load["params"]["sessionId"], load["params"]["cwd"])


def test_then_ids_are_translated_both_ways() -> None:
    """R25: the client says s1 and hears s1; the agent says and hears its tip."""
    talk = rotated("tip-1")
    load = after_restart(talk)
    result = {**new_result("tip-1"), "_meta": provenance("tip-1", "tip-1")}
    talk.agent(chunk("old", "tip-1"), answer(load["id"], result))
    (sent,) = talk.got()
    talk.agent(chunk("b", "tip-1"), permission(4, "tip-1"))
    talk.client(in_session("f", "session/fork"), {**prompt("x"), "method": "_ext/any"})

    assert ["s1", "s1"] == [line["params"]["sessionId"] for line in talk.seen()]
    assert "tip-1" == sent["params"]["sessionId"]
    assert ["tip-1", "tip-1"] == [line["params"]["sessionId"] for line in talk.got()]


def test_a_translated_frame_differs_in_nothing_else() -> None:
    """I7: the id is spliced into the bytes that were received."""
    talk = rotated("tip-1")
    load = after_restart(talk)
    talk.agent(chunk("old", "tip-1"), answer(load["id"], new_result("tip-1")))
    forget(talk)
    up = b'{"method":"_x/y","jsonrpc":"2.0", "params":{ "n":1.50,"sessionId": "%s" ,"u":"\\u00e9"}}'
    tail = b',"method":"_x/z","params":{"sessionId":"%s","big":12345678901234567890}}'
    down = b'{"jsonrpc":"2.0","id":1e0' + tail

    talk.client(down % b"s1")
    talk.agent(up % b"tip-1")

    assert [up % b"s1"] == talk.client_lines
    (sent,) = talk.agent_lines
    assert sent.endswith(
        b',"method":"_x/z","params":{"sessionId":"tip-1","big":12345678901234567890}}'
    )


def test_a_load_of_the_client_goes_to_the_tip_too() -> None:
    """R25: the client asks for the id it knows and gets the whole conversation."""
    talk = rotated("tip-1")
    talk.die()
    talk.client(in_session("L", "session/load"))
    initialized(talk)
    load = owed(talk, "session/load")

    talk.agent(chunk("history", "tip-1"), answer("L", new_result("tip-1")))

    assert "tip-1" == load["params"]["sessionId"]
    shown, told = talk.seen()
    assert ("s1", "L") == (shown["params"]["sessionId"], told["id"])
    assert "s1" == told["result"]["sessionId"]


def test_a_tip_that_the_load_tells_of_is_remembered() -> None:
    """A client that loads an old conversation learns of a rotation in the answer."""
    talk = Talk("hermes")
    talk.initialize()
    talk.client(in_session("L", "session/load", "old"))
    result = {**new_result("old"), "_meta": provenance("tip-9", "old", "old")}
    talk.agent(chunk("h", "old"), answer("L", result))
    talk.wait(1.0)
    forget(talk)
    talk.die()
    talk.client(prompt(1, "one", "old"))
    initialized(talk)

    assert "tip-9" == owed(talk, "session/load")["params"]["sessionId"]


def test_the_clients_use_of_an_id_of_the_chain_means_the_same_session() -> None:
    """R25: a session/list of an older bridge may have told it the tip."""
    talk = rotated("tip-1")
    load = after_restart(talk)
    talk.agent(chunk("old", "tip-1"), answer(load["id"], new_result("tip-1")))
    talk.agent(chunk("b", "tip-1"), ended(1))
    forget(talk)

    talk.client(prompt(2, "two", "tip-1"))
    talk.agent(chunk("c", "tip-1"))
    talk.client({**prompt("c", session="tip-1"), "method": "session/cancel"})

    assert ["s1"] == list(talk.bridge.sessions)
    assert "tip-1" == talk.got()[0]["params"]["sessionId"]


def test_each_step_of_the_chain_is_a_generation() -> None:
    talk = rotated("tip-1", "tip-2")
    load = after_restart(talk)
    talk.agent(chunk("old", "tip-2"), answer(load["id"], new_result("tip-2")))

    assert 3 == talk.bridge.sessions["s1"].generation


def test_nothing_but_the_agents_word_makes_an_alias() -> None:
    """R25: never by title, cwd or recency."""
    talk = Talk("hermes")
    talk.open()
    talk.new("s2")
    talk.wait(1.0)
    forget(talk)

    talk.agent(update("session_info_update", "s2", title="t"), update("session_info_update"))
    talk.agent(update("session_info_update", _meta={"hermes": {"sessionProvenance": "odd"}}))
    talk.agent(update("session_info_update", _meta=provenance("")))
    talk.client(prompt(1, "one", "s1"))

    assert ["s1"] == [line["params"]["sessionId"] for line in talk.got()]
    assert ["s1", "s2"] == [one.agent_id for one in talk.bridge.sessions.values()]


def test_another_agents_provenance_means_nothing() -> None:
    talk = Talk("claude")
    reach.idle(talk)

    talk.agent(update("session_info_update", title="t", _meta=provenance("tip-1")))
    load = after_restart(talk)

    assert "s1" == load["params"]["sessionId"]


# -- session/list -------------------------------------------------------------------------------
def listed(*ids: str) -> Json:
    return {"sessions": [{"sessionId": id_, "cwd": "/w"} for id_ in ids], "nextCursor": None}


def test_the_list_names_sessions_as_the_client_knows_them() -> None:
    """R25, S13: after a restart Hermes lists only the tip."""
    talk = rotated("tip-1")
    talk.client(request("l", "session/list", {}))

    talk.agent(answer("l", listed("other", "tip-1")))

    (told,) = talk.seen()
    assert ["other", "s1"] == [entry["sessionId"] for entry in told["result"]["sessions"]]


def test_a_list_without_known_tips_keeps_its_bytes() -> None:
    talk = rotated("tip-1")
    line = b'{"jsonrpc":"2.0","id":"l","result":{"sessions":[{"sessionId":"x", "n":1.0}]}}'
    talk.client(request("l", "session/list", {}))

    talk.agent(line)

    assert [line] == talk.client_lines


@pytest.mark.parametrize("result", [None, [], {"sessions": None}, {"sessions": [None, {}, 3]}])
def test_a_strange_list_passes(result: Any) -> None:
    talk = rotated("tip-1")
    line = dumps(answer("l", result))
    talk.client(request("l", "session/list", {}))

    talk.agent(line)

    assert [line] == talk.client_lines


def test_a_translated_list_answers_the_id_that_was_asked() -> None:
    """R26 and R25 at once: the request has a private id, and the list is rewritten."""
    talk = rotated("tip-1")
    talk.client(request(1.0, "session/list", {}))
    (asked,) = talk.got()

    talk.agent(answer(asked["id"], listed("tip-1")))

    assert asked["id"] != 1.0
    assert talk.client_lines[0].startswith(b'{"jsonrpc":"2.0","id":1.0,')
    assert b'"sessionId":"s1"' in talk.client_lines[0]


# -- ids that come twice ------------------------------------------------------------------------
def test_a_new_session_under_a_known_id_shares_no_queue() -> None:
    """S13.5: flagged, and what waits in the old one stays there."""
    talk = Talk("generic")
    reach.working(talk)
    talk.client(prompt(2, "two"), request("n", "session/new", {"cwd": "/w"}))

    talk.agent(answer("n", new_result("s1")), ended(1))

    assert 1 == talk.count("session_id_reused")
    assert ["session/new", "session/prompt"] == kinds(talk.got())


def test_an_idle_session_gives_its_id_to_a_new_one() -> None:
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(request("n", "session/new", {"cwd": "/other"}))

    talk.agent(answer("n", new_result("s1")))

    assert 1 == talk.count("session_id_reused")
    assert talk.bridge.sessions["s1"].fresh


def test_only_so_many_sessions_are_remembered() -> None:
    """I9: `sessions_max`; one that works is never forgotten."""
    talk = Talk("generic", sessions_max=3)
    reach.working(talk)

    for number in range(5):
        talk.new(f"x{number}")

    assert ["s1", "x3", "x4"] == sorted(talk.bridge.sessions)
    assert 3 == talk.count("session_forgotten")


def test_when_every_session_works_none_is_forgotten() -> None:
    """I9 yields to I6: the limit is for idle ones."""
    talk = Talk("generic", sessions_max=1)
    reach.working(talk)

    talk.new("x")

    assert ["s1", "x"] == sorted(talk.bridge.sessions)


def test_a_rotated_session_is_resumed_by_its_tip_too() -> None:
    """R25, where the agent cannot load: its frames come under the tip."""
    talk = rotated("tip-1")
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk, without=("loadSession",))
    resume = owed(talk, "session/resume")
    talk.agent(answer(resume["id"], new_result("tip-1")))
    talk.agent(chunk("b", "tip-1"))

    assert "tip-1" == resume["params"]["sessionId"]
    assert ["s1"] == [line["params"]["sessionId"] for line in talk.seen()]


def test_the_profiles_are_chosen_by_the_names_of_acp_v2_too() -> None:
    """ACP v2 says `info` on both sides where v1 says `agentInfo` and `clientInfo`."""
    bridge = start(Policy(), None, None, "n0nce")
    step(bridge, 0.0, AgentStarted(1))
    asked = request(1, "initialize", {"protocolVersion": 2, "info": {"name": "codeg"}})
    info = {"name": "hermes-agent", "version": "0.22.0"}
    told = answer(1, {"protocolVersion": 2, "info": info})
    seen = [peek(dumps(frame), strict=False) for frame in (asked, told)]
    assert isinstance(seen[0], Frame)
    assert isinstance(seen[1], Frame)
    step(bridge, 0.0, ClientSent(seen[0]))
    step(bridge, 0.0, AgentSent(1, seen[1]))

    assert ("hermes", "codeg") == (bridge.agent.name, bridge.client.name)


def test_a_rotation_that_is_told_twice_is_one() -> None:
    """Hermes repeats its provenance with every title."""
    talk = rotated("tip-1")

    talk.agent(update("session_info_update", title="u", _meta=provenance("tip-1")))

    assert 1 == talk.bridge.sessions["s1"].generation


def test_a_tip_that_an_opening_tells_of_is_remembered() -> None:
    """A fork may be stored under another id than the one that it is called by."""
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(in_session("f", "session/fork"))
    told = {**new_result("f1"), "_meta": provenance("stored-f1", "f1", "f1")}
    talk.agent(answer("f", told))
    talk.wait(1.0)
    reach.turn(talk, 0, session="f1")
    talk.die()
    talk.client(prompt(1, "one", "f1"))
    initialized(talk)

    assert "stored-f1" == owed(talk, "session/load")["params"]["sessionId"]


def test_a_list_with_strange_ids_passes_as_it_came() -> None:
    """R26: what the agent says of ids that nobody could use ends nothing."""
    talk = Talk("generic")
    talk.open()
    talk.client(request(5, "session/list", {}))
    line = answer(5, {"sessions": [{"sessionId": []}, {"sessionId": {}}, {"sessionId": "s1"}, 7]})

    talk.agent(line)

    assert [line] == talk.seen()
