"""Prompts that an earlier run left and that this one sends for nobody: how they end (R20)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.core.effects import Adopt, Tell
from acpbridge.core.events import KeyFound, Recovered
from tests.core.left import DONE, LEFT, MAYBE, keyed, load, loaded, loads, opened, thoughts
from tests.core.reach import forget, kinds, obey, texts
from tests.core.script import Talk, answer, cancel, chunk, ended, error, new_result, prompt


def states(talk: Talk, number: int = 1) -> list[str]:
    return [one.state for one in talk.persists if one.prompt == number]


def under_way(client: str = "codeg") -> Talk:
    """What was left behind has been sent and is at the agent."""
    talk = Talk("generic", client, undelivered="send")
    talk.initialize()
    talk.known["s1"] = Recovered("s1", (LEFT,))
    talk.client(load("l"))
    forget(talk)
    loaded(talk)
    assert ["left behind"] == texts(talk.got())
    return talk


# -- told once, and where it can be read ----------------------------------------------------------
def test_what_was_told_before_is_not_told_again() -> None:
    """It stays undelivered, and every later life would say so again."""
    talk = loads(evolve(LEFT, told=True), MAYBE)
    loaded(talk)
    talk.client(prompt(1, "one"))
    (told,) = thoughts(talk)

    assert "left behind" not in told
    assert [Tell((8,))] == talk.asked


def test_what_the_journal_says_twice_is_told_once() -> None:
    """A session that another bridge held is looked at again when its lock falls."""
    talk = loads(LEFT)
    loaded(talk)
    talk.feed(Recovered("s1", (LEFT, MAYBE)))
    talk.client(prompt(1, "one"))

    assert [Tell((7, 8))] == talk.asked


def test_a_prompt_that_came_before_the_journal_s_word_hears_it_too() -> None:
    """The next prompt may never come."""
    talk = Talk("generic", "codeg")
    talk.initialize()
    talk.hold_recovery = True
    talk.client(load("l"), prompt(1, "one"))
    talk.seen()
    talk.feed(Recovered("s1", (MAYBE,)))

    (told,) = thoughts(talk)
    assert "maybe" in told
    assert [Tell((8,))] == talk.asked


def test_nothing_is_told_where_only_a_prompt_of_nobody_s_is_open() -> None:
    """Codeg drops what comes outside a turn of its own, and told is told."""
    talk = loads(MAYBE, LEFT, policy="send")
    loaded(talk)
    assert [] == thoughts(talk)
    assert [Adopt(7, 1, "s1")] == talk.asked
    talk.client(prompt(1, "one"))

    (told,) = thoughts(talk)
    assert "maybe" in told


def test_what_it_shows_while_nobody_listens_is_kept_for_codeg() -> None:
    """I6: an answer that comes before the client's next prompt is shown in that one's turn."""
    talk = under_way()
    talk.agent(chunk("the answer"))
    assert [] == talk.seen()
    talk.agent(ended(texts_id(talk)))
    talk.wait(1.0)
    talk.client(prompt(1, "one"))

    assert "the answer" in kinds(talk.seen())


def texts_id(talk: Talk) -> Any:
    """The id of the bridge's own prompt."""
    (one,) = talk.bridge.sessions["s1"].at_agent
    return one.wire_id.decode().strip('"')


# -- it cannot be sent --------------------------------------------------------------------------
def test_a_failed_load_leaves_it_to_be_told_and_to_be_sent_another_time() -> None:
    """Refused to nobody, it is undelivered again: in the journal, and in the next turn's words."""
    talk = loads(LEFT, policy="send")
    talk.agent(error("l", -32002))
    talk.wait(1.0)
    assert ["refused", "accepted"] == states(talk)
    assert ["l"] == [one["id"] for one in talk.seen() if "id" in one]
    talk.client(prompt(1, "one"))

    assert any("left behind" in one for one in thoughts(talk))
    assert Tell((7,)) == talk.asked[-1]


def test_a_client_s_cancel_stops_it_and_leaves_it_undelivered() -> None:
    """Whoever cancels may not know of it; called cancelled it would be lost without a word."""
    talk = loads(LEFT, policy="send")
    talk.client(cancel())
    loaded(talk)
    talk.client(prompt(1, "one"))

    assert ["one"] == texts(talk.got())
    assert ["cancelled", "accepted"] == states(talk)
    assert any("left behind" in one for one in thoughts(talk))


def test_one_that_died_with_the_agent_is_told_of_as_unknown() -> None:
    talk = under_way()
    talk.die()
    assert [] == talk.seen()
    talk.client(prompt(1, "one"))
    (told, *_) = thoughts(talk)

    assert "may have run" in told
    assert "unknown" == states(talk)[-1]
    assert Tell((7,)) == talk.asked[-1]
    assert ["one"] == texts(obey(talk))


def test_one_that_another_bridge_has_is_not_told_of() -> None:
    """Nothing is lost, and that bridge has told of it, or sends it."""
    talk = loads(LEFT, policy="send")
    talk.disk = False
    loaded(talk)
    talk.persist_failed("another bridge has taken it")
    talk.disk = True
    talk.client(prompt(1, "one"))

    assert [] == thoughts(talk)
    assert ["one"] == texts(talk.got())


# -- with a key -----------------------------------------------------------------------------------
@pytest.mark.parametrize("came", ["later", "before the journal had answered"])
def test_its_repeat_shares_its_answer(came: str) -> None:
    """The same key never runs twice: the client sends again what the bridge sends by itself."""
    talk = Talk("generic", undelivered="send")
    talk.initialize()
    talk.hold_recovery = True
    forget(talk)
    kept = evolve(LEFT, key="k")
    talk.client(load("l"))
    if came != "later":
        talk.client(keyed(1, "left behind"), keyed(2, "left behind"))
    talk.feed(Recovered("s1", (kept,)))
    if came == "later":
        talk.client(keyed(1, "left behind"), keyed(2, "left behind"))
    else:
        talk.feed(KeyFound(1, kept))
    talk.agent(answer("l", new_result("s1")))
    (sent,) = [one for one in talk.got() if one["method"] == "session/prompt"]
    talk.agent(chunk("a"), ended(sent["id"]))
    talk.wait(1.0)

    assert [7] == [one.kept for one in talk.asked if isinstance(one, Adopt)]
    assert [(1, "end_turn"), (2, "end_turn")] == [
        one for one in kinds(talk.seen()) if isinstance(one, tuple) and one[0] in (1, 2)
    ]


def test_what_is_taken_over_by_its_key_is_not_called_undelivered() -> None:
    """Who sends it again by its key must not read that it was not delivered."""
    talk = opened("codeg")
    talk.hold_recovery = True
    kept = evolve(LEFT, key="k")
    talk.client(load("l"), keyed(1, "left behind"))
    talk.seen()
    talk.feed(Recovered("s1", (kept, DONE)))
    talk.feed(KeyFound(1, kept))
    talk.client(prompt(2, "two"))

    assert ["Answered"] == [one.split()[0] for one in thoughts(talk)]
    assert [Tell((9,)), Adopt(7, 2, "s1")] == talk.asked


def test_one_whose_key_is_not_looked_up_yet_is_kept_with_its_key() -> None:
    """Without it the prompt could be sent by the next run, and its repeat beside it (I3)."""
    talk = opened()
    talk.hold_recovery = True
    talk.client(keyed(1, "one"))
    forget(talk)
    talk.leave()

    assert [("accepted", "k"), ("refused", ""), ("accepted", "k")] == [
        (one.state, one.key) for one in talk.persists
    ]
