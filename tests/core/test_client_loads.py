"""The client loads a session itself: beside the bridge's own revival, and behind a death (R4)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import (
    EMPTY_LOADS,
    forget,
    in_session,
    initialized,
    kinds,
    obey,
    owed,
    revival,
    texts,
)
from tests.core.script import (
    Json,
    Talk,
    answer,
    chunk,
    ended,
    permission,
    prompt,
    request,
)


# -- the client loads it itself (R4) ------------------------------------------------------------
def test_the_clients_own_load_revives_the_session() -> None:
    """R23: it asks for history and gets it; the bridge does not load a second time."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(in_session("L", "session/load"))
    initialized(talk)
    load = owed(talk, "session/load")

    talk.agent(chunk("history"), answer(load["id"], {}))
    talk.client(prompt(1, "one"))

    assert "L" == load["id"]
    assert ["history", ("L", "ok")] == kinds(talk.seen())
    assert ["one"] == texts(talk.got())


@pytest.mark.parametrize(
    ("what", "replay", "reply"), EMPTY_LOADS, ids=[row[0] for row in EMPTY_LOADS]
)
def test_a_prompt_behind_the_clients_own_failed_load_is_not_sent(
    what: str, replay: list[Json], reply: Json
) -> None:
    """R4, R25: also where the session was known before the agent died."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(in_session("L", "session/load"), prompt(1, "one"))
    initialized(talk)
    load = owed(talk, "session/load")

    talk.agent(*replay, {**reply, "id": load["id"]})

    told = [kind for kind in kinds(talk.seen()) if isinstance(kind, tuple)]
    assert [(1, "session-lost")] == told[1:], what
    assert [] == talk.got()


def test_a_load_during_the_revival_waits_for_it() -> None:
    """R4, I5: two loads at once would mix two replays, one hidden and one not."""
    talk = revival()
    first = owed(talk, "session/load")
    talk.client(in_session("L", "session/load"))

    early = talk.got()
    talk.agent(chunk("hidden"), answer(first["id"], {}))
    (sent,) = talk.got()
    talk.agent(chunk("b"), ended(1))
    second = owed(talk, "session/load")
    talk.agent(chunk("history"), answer("L", {}))

    assert [] == early
    assert ["one", "L"] == [texts([sent])[0], second["id"]]
    assert ["b", (1, "end_turn"), "history", ("L", "ok")] == kinds(talk.seen())


def test_a_permission_during_a_replay_is_shown() -> None:
    """It waits for an answer; hiding it would stop the agent for ever."""
    talk = revival()

    talk.agent(permission(3))

    assert ["session/request_permission"] == kinds(talk.seen())


def test_two_loads_at_once_are_one_window() -> None:
    """R4, load window: a prompt waits for the last of them."""
    talk = Talk("generic")
    talk.initialize()
    talk.client(in_session("L", "session/load", "old"), in_session("M", "session/load", "old"))
    talk.client(prompt(1, "one", "old"))
    forget(talk)

    talk.agent(chunk("h", "old"), answer("L", {}))
    early = talk.got()
    talk.wait(1.0)
    talk.agent(chunk("i", "old"), answer("M", {}))

    assert [] == early
    assert ["one"] == texts(talk.got())
    assert 0 == talk.count("ownerless_turn")


def test_a_death_during_the_clients_load_answers_it_and_revives_for_the_prompt() -> None:
    """R22, R23: the load is lost with its process; the session was known before it."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(in_session("L", "session/load"), prompt(1, "one"))
    talk.got()

    talk.die()

    assert [("L", "agent-exited")] == kinds(talk.seen())
    assert ["one"] == texts(obey(talk))


def test_a_prompt_during_the_clients_load_waits_for_it() -> None:
    """R4: one load revives it; the bridge adds none of its own."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(in_session("L", "session/load"))
    initialized(talk)
    owed(talk, "session/load")

    talk.client(prompt(1, "one"))
    early = talk.got()
    talk.agent(chunk("h"), answer("L", {}))

    assert [] == early
    assert ["one"] == texts(talk.got())


def test_loads_that_waited_for_the_agent_go_one_after_the_other() -> None:
    """R4: in the order in which they came, with what came between them."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(in_session("L", "session/load"), prompt(1, "one"), in_session("M", "session/load"))
    initialized(talk)
    first = [line["id"] for line in talk.got()]
    talk.client(prompt(2, "two"))
    nothing = talk.got()
    talk.agent(chunk("h"), answer("L", {}))
    second = [line["id"] for line in talk.got()]
    talk.agent(chunk("b"), ended(1))
    third = [line["id"] for line in talk.got()]
    talk.agent(chunk("h"), answer("M", {}))

    assert (["L"], [], [1], ["M"]) == (first, nothing, second, third)
    assert [2] == [line["id"] for line in talk.got()]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_null_that_proves_nothing_loaded_is_an_error_and_no_object(method: str) -> None:
    """R25: Hermes "loads" an unknown session with null, and Codeg wants objects."""
    talk = Talk("hermes", "codeg")
    talk.initialize()
    talk.seen()

    talk.client(request(5, method, {"sessionId": "gone", "cwd": "/w", "mcpServers": []}))
    talk.agent(answer(5, None))

    assert [(5, "session-lost")] == kinds(talk.seen())
