"""What the seeded simulator found, each as the smallest script that shows it (see tests/sim)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import forget, kinds, obey, owed, tags, texts
from tests.core.script import (
    QUEUED,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    new_result,
    notify,
    prompt,
    request,
    tool,
    usage,
    wedge,
)


def load(id_: object, session: str = "s1") -> Json:
    return request(id_, "session/load", {"sessionId": session, "cwd": "/w", "mcpServers": []})


def phase(talk: Talk, session: str = "s1") -> str:
    return talk.bridge.sessions[session].phase.value


# -- what is remembered -------------------------------------------------------------------------
def test_the_session_that_makes_room_is_never_the_new_one() -> None:
    """I1: with every other session at work, its prompt had an answer and nobody to give it to."""
    talk = Talk(sessions_max=1)
    talk.open()
    talk.client(prompt(1, "one"), prompt(2, "two", "other"))
    forget(talk)

    talk.agent(chunk("word", "other"), ended(2))

    assert ["word", (2, "end_turn")] == kinds(talk.seen())


def test_a_session_with_an_alias_is_not_forgotten_for_room() -> None:
    """R25: only the bridge knows which of the agent's sessions the client's id stands for."""
    talk = Talk("hermes", sessions_max=1)
    talk.open()
    talk.die()
    talk.client(prompt(1, "one"))
    obey(talk)
    talk.agent(chunk("word", "new-2"), ended(1))
    talk.wait(1.0)
    talk.client(prompt(2, "two", "other"))
    forget(talk)

    talk.client(prompt(3, "three"))

    assert "new-2" == talk.got()[0]["params"]["sessionId"]


def test_what_a_cancel_left_behind_is_not_forgotten_for_room() -> None:
    """R24: without it the next receipt of a stuck session would be waited for for ever."""
    talk = Talk("hermes", sessions_max=1)
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(1, "one", "other"))
    talk.agent(chunk("word", "other"), ended(1))
    talk.wait(1.0)
    talk.client(prompt(2, "two"))
    forget(talk)

    talk.agent(chunk(QUEUED), ended(2, usage=False))

    assert (1, "wedged") == (len(talk.stops), phase(talk))


def test_a_session_that_has_just_shown_something_is_not_forgotten_for_room() -> None:
    """Codeg takes an answer within 100 ms of an update as that of another prompt."""
    talk = Talk("generic", "codeg", sessions_max=1)
    talk.open()
    talk.agent(usage())
    talk.client(prompt(1, "one", "other"), prompt(2, "two"), cancel())
    forget(talk)

    talk.agent(answer(2, {"stopReason": "cancelled"}))

    assert [] == talk.seen()


# -- ids ----------------------------------------------------------------------------------------
def test_a_load_that_waits_is_answered_before_a_later_request_of_its_id() -> None:
    """R26: two open requests of one id are told apart by their order alone."""
    talk = Talk()
    talk.open()
    talk.new("s2")
    talk.client(prompt(1, "one"), load("same"), prompt("same", "two", "s2"))
    talk.agent(chunk("word", "s2"), ended(talk.got()[-1]["id"]))
    forget(talk)

    talk.agent(ended(1))
    talk.agent(answer(owed(talk, "session/load")["id"], {"loaded": True}))

    assert [(1, "end_turn"), ("same", "ok"), ("same", "end_turn")] == kinds(talk.seen())


# -- a load that nothing stands before ----------------------------------------------------------
def test_a_load_behind_cancelled_prompts_goes() -> None:
    """R4: the queue that it waited for is gone, and nothing else would have moved it."""
    talk = Talk()
    talk.open()
    talk.client(prompt(1, "one"))
    talk.agent(
        {**ended(1), "error": {"code": 0, "data": {"reason": "session_busy"}}, "result": None}
    )
    talk.client(load("l"))
    forget(talk)

    talk.client(cancel())

    assert ["session/load"] == kinds(talk.got())


def test_a_load_behind_a_close_opens_the_session_again() -> None:
    """R20, R23: what the client asked for last counts, after a restart too."""
    talk = Talk()
    reach.idle(talk)
    talk.client(request("c", "session/close", {"sessionId": "s1"}), load("l"))
    talk.agent(answer("c", {}), chunk("old"), answer("l", {}))
    talk.wait(1.0)
    talk.die()

    talk.client(prompt(1, "one"))

    assert ["one"] == texts(obey(talk))


# -- a session comes back -----------------------------------------------------------------------
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_a_session_closed_while_it_comes_back_shows_no_history(method: str) -> None:
    """R23: content between our own load and its answer is hidden, whoever waits for it."""
    talk = reach.revival()
    own = owed(talk, "session/load")
    talk.client(request("c", method, {"sessionId": "s1"}))
    talk.agent(answer("c", {}))
    forget(talk)

    talk.agent(echo("old"), chunk("old answer"), answer(own["id"], {}))

    assert [] == talk.seen()


def test_no_revival_goes_on_after_the_end_was_asked_for() -> None:
    """R23: after EOF nothing is recovered, whatever the agent answers."""
    talk = Talk()
    reach.idle(talk)
    talk.client(reach.set_mode("a"))
    talk.agent(answer("a", {}))
    talk.die()
    talk.client(prompt(1, "one"))
    reach.initialized(talk)
    own = owed(talk, "session/load")
    talk.leave()

    talk.agent(chunk("old"), answer(own["id"], {}))

    assert [] == talk.got()


# -- Hermes and its cancels ---------------------------------------------------------------------
@pytest.mark.parametrize("alive", [[usage()], [echo("somebody else's"), chunk("more")]])
def test_a_turn_that_ends_or_begins_well_is_no_wedge(alive: list[Json]) -> None:
    """R24: a receipt is evidence only where nothing has shown since that the session lives."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(1.5)
    talk.agent(*alive)
    talk.wait(10.0)
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))

    assert ([], "held") == (talk.stops, phase(talk))


def test_what_crosses_the_cancel_on_its_way_says_nothing() -> None:
    """R24: it was written before the agent read the cancel, which may have broken that turn."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(0.5)
    talk.agent(echo("somebody else's"), tool())
    talk.wait(610.0)
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(chunk(QUEUED), ended(1, usage=False))

    assert (1, "wedged") == (len(talk.stops), phase(talk))


@pytest.mark.parametrize("end", [[usage()], []], ids=["marked", "quiet"])
@pytest.mark.parametrize("before", [[], [prompt("h", "/help")]], ids=["", "a command between"])
def test_the_cancel_of_an_ownerless_turn_may_hit_the_next_prompt(
    before: list[Json], end: list[Json]
) -> None:
    """R21: an unasked `cancelled` without work is taken back; a command does not use it up."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    talk.client(cancel())
    talk.wait(0.5)
    talk.agent(*end)
    talk.wait(6.0)
    for frame in before:
        talk.client(frame)
        talk.agent(chunk("help text"), ended(frame["id"], usage=False))
    talk.client(prompt(1, "one"))
    forget(talk)

    talk.agent(ended(1, "cancelled"))

    assert ([], ["one"]) == (talk.seen(), texts(talk.got()))


def test_a_wedge_that_comes_after_cancel_settle_is_a_wedge_still() -> None:
    """R18, R24: the late answer of a turn that was given up is not always good news."""
    talk = Talk("hermes")
    reach.cancelling(talk)
    talk.wait(30.0)
    talk.agent(wedge(1))

    talk.client(prompt(2, "two"))

    assert (1, "wedged") == (len(talk.stops), phase(talk))


def test_a_session_called_wedged_that_works_keeps_its_prompt() -> None:
    """I3: the receipt was true; the agent runs the text, so it is not written again."""
    talk = Talk("hermes")
    reach.ownerless(talk)
    reach.called_wedged(talk)

    talk.agent(chunk("more"), echo("one"), chunk("its answer"))
    talk.die()

    assert [(1, "agent-exited")] == kinds(talk.seen())[-1:]
    assert [] == texts(obey(talk))


def test_the_cancel_of_a_ghost_ends_with_its_segment() -> None:
    """R19: the prompt behind it runs whole, and is not called wedged after `cancel_settle`."""
    talk = Talk("hermes")
    reach.kept(talk)
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(2, "two"))
    talk.agent(chunk(QUEUED), ended(2, usage=False))
    talk.agent(echo("one"), chunk("ghost"), echo("two"), chunk("real"), tool())
    forget(talk)

    talk.wait(40.0)

    assert [] == talk.seen()
    assert "held" == phase(talk)


def test_a_fork_keeps_its_distance_from_a_cancel() -> None:
    """R16: two frames of a session in one read are what stops Hermes for ever."""
    talk = Talk("hermes")
    reach.working(talk)
    talk.new("s2")
    talk.client(prompt(9, "nine", "s2"))
    talk.wait(1.0)
    talk.client(cancel(), prompt(2, "two"))
    forget(talk)

    talk.agent(wedge(1))

    assert [] == talk.got()
    talk.wait(0.02)
    assert ["session/fork"] == kinds(talk.got())


# -- Codeg and the order of things --------------------------------------------------------------
def test_kept_content_comes_before_what_is_shown_to_a_refused_prompt() -> None:
    """I6: a prompt that is refused is open for a moment, and lets newer content through."""
    talk = Talk("hermes", "codeg", midturn="reject")
    reach.idle(talk)
    talk.agent(chunk("first"))
    talk.client(prompt(1, "one"))
    talk.agent(chunk("second"))

    said = [kind for kind in kinds(talk.seen()) if kind in ("first", "second")]

    assert ["first", "second"] == said


# -- an agent takes its leave -------------------------------------------------------------------
def test_frames_of_a_session_keep_their_order_while_the_agent_leaves() -> None:
    """I5: what came before its end and what came after it wait in one row."""
    talk = Talk()
    reach.idle(talk)
    talk.deaf()
    talk.client(reach.set_mode("first", "a"))
    talk.die()
    talk.client(reach.set_mode("second", "b"), prompt(1, "one"))

    reach.initialized(talk)
    reach.loaded(talk)

    assert ["first", "second"] == [line["id"] for line in talk.got() if line["id"] != 1]


def test_a_prompt_on_its_way_to_the_disk_is_not_written_to_one_that_left() -> None:
    """I3, R22: it never ran, so it runs in the next process instead of being called unknown."""
    talk = Talk()
    reach.sending(talk)
    talk.deaf()
    talk.persisted()
    gone = talk.got()
    talk.disk = True
    talk.die()

    assert ([], ["one"]) == (gone, texts(obey(talk)))


# -- an opening -----------------------------------------------------------------------------------
def test_the_usage_behind_a_load_ends_no_redirected_prompt() -> None:
    """R9, I2: Hermes says its usage once behind each opening, up to 60 ms later."""
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(load("l"), prompt(1, "one"))
    talk.agent(echo("old"), chunk("old answer"), answer("l", new_result("s1")))
    redirected = "Redirected the active turn with your correction."
    talk.agent(chunk(redirected), ended(1, usage=False), chunk("work"))
    talk.wait(0.05)
    talk.agent(usage())
    forget(talk)

    talk.wait(2.0)

    assert [] == tags(talk.seen())


def test_a_taken_back_load_is_told_in_its_turn() -> None:
    """R26: `$/cancel_request` of a load that waits answers that load and nothing else."""
    talk = Talk()
    talk.open()
    talk.client(prompt(1, "one"), load("l"))
    forget(talk)

    talk.client(notify("$/cancel_request", {"requestId": "l"}))

    assert [("l", -32800)] == kinds(talk.seen())
