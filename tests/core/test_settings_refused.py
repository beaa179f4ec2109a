"""A restarted agent that does not take a setting back: the queue waits for its client (R23)."""

from __future__ import annotations

from tests.core import reach
from tests.core.reach import forget, initialized, loaded, set_mode, texts
from tests.core.script import Json, Talk, answer, cancel, error, prompt, request


def settings_sent(*settings: Json) -> tuple[Talk, list[Json]]:
    """The agent has come back with prompt 1 waiting; what it is asked to take back, unanswered."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(*settings)
    talk.agent(*(answer(one["id"], {}) for one in settings))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    loaded(talk)
    again = talk.got()
    talk.seen()
    return talk, again


def settled_setting_is_refused() -> Talk:
    """A restarted agent did not take the mode back, and a prompt waits."""
    talk, (again,) = settings_sent(set_mode("a"))
    talk.agent(error(again["id"], -32602))
    return talk


def test_a_refused_setting_pauses_the_queue_and_tells() -> None:
    """R23: what was written for another mode is not run in this one without a word."""
    talk = settled_setting_is_refused()
    talk.wait(600.0)

    assert [] == texts(talk.got())
    assert 1 == talk.count("setting_refused")
    told, *_ = talk.seen()
    assert "choose the setting again" in told["params"]["update"]["content"]["text"]


def test_a_second_refusal_says_nothing_new() -> None:
    """One sentence for one pause."""
    option = {"sessionId": "s1", "configId": "x", "value": "y"}
    talk, again = settings_sent(set_mode("a"), request("b", "session/set_config_option", option))
    talk.agent(*(error(one["id"], -32602) for one in again))

    assert 1 == len(talk.seen())
    assert 2 == talk.count("setting_refused")


def test_a_refusal_that_nothing_waits_behind_pauses_nothing() -> None:
    """There is nothing that was written for another mode."""
    talk, (again,) = settings_sent(set_mode("a"))
    talk.client(cancel())
    forget(talk)
    talk.agent(error(again["id"], -32602))
    talk.client(prompt(2, "two"))

    assert [] == talk.seen()
    assert ["two"] == texts(talk.got())


def test_the_client_s_next_word_ends_the_pause() -> None:
    """A setting that is acknowledged, another message, or a cancel."""
    chosen = settled_setting_is_refused()
    chosen.client(set_mode("b"))
    (asked,) = chosen.got()
    chosen.agent(answer(asked["id"], {}))
    assert ["one"] == texts(chosen.got())

    written = settled_setting_is_refused()
    written.client(prompt(2, "two"))
    assert ["one"] == texts(written.got())

    cancelled = settled_setting_is_refused()
    cancelled.client(cancel(), prompt(2, "two"))
    assert ["two"] == texts(cancelled.got())
