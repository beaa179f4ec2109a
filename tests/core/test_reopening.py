"""A lost session is resumed, opened anew, set up as it was, or loaded by the client (R23, R25)."""

from __future__ import annotations

import pytest

from tests.core import reach
from tests.core.reach import (
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
)


# -- resume, new, none --------------------------------------------------------------------------
def revived_without(*capabilities: str) -> tuple[Talk, list[Json]]:
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(prompt(1, "one"))
    initialized(talk, without=capabilities)
    return talk, talk.got()


def test_an_agent_that_cannot_load_resumes() -> None:
    """R23: resume does not replay, so nothing is expected to be replayed."""
    talk, (resume,) = revived_without("loadSession")

    talk.agent(answer(resume["id"], {}))

    assert ("session/resume", "s1") == (resume["method"], resume["params"]["sessionId"])
    assert ["one"] == texts(talk.got())


def test_a_refused_resume_loses_the_session() -> None:
    talk, (resume,) = revived_without("loadSession")

    talk.agent(error(resume["id"], -32002))

    assert [(1, "session-lost")] == kinds(talk.seen())


def test_an_agent_that_can_neither_loses_the_session() -> None:
    talk, sent = revived_without("loadSession", "resume")

    assert [] == sent
    assert [(1, "session-lost")] == kinds(talk.seen())


def unfinished() -> Talk:
    """A session whose first turn was running when its agent died; prompt 1 waits."""
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(0, "zero"), prompt(1, "one"))
    talk.agent(chunk("half"))
    talk.got()
    talk.die()
    initialized(talk)
    talk.seen()
    return talk


def test_a_session_without_a_settled_turn_is_loaded_if_the_agent_has_kept_it() -> None:
    """R25 over R23: Hermes keeps a conversation from its first prompt on (tape wedge-recovery)."""
    talk = unfinished()

    loaded(talk, echo("zero"), chunk("half"))

    (sent,) = talk.got()
    assert ("one", "s1") == (texts([sent])[0], sent["params"]["sessionId"])
    assert [] == talk.seen()


@pytest.mark.parametrize("reply", [error(0, -32002), answer(0, {})], ids=["refused", "empty"])
def test_otherwise_it_is_opened_anew_and_aliased(reply: Json) -> None:
    """R23, R25: no agent can load what it has not stored; the client's id stays."""
    talk = Talk("hermes")
    talk.open()
    talk.client(prompt(0, "zero"), prompt(1, "one"))
    talk.got()
    talk.die()
    initialized(talk)
    talk.seen()

    talk.agent({**reply, "id": owed(talk, "session/load")["id"]})
    talk.agent(answer(owed(talk, "session/new")["id"], new_result("s9")))
    (sent,) = talk.got()
    talk.agent(chunk("b", "s9"), ended(1))

    assert ("one", "s9") == (texts([sent])[0], sent["params"]["sessionId"])
    shown, told = talk.seen()
    assert ("s1", (1, "end_turn")) == (shown["params"]["sessionId"], kinds([told])[0])


def test_one_in_which_nothing_was_written_is_opened_anew_at_once() -> None:
    """There is nothing to load, and an agent may take long to say so."""
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(prompt(0, "zero"), prompt(1, "one"))
    (sent,) = obey(talk)
    talk.agent(chunk("b", "new-2"))
    talk.die()
    (again,) = obey(talk)

    assert ["new-2", "new-2"] == [line["params"]["sessionId"] for line in (sent, again)]


def test_without_load_an_unfinished_one_is_opened_anew() -> None:
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(0, "zero"), prompt(1, "one"))
    talk.got()
    talk.die()
    initialized(talk, without=("loadSession",))

    assert "session/new" == owed(talk, "session/new")["method"]


def test_it_is_opened_with_the_same_params_and_no_session_id() -> None:
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)

    assert {"cwd": "/w", "mcpServers": []} == owed(talk, "session/new")["params"]


@pytest.mark.parametrize(
    "reply",
    [
        error(0, -32603),
        *(answer(0, result) for result in (None, {}, {"sessionId": ""}, {"sessionId": 7})),
    ],
    ids=["error", "none", "empty", "number", "null"],
)
def test_a_new_session_that_fails_loses_it(reply: Json) -> None:
    talk = Talk("generic")
    talk.open()
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    asked = owed(talk, "session/new")

    talk.agent({**reply, "id": asked["id"]})

    assert [(1, "session-lost")] == kinds(talk.seen())


@pytest.mark.parametrize("stop", ["end_turn", "cancelled", "refusal"])
def test_any_answered_turn_makes_it_loadable(stop: str) -> None:
    """R23: a settled turn is one that was answered with a result."""
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(0))
    talk.agent(chunk("a"), ended(0, stop))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)

    assert "s1" == owed(talk, "session/load")["params"]["sessionId"]


# -- settings (R23) -----------------------------------------------------------------------------
def test_the_last_acknowledged_settings_are_sent_again_before_the_queue() -> None:
    """R23: mode, model and each config option; only what the agent took, only the last."""
    talk = Talk("generic")
    reach.idle(talk)
    config = "session/set_config_option"
    talk.client(set_mode("a", "plan"), set_mode("b", "code"))
    talk.agent(answer("a", {}), answer("b", {}))
    for id_, option, value in (("c", "effort", "low"), ("d", "speed", 1), ("e", "effort", "high")):
        params = {"sessionId": "s1", "configId": option, "value": value}
        talk.client(request(id_, config, params))
        talk.agent(answer(id_, {"configOptions": []}))
    talk.client(request("f", "session/set_model", {"sessionId": "s1", "modelId": "x"}))
    talk.agent(error("f", -32603))
    talk.die()
    talk.client(prompt(1, "one"))
    forget(talk)
    sent = restored(talk)

    assert ["code", 1, "high"] == [
        line["params"].get("modeId", line["params"].get("value")) for line in sent
    ]
    assert [] == talk.seen()


def restored(talk: Talk) -> list[Json]:
    """Let the agent come back and load; the settings that it is sent, each answered alone."""
    talk.die()
    initialized(talk)
    loaded(talk)
    sent = talk.got()
    for line in sent:
        assert "prompt" not in line["params"]
        talk.agent(answer(line["id"], {}))
    assert ["one"] == texts(talk.got())
    return sent


def test_settings_name_the_session_that_the_agent_knows_now() -> None:
    talk = Talk("generic")
    talk.open()
    talk.client(set_mode("a"))
    talk.agent(answer("a", {}))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    asked = owed(talk, "session/new")

    talk.agent(answer(asked["id"], new_result("s9")))

    assert ["s9"] == [line["params"]["sessionId"] for line in talk.got()]


def test_a_notification_that_waited_for_a_lost_session_is_gone_with_it() -> None:
    """R25: it has no id, so there is nobody to tell."""
    talk = revival()
    talk.client({"jsonrpc": "2.0", "method": "_x/y", "params": {"sessionId": "s1"}})

    talk.agent(error(owed(talk, "session/load")["id"], -32002))

    assert [(1, "session-lost")] == kinds(talk.seen())
    assert [] == talk.got()


def test_settings_that_are_answered_too_late_hold_nothing_up() -> None:
    """I9: `restart_max` bounds this step too; the session is there, so the prompt runs (I10)."""
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(set_mode("a"))
    talk.agent(answer("a", {}))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    loaded(talk)
    (again,) = talk.got()
    talk.wait(30.0)

    assert ["one"] == texts(talk.got())
    talk.agent(answer(again["id"], {}))
    assert [] == talk.got()
    assert "running" == talk.bridge.sessions["s1"].phase.value


def test_a_foreign_session_that_comes_back_by_itself_is_still_foreign() -> None:
    """R25: we never saw it opened, so after a restart there is nothing to load it with."""
    talk = Talk("generic")
    talk.open()
    talk.client(prompt(0, "x", "foreign"))
    talk.agent(chunk("a", "foreign"))
    talk.client(cancel("foreign"))
    talk.wait(30.0)
    talk.agent(ended(0, "cancelled"))
    talk.got()
    talk.die()
    forget_all = talk.seen()
    talk.client(prompt(1, "one", "foreign"))
    initialized(talk)

    assert (0, "wedged") in kinds(forget_all)
    assert [(1, "session-lost")] == kinds(talk.seen())


META = {"session_id": "other", "self": 1, "fine/name": 2}
"""Keys that Hermes would take as arguments of the call, and one that it would not."""


def test_what_is_said_again_carries_no_keys_that_are_taken_as_arguments() -> None:
    """hermes.md, section 3: `_meta.session_id` on a load would load another session."""
    talk = Talk("hermes")
    talk.initialize()
    talk.client(request("n", "session/new", {"cwd": "/w", "_meta": META}))
    talk.agent(answer("n", new_result("s1")))
    talk.wait(1.0)
    reach.turn(talk, 0)
    talk.client(request("m", "session/set_mode", {"sessionId": "s1", "modeId": "x", "_meta": META}))
    first = talk.got()
    talk.agent(answer("m", {}))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    load = loaded(talk)

    sent = [*first, load, *talk.got()]
    assert 3 == len(sent)
    assert [{"fine/name": 2}] * 3 == [line["params"]["_meta"] for line in sent]


@pytest.mark.parametrize("step", ["session/new", "session/set_mode"])
def test_a_death_in_any_step_of_the_revival_starts_another_one(step: str) -> None:
    """R23: the answer never comes; the next process is asked anew."""
    talk = Talk("generic")
    talk.open()
    talk.client(set_mode("a"))
    talk.agent(answer("a", {}))
    talk.die()
    talk.client(prompt(1, "one"))
    initialized(talk)
    asked = owed(talk, "session/new")
    if step == "session/set_mode":
        talk.agent(answer(asked["id"], new_result("s9")))
        owed(talk, step)

    talk.die()

    assert ["one"] == texts(obey(talk))
    assert [1, 2, 3] == talk.starts


def test_what_waits_in_a_session_whose_id_is_given_away_is_answered() -> None:
    """I1: a restarted agent that counts its sessions from one opens s1 a second time."""
    talk = Talk("generic")
    reach.lost(talk)
    talk.client(set_mode(7))
    initialized(talk)
    old = owed(talk, "session/load")

    talk.client(request(8, "session/new", {"cwd": "/w", "mcpServers": []}))
    talk.agent(chunk("old"), answer(8, new_result("s1")), answer(old["id"], {}))
    talk.client(prompt(9, "new"))

    assert [(7, "session-lost"), (8, "ok")] == kinds(talk.seen())
    assert 0 == talk.count("session_revived")
    assert ["new"] == texts(talk.got())


def test_what_waited_out_the_gap_around_a_cancel_outlives_a_session_opened_anew() -> None:
    """I1: the request was lost with what was remembered of the session, and never answered."""
    talk = Talk("hermes")
    talk.open()
    talk.client(prompt(1), request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    talk.agent(chunk())
    talk.wait(1.0)
    talk.client(cancel(), request("d", "session/delete", {"sessionId": "s1"}))
    talk.agent(ended(1, "cancelled"))
    talk.got()
    talk.agent(answer("n", new_result("s1")))
    assert [frame["id"] for frame in talk.got()] == ["d"]
    talk.wait(1.0)
    assert talk.got() == []
