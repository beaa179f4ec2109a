"""A wedged session: on what evidence, and how it is recovered (R24)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import forget, initialized, kinds, loaded, obey, set_mode, texts
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    WEDGE,
    Json,
    Talk,
    cancel,
    chunk,
    echo,
    ended,
    error,
    permission,
    prompt,
    tool,
    usage,
    wedge,
)


def phase(talk: Talk, session: str = "s1") -> str:
    return talk.bridge.sessions[session].phase.value


# -- evidence -----------------------------------------------------------------------------------
def test_the_error_on_the_cancelled_prompt_is_its_cancel() -> None:
    """R24: what the client cancelled is `cancelled`; tape cancel-during-tool."""
    talk = Talk("hermes")
    reach.cancelling(talk)

    talk.agent(wedge(1))

    assert [(1, "cancelled")] == kinds(talk.seen())
    assert ("wedged", []) == (phase(talk), talk.stops)


def test_the_error_on_another_prompt_without_work_takes_it_back() -> None:
    """R24: nothing ran; after the recovery it is written once more, and runs."""
    talk = Talk("hermes")
    reach.running(talk)

    talk.agent(wedge(1))
    sent = obey(talk)
    talk.agent(chunk("b"), ended(1))

    assert ["one"] == texts(sent)
    assert ["b", (1, "end_turn")] == kinds(talk.seen())
    assert (1, 2) == (len(talk.stops), talk.bridge.run)


@pytest.mark.parametrize(
    "work", [chunk("a"), tool("t"), permission(0)], ids=["chunk", "tool", "ask"]
)
def test_with_work_the_error_is_its_answer(work: Json) -> None:
    """R24, I3: something ran, so it must not be written again."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.agent(work)
    forget(talk)

    talk.agent(wedge(1))

    assert [(1, -32603)] == kinds(talk.seen())
    assert ([], "wedged") == (talk.stops, phase(talk))
    talk.client(prompt(2, "two"))
    assert ["two"] == texts(obey(talk))


@pytest.mark.parametrize(
    "other",
    [
        error(1, -32603, "Internal error", {"details": "something else"}),
        error(1, -32000, "Internal error", WEDGE),
    ],
    ids=["another text", "another code"],
)
def test_another_error_is_no_evidence(other: Json) -> None:
    """R24: both the code and the text; a guess would cost a conversation its process."""
    talk = Talk("hermes")
    reach.running(talk)

    talk.agent(other)

    assert (1, other["error"]["code"]) == kinds(talk.seen())[0]
    assert "idle" == phase(talk)


def test_the_error_of_another_agent_is_no_evidence() -> None:
    talk = Talk("generic")
    reach.running(talk)

    talk.agent(wedge(1))

    assert [(1, -32603)] == kinds(talk.seen())


def test_a_queued_receipt_after_an_unanswered_cancel_is_evidence() -> None:
    """R24: no turn was answered since the cancel, so none can run: the session is stuck."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))
    sent = obey(talk)

    assert ["one"] == texts(sent)
    assert (1, []) == (len(talk.stops), talk.seen())


def test_a_queued_receipt_after_a_cancel_that_came_too_late_is_none() -> None:
    """I3: the turn's marker had been seen, so the cancel stuck in nothing: the prompt will run."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.agent(usage())
    talk.wait(0.98)
    talk.client(cancel())
    talk.wait(0.1)
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))

    assert ([], [], "held") == (talk.stops, obey(talk), phase(talk))


def test_a_redirect_after_an_unanswered_cancel_is_none() -> None:
    """I3: the agent has put the text into a running turn; sent again, it would run twice."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(chunk(REDIRECTED), ended(1, usage=False))

    assert ([], [], "held") == (talk.stops, obey(talk), phase(talk))


@pytest.mark.parametrize("stop", ["cancelled", "end_turn"])
def test_a_receipt_after_an_answered_cancel_is_an_invisible_turn(stop: str) -> None:
    """R24: any result shows that the session lives: wait, show it, never restart unasked."""
    talk = Talk("hermes")
    reach.cancelling(talk)
    talk.agent(ended(1, stop))
    talk.client(prompt(2, "two"))
    forget(talk)

    talk.agent(chunk(QUEUED), ended(2, usage=False))
    talk.wait(120.0)

    assert ([], "held") == (talk.stops, phase(talk))


def test_an_error_answer_does_not_clear_the_suspicion() -> None:
    """R24 says: any result, no error."""
    talk = Talk("hermes")
    reach.cancelling(talk)
    talk.agent(error(1, -32000, "some other failure"))
    talk.client(prompt(2, "two"))

    talk.agent(chunk(QUEUED), ended(2, usage=False))

    assert 1 == len(talk.stops)


def test_a_receipt_without_any_cancel_is_an_invisible_turn() -> None:
    talk = Talk("hermes")
    reach.running(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))
    talk.wait(120.0)

    assert ([], "held") == (talk.stops, phase(talk))


def test_a_cancelled_prompt_is_never_taken_back() -> None:
    """R16 over R24: the evidence comes on a prompt that the client has cancelled meanwhile."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(1, "one"))
    talk.client(cancel())
    talk.wait(0.2)
    forget(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))
    sent = obey(talk)
    talk.client(prompt(2, "two"))
    sent += obey(talk)

    assert [(1, "cancelled")] == kinds(talk.seen())
    assert ["two"] == texts(sent)


def test_a_poisoned_session_is_taken_back_too() -> None:
    """A cancel that lost the race breaks the next prompt of Hermes (tape cancel-just-after-end)."""
    talk = Talk("hermes")
    reach.cancelling(talk)
    talk.agent(ended(1))
    talk.client(prompt(2, "two"))
    forget(talk)

    talk.agent(wedge(2))

    assert ["two"] == texts(obey(talk))


# -- recovered by a restart ---------------------------------------------------------------------
def test_nothing_is_restarted_before_a_prompt_needs_it() -> None:
    """R24: other requests are the agent's own to answer."""
    talk = Talk("hermes")
    reach.wedged(talk)

    talk.client(set_mode("m"))
    talk.wait(600.0)

    assert [] == talk.stops
    assert ["session/set_mode"] == kinds(talk.got())


def test_alone_it_is_restarted_loaded_and_prompted() -> None:
    """R24: stop, start, initialize, load, and the prompt; the client's session id stays."""
    talk = Talk("hermes")
    reach.wedged(talk)

    talk.client(prompt(2, "two"), prompt(3, "three"))
    stops = len(talk.stops)
    talk.die("stopped")
    initialized(talk)
    loaded(talk)
    (sent,) = talk.got()

    assert (1, set()) == (stops, talk.bridge.wedged)
    assert ("s1", ["two"]) == (sent["params"]["sessionId"], texts([sent]))


@pytest.mark.parametrize("place", ["idle", "wedged", "lost"])
def test_sessions_without_a_live_turn_do_not_stand_in_the_way(place: str) -> None:
    """R24: idle ones are loaded again when they are wanted."""
    talk = Talk("hermes")
    reach.wedged(talk)
    talk.new("s2")
    if place == "wedged":
        talk.client(prompt("x", "x", "s2"))
        talk.agent(chunk("x", "s2"))
        talk.client(cancel("s2"))
        talk.wait(0.2)
        talk.agent(wedge("x"))
    forget(talk)

    talk.client(prompt(2, "two"))

    assert 1 == len(talk.stops)


def test_a_stop_that_is_not_carried_out_does_not_hang_the_client() -> None:
    """R23, I9: `restart_max` bounds that too."""
    talk = Talk("hermes")
    reach.wedged(talk)
    talk.client(prompt(2, "two"))

    talk.wait(30.1)

    assert (2, "agent-exited") == kinds(talk.seen())[-1]


# -- the second time ----------------------------------------------------------------------------
def twice() -> Talk:
    """Prompt 1 was taken back once, is written again, and 2 waits behind it."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.client(prompt(2, "two"))
    talk.agent(wedge(1))
    obey(talk)
    forget(talk)
    return talk


def test_a_second_time_it_is_answered_with_the_error() -> None:
    """R24, I3: once more, and not for ever."""
    talk = twice()

    talk.agent(wedge(1))

    assert [(1, -32603)] == kinds(talk.seen())


def test_the_prompt_behind_it_is_not_left_hanging() -> None:
    """I10: the session is wedged again, and the next prompt recovers it."""
    talk = twice()

    talk.agent(wedge(1))
    sent = obey(talk)
    talk.agent(chunk("b"), ended(2))

    assert ["two"] == texts(sent)
    assert (2, "end_turn") == kinds(talk.seen())[-1]


def test_a_receipt_after_the_recovery_is_an_invisible_turn() -> None:
    """R24: the new process knows nothing of the old cancel; it is waited for, visibly."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(1, "one"))
    talk.agent(chunk(QUEUED), ended(1, usage=False))
    obey(talk)
    forget(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))
    early = kinds(talk.seen())
    talk.wait(1.0)
    talk.agent(echo("one"), chunk("b"), usage())
    talk.wait(1.1)

    assert ([], 1) == (early, len(talk.stops))
    assert (1, "end_turn") == kinds(talk.seen())[-1]


def test_a_settled_turn_after_the_recovery_is_as_good_as_new() -> None:
    """The wedge of one turn must not be held against the session for ever."""
    talk = twice()
    talk.agent(chunk("a"), ended(1))
    talk.got()

    talk.agent(wedge(2))

    assert ["two"] == texts(obey(talk))
