"""What a waiting prompt says, when, and how often (I10, R10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.reach import (
    PLACES,
    cancelling,
    forget,
    idle,
    joined,
    kept,
    kinds,
    ownerless,
    running,
)
from tests.core.script import (
    Json,
    Talk,
    chunk,
    echo,
    ended,
    error,
    notify,
    prompt,
    request,
    usage,
)


def load() -> Json:
    return request("l", "session/load", {"sessionId": "s1", "cwd": "/w", "mcpServers": []})


def busy(talk: Talk) -> None:
    talk.client(prompt(1, "one"))
    talk.agent(error(1, -32000, "busy", {"reason": "session_busy"}))


def notices(talk: Talk) -> list[str]:
    return [
        one["params"]["update"]["content"]["text"]
        for one in talk.seen()
        if one.get("params", {}).get("update", {}).get("_meta", {}).get("acpbridge")
    ]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("kept", "keeps this message"),
        ("joined", "put this message into its running turn"),
        ("ownerless", "busy with work of its own"),
        ("cancelling", "cancelled turn to end"),
        ("wedged", "started again"),
        ("lost", "started again"),
        ("reviving", "loaded again"),
    ],
)
def test_a_prompt_that_waits_says_once_what_for(place: str, words: str) -> None:
    """I10: after two seconds, in one thought chunk, with a name for what it waits for."""
    talk = Talk("hermes")
    PLACES[place][1](talk)
    if place not in ("kept", "joined", "reviving"):
        talk.client(prompt(2, "two"))
    talk.wait(1.9)

    assert [] == notices(talk)
    talk.wait(0.1)
    said = notices(talk)
    assert 1 == len(said)
    assert words in said[0]
    talk.wait(20.0)
    assert [] == notices(talk)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda talk: talk.client(load(), prompt(2, "two")), "session to be loaded"),
        (busy, "refuses messages as busy"),
    ],
    ids=["load", "busy"],
)
def test_the_other_waits_have_names_too(act: Any, words: str) -> None:
    talk = Talk("hermes", busy_first_s=5.0)
    idle(talk)
    act(talk)
    talk.wait(2.0)
    (said,) = notices(talk)

    assert words in said


@pytest.mark.parametrize("place", ["running", "working", "doubted", "segment"])
def test_where_a_turn_is_to_be_seen_nothing_is_said(place: str) -> None:
    """The running turn is what the next prompt waits for, and the client shows that."""
    talk = Talk("hermes", suspect_grace_s=60.0, empty_grace_s=60.0)
    PLACES[place][1](talk)
    talk.client(prompt(2, "two"))
    talk.wait(20.0)

    assert [] == notices(talk)


def test_a_prompt_that_went_in_time_says_nothing() -> None:
    talk = Talk("hermes")
    ownerless(talk)
    talk.client(prompt(1, "one"))
    talk.agent(usage())
    talk.wait(30.0)

    assert [] == notices(talk)


def test_the_one_behind_waits_for_its_own_two_seconds() -> None:
    """Each prompt's notice counts from its own arrival, when it is next."""
    talk = Talk("hermes")
    cancelling(talk)
    talk.client(prompt(2, "two"))
    talk.wait(5.0)
    forget(talk)
    talk.client(prompt(3, "three"), notify("$/cancel_request", {"requestId": 2}))
    talk.wait(1.9)

    assert [] == notices(talk)
    talk.wait(0.1)
    assert 1 == len(notices(talk))


def test_work_behind_a_receipt_makes_the_notice_needless() -> None:
    """R10: what the agent does with the message is visible then."""
    talk = Talk("hermes")
    joined(talk)
    talk.agent(chunk("on it"))
    talk.wait(30.0)

    assert [] == notices(talk)


def test_a_policy_without_notices_says_nothing() -> None:
    talk = Talk("hermes", wait_notice=False)
    kept(talk)
    talk.wait(100.0)

    assert [] == talk.seen()


def test_a_notice_is_a_thought_in_the_bridge_s_own_name() -> None:
    """Nobody may mistake it for the agent's word (I7)."""
    talk = Talk("hermes")
    kept(talk)
    talk.wait(2.0)
    (said,) = talk.seen()
    update = said["params"]["update"]

    assert "agent_thought_chunk" == update["sessionUpdate"]
    assert {"acpbridge": {"notice": True}} == update["_meta"]


def test_a_running_turn_s_echo_or_silence_asks_for_nothing() -> None:
    """R8: a turn with an owner ends with its response, whatever is quiet meanwhile."""
    talk = Talk("hermes")
    running(talk)
    talk.agent(echo("one"), chunk("a"), usage())
    forget(talk)
    talk.wait(10_000.0)

    assert [] == talk.seen() + talk.got()
    talk.agent(ended(1))
    assert [(1, "end_turn")] == kinds(talk.seen())


def test_a_tail_that_goes_on_for_two_seconds_is_named_too() -> None:
    """R13, I10: the wait for a tail is a moment, and at its longest it says so."""
    talk = Talk("hermes")
    running(talk)
    talk.agent(chunk("a"), ended(1), chunk("tail"))
    talk.client(prompt(2, "two"))
    for _ in range(16):
        talk.wait(0.125)
        talk.agent(chunk("tail"))

    assert ["Waiting for the turn before; this message goes next."] == notices(talk)
