"""A named limit of the agent: Hermes runs four turns a process, the fifth waits visibly."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.profiles import agent_named
from tests.core.reach import forget, kinds, texts
from tests.core.script import (
    Talk,
    answer,
    cancel,
    chunk,
    ended,
    prompt,
    request,
)

FIFTH = "The agent runs 4 turns at once and all are taken; this message goes to it when one ends."


def four(disk: bool = True) -> Talk:
    """Hermes with its four turns taken: prompts 1 to 4 in sessions s1 to s4; s5 and s6 idle."""
    talk = Talk("hermes")
    talk.initialize()
    for number in range(1, 7):
        talk.new(f"s{number}")
    talk.wait(1.0)
    talk.disk = disk
    talk.client(*(prompt(number, f"p{number}", f"s{number}") for number in range(1, 5)))
    return talk


def test_the_fifth_turn_waits_visibly() -> None:
    """States: Hermes would leave it silent; we say what it waits for (I10)."""
    talk = four()
    forget(talk)
    talk.client(prompt(5, "p5", "s5"))
    talk.wait(2.0)

    assert [] == talk.got()
    assert [FIFTH] == kinds(talk.seen())
    talk.agent(chunk("a", "s2"), ended(2))
    assert ["p5"] == texts(talk.got())


def test_turns_that_are_free_go_to_those_that_waited_longest() -> None:
    """I10: a session with a long queue must not keep the others out."""
    talk = four()
    forget(talk)
    talk.client(prompt("1b", "p1b", "s1"), prompt(5, "p5", "s5"), prompt(6, "p6", "s6"))
    sent = []
    for session, id_ in (("s1", 1), ("s2", 2), ("s3", 3)):
        talk.agent(chunk("a", session), ended(id_))
        sent.append(texts(talk.got()))

    assert [["p5"], ["p6"], ["p1b"]] == sent


@pytest.mark.parametrize(
    "end",
    [
        lambda talk: talk.persist_failed(),
        lambda talk: talk.client(cancel("s4")),
        lambda talk: talk.die(),
    ],
    ids=["disk", "cancel", "death"],
)
def test_a_turn_is_free_however_its_prompt_ends(end: Any) -> None:
    """I10: the fifth must not wait for a turn that ended without an answer."""
    talk = four(disk=False)
    talk.client(prompt(5, "p5", "s5"))
    forget(talk)
    end(talk)

    assert "s5" not in talk.bridge.starved


def test_a_turn_that_does_not_end_frees_its_place_with_cancel_settle() -> None:
    """R18: after 30 s the session is wedged, and others need not wait for it."""
    talk = four()
    for number in range(1, 5):
        talk.agent(chunk("a", f"s{number}"))
    talk.client(prompt(5, "p5", "s5"), cancel("s1"))
    forget(talk)
    talk.wait(30.0)

    assert ["p5"] == texts(talk.got())


def test_a_starved_prompt_that_is_cancelled_leaves_the_line() -> None:
    """R16: the place goes to the next one."""
    talk = four()
    talk.client(prompt(5, "p5", "s5"), prompt(6, "p6", "s6"), cancel("s5"))
    forget(talk)
    talk.agent(chunk("a", "s1"), ended(1))

    assert ["p6"] == texts(talk.got())
    assert [] == list(talk.bridge.starved)


def test_a_starved_session_that_is_closed_leaves_the_line() -> None:
    """R20: and the next one's turn does not wait for it."""
    talk = four()
    talk.client(prompt(5, "p5", "s5"), prompt(6, "p6", "s6"))
    talk.client(request("c", "session/close", {"sessionId": "s5"}))
    talk.agent(answer("c", {}))
    forget(talk)
    talk.agent(chunk("a", "s1"), ended(1))

    assert ["p6"] == texts(talk.got())
    assert [] == list(talk.bridge.starved)


def test_an_agent_without_a_known_limit_gets_all() -> None:
    """`turns_max = 0`: no limit is known."""
    assert 0 == agent_named("generic").turns_max
    talk = Talk("generic")
    talk.initialize()
    for number in range(1, 10):
        talk.new(f"s{number}")
    talk.client(*(prompt(number, f"p{number}", f"s{number}") for number in range(1, 10)))

    assert 9 == len(texts(talk.got()))
