"""A session is looked up again: what another bridge does meanwhile changes nothing under us."""

from __future__ import annotations

import pytest

from acpbridge.core.effects import Adopt
from acpbridge.core.events import KeptPrompt, Recovered
from tests.core.left import CONTENT, LEFT, MAYBE, load, loaded, loads, thoughts
from tests.core.reach import forget, kinds, texts
from tests.core.script import Talk, answer, chunk, ended, new_result, prompt


def test_another_bridge_s_rotation_moves_no_session_of_ours() -> None:
    """R25: the tip is for a load; our agent knows what it has loaded, under that id."""
    talk = loads(pid=4711)
    loaded(talk)
    talk.client(prompt(1, "one"))
    talk.got()
    talk.agent(chunk("a"), ended(1))
    talk.wait(1.0)
    talk.feed(Recovered("s1", generation=1, tip="t9"))
    talk.client(prompt(2, "two"))

    (sent,) = talk.got()
    assert "s1" == sent["params"]["sessionId"]


def test_a_bridge_that_is_still_at_work_is_told_of_once() -> None:
    """It is looked at every few seconds; the turn of a client is no place to count them."""
    talk = loads(pid=4711)
    loaded(talk)
    talk.client(prompt(1, "one"))
    (told,) = thoughts(talk)
    assert "4711" in told
    talk.feed(Recovered("s1", pid=4711))
    talk.feed(Recovered("s1", pid=4711))

    assert [] == thoughts(talk)
    assert 1 == talk.count("session_held")
    talk.feed(Recovered("s1"))
    talk.feed(Recovered("s1", pid=4712))
    (told,) = thoughts(talk)
    assert "4712" in told


def test_a_later_load_asks_again_and_does_not_wait() -> None:
    """A bridge that had nothing of the session at the first load may have died since."""
    talk = loads()
    loaded(talk)
    talk.hold_recovery = True
    talk.client(load("m"), prompt(1, "one"))
    assert ["session/load"] == kinds(talk.got())
    talk.feed(Recovered("s1", (MAYBE,), settled=True))
    talk.agent(answer("m", new_result("s1")))

    assert ["one"] == texts(talk.got())
    (told,) = thoughts(talk)
    assert "maybe" in told


def test_a_later_load_sends_what_was_left_before_new_prompts() -> None:
    talk = loads(policy="send")
    loaded(talk)
    talk.known["s1"] = Recovered("s1", (LEFT,))
    talk.client(load("m"), prompt(1, "one"))
    assert ["session/load"] == kinds(talk.got())
    talk.agent(answer("m", new_result("s1")))

    (sent,) = talk.got()
    assert ["left behind"] == texts([sent])


@pytest.mark.parametrize("cut", [1, 9, len(CONTENT) - 1])
def test_a_text_that_is_not_whole_is_told_of_and_not_sent(cut: int) -> None:
    """A retention that was killed between two of its steps has deleted its last parts."""
    talk = loads(KeptPrompt(7, "undelivered", "", CONTENT[:cut]), policy="send")
    loaded(talk)
    assert [] == talk.got()
    talk.client(prompt(1, "one"))

    assert ["one"] == texts(talk.got())
    (told,) = thoughts(talk)
    assert "(7)" in told
    assert not any(isinstance(one, Adopt) for one in talk.asked)


def test_a_look_that_was_on_its_way_tells_nothing_twice() -> None:
    """The journal hears of what was told behind the look; another end of the same one is news."""
    talk = loads(MAYBE)
    loaded(talk)
    talk.client(prompt(1, "one"))
    assert 1 == len(thoughts(talk))
    talk.feed(Recovered("s1", (MAYBE,)))
    assert [] == thoughts(talk)
    talk.feed(Recovered("s1", (KeptPrompt(MAYBE.id, "settled", "maybe"),)))

    (told,) = thoughts(talk)
    assert "Answered when nobody was there" in told


def test_a_load_behind_one_that_is_looked_up_asks_no_second_time() -> None:
    talk = Talk("generic")
    talk.initialize()
    talk.hold_recovery = True
    forget(talk)
    talk.client(load("l"), load("m"))
    assert 1 == talk.looks.count("s1")
    talk.feed(Recovered("s1"))

    assert ["session/load"] == kinds(talk.got())
