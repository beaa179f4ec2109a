"""S16, the incident itself: sends into a turn that the client cannot see.

The agent is of the Hermes kind of 0.20 and newer, as its source was read (not recorded): it works
by itself, answers a prompt that meets that work with a receipt, and gives no other answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.ledger import answered_after_s, check
from tests.core.reach import forget, idle, kinds, tags, texts
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    answer,
    chunk,
    echo,
    ended,
    permission,
    prompt,
    tool,
    tool_update,
    update,
    usage,
)

Moves = list[Json | Callable[[Talk], None]]
"""What happens, in order: frames of the agent, and other things."""

PROVENANCE = {
    "hermes": {"sessionProvenance": {"acpSessionId": "s1", "currentHermesSessionId": "tip-1"}}
}


def rotates() -> Json:
    return update("session_info_update", title="t", _meta=PROVENANCE)


def passes(seconds: float) -> Callable[[Talk], None]:
    return lambda talk: talk.wait(seconds)


def third(talk: Talk) -> None:
    """Prompt 3."""
    talk.client(prompt(3, "three"))


def third_later(talk: Talk) -> None:
    """Prompt 3, two seconds after what came before it."""
    talk.wait(2.0)
    third(talk)


REDIRECTS: Moves = [
    passes(0.001),
    chunk(REDIRECTED),
    ended(2, usage=False),
    passes(0.5),
    chunk("bg2"),
    chunk("reaction to two"),
    usage(),
]

QUEUES: Moves = [
    passes(0.001),
    chunk(QUEUED),
    ended(2, usage=False),
    passes(0.5),
    chunk("bg2"),
    passes(0.5),
    echo("two"),
    chunk("answer to two"),
    usage(),
]

EXTRAS: dict[str, Moves] = {
    "nothing": [],
    "chunk": [chunk("bg interleaved")],
    "tool": [tool("bg"), tool_update("bg")],
    "permission": [permission(7)],
    "rotation": [rotates()],
    "usage": [usage()],
    "prompt 3": [third],
    "prompt 3 later": [third_later],
}

PLACES = [
    (variant, extra, place)
    for variant, moves in (("redirects", REDIRECTS), ("queues", QUEUES))
    for extra in EXTRAS
    for place in range(len(moves) + 1)
    if (extra != "nothing" or not place) and (extra != "prompt 3 later" or place > 2)
]
"""Every extra at every place where it can interleave; a receipt's text and its answer come in one
breath, so no two seconds pass between them."""


def incident(client: str = "generic") -> Talk:
    """S16.1: a turn of 3 min 37 s that ends normally."""
    talk = Talk("hermes", client, wait_notice=False)
    idle(talk)
    talk.client(prompt(1, "one"))
    for _ in range(217):
        talk.agent(chunk("work "))
        talk.wait(1.0)
    talk.agent(usage(), ended(1))
    talk.wait(1.0)

    assert [(1, "end_turn")] == kinds(talk.seen())[-1:]
    return talk


def play(talk: Talk, moves: Moves) -> None:
    for move in moves:
        if callable(move):
            move(talk)
        else:
            talk.agent(move)


def ends(talk: Talk) -> list[Json]:
    """Whatever is asked is answered, and time passes until nothing can be waited for any more."""
    seen = talk.seen()
    for frame in seen:
        if frame.get("method") == "session/request_permission":
            talk.client(answer(frame["id"], {"outcome": {"outcome": "cancelled"}}))
    talk.wait(62.0)
    return [*seen, *talk.seen()]


def goes_on(talk: Talk) -> None:
    """S16.4: prompt 4 runs normally, nothing was lost or ran twice, nothing came too soon."""
    seen = talk.seen()
    talk.client(prompt(4, "four"))
    assert ["four"] == texts(talk.got())[-1:]
    talk.agent(chunk("d"), usage(), ended(4))
    talk.wait(1.0)
    seen += talk.seen()

    assert (4, "end_turn") in kinds(seen)
    book = check(talk)
    assert answered_after_s(book, 2) >= 0.02
    assert [] == [
        one.frame for one in book.of("client<") if QUEUED in str(one) or REDIRECTED in str(one)
    ]


# -- a: the bridge knows ---------------------------------------------------------------------------
KNOWN: Moves = [echo("notice"), chunk("bg1"), tool("bg"), tool_update("bg"), chunk("bg2"), usage()]


@pytest.mark.parametrize("client", ["generic", "codeg"])
@pytest.mark.parametrize("place", range(1, len(KNOWN) + 1))
def test_s16_a_where_work_was_seen_the_prompt_waits_for_its_end(place: int, client: str) -> None:
    """Sent when the turn is over, answered by its own response."""
    talk = incident(client)
    play(talk, KNOWN[:place])
    talk.client(prompt(2, "two"))
    play(talk, KNOWN[place:])
    talk.got()
    talk.wait(0.9)

    assert [] == texts(talk.got())
    talk.wait(0.1)
    assert ["two"] == texts(talk.got())
    talk.agent(chunk("c"), usage(), ended(2))
    talk.wait(1.0)
    assert ["response"] == tags(talk.seen())
    goes_on(talk)


# -- b, c: the agent is silent so far --------------------------------------------------------------
@pytest.mark.parametrize("client", ["generic", "codeg"])
@pytest.mark.parametrize(("variant", "extra", "place"), PLACES)
def test_s16_b_to_e_a_receipt_is_no_answer_whatever_comes_between(
    variant: str, extra: str, place: int, client: str
) -> None:
    """b, c: no answer and no receipt text; d: prompt 3 waits and goes once; e: the id rotates."""
    talk = incident(client)
    moves = REDIRECTS if variant == "redirects" else QUEUES
    talk.client(prompt(2, "two"))
    assert ["two"] == texts(talk.got())[-1:]
    play(talk, [*moves[:place], *EXTRAS[extra], *moves[place:]])
    said = ends(talk)

    tag = {"redirects": {"marked", "inferred"}, "queues": {"drained", "inferred"}}[variant]
    (own,) = [one for one in said if one.get("id") == 2]
    assert own["result"]["_meta"]["acpbridge"]["completion"] in tag
    words = "reaction to two" if variant == "redirects" else "answer to two"
    assert kinds(said).index(words) < kinds(said).index((2, "end_turn"))
    if extra.startswith("prompt 3"):
        assert ["three"] == texts(talk.got())
        talk.agent(chunk("c"), ended(3))
        talk.wait(1.0)
        assert (3, "end_turn") in kinds(talk.seen())
    goes_on(talk)


@pytest.mark.parametrize("moves", [REDIRECTS, QUEUES], ids=["redirects", "queues"])
def test_s16_without_a_marker_the_end_is_inferred_after_a_minute(moves: Moves) -> None:
    """Step 3b: `marked` or `inferred`; never before the agent has been quiet for a minute."""
    talk = incident()
    talk.client(prompt(2, "two"))
    play(talk, moves[:-1])
    talk.wait(59.9)

    assert (2, "end_turn") not in kinds(talk.seen())
    talk.wait(0.1)
    said = talk.seen()
    assert ["inferred"] == tags(said)
    goes_on(talk)


@pytest.mark.parametrize("text", [QUEUED, REDIRECTED])
def test_s16_an_agent_that_never_comes_back_to_it_is_waited_for_in_the_open(text: str) -> None:
    """I10: not answered, not sent again; cancel is the way out, and then the session is usable."""
    talk = Talk("hermes")
    idle(talk)
    talk.client(prompt(2, "two"))
    talk.agent(chunk(text), ended(2, usage=False))
    forget(talk)
    talk.wait(3600.0)

    waits, is_silent = [one["params"]["update"]["content"]["text"] for one in talk.seen()]
    assert "waiting for" in waits
    assert "120 s" in is_silent
    talk.client({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}})
    talk.wait(10.0)
    assert [(2, "cancelled")] == kinds(talk.seen())
    talk.client(prompt(4, "four"))
    assert ["four"] == texts(talk.got())[-1:]


@pytest.mark.parametrize("extra", [chunk("bg"), tool("bg"), usage(), rotates()])
def test_s16_5_an_interleaved_frame_before_the_receipt_changes_nothing(extra: Any) -> None:
    """Step 5, literally: between the write of prompt 2 and the receipt."""
    talk = incident()
    talk.client(prompt(2, "two"))
    talk.agent(extra)
    talk.wait(0.002)
    talk.agent(chunk(REDIRECTED), ended(2, usage=False))
    talk.wait(30.0)

    assert [] == [one for one in talk.seen() if one.get("id") == 2]
