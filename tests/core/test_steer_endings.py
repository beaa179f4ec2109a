"""What a cancelled, closed, wedged or ending session makes of a steer (R18, R20, R23, R24)."""

from __future__ import annotations

import pytest

from tests.core.ledger import check
from tests.core.reach import forget, in_session, kinds, texts
from tests.core.script import Json, Talk, answer, cancel, chunk, ended, notify, prompt, wedge
from tests.core.steer_talk import asked, injected, reasons, said, steering, working

OWNER_CANCELLED = ended(1, "cancelled")


def take_back(id_: object) -> Json:
    return notify("$/cancel_request", {"requestId": id_})


def methods(talk: Talk) -> list[str]:
    return [line["method"] for line in talk.got()]


def test_a_prompt_behind_the_cancel_is_a_new_one() -> None:
    """R18, S3: nothing is steered into a cancelled turn; it goes when that has ended."""
    talk = working()
    talk.client(cancel(), prompt(2, "two"))

    assert ["session/cancel"] == methods(talk)
    talk.agent(OWNER_CANCELLED)

    assert ["two"] == texts(talk.got())


def test_a_cancelled_turn_that_never_ends_answers_its_steers() -> None:
    """R18: wedged; the agent's late word about the steer is for the record."""
    talk = asked()
    talk.client(cancel())
    talk.wait(9.0)
    talk.agent(said(2, "injected"))
    talk.wait(22.0)

    assert {(1, "wedged"), (2, "wedged")} == set(kinds(talk.seen()))


def test_closing_a_session_with_an_open_steer_cancels_it() -> None:
    """R20: a close is a cancel, also where the owner is answered."""
    talk = asked()
    talk.agent(ended(1))
    talk.client(in_session("c", "session/close"))
    forget(talk)
    talk.agent(said(2, "promptRequired"), answer("c", {}))

    assert [(2, "cancelled"), ("c", "ok")] == kinds(talk.seen())
    assert [] == talk.got()


def test_the_end_of_the_bridge_takes_an_unwritten_steer_back() -> None:
    """R23: after a stop signal nothing is sent; the record keeps it as never delivered."""
    talk = Talk()
    steering(talk)
    talk.stop()
    talk.persisted()

    assert [] == talk.got()
    talk.die("stopped")

    assert (2, "agent-exited") in kinds(talk.seen())
    assert any(reason.startswith("undelivered") for _, reason in reasons(talk, 3))
    check(talk)


def test_a_finishing_bridge_ends_when_the_last_steer_is_answered() -> None:
    """`on_disconnect = finish`: an open steer is a turn that may still run."""
    talk = asked(on_disconnect="finish")
    talk.leave()
    talk.agent(ended(1))

    assert [] == talk.stops
    talk.agent(said(2, "promptRequired"))

    assert 1 == len(talk.stops)
    talk.die("stopped")
    check(talk)


@pytest.mark.parametrize("client", ["generic", "codeg"])
def test_work_behind_a_cancel_stays_hidden_where_the_client_wants_none(client: str) -> None:
    """The client's profile holds for a steered turn as for any other."""
    talk = injected(client=client)
    talk.client(cancel())
    talk.agent(chunk("late"), OWNER_CANCELLED)
    talk.wait(1.0)
    seen = kinds(talk.seen())

    assert (client == "generic") == ("late" in seen)
    assert [(1, "cancelled"), (2, "cancelled")] == [one for one in seen if isinstance(one, tuple)]


@pytest.mark.parametrize("agent", ["generic", "claude"])
def test_a_cancel_that_leaves_the_queue_leaves_what_was_about_to_go(agent: str) -> None:
    """R20, seed 203782 of the simulator: it was not cancelled, and it goes after the turn."""
    talk = Talk(agent)
    steering(talk)
    talk.client(take_back(1))

    assert [] == kinds(talk.seen())
    talk.persisted()
    talk.disk = True
    talk.agent(OWNER_CANCELLED)

    assert ["two"] == texts(talk.got())


def test_a_wedge_leaves_what_was_about_to_go() -> None:
    """R24: its bytes have not gone; it waits for the recovery."""
    talk = Talk("hermes")
    steering(talk)
    talk.agent(wedge(1))
    talk.persisted()
    head = talk.bridge.sessions["s1"].head()

    assert head is not None
    assert "two" == head.text
    assert 0 == talk.count("unexpected_event")
