"""A client that steers by itself: its frames pass, and the bridge knows what runs (R13 to R16)."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.core.phases import Phase
from tests.core.ledger import check
from tests.core.reach import forget, in_session, kinds, texts, turn
from tests.core.script import Json, Talk, answer, cancel, chunk, dumps, ended, error, notify, prompt
from tests.core.steer_talk import STEERING, asked, own_steer, said, steers, working


def idle() -> Talk:
    talk = Talk()
    talk.open(steering=True)
    turn(talk, "before")
    return talk


def phase(talk: Talk) -> Phase:
    return talk.bridge.sessions["s1"].phase


def test_it_passes_byte_for_byte_both_ways() -> None:
    """I7: also beside a steer of the bridge's own."""
    talk = asked()
    frame, word = own_steer(9), said(9, "injected")
    talk.client(frame)
    talk.agent(word)

    assert [dumps(frame)] == talk.agent_lines
    assert [dumps(word)] == talk.client_lines


def test_without_the_advert_the_method_is_unknown() -> None:
    """Hermes answers null to it, which reads as success."""
    talk = Talk("hermes")
    talk.open()
    talk.client(own_steer(9))

    assert [(9, -32601)] == kinds(talk.seen())
    assert [] == talk.got()


@pytest.mark.parametrize("outcome", ["injected", "startedNewTurn"])
@pytest.mark.parametrize("place", ["idle", "trailing"])
def test_a_steer_that_runs_where_no_turn_was_known_is_an_ownerless_turn(
    place: str, outcome: str
) -> None:
    """R13: a prompt behind it waits for its end, for this agent may abort on it."""
    talk = idle()
    if place == "trailing":
        talk.client(prompt(1))
        talk.agent(chunk("a"), ended(1), chunk("tail"))
        forget(talk)
    talk.client(own_steer(9))
    talk.agent(said(9, outcome))

    assert Phase.OWNERLESS is phase(talk)
    talk.client(prompt(2, "two"))
    talk.agent(chunk("its work"))
    talk.wait(59.0)

    assert [] == texts(talk.got())
    talk.wait(1.5)

    assert ["two"] == texts(talk.got())


def test_one_that_the_agent_refuses_opens_nothing() -> None:
    """`promptRequired`: the client will prompt, and that prompt goes at once."""
    talk = idle()
    talk.client(own_steer(9, opts_in=True))
    talk.agent(said(9, "promptRequired"))

    assert Phase.IDLE is phase(talk)
    talk.client(prompt(2, "two"))

    assert ["two"] == texts(talk.got())


def test_one_into_a_running_turn_changes_nothing() -> None:
    """The owner stays the owner; its answer ends the turn."""
    talk = working()
    talk.client(own_steer(9))
    talk.agent(said(9, "injected"), chunk("b"), ended(1))

    assert Phase.IDLE is phase(talk)
    assert [(9, "ok"), "b", (1, "end_turn")] == kinds(talk.seen())


def test_a_prompt_waits_for_its_answer() -> None:
    """A session with an unanswered steer is not Idle: the agent may be about to run it."""
    talk = idle()
    talk.client(own_steer(9), prompt(2, "two"))

    assert [STEERING] == [line["method"] for line in talk.got()]
    talk.agent(said(9, "promptRequired"))

    assert ["two"] == texts(talk.got())


def test_a_prompt_waits_for_it_ten_seconds_at_most() -> None:
    """I9: an agent that never answers does not hold the session for ever."""
    talk = idle()
    talk.client(own_steer(9), prompt(2, "two"))
    talk.got()
    talk.wait(9.9)

    assert [] == talk.got()
    talk.wait(0.2)

    assert ["two"] == texts(talk.got())


def test_the_bridge_steers_after_it_and_not_beside_it() -> None:
    """R14: one at a time a session."""
    talk = working()
    talk.client(own_steer(8), own_steer(9), prompt(2, "two"))

    assert ["own", "own"] == steers(talk.got())
    talk.agent(said(8, "injected"))

    assert [] == talk.got()
    talk.agent(said(9, "injected"))

    assert ["two"] == steers(talk.got())


def test_two_of_them_are_both_waited_for() -> None:
    """The session is Idle when the last one is answered."""
    talk = idle()
    talk.client(own_steer(8), own_steer(9), prompt(2, "two"))
    talk.got()
    talk.agent(said(8, "promptRequired"))

    assert [] == talk.got()
    talk.agent(said(9, "promptRequired"))

    assert ["two"] == texts(talk.got())


def test_one_into_a_session_that_is_being_loaded_opens_no_turn() -> None:
    """In the load window nothing is work; the history is still coming."""
    talk = idle()
    talk.client(in_session("l", "session/load"), own_steer(9))
    talk.agent(said(9, "injected"))

    assert Phase.IDLE is phase(talk)


def test_one_in_a_session_that_nobody_opened_passes() -> None:
    """The agent knows better, and says so."""
    talk = idle()
    talk.client(own_steer(9, session="elsewhere"))
    talk.agent(error(9, -32002))

    assert [(9, -32002)] == kinds(talk.seen())


# -- behind a cancel ----------------------------------------------------------------------------
def cancelling(**policy: Any) -> Talk:
    talk = working(**policy)
    talk.client(cancel())
    forget(talk)
    return talk


def test_behind_a_cancel_one_with_the_opt_in_is_answered_prompt_required() -> None:
    """R16: claude would run it behind the cancelled turn, without an owner."""
    talk = cancelling()
    talk.client(own_steer(9, opts_in=True))
    (line,) = talk.seen()

    assert (9, "promptRequired") == (line["id"], line["result"]["outcome"])
    assert [] == talk.got()


@pytest.mark.parametrize(
    "meta",
    [None, {"steering": None}, {"steering": {"idleBehavior": "other"}}],
    ids=str,
)
def test_behind_a_cancel_one_without_the_opt_in_is_held(meta: Json | None) -> None:
    """R16: it goes when the cancelled turn has ended, in its order."""
    talk = cancelling()
    frame = own_steer(9)
    frame["params"]["_meta"] = meta
    talk.client(frame, own_steer(10))

    assert [] == talk.got()
    talk.agent(ended(1, "cancelled"))

    assert [frame, own_steer(10)] == talk.got()
    talk.agent(said(9, "startedNewTurn"), said(10, "injected"))
    check(talk)


def test_behind_a_close_it_is_held_too() -> None:
    """R16: a close is a cancel; the agent then answers for itself."""
    talk = working()
    talk.client(in_session("c", "session/close"), own_steer(9))

    assert [STEERING] != [line["method"] for line in talk.got()]
    talk.agent(ended(1, "cancelled"))

    assert [STEERING] == [line["method"] for line in talk.got()]


def test_a_held_one_can_be_taken_back() -> None:
    """R20 for what was never sent."""
    talk = cancelling()
    talk.client(own_steer(9), notify("$/cancel_request", {"requestId": 9}))

    assert [(9, -32800)] == kinds(talk.seen())
    talk.agent(ended(1, "cancelled"))

    assert [] == talk.got()


def test_held_ones_have_a_limit() -> None:
    """I9: at the number, and one past it."""
    talk = cancelling(waiting_frames_max=2)
    talk.client(own_steer(8), own_steer(9), own_steer(10))

    assert [(10, "queue-full")] == kinds(talk.seen())


def test_a_held_one_is_answered_when_the_agent_dies() -> None:
    """I1, R22: it was meant for a turn that is gone."""
    talk = cancelling()
    talk.client(own_steer(9))
    talk.die()

    assert [(1, "agent-exited"), (9, "agent-exited")] == kinds(talk.seen())


def test_a_held_one_is_answered_when_the_bridge_ends() -> None:
    """I1: a stop signal refuses what was never sent."""
    talk = cancelling()
    talk.client(own_steer(9))
    talk.stop()

    assert (9, "agent-exited") in kinds(talk.seen())


def test_a_held_one_goes_when_the_cancelled_turn_is_given_up() -> None:
    """R18: Wedged is not Cancelling; the agent's own answer is better than none."""
    talk = cancelling()
    talk.client(own_steer(9))
    talk.wait(31.0)

    assert [STEERING] == [line["method"] for line in talk.got()]


def test_a_held_one_outlives_the_closing_of_its_session() -> None:
    """I1, seed 502325 of the simulator: the close is answered, the cancelled turn never is."""
    talk = cancelling()
    talk.client(own_steer(9), in_session("c", "session/close"))
    talk.agent(answer("c", {}))
    talk.got()
    talk.wait(31.0)

    assert [STEERING] == [line["method"] for line in talk.got()]
    talk.agent(error(9, -32002))

    assert (9, -32002) in kinds(talk.seen())
