"""The agent takes nothing any more, and its last lines are still read (R22, R23)."""

from __future__ import annotations

from acpbridge.core.events import AgentLeft
from tests.core import reach
from tests.core.reach import initialized, kinds, loaded, obey, set_mode, texts
from tests.core.script import INFOS, Talk, answer, chunk, ended, prompt


def with_two(*, restart: bool = True) -> Talk:
    """Prompt 1 works and prompt 2 waits, when the process goes."""
    talk = Talk("generic", restart=restart)
    reach.working(talk)
    talk.client(prompt(2, "two"))
    talk.deaf()
    reach.forget(talk)
    return talk


def test_what_waits_is_not_written_to_a_corpse_that_still_answers() -> None:
    """R22: its last line ends prompt 1; prompt 2 never was with it and goes to the next one."""
    talk = with_two()

    talk.agent(chunk("last"), ended(1))
    to_the_dead = talk.got()
    talk.die("exit status 1")
    first = kinds(talk.seen())
    initialized(talk)
    loaded(talk)

    assert [] == to_the_dead
    assert ["last", (1, "end_turn")] == first
    assert ["two"] == texts(talk.got())


def test_a_request_of_that_moment_waits_for_the_next_process() -> None:
    """R23: so does one that comes before the end of the old one is known."""
    talk = with_two()

    talk.client(set_mode(7))
    to_the_dead = talk.got()
    talk.die()
    answered = kinds(talk.seen())
    initialized(talk)
    loaded(talk)

    assert [] == to_the_dead
    assert [(1, "agent-exited")] == answered
    assert ["session/set_mode", "session/prompt"] == kinds(talk.got())


def test_without_restart_it_was_not_sent_and_is_said_so() -> None:
    talk = with_two(restart=False)

    talk.agent(ended(1))
    talk.die("exit status 1")

    answered = {line["id"]: line for line in talk.seen()}
    assert {"stopReason": "end_turn", "usage": {"totalTokens": 1}} == answered[1]["result"]
    assert answered[2]["error"]["message"].endswith("this message was not sent.")
    assert 3 == talk.exit_code


def test_an_initialize_answered_in_passing_brings_nobody_back() -> None:
    """R23: the restarted agent says hello and goes; what waits is for the one after it."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))
    (hello,) = talk.got()
    talk.deaf()

    talk.agent(answer(hello["id"], {"protocolVersion": 1, "agentInfo": INFOS["generic"]}))
    to_the_dead = talk.got()
    talk.die("exit status 0")
    obey(talk)

    assert [] == to_the_dead
    assert [1, 2, 3] == talk.starts
    assert talk.bridge.sessions["s1"].owner() is not None


def test_it_says_nothing_of_an_agent_that_is_being_stopped() -> None:
    """R24: a restart of ours ends a process too, and that is no death."""
    talk = with_two()
    talk.agent(ended(1))
    talk.stop()

    talk.deaf()
    talk.die("exit status 0")

    assert 0 == talk.exit_code


def test_the_news_of_an_older_run_is_old() -> None:
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))
    initialized(talk)
    loaded(talk)

    talk.feed(AgentLeft(1))
    talk.agent(chunk("a"), ended(1))
    talk.client(prompt(2, "two"))

    assert ["one", "two"] == texts(talk.got())
