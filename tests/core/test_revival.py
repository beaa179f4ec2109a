"""A lost session is loaded again, or given up (R23, R25)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import (
    EMPTY_LOADS,
    forget,
    initialized,
    kinds,
    loaded,
    obey,
    owed,
    revival,
    set_mode,
    texts,
)
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    new_result,
    prompt,
    request,
    tool,
    update,
    usage,
)


# -- load ---------------------------------------------------------------------------------------
def test_the_session_is_loaded_with_the_parameters_it_was_opened_with() -> None:
    """R23, field cases 90 and 95: cwd and mcpServers as they were, byte for byte."""
    talk = Talk("generic")
    talk.initialize()
    opened = b'{"jsonrpc":"2.0","id":"n","method":"session/new","params":'
    talk.client(opened + b'{"cwd":"/w", "mcpServers":[{"x":1.0}]}}')
    talk.agent(answer("n", new_result("s1")))
    talk.wait(1.0)
    reach.turn(talk, 0)
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)

    (line,) = talk.agent_lines
    assert line.endswith(
        b'"method":"session/load","params":{"cwd":"/w", "mcpServers":[{"x":1.0}],"sessionId":"s1"}}'
    )


def test_a_loaded_session_is_loaded_again_with_those_params() -> None:
    talk = Talk("generic")
    talk.initialize()
    params = {"sessionId": "old", "cwd": "/elsewhere", "mcpServers": [1]}
    talk.client(request("L", "session/load", params))
    talk.agent(chunk("history", "old"), answer("L", {}))
    talk.wait(1.0)
    talk.got()
    talk.die()
    talk.client(prompt(1, "one", "old"))
    initialized(talk)

    assert params == owed(talk, "session/load")["params"]


def test_the_queue_goes_when_the_load_is_answered_and_not_before() -> None:
    """R23, S10.3."""
    talk = revival()
    talk.client(prompt(2, "two"))
    load = owed(talk, "session/load")

    early = talk.got()
    talk.agent(chunk("old answer"), answer(load["id"], {}))

    assert [] == early
    assert ["one"] == texts(talk.got())


def test_the_replay_is_hidden_and_nothing_after_it() -> None:
    """R23, field cases 84, 87: the client has all that already; what is new it must see."""
    talk = revival()
    load = owed(talk, "session/load")
    history = [echo("q"), chunk("a"), tool("t1"), update("plan", entries=[])]

    talk.agent(*history, answer(load["id"], {}), chunk("new"))

    assert ["new"] == kinds(talk.seen())
    assert 4 == talk.count("replay_hidden")


def test_what_is_no_content_is_shown_also_during_the_replay() -> None:
    """Modes, commands and usage are the session's state; the client needs the newest."""
    talk = revival()
    state = [update("current_mode_update", currentModeId="x"), usage()]

    talk.agent(*state, update("available_commands_update", availableCommands=[]))

    told = ["current_mode_update", "usage_update", "available_commands_update"]
    assert told == kinds(talk.seen())


def test_the_tail_of_a_replay_opens_no_turn() -> None:
    """The load window has a tail of 250 ms: what trails the answer is shown and is no work."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(set_mode("m"))
    initialized(talk)
    loaded(talk)

    talk.agent(chunk("tail"))

    assert "idle" == talk.bridge.sessions["s1"].phase.value
    assert ["tail"] == kinds(talk.seen())


def test_content_between_the_load_and_the_settings_is_shown() -> None:
    """R23: hidden is what comes before the load's answer, not before the session is ready."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(set_mode("m"))
    talk.agent(answer("m", {}))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    forget_load = loaded(talk)
    talk.seen()

    talk.agent(chunk("news"))

    assert "s1" == forget_load["params"]["sessionId"]
    assert ["news"] == kinds(talk.seen())


def test_a_cancel_during_the_revival_takes_the_queue_and_lets_it_finish() -> None:
    """R16, R23: the session is wanted no more, but the next prompt will want it."""
    talk = revival()

    talk.client(cancel())
    loaded(talk)
    told, sent = kinds(talk.seen()), talk.got()
    talk.client(prompt(2, "two"))

    assert ([(1, "cancelled")], []) == (told, sent)
    assert ["two"] == texts(talk.got())


# -- it fails -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("what", "replay", "reply"), EMPTY_LOADS, ids=[row[0] for row in EMPTY_LOADS]
)
def test_a_load_that_loads_nothing_loses_the_session(
    what: str, replay: list[Json], reply: Json
) -> None:
    """R25, S10.5, field cases 92, 93: nothing is dispatched into an empty conversation."""
    talk = revival()
    talk.client(prompt(2, "two"), set_mode("m"))
    load = owed(talk, "session/load")

    talk.agent(*replay, {**reply, "id": load["id"]})

    told = [(1, "session-lost"), (2, "session-lost"), ("m", "session-lost")]
    assert told == kinds(talk.seen()), what
    assert [] == talk.got()


def test_a_hermes_load_without_its_proof_loses_the_session() -> None:
    """R25: Hermes answers `{}` for a session that it does not know (tape load-unknown)."""
    talk = revival("hermes")
    load = owed(talk, "session/load")

    talk.agent(chunk("whatever"), answer(load["id"], {}))

    assert [(1, "session-lost")] == kinds(talk.seen())


def test_a_lost_session_stays_lost_and_is_not_tried_for_ever() -> None:
    """Field case 96: not found is permanent; each prompt is refused in words at once."""
    talk = revival()
    talk.agent(error(owed(talk, "session/load")["id"], -32002))
    forget(talk)

    talk.client(prompt(2, "two"), set_mode("m"))

    assert [(2, "session-lost"), ("m", "session-lost")] == kinds(talk.seen())
    assert [] == talk.got()


def test_the_other_sessions_live_on() -> None:
    """Sessions never wait for each other, and are not lost with each other."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.new("s2")
    talk.wait(1.0)
    reach.turn(talk, "x", session="s2")
    talk.die()
    talk.client(prompt(1, "one", "s1"), prompt(2, "two", "s2"))
    initialized(talk)
    first, second = (line for line in talk.got() if line["method"] == "session/load")

    talk.agent(error(first["id"], -32002))
    talk.agent(chunk("old", "s2"), answer(second["id"], {}))

    assert [(1, "session-lost")] == kinds(talk.seen())
    assert ["two"] == texts(talk.got())


def test_an_unanswered_load_ends_after_restart_max() -> None:
    """R23, I9: 30 s, then what waits is answered."""
    talk = revival()

    talk.wait(29.0)
    early = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    talk.wait(1.1)

    assert [] == early
    assert [(1, "session-lost")] == kinds(talk.seen())


def test_a_late_answer_to_that_load_still_counts() -> None:
    """R23: its history stays hidden however late it comes, and the next prompt runs (I10)."""
    talk = revival()
    load = owed(talk, "session/load")
    talk.wait(31.0)
    forget(talk)

    talk.agent(chunk("x"), answer(load["id"], {}))
    talk.client(prompt(2, "two"))

    assert ([], ["two"]) == (talk.seen(), texts(talk.got()))


def test_each_prompt_waits_for_a_slow_load_within_the_limit() -> None:
    """R23, I9: the clock runs from the first that waits, and again from the next one."""
    talk = revival()
    talk.wait(31.0)
    forget(talk)

    talk.client(prompt(2, "two"))
    talk.wait(20.0)
    talk.client(prompt(3, "three"))
    talk.wait(10.1)

    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert [(2, "session-lost"), (3, "session-lost")] == told


def test_a_death_during_the_revival_starts_another_one() -> None:
    """R23: the chain is made of ordinary events; it can break anywhere."""
    talk = revival()
    owed(talk, "session/load")
    talk.die()

    assert ["one"] == texts(obey(talk))
    assert [1, 2, 3] == talk.starts


def test_a_session_that_nobody_opened_here_cannot_be_brought_back() -> None:
    """R25: we do not know how it was opened, and guess nothing."""
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(0, "x", "foreign"))
    talk.agent(chunk("a", "foreign"), ended(0))
    talk.die()
    talk.seen()

    talk.client(prompt(1, "one", "foreign"))
    initialized(talk)

    assert [(1, "session-lost")] == kinds(talk.seen())


def test_a_death_while_only_a_setting_waits_starts_another_one() -> None:
    """I1: it is owed an answer as a prompt is."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(set_mode("m"))
    initialized(talk)
    owed(talk, "session/load")

    talk.die()

    assert [] == obey(talk)
    assert [("m", "ok")] == kinds(talk.seen())


def test_a_prompt_that_waits_to_be_tried_again_goes_as_soon_as_the_agent_is_back() -> None:
    """R7, R23: the process that was busy is gone, and its clock with it."""
    talk = Talk("generic")
    reach.running(talk)
    talk.agent(error(1, -32000, "busy", {"reason": "session_busy"}))

    talk.die()

    assert ["one"] == texts(obey(talk))
