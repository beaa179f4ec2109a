"""What a person who tried the bridge from its README alone stumbled over, kept as tests."""

from __future__ import annotations

import pytest

from acpbridge.core import present
from acpbridge.core.events import AgentExited
from acpbridge.core.model import AgentState
from acpbridge.wire.frame import RpcId
from tests.core import reach
from tests.core.reach import kinds, texts
from tests.core.script import (
    REDIRECTED,
    Talk,
    answer,
    cancel,
    chunk,
    ended,
    error,
    new_result,
    prompt,
    request,
    usage,
)


def test_no_notice_is_said_in_the_gap_before_a_response() -> None:
    """Codeg: the prompt behind goes in 0.1 s, however long it has waited for its turn."""
    talk = Talk("hermes", "codeg")
    reach.working(talk)
    talk.client(prompt(2, "two"))
    talk.wait(5.0)
    talk.agent(usage(), ended(1))
    talk.wait(0.5)

    assert 0 == talk.count("prompt_waits")
    assert ["two"] == texts(talk.got())


def test_nothing_is_said_of_waiting_while_the_bridge_ends() -> None:
    talk = Talk("hermes", on_disconnect="finish")
    reach.working(talk)
    talk.client(prompt(2, "two"))
    talk.leave()
    talk.agent(ended(1))
    talk.wait(10.0)

    assert 0 == talk.count("prompt_waits")


@pytest.mark.parametrize("usages", [1, 2])
def test_only_the_first_usage_behind_an_opening_is_the_openings_own(usages: int) -> None:
    """R9: Hermes says its usage up to 60 ms behind session/new; background work ends with one."""
    talk = Talk("hermes")
    talk.initialize()
    talk.client(request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
    talk.agent(answer("n", new_result("s1")))
    talk.client(prompt(1, "one"))
    talk.agent(chunk(REDIRECTED), ended(1, usage=False), chunk("bg"))
    talk.agent(*[usage()] * usages)
    talk.seen()
    talk.wait(5.0)

    assert [(1, "end_turn")] * (usages - 1) == [one for one in kinds(talk.seen()) if one[0] == 1]


def test_an_agent_that_cannot_start_is_a_failure_whoever_listens() -> None:
    """Exit code 3: also where the client has closed its end at once."""
    talk = Talk("generic")
    talk.bridge.agent_state = AgentState.STARTING
    talk.leave()
    talk.feed(AgentExited(1, "cannot be started", started=False))

    assert 3 == talk.exit_code
    assert ["error"] == [one.level for one in talk.notes if one.name == "agent_exited"]


def test_an_answer_that_comes_twice_leaves_once() -> None:
    """I1: even where the fault is ours."""
    talk = Talk("generic")
    talk.open()
    present.respond(talk.bridge, RpcId(b"77"), b"{}")

    assert 1 == talk.count("second_answer_dropped")
    assert [] == talk.seen()


def test_only_what_a_cancel_ended_just_now_is_undelivered_after_all() -> None:
    """R20: the last second counts for each of them, not for the last cancel alone."""
    talk = Talk("generic")
    reach.working(talk)
    for id_ in (2, 3):
        talk.client(prompt(id_, "x"), cancel())
        talk.wait(0.8)
    talk.leave()

    last = talk.bridge.prompts
    assert [last] == [one.prompt for one in talk.persists if "undelivered" in one.reason]


def test_a_prompt_saved_while_the_agent_leaves_goes_to_the_next_one() -> None:
    """I8, R22: the disk answers when nothing can be written any more."""
    talk = Talk("hermes")
    reach.sending(talk)
    talk.deaf()
    talk.persisted()
    assert [] == texts(talk.got())

    talk.disk = True
    talk.die()
    reach.obey(talk)

    assert 2 == talk.starts[-1]
    assert 0 == talk.count("unexpected_event")


def test_a_resumed_session_is_loaded_with_the_servers_that_its_resume_left_out() -> None:
    """`mcpServers` is optional in a resume and required in a load: Hermes refuses one without."""
    talk = Talk("hermes")
    talk.initialize()
    talk.client(request("r", "session/resume", {"sessionId": "s1", "cwd": "/w"}))
    talk.agent(answer("r", new_result("s1")))
    talk.client(prompt(1, "one"))
    talk.agent(chunk(), ended(1))
    talk.die()
    talk.seen()
    talk.got()
    talk.client(prompt(2, "two"))
    reach.initialized(talk)

    assert [] == reach.owed(talk, "session/load")["params"]["mcpServers"]


def test_a_revival_that_fails_while_the_bridge_ends_is_not_tried_another_way() -> None:
    """R23: after a stop signal nothing is started, recovered or sent."""
    talk = Talk("hermes")
    talk.open()
    talk.client(prompt(1, "one"))
    talk.die()
    talk.got()
    talk.client(prompt(2, "two"))
    reach.initialized(talk)
    load = reach.owed(talk, "session/load")
    talk.stop()
    talk.agent(error(load["id"], -32002, "unknown session"))

    assert [] == [one for one in talk.got() if one.get("method") == "session/new"]
