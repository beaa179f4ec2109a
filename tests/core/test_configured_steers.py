"""Ways into a running turn that only a configuration names: a second prompt, a command, a method.

No agent of ours is steered so by itself, and none under `midturn = "auto"` (I4): which build of
Hermes folds a second prompt into its turn, its version number does not tell.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from acpbridge.core.phases import Phase
from acpbridge.profiles import AGENTS, AgentProfile
from tests.core.ledger import check
from tests.core.reach import forget, in_session, kinds, tags, texts, turn
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    notify,
    prompt,
    request,
    usage,
    wedge,
)
from tests.core.steer_talk import told

METHOD = "_vendor/session/steer"
HERMES = evolve(AGENTS["hermes"], steer_by="prompt")
COMMAND = evolve(AGENTS["hermes"], steer_by="command")
VENDOR = evolve(AGENTS["generic"], steer_by="method", steer_method=METHOD)


def working(profile: AgentProfile, **policy: Any) -> Talk:
    """Prompt 1 works at an agent that advertises nothing."""
    talk = Talk(profile, **{"midturn": "steer", **policy})
    talk.open()
    turn(talk, "before")
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"))
    talk.wait(1.0)
    forget(talk)
    return talk


def redirecting(profile: AgentProfile = HERMES, **policy: Any) -> Talk:
    """Prompt 2 is at the agent beside it, without its receipt."""
    talk = working(profile, **policy)
    talk.client(prompt(2, "two"))
    forget(talk)
    return talk


# -- nobody is steered by a guess -----------------------------------------------------------------
@pytest.mark.parametrize("name", AGENTS)
def test_no_profile_of_ours_names_such_a_way(name: str) -> None:
    """With real Hermes 0.19.0 no steer is ever sent."""
    assert "" == AGENTS[name].steer_by


@pytest.mark.parametrize("profile", [HERMES, COMMAND, VENDOR], ids=lambda one: one.steer_by)
def test_the_policy_must_ask_for_it_too(profile: AgentProfile) -> None:
    """I4: "a redirect that profile and policy both ask for"; `auto` knows the advert alone."""
    talk = working(profile, midturn="auto")
    talk.client(prompt(2, "two"))

    assert [] == talk.got()


def test_a_method_without_a_name_is_none() -> None:
    talk = working(evolve(VENDOR, steer_method=""))
    talk.client(prompt(2, "two"))

    assert [] == talk.got()


# -- a second prompt ---------------------------------------------------------------------------
def test_a_redirected_prompt_ends_with_the_running_turn() -> None:
    """Hermes 0.20: the receipt is no answer; the running prompt's response is (R10)."""
    talk = working(HERMES)
    talk.client(prompt(2, "two"))

    assert ["two"] == texts(talk.got())
    talk.agent(chunk(REDIRECTED), ended(2, usage=False), chunk("b"), ended(1))
    seen = talk.seen()

    assert ["b", (1, "end_turn"), (2, "end_turn")] == kinds(seen)
    assert ["response", "shared"] == tags(seen)
    check(talk)


def test_one_that_hermes_keeps_for_later_waits_for_its_own_segment() -> None:
    """Refused as a redirect: "Queued for the next turn." It is drained inside the open prompt."""
    talk = redirecting()
    talk.agent(chunk(QUEUED), ended(2, usage=False), echo("two"), chunk("b"), ended(1))

    assert ["response", "drained"] == tags(talk.seen())
    check(talk)


def test_the_command_goes_before_the_text() -> None:
    """`/steer x`, where a build is known to honour it; its receipt binds it to the turn."""
    talk = working(COMMAND)
    talk.client(prompt(2, "two"))

    assert ["/steer two"] == texts(talk.got())
    receipt = chunk("⏩ Steer queued for the active turn: two")
    talk.agent(receipt, ended(2, usage=False), chunk("b"), ended(1))

    assert ["response", "shared"] == tags(talk.seen())


def test_one_that_is_taken_back_goes_without_the_command() -> None:
    """Idle Hermes would take `/steer x` for something else; the prompt itself is x."""
    talk = redirecting(COMMAND)
    talk.agent(error(2, -32000, "busy", {"reason": "session_busy"}), chunk("b"), ended(1))
    talk.wait(1.0)

    assert ["two"] == texts(talk.got())


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": "x"}, {"type": "image", "data": ""}],
        [{"type": "resource_link", "uri": "x", "name": "x"}],
        [],
        ["x"],
        "x",
    ],
    ids=str,
)
def test_what_is_no_text_waits(blocks: Any) -> None:
    """Hermes loses images in a redirect."""
    talk = working(HERMES)
    talk.client(request(2, "session/prompt", {"sessionId": "s1", "prompt": blocks}))

    assert [] == talk.got()


def test_every_other_frame_of_the_session_waits_for_the_receipt() -> None:
    """One frame, then its receipt: two in one read stop Hermes for ever."""
    talk = redirecting()
    talk.client(in_session(3, "session/set_mode"), notify("_x/y", {"sessionId": "s1"}))
    talk.client(cancel(), prompt(4, "four"))
    talk.wait(1.0)

    assert [] == talk.got()
    talk.agent(chunk(REDIRECTED), ended(2, usage=False))
    talk.wait(0.1)

    assert ["session/set_mode", "_x/y", "session/cancel"] == kinds(talk.got())
    assert (2, "cancelled") in kinds(talk.seen())
    talk.agent(ended(1, "cancelled"))
    talk.wait(0.1)

    assert ["four"] == texts(talk.got())


def test_they_wait_ten_seconds_at_most() -> None:
    """I9: a receipt that never comes does not hold the session for ever."""
    talk = redirecting()
    talk.client(in_session(3, "session/set_mode"))
    talk.wait(9.9)

    assert [] == talk.got()
    talk.wait(0.2)

    assert ["session/set_mode"] == kinds(talk.got())


def test_a_cancel_waits_ten_seconds_at_most() -> None:
    """R16, I9: the same for the frame that stops the turn."""
    talk = redirecting()
    talk.client(cancel())
    talk.wait(9.9)

    assert [] == talk.got()
    talk.wait(0.2)

    assert ["session/cancel"] == kinds(talk.got())


def test_a_prompt_that_has_shown_nothing_is_not_steered_into() -> None:
    """Two receipts could not be told apart: one of them would pass for an answer (seed 403162)."""
    talk = working(HERMES)
    talk.agent(ended(1))
    talk.wait(1.0)
    talk.client(prompt(2, "two"), prompt(3, "three"))

    assert ["two"] == texts(talk.got())


def test_redirects_go_one_at_a_time() -> None:
    """R14: the next one waits for the receipt of the one before."""
    talk = redirecting()
    talk.client(prompt(3, "three"))

    assert [] == talk.got()
    talk.agent(chunk(REDIRECTED), ended(2, usage=False))

    assert ["three"] == texts(talk.got())


def test_one_whose_turn_ended_first_is_the_next_turn() -> None:
    """The agent ran it as a prompt: its own response is its answer."""
    talk = redirecting()
    talk.agent(ended(1), chunk("b"), ended(2))

    assert [(1, "end_turn"), "b", (2, "end_turn")] == kinds(talk.seen())
    assert Phase.IDLE is talk.bridge.sessions["s1"].phase
    check(talk)


@pytest.mark.parametrize("how", ["cancel", "one", "owner", "wedge", "disk", "owner ends"])
def test_one_whose_bytes_have_not_gone(how: str) -> None:
    """I3, R16, R20: unwritten, it is cancelled unsent or waits for the end of the turn."""
    talk = working(HERMES)
    talk.disk = False
    talk.client(prompt(2, "two"))
    frames: dict[str, Json] = {
        "cancel": cancel(),
        "one": notify("$/cancel_request", {"requestId": 2}),
        "owner": notify("$/cancel_request", {"requestId": 1}),
    }
    if how in frames:
        talk.client(frames[how])
    elif how == "wedge":
        talk.agent(wedge(1))
    elif how == "owner ends":
        talk.agent(ended(1))
    (talk.persist_failed if how == "disk" else talk.persisted)()
    forget_wait = {"cancel": (2, "cancelled"), "one": (2, "cancelled"), "disk": (2, "not-durable")}

    if how in forget_wait:
        assert forget_wait[how] in kinds(talk.seen())
        assert [] == texts(talk.got())
    elif how == "owner ends":
        assert ["two"] == texts(talk.got())
    else:
        head = talk.bridge.sessions["s1"].head()
        assert head is not None
        assert "two" == head.text
    assert 0 == talk.count("unexpected_event")


def test_a_cancel_for_a_ghost_may_cross_the_end_of_the_turn() -> None:
    """R19, R21, seed 705599: the turn ends cancelled, the second cancel hits the next prompt."""
    talk = redirecting()
    talk.agent(chunk(QUEUED), ended(2, usage=False))
    talk.client(cancel())
    talk.wait(0.5)
    talk.agent(echo("two"), ended(1, "cancelled"))
    talk.client(prompt(3, "three"))
    talk.wait(0.1)
    talk.agent(ended(3, "cancelled"))
    talk.wait(0.1)

    assert ["three", "three"] == texts(talk.got())


# -- a method of the vendor's own --------------------------------------------------------------
def test_the_vendors_method_gets_the_session_and_the_blocks() -> None:
    """No opt-in: that is a word of `_session/steering`."""
    talk = working(VENDOR)
    talk.client(prompt(2, "two", _meta={"x": 1}))

    expected = {
        "sessionId": "s1",
        "prompt": [{"type": "text", "text": "two"}],
        "_meta": {"x": 1},
    }
    assert [request(2, METHOD, expected)] == talk.got()


@pytest.mark.parametrize(
    "result",
    [{"status": "started"}, {"status": "accepted"}, {"status": "in_flight"}, {}, None],
    ids=str,
)
def test_s4_3_an_acknowledgement_is_no_completion(result: Any) -> None:
    """S4.3: pending; what ends it is the owner's answer, and work is its only proof."""
    talk = redirecting(VENDOR)
    talk.agent(answer(2, result))

    assert [] == talk.seen()
    talk.agent(ended(1))

    assert {"completion": "shared", "delivery": "unproven"} == told(talk.seen(), 2)
    check(talk)


def test_s4_3_ok_is_no_completion_either() -> None:
    """Only a real completion is success; with work behind it nothing is unproven."""
    talk = redirecting(VENDOR)
    talk.agent(answer(2, {"status": "ok"}))

    assert [] == talk.seen()
    talk.agent(chunk("b"), ended(1))

    assert {"completion": "shared"} == told(talk.seen(), 2)


@pytest.mark.parametrize("status", ["timeout", "error", "weird", 5], ids=str)
def test_s4_3_other_words_say_nothing_of_the_content(status: Any) -> None:
    """S4.3: no success, no second write; the word itself is told and recorded."""
    talk = redirecting(VENDOR)
    talk.agent(answer(2, {"status": status}))
    (line,) = talk.seen()

    assert "delivery-unknown" == line["error"]["data"]["acpbridge"]["kind"]
    assert f"({status})" in line["error"]["message"]
    talk.agent(chunk("b"), ended(1))
    talk.wait(400.0)

    assert [] == talk.got()


@pytest.mark.parametrize(
    ("profile", "word"),
    [
        (VENDOR, answer(2, {"status": "missed"})),
        (evolve(VENDOR, steer_refused_outcomes=frozenset({"late"})), answer(2, {"status": "late"})),
        (VENDOR, error(2, -32601)),
    ],
    ids=["missed", "listed", "unknown method"],
)
def test_a_steer_that_the_agent_reports_as_missed_returns_to_the_queue(
    profile: AgentProfile, word: Json
) -> None:
    """It is still ours, and goes as a prompt when the turn has ended."""
    talk = redirecting(profile)
    talk.agent(word, ended(1))

    assert ["two"] == texts(talk.got())


def test_an_agent_that_advertises_steering_is_steered_that_way() -> None:
    """The advert is the agent's own word and goes before a configuration."""
    talk = Talk(HERMES, midturn="steer")
    talk.open(steering=True)
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"), usage())
    talk.got()
    talk.client(prompt(2, "two"))

    assert ["_session/steering"] == kinds(talk.got())


def test_an_answer_that_is_doubted_when_the_session_wedges_goes_out() -> None:
    """I10: no turn is left that it could be the receipt of (seed 11356 of the simulator)."""
    talk = redirecting()
    talk.agent(chunk("Noted."), ended(2, usage=False))
    talk.client(cancel())
    talk.agent(wedge(1))
    talk.wait(60.0)

    assert {1, 2} == {one["id"] for one in talk.seen() if "id" in one}
