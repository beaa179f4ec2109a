"""Every field of an agent profile does what its docstring promises: one dialogue for each.

A row names a field, a value that is not the default, and a dialogue; it is played with a profile
that has only the default and with one that has only this value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, fields, fields_dict, frozen

from acpbridge.core.bridge import start, step
from acpbridge.core.events import AgentSent, AgentStarted, ClientSent
from acpbridge.core.policy import Policy
from acpbridge.profiles import AGENTS, AgentProfile, agent_named
from acpbridge.wire.frame import Frame, peek
from tests.core import reach
from tests.core.reach import forget, kinds, texts
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    dumps,
    echo,
    ended,
    error,
    new_result,
    notify,
    prompt,
    request,
    tool,
    usage,
)
from tests.core.steer_talk import STEERING, asked, said, working

BARE = ended(1, usage=False)


def talk_with(profile: AgentProfile, place: str, **policy: Any) -> Talk:
    talk = Talk(profile, **policy)
    reach.PLACES[place][1](talk)
    forget(talk)
    return talk


def phase(talk: Talk) -> str:
    return talk.bridge.sessions["s1"].phase.value


# -- the dialogues ------------------------------------------------------------------------------
def steered(profile: AgentProfile) -> Any:
    """What the agent, which calls itself 1.0.0, gets of a prompt that meets its turn."""
    talk = working(profile)
    talk.client(prompt(2, "two"))
    return kinds(talk.got())


def redirected(profile: AgentProfile) -> Any:
    """The same where nothing is advertised and the policy asks for it."""
    return texts(_met(profile))


def commanded(profile: AgentProfile) -> Any:
    return texts(_met(evolve(profile, steer_by="command")))


def by_method(profile: AgentProfile) -> Any:
    return kinds(_met(evolve(profile, steer_by="method")))


def _met(profile: AgentProfile) -> list[Json]:
    talk = talk_with(profile, "working", midturn="steer")
    talk.client(prompt(2, "two"))
    return talk.got()


def opted_in(profile: AgentProfile) -> Any:
    talk = working(profile)
    talk.client(prompt(2, "two"))
    return ["_meta" in frame["params"] for frame in talk.got()]


def refused_steer(profile: AgentProfile) -> Any:
    return _told_of_steer(profile, error(2, -32600))


def failed_steer(profile: AgentProfile) -> Any:
    return _told_of_steer(profile, said(2, "failed"))


def _told_of_steer(profile: AgentProfile, verdict: Json) -> Any:
    """The kinds of errors that the client sees."""
    talk = asked(profile)
    talk.agent(verdict)
    return [kind for _, kind in kinds(talk.seen())]


def told_name(profile: AgentProfile) -> Any:
    talk = Talk("generic")
    talk.bridge.agent = profile
    talk.initialize()
    return [note.fields["profile"] for note in talk.notes if note.name == "initialized"]


def chosen_by_name(profile: AgentProfile) -> Any:
    """Which profile an agent that names itself gets, where none was chosen by option."""
    bridge = start(Policy(), None, None, "n")
    step(bridge, 0.0, AgentStarted(1))
    asked = peek(dumps(request(1, "initialize", {})), strict=True)
    info = {"agentInfo": {"name": (*profile.agent_names, "?")[0], "version": "9"}}
    told = peek(dumps(answer(1, info)), strict=False)
    assert isinstance(asked, Frame)
    assert isinstance(told, Frame)
    step(bridge, 0.0, ClientSent(asked))
    step(bridge, 0.0, AgentSent(1, told))
    return bridge.agent.name


def beside_own_work(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "ownerless")
    talk.client(prompt(1, "one"))
    return texts(talk.got())


def receipt(profile: AgentProfile) -> Any:
    """A queued prompt waits for its echo, a redirected one for the quiet of the turn."""
    talk = talk_with(profile, "running", wait_notice=False)
    talk.agent(chunk("Got it 7"), BARE)
    talk.wait(10.0)
    talk.agent(chunk("b"))
    talk.wait(60.0)
    return kinds(talk.seen())


def refused(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "running")
    talk.agent(error(1, -32000, "no", {"reason": "try_later"}))
    return kinds(talk.seen())


def image_alone(profile: AgentProfile) -> Any:
    talk = talk_with(evolve(profile, receipts_queued=("Queued",)), "idle")
    blocks = [{"type": "image", "data": "", "mimeType": "image/png"}]
    talk.client(request(1, "session/prompt", {"sessionId": "s1", "prompt": blocks}))
    talk.agent(chunk("Queued"), BARE, echo("[picture]"), chunk("b"))
    talk.wait(60.0)
    return (1, "end_turn") in kinds(talk.seen())


def bare_at_once(profile: AgentProfile) -> Any:
    talk = Talk(profile)
    talk.open()
    talk.client(prompt(1))
    talk.agent(chunk("a"), BARE)
    return kinds(talk.seen())[1:]


def command(text: str) -> Callable[[AgentProfile], Any]:
    def play(profile: AgentProfile) -> Any:
        talk = talk_with(profile, "idle")
        talk.client(prompt(1, text))
        talk.agent(BARE)
        return texts(talk.got()), kinds(talk.seen())

    return play


def marked(frame: Json, after_s: float) -> Callable[[AgentProfile], Any]:
    def play(profile: AgentProfile) -> Any:
        talk = talk_with(profile, "ownerless")
        talk.agent(frame)
        talk.wait(after_s)
        return phase(talk)

    return play


def with_usage_marker(profile: AgentProfile) -> Any:
    return marked(usage(), 3.0)(evolve(profile, end_marker="usage"))


def open_call(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "ownerless")
    talk.agent(tool("t1", kind="read"))
    talk.wait(60.0)
    return phase(talk)


def snapshot(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "idle")
    talk.agent(tool("sub:1"))
    return phase(talk)


def cancelled_at_once(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "idle")
    talk.client(prompt(1))
    forget(talk)
    talk.client(cancel())
    now = kinds(talk.got())
    talk.wait(0.5)
    return now, kinds(talk.got())


def set_before_cancel(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.client(reach.set_mode("m"), cancel())
    now = kinds(talk.got())
    talk.wait(0.5)
    return now, kinds(talk.got())


def taken_back(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.client(notify("$/cancel_request", {"requestId": 1}))
    return [one["method"] for one in talk.got()]


def after_a_crossing(profile: AgentProfile) -> Any:
    """The cancel met the turn's own end; the next prompt is answered `cancelled` unasked."""
    talk = talk_with(profile, "working")
    talk.client(cancel())
    talk.agent(ended(1))
    talk.client(prompt(2, "two"))
    forget(talk)
    talk.agent(ended(2, "cancelled"))
    return texts(talk.got()), kinds(talk.seen())


def wedging_error(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.agent(error(1, -32000, "stuck for ever"))
    return phase(talk)


def second_session(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "running")
    talk.new("s2")
    forget(talk)
    talk.client(prompt(2, "two", "s2"))
    return texts(talk.got())


def with_meta(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "idle")
    meta = {"evil": 1, "good": 2}
    talk.client(prompt(1, "one", _meta=meta), request(2, "session/list", {"_meta": meta}))
    return [one["params"]["_meta"] for one in talk.got()]


def load_of_nothing(profile: AgentProfile) -> Any:
    talk = Talk(profile)
    talk.initialize()
    talk.client(request("l", "session/load", {"sessionId": "old", "cwd": "/w", "mcpServers": []}))
    forget(talk)
    talk.agent(answer("l", {}))
    return kinds(talk.seen())


def load_of_another(profile: AgentProfile) -> Any:
    talk = Talk(profile)
    talk.initialize()
    params = {"sessionId": "old", "cwd": "/w", "mcpServers": []}
    talk.client(request("l", "session/resume", params))
    forget(talk)
    real = {"real": {"acpSessionId": "another"}}
    talk.agent(answer("l", {**new_result("old"), "_meta": real}))
    return kinds(talk.seen())


def refusal(profile: AgentProfile) -> Any:
    talk = talk_with(profile, "running")
    talk.agent(ended(1, "refusal", usage=False))
    return kinds(talk.seen())


# -- the table ----------------------------------------------------------------------------------
@frozen
class Row:
    field: str
    value: Any
    play: Callable[[AgentProfile], Any]
    without: Any
    """What comes of it with the field's default."""
    with_it: Any


ENDED: Any = (1, "end_turn")
SHOWN = ["Got it 7", ENDED, "b"]

ROWS = [
    Row("name", "mine", told_name, ["generic"], ["mine"]),
    Row("agent_names", AGENTS["claude"].agent_names, chosen_by_name, "generic", "claude"),
    Row("busy", "fifo", beside_own_work, [], ["one"]),
    Row("busy_reasons", ("try_later",), refused, [(1, -32000)], []),
    Row("echo_without_text", "[picture]", image_alone, False, True),
    Row("receipts_queued", (r"Got it \d",), receipt, SHOWN, ["b"]),
    Row("receipts_redirected", (r"Got it \d",), receipt, SHOWN, ["b", ENDED]),
    Row("completions_carry_usage", True, bare_at_once, [(1, "end_turn")], []),
    Row("commands", frozenset({"go"}), command("/go"), (["/go"], []), (["/go"], [(1, "end_turn")])),
    Row("plain_commands", frozenset({"q"}), command("/q x"), (["/q x"], []), (["x"], [])),
    Row("end_marker", "usage", marked(usage(), 1.0), "ownerless", "idle"),
    Row("marker_quiet_s", 4.0, with_usage_marker, "idle", "ownerless"),
    Row("never_closed_kinds", frozenset({"read"}), open_call, "ownerless", "idle"),
    Row("snapshot_call_prefixes", ("sub:",), snapshot, "ownerless", "idle"),
    Row(
        "cancel_after_s",
        0.5,
        cancelled_at_once,
        (["session/cancel"], []),
        ([], ["session/cancel"]),
    ),
    Row(
        "cancel_gap_s",
        0.5,
        set_before_cancel,
        (["session/set_mode", "session/cancel"], []),
        (["session/set_mode"], ["session/cancel"]),
    ),
    Row("honours_cancel_request", True, taken_back, ["session/cancel"], ["$/cancel_request"]),
    Row("late_cancel_poisons", True, after_a_crossing, ([], [(2, "cancelled")]), (["two"], [])),
    Row("wedge_errors", ((-32000, "stuck"),), wedging_error, "idle", "wedged"),
    Row("turns_max", 1, second_session, ["two"], []),
    Row(
        "argument_meta_keys",
        frozenset({"evil"}),
        with_meta,
        [{"evil": 1, "good": 2}] * 2,
        [{"good": 2}] * 2,
    ),
    Row("steer_by", "prompt", redirected, [], ["two"]),
    Row("steer_command", "/now", commanded, ["/steer two"], ["/now two"]),
    Row("steer_method", "_x/steer", by_method, [], ["_x/steer"]),
    Row("steer_since", "1.0.1", steered, [STEERING], []),
    Row("steer_opt_in_since", "1.0.1", opted_in, [True], [False]),
    Row("steer_refusals", frozenset({-32600}), refused_steer, ["delivery-unknown"], []),
    Row("steer_refused_outcomes", frozenset({"failed"}), failed_steer, ["delivery-unknown"], []),
    Row("load_proof", "models", load_of_nothing, [("l", "ok")], [("l", "session-lost")]),
    Row("provenance", ("_meta", "real"), load_of_another, [("l", "ok")], [("l", "session-lost")]),
    Row("refusal_means_lost", True, refusal, [(1, "refusal")], [(1, "session-lost")]),
]


def test_every_field_has_a_row() -> None:
    """A field that no test reads is a fact about an agent that nobody uses (profiles/README)."""
    covered = {row.field for row in ROWS} | {"fifo_since"}

    assert {one.name for one in fields(AgentProfile)} == covered


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.field)
def test_a_field_does_what_it_promises(row: Row) -> None:
    """Alone: with the default the dialogue goes one way, with the value the other."""
    profile = agent_named("generic")
    default = fields_dict(AgentProfile)[row.field].default
    if row.field not in ("name", "agent_names"):
        assert default == getattr(profile, row.field)

    assert row.without == row.play(profile)
    assert row.with_it == row.play(evolve(profile, **{row.field: row.value}))


@pytest.mark.parametrize(("since", "sent"), [("1.0.0", ["one"]), ("1.0.1", [])])
def test_fifo_since_is_the_first_version_that_serialises(since: str, sent: list[str]) -> None:
    """The agent of these dialogues says that it is 1.0.0."""
    profile = evolve(agent_named("generic"), busy="fifo", fifo_since=since)

    assert sent == beside_own_work(profile)


@pytest.mark.parametrize("name", AGENTS)
def test_a_profile_s_numbers_are_sane(name: str) -> None:
    """Seconds and counts are not negative, and a name is not empty."""
    profile = agent_named(name)

    assert name
    assert min(profile.marker_quiet_s, profile.cancel_after_s, profile.cancel_gap_s) >= 0
    assert profile.turns_max >= 0
    assert profile.plain_commands <= profile.commands
