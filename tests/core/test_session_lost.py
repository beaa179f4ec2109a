"""A session that the agent does not have, however it says so (R25)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core import reach
from tests.core.reach import forget, in_session, kinds, obey, texts
from tests.core.script import (
    Json,
    Talk,
    answer,
    chunk,
    dumps,
    ended,
    error,
    new_result,
    prompt,
    request,
)


def provenance(current: str, acp: str = "s1", root: str = "s1") -> Json:
    """What Hermes says of a session that its compression has rotated (tape compact-rotation)."""
    told = {
        "acpSessionId": acp,
        "currentHermesSessionId": current,
        "rootHermesSessionId": root,
        "reason": "compression",
    }
    return {"hermes": {"sessionProvenance": told}}


# -- sessions that are not there (lost) ---------------------------------------------------------
def test_an_empty_fork_id_is_session_lost() -> None:
    """R25: Hermes answers a fork of an unknown session with `{"sessionId":""}`."""
    talk = Talk("hermes")
    reach.idle(talk)
    talk.client(in_session("f", "session/fork", "unknown"))

    talk.agent(answer("f", {"sessionId": ""}))

    assert [("f", "session-lost")] == kinds(talk.seen())
    assert ["s1"] == list(talk.bridge.sessions)


@pytest.mark.parametrize("result", [{}, None, {"sessionId": 7}], ids=str)
def test_a_new_session_without_an_id_is_session_lost(result: Any) -> None:
    talk = Talk("generic")
    talk.initialize()
    talk.seen()
    talk.client(request("n", "session/new", {"cwd": "/w"}))

    talk.agent(answer("n", result))

    assert [("n", "session-lost")] == kinds(talk.seen())


def loading(method: str = "session/load") -> Talk:
    """A Hermes client loads `old`, with a prompt right behind it."""
    talk = Talk("hermes")
    talk.initialize()
    talk.client(in_session("L", method, "old"), prompt(1, "one", "old"))
    forget(talk)
    return talk


def test_a_load_without_proof_is_session_lost_and_so_is_the_queue() -> None:
    """R25, R4: Hermes answers `{}`; the prompt must not go into nothing."""
    talk = loading()

    talk.agent(answer("L", {}))

    assert [("L", "session-lost"), (1, "session-lost")] == kinds(talk.seen())
    assert [] == talk.got()


def test_a_resume_that_opened_another_session_is_session_lost() -> None:
    """R25: Hermes opens a new one and says so only in its provenance (tape resume)."""
    talk = loading("session/resume")
    result = {**new_result("x"), "_meta": provenance("brand-new", "brand-new", "brand-new")}

    talk.agent(answer("L", result))

    assert [("L", "session-lost"), (1, "session-lost")] == kinds(talk.seen())


@pytest.mark.parametrize("told", [("old", "old"), ("tip", "old"), ("old", "older")], ids=str)
def test_a_load_that_names_the_session_asked_for_is_believed(told: tuple[str, str]) -> None:
    """A load of the tip names the old ACP id as its root."""
    talk = loading()
    result = {**new_result("x"), "_meta": provenance("tip", *told)}

    talk.agent(chunk("h", "old"), answer("L", result))

    assert ["h", ("L", "ok")] == kinds(talk.seen())
    assert ["one"] == texts(talk.got())


def test_an_error_of_a_load_passes_as_it_is_and_the_queue_is_lost() -> None:
    """R4."""
    talk = loading()
    line = dumps(error("L", -32002, "Resource not found"))

    talk.agent(line)

    assert line == talk.client_lines[0]
    assert [("L", -32002), (1, "session-lost")] == kinds(talk.seen())


def test_a_refusal_without_work_is_session_lost() -> None:
    """R25: that is how Hermes says that it does not know the session."""
    talk = Talk("hermes")
    reach.running(talk)
    talk.client(prompt(2, "two"))

    talk.agent(ended(1, "refusal", usage=False))

    assert [(1, "session-lost"), (2, "session-lost")] == kinds(talk.seen())
    assert [] == talk.got()


def test_a_refusal_with_work_is_an_answer() -> None:
    talk = Talk("hermes")
    reach.working(talk)

    talk.agent(ended(1, "refusal"))

    assert [(1, "refusal")] == kinds(talk.seen())


def test_another_agents_refusal_is_an_answer() -> None:
    talk = Talk("claude")
    reach.running(talk)

    talk.agent(ended(1, "refusal", usage=False))

    assert [(1, "refusal")] == kinds(talk.seen())


def test_a_session_that_fails_to_be_forked_lives_on() -> None:
    talk = Talk("generic")
    reach.idle(talk)
    talk.client(in_session("f", "session/fork"))

    talk.agent(error("f", -32603))
    talk.client(prompt(1, "one"))

    assert [("f", -32603)] == kinds(talk.seen())
    assert ["one"] == texts(obey(talk))
