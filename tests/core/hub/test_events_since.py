"""`_acpbridge/events_since`: what came behind a cursor, then live, without a double or a hole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.core import hub as hubs
from tests.core.hub.crowd import EVENTS, Crowd, load, methods, place, since, words
from tests.core.script import Json, answer, chunk, ended, error, prompt, request, tool, usage


def cursor(seq: object, epoch: object = Crowd.nonce) -> Json:
    return {"epoch": epoch, "seq": seq}


def talked(**policy: Any) -> Crowd:
    """Client 1 has had a turn with merged text; client 2 is there and follows nothing."""
    crowd = Crowd(**policy)
    crowd.greet(1, EVENTS)
    crowd.start(1)
    wire = crowd.prompted(1, "p")
    crowd.agent(*[chunk(letter) for letter in "abcdef"])
    crowd.agent(tool(), chunk("g"), ended(wire))
    crowd.greet(2, EVENTS)
    return crowd


def asked(crowd: Crowd, number: int, at: Json | None = None, session: str = "s1") -> Json:
    crowd.say(number, since("e", at, session))
    found: Json = crowd.hears(number)[0]["result"]
    return found


def test_without_a_cursor_it_is_all_that_there_is() -> None:
    crowd = talked()
    result = asked(crowd, 2)
    assert methods(result["frames"]) == [
        "user_message_chunk", "agent_message_chunk", "tool_call", "agent_message_chunk",
        "_acpbridge/turn_ended",
    ]  # fmt: skip
    assert words(result["frames"]) == "abcdefg"
    assert result["latestSeq"] == 10
    assert (result["truncated"], result["startsOver"]) == (False, True)
    assert result["epoch"] == Crowd.nonce


@pytest.mark.parametrize("seq", range(11))
def test_a_cursor_within_merged_text_gets_the_rest(seq: int) -> None:
    crowd = talked()
    result = asked(crowd, 2, cursor(seq))
    text = "abcdef"[max(seq - 1, 0) :] if seq < 7 else ""
    assert words(result["frames"]) == text + ("g" if seq < 9 else "")
    assert result["latestSeq"] == 10
    assert not result["startsOver"]
    assert all(place(frame)["seq"] > seq for frame in result["frames"])


@pytest.mark.parametrize("at", [cursor(3, "ffffffff"), cursor(11), cursor(99)])
def test_a_cursor_of_another_epoch_starts_over(at: Json) -> None:
    crowd = talked()
    result = asked(crowd, 2, at)
    assert words(result["frames"]) == "abcdefg"
    assert result["startsOver"]
    assert not result["truncated"]


@pytest.mark.parametrize("at", [cursor("3"), cursor(True), cursor(3, 5), {"seq": 3}, [3], "x"])
def test_what_is_no_cursor_is_none(at: Json) -> None:
    crowd = talked()
    assert len(asked(crowd, 2, at)["frames"]) == 5


def test_it_is_truncated_where_something_durable_was_dropped() -> None:
    crowd = talked(log_events_max=1)
    assert asked(crowd, 2)["truncated"]
    assert not asked(crowd, 2, cursor(8))["truncated"]


def test_a_session_of_nobody_has_no_events() -> None:
    crowd = talked()
    result = asked(crowd, 2, session="s9")
    assert (result["frames"], result["latestSeq"], result["truncated"]) == ([], 0, False)
    assert asked(crowd, 2, cursor(5), session="s9")["startsOver"]


def test_it_needs_a_session() -> None:
    crowd = talked()
    crowd.say(2, request("e", "_acpbridge/events_since", {}))
    assert crowd.hears(2) == [
        error(
            "e", -32602, "events_since needs params.sessionId: the session whose events are wanted."
        )
    ]


def test_what_comes_next_follows_live() -> None:
    crowd = talked()
    result = asked(crowd, 2, cursor(4))
    crowd.agent(usage())
    wire = crowd.prompted(1, "q", "more")
    crowd.agent(chunk("h"), chunk("i"), ended(wire))
    live = crowd.hears(2)
    seqs = [place(frame)["seq"] for frame in [*result["frames"], *live]]
    assert seqs == [7, 8, 9, 10, 11, 12, 13, 14, 15]
    assert crowd.hears(1)[-1]["id"] == "q"


def test_live_frames_are_stamped_as_replayed_ones() -> None:
    crowd = talked()
    asked(crowd, 2, cursor(10))
    wire = crowd.prompted(1, "q")
    crowd.agent(tool("x"), usage(), ended(wire))
    live = crowd.raw(2)
    crowd.say(2, since("e", cursor(10)))
    span = crowd.raw(2)[0].split(b'"frames":[', 1)[1].split(b'],"latestSeq"', 1)[0]
    assert span == b",".join(live)


def test_a_plain_client_may_ask_too_and_gets_the_agent_s_bytes() -> None:
    """But not what stands for a response that was another's."""
    crowd = talked()
    crowd.greet(3)
    result = asked(crowd, 3)
    assert methods(result["frames"]) == [
        "user_message_chunk", "agent_message_chunk", "tool_call", "agent_message_chunk",
    ]  # fmt: skip
    assert b"acpbridge" not in json.dumps(result["frames"]).encode()


def test_sessions_that_only_somebody_asks_for_are_bounded() -> None:
    crowd = talked(sessions_max=4)
    for number in range(20):
        asked(crowd, 2, session=f"x{number}")
    assert len(crowd.hub.conversations) <= 4
    assert "s1" in crowd.hub.conversations


def test_of_old_sessions_those_that_nobody_follows_go_first() -> None:
    crowd = talked(sessions_max=4)
    crowd.greet(3, EVENTS)
    for number in range(3):
        asked(crowd, 3 if number == 1 else 2, session=f"x{number}")
    crowd.go(3)
    asked(crowd, 2, session="y")
    assert list(crowd.hub.conversations) == ["s1", "x0", "x2", "y"]


def test_sessions_that_the_bridge_knows_stay() -> None:
    crowd = talked(sessions_max=1)
    crowd.say(2, load("l", "s2"))
    assert crowd.took("session/load")
    assert list(crowd.hub.conversations) == ["s1", "s2"]


# -- figures ----------------------------------------------------------------------------------
def figures(crowd: Crowd, number: int = 2) -> Json:
    crowd.say(number, request("s", "_acpbridge/stats", {}))
    found: Json = crowd.hears(number)[-1]["result"]
    return found


def test_stats_of_a_daemon_at_rest() -> None:
    crowd = talked()
    told = figures(crowd)
    assert told["epoch"] == Crowd.nonce
    assert (told["turns"], told["queued"], told["clients"]) == ([], 0, 2)
    assert told["sessions"] == [{"sessionId": "s1", "latestSeq": 10, "followers": 1}]
    assert told["ring"] | {"bytes": 0} == {"sessions": 1, "events": 3, "texts": 2, "bytes": 0}


def test_stats_name_no_session_that_was_only_asked_for() -> None:
    """Whoever takes the newest one is not to get another's slip of the pen."""
    crowd = talked()
    asked(crowd, 2, session="typo")
    assert [one["sessionId"] for one in figures(crowd)["sessions"]] == ["s1"]


def test_stats_of_a_turn() -> None:
    crowd = talked()
    crowd.prompted(1, "q")
    crowd.agent(chunk("x"))
    crowd.say(1, prompt("r", "waits"))
    crowd.wait(0.5)
    (running,) = figures(crowd)["turns"]
    trace = running.pop("traceId")
    assert len(trace) == 12
    assert running == {
        "sessionId": "s1", "state": "running", "elapsedMs": 500, "streaming": True, "queued": 1,
    }  # fmt: skip
    crowd.wait(1.0)
    told = figures(crowd)
    assert not told["turns"][0]["streaming"]
    assert told["queued"] == 1


def test_prompts_that_wait_or_run() -> None:
    crowd = talked()
    crowd.say(1, prompt("q", "x" * 100, _meta={"acpbridge": {"promptKey": "k"}}))
    crowd.say(2, prompt("r", "waits"))
    crowd.wait(1.0)
    crowd.hears(2)
    crowd.say(2, request("a", "_acpbridge/prompts", {}))
    first, second = crowd.hears(2)[-1]["result"]["prompts"]
    assert first == {
        "sessionId": "s1", "prompt": first["prompt"], "state": "written", "client": 1,
        "waitedMs": 1000, "words": "x" * 80, "promptKey": "k",
    }  # fmt: skip
    assert (second["client"], second["state"], second["words"]) == (2, "queued", "waits")
    for session, count in (("s1", 2), ("s9", 0)):
        crowd.say(2, request("a", "_acpbridge/prompts", {"sessionId": session}))
        assert len(crowd.hears(2)[-1]["result"]["prompts"]) == count


def test_a_load_that_waits_is_no_prompt() -> None:
    crowd = Crowd()
    crowd.greet(1)
    crowd.prompted(1, "p")
    crowd.agent(chunk())
    crowd.say(1, load("l"), request("a", "_acpbridge/prompts", {}))
    (told,) = crowd.hears(1)[-1]["result"]["prompts"]
    assert told["state"] == "written"


def test_gauges_go_up_and_down() -> None:
    crowd = talked()
    wire = crowd.prompted(1, "q")
    crowd.agent(chunk("x"))
    up = hubs.gauges(crowd.hub)
    assert (up["clients"], up["turns"], up["open_requests"]) == (2, 1, 1)
    crowd.agent(ended(wire), answer("nobody", {}))
    crowd.wait(5.0)
    down = hubs.gauges(crowd.hub)
    assert (down["turns"], down["open_requests"], down["agent_requests"]) == (0, 0, 0)
