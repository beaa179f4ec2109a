"""Which prompt goes into a running turn, when, and with what bytes (R1, R2, R3, R14)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.reach import forget, kinds, owed, texts
from tests.core.script import (
    CAPABILITIES,
    INFOS,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    dumps,
    ended,
    prompt,
    request,
)
from tests.core.steer_talk import STEERING, asked, steers, working


def with_meta(id_: Any, text: str, meta: Json | None) -> Json:
    return prompt(id_, text, _meta=meta)


# -- what is read -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"_meta": None},
        {"_meta": {"steering": None}},
        {"_meta": {"steering": True}},
        {"_meta": {"steering": {"supported": "true"}}},
        {"_meta": {"steering": {"supported": 1}}},
        {"_meta": {"steering": {"supported": False}}},
        {"agentCapabilities": {"_meta": {"steering": {"supported": True}}}},
        {"steering": {"supported": True}},
    ],
    ids=str,
)
def test_only_a_true_boolean_in_its_place_advertises_steering(result: Json) -> None:
    """Anything else is no advert: Hermes answers null to any method, and would lose the text."""
    talk = Talk()
    talk.client(request("i", "initialize", {"protocolVersion": 1}))
    talk.agent(answer("i", {"protocolVersion": 1, "agentInfo": INFOS["generic"], **result}))
    talk.new()
    talk.client(prompt(1))
    talk.got()
    talk.client(prompt(2))

    assert [] == talk.got()


def test_initialize_passes_byte_for_byte() -> None:
    """A client gates its own steering on these very bytes."""
    result = b'{"_meta":{"steering":{"supported": true}},"protocolVersion":1}'
    raw = b'{"jsonrpc":"2.0","id":1,"result": %b}' % result
    talk = Talk()
    talk.client(request(1, "initialize", {"protocolVersion": 1}))
    talk.agent(raw)

    assert [raw] == talk.client_lines


@pytest.mark.parametrize("again", [True, False])
def test_a_restarted_agent_is_asked_again(again: bool) -> None:
    """The advert belongs to one run of the agent: another build may stand behind the command."""
    talk = working()
    talk.die()
    talk.seen()
    talk.client(prompt(3, "three"))
    meta = {"_meta": {"steering": {"supported": True}}} if again else {}
    info = {"agentInfo": INFOS["generic"], "agentCapabilities": CAPABILITIES}
    talk.agent(answer(owed(talk, "initialize")["id"], {"protocolVersion": 1, **info, **meta}))
    talk.agent(chunk("old"), answer(owed(talk, "session/load")["id"], {}))
    talk.got()
    talk.client(prompt(4, "four"))

    assert (["four"] if again else []) == steers(talk.got())


# -- what goes ----------------------------------------------------------------------------------
def test_a_prompt_that_meets_a_running_turn_is_steered() -> None:
    """R1: the whole line, with the client's id, its blocks and the opt-in."""
    talk = working()
    talk.client(prompt(2, "two"))

    expected = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": STEERING,
        "params": {
            "sessionId": "s1",
            "prompt": [{"type": "text", "text": "two"}],
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        },
    }
    assert [expected] == talk.got()
    assert [] == talk.seen()


def test_the_content_blocks_are_the_clients_own_bytes() -> None:
    """I7 for what a person wrote: numbers, escapes and blanks that an encoder would change."""
    blocks = b'[ {"type":"text","text":"\\u00e9 \\ud83d","n":1.0e2} ]'
    line = dumps(prompt(2)).replace(b'[{"type":"text","text":"hello"}]', blocks)
    talk = working()
    talk.client(line)

    assert blocks in talk.agent_lines[-1]
    assert [STEERING] == [frame["method"] for frame in talk.got()]


@pytest.mark.parametrize(
    ("meta", "merged"),
    [
        (None, {"steering": {"idleBehavior": "promptRequired"}}),
        ({}, {"steering": {"idleBehavior": "promptRequired"}}),
        ({"x": 1}, {"x": 1, "steering": {"idleBehavior": "promptRequired"}}),
        ({"steering": 5}, {"steering": {"idleBehavior": "promptRequired"}}),
        (
            {"steering": {"more": [1]}, "x": 1},
            {"steering": {"more": [1], "idleBehavior": "promptRequired"}, "x": 1},
        ),
        (
            {"steering": {"idleBehavior": "startNewTurn"}},
            {"steering": {"idleBehavior": "promptRequired"}},
        ),
    ],
    ids=str,
)
def test_the_clients_meta_is_merged_with_the_opt_in(meta: Json | None, merged: Json) -> None:
    """R14: what an extension says there is kept, and the session never starts a detached turn."""
    talk = working()
    talk.client(with_meta(2, "two", meta))

    (line,) = talk.got()
    assert merged == line["params"]["_meta"]


@pytest.mark.parametrize("meta", [None, {"x": 1}])
def test_a_build_that_does_not_know_the_opt_in_gets_none(meta: Json | None) -> None:
    """R14: codex-acp before 2.4.0; the client's own `_meta` goes all the same."""
    talk = working("codex")
    talk.bridge.agent_version = "2.3.0"
    frame = prompt(2, "two")
    frame["params"].update({} if meta is None else {"_meta": meta})
    talk.client(frame)

    (line,) = talk.got()
    assert (STEERING, meta) == (line["method"], line["params"].get("_meta"))


def test_it_goes_under_the_agents_own_session_id() -> None:
    """R25: the session of a restarted agent has another name there."""
    talk = working()
    session = talk.bridge.sessions["s1"]
    session.agent_id = "other"
    talk.client(prompt(2, "two"))

    assert ["other"] == [frame["params"]["sessionId"] for frame in talk.got()]


def test_the_intent_is_durable_before_the_first_byte() -> None:
    """I8: a disk that has not answered holds the steer back, and one that refuses ends it."""
    talk = working()
    talk.disk = False
    talk.client(prompt(2, "two"))

    assert [] == talk.got()
    assert ["accepted", "sending"] == [persist.state for persist in talk.persists]

    talk.persisted()

    assert ["two"] == steers(talk.got())
    assert "written" == talk.persists[-1].state


def test_a_disk_that_refuses_ends_it_and_the_next_one_goes() -> None:
    """I1, I8: `not-durable`, and nothing of it reached the agent."""
    talk = working()
    talk.disk = False
    talk.client(prompt(2, "two"), prompt(3, "three"))
    talk.persist_failed()

    assert [(2, "not-durable")] == kinds(talk.seen())

    talk.persisted()

    assert ["three"] == steers(talk.got())


# -- what does not go ---------------------------------------------------------------------------
NOT_STEERED: list[tuple[str, list[Json]]] = [
    ("a command", [{"type": "text", "text": "/status"}]),
    ("a command behind blanks", [{"type": "text", "text": "  /status x"}]),
    ("a path", [{"type": "text", "text": "/home/x is there"}]),
    (
        "a command as the last block",
        [{"type": "text", "text": "look"}, {"type": "text", "text": " /status"}],
    ),
    (
        "an image",
        [{"type": "text", "text": "look"}, {"type": "image", "data": "", "mimeType": "x"}],
    ),
    ("sound", [{"type": "audio", "data": "", "mimeType": "x"}]),
    ("an embedded resource", [{"type": "resource", "resource": {"uri": "x", "text": "y"}}]),
    ("a block of another kind", [{"type": "vendor"}]),
    ("a block without a kind", [{"text": "x"}]),
    ("nothing", []),
]


@pytest.mark.parametrize("blocks", [pytest.param(b, id=name) for name, b in NOT_STEERED])
def test_what_an_agent_may_not_take_there_waits_for_the_end(blocks: list[Json]) -> None:
    """R3, and the agent's prompt capabilities: claude destroys a turn for `/status`."""
    talk = working()
    talk.client(request(2, "session/prompt", {"sessionId": "s1", "prompt": blocks}))

    assert [] == talk.got()

    talk.agent(ended(1))

    assert [blocks] == [frame["params"]["prompt"] for frame in talk.got()]


@pytest.mark.parametrize("blocks", ["x", {"a": 1}, [5], ["x"]], ids=str)
def test_blocks_that_are_none_are_the_agents_own_to_refuse(blocks: Any) -> None:
    """What is wrong is not steered: as a prompt it gets the agent's own words."""
    talk = working()
    talk.client(request(2, "session/prompt", {"sessionId": "s1", "prompt": blocks}))

    assert [] == talk.got()


def test_blocks_that_the_agent_takes_are_steered() -> None:
    """Images go where the agent says that it reads them; links go everywhere."""
    link = {"type": "resource_link", "uri": "x", "name": "x"}
    image = {"type": "image", "data": "", "mimeType": "x"}
    talk = working()
    talk.bridge.capabilities = {"promptCapabilities": {"image": True, "audio": "yes"}}
    talk.client(request(2, "session/prompt", {"sessionId": "s1", "prompt": [link, image]}))

    assert [STEERING] == [frame["method"] for frame in talk.got()]


@pytest.mark.parametrize("before", [[], [{"type": "text", "text": "look"}]], ids=["", "last"])
def test_nothing_is_steered_into_the_turn_of_a_command(before: list[Json]) -> None:
    """R3: a steer aborts claude's `/compact`, which may also be the last block of several."""
    talk = working()
    talk.agent(ended(1))
    talk.wait(1.0)
    blocks = [*before, {"type": "text", "text": "/compact"}]
    talk.client(request(2, "session/prompt", {"sessionId": "s1", "prompt": blocks}))
    forget(talk)
    talk.client(prompt(3, "three"))

    assert [] == talk.got()

    talk.agent(chunk("done"), ended(2))

    assert ["three"] == texts(talk.got())


def test_a_session_with_a_queue_is_not_steered() -> None:
    """I5: what waits was first."""
    talk = working()
    talk.client(prompt(2, "/status"), prompt(3, "three"))

    assert [] == talk.got()


def test_what_was_queued_is_not_steered_into_a_later_turn() -> None:
    """R1 is about the arrival; R5 sends the rest when the session is Idle, one turn each."""
    talk = working()
    talk.client(prompt(2, "/status"), prompt(3, "three"), prompt(4, "four"))
    talk.agent(ended(1))
    talk.agent(chunk("x"), ended(2))

    assert ["/status", "three"] == texts(talk.got())
    talk.agent(chunk("y"), ended(3))

    assert ["four"] == texts(talk.got())


@pytest.mark.parametrize(("version", "goes"), [("0.64.2", []), ("0.65.0", ["two"])])
def test_a_build_that_loses_the_owner_is_not_steered(version: str, goes: list[str]) -> None:
    """claude-agent-acp#934: before 0.65.0 the owner is answered at once and the turn goes on."""
    talk = working("claude")
    talk.bridge.agent_version = version
    talk.client(prompt(2, "two"))

    assert goes == steers(talk.got())


def test_an_agent_that_takes_its_leave_is_not_steered() -> None:
    """R22: the prompt waits for the next one instead of being lost in the pipe."""
    talk = working()
    talk.deaf()
    talk.client(prompt(2, "two"))

    assert [] == talk.got()
    assert talk.bridge.sessions["s1"].head() is not None


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_prompt_that_waits_behind_the_agents_own_work_is_not_steered_into(agent: str) -> None:
    """Seed 805268: these agents serialise, and a steer goes into the turn that runs there now."""
    talk = working(agent)
    talk.agent(ended(1))
    talk.wait(1.0)
    talk.agent(chunk("by itself"))
    talk.client(prompt(2, "two"), prompt(3, "three"))

    assert ["session/prompt"] == kinds(talk.got())


@pytest.mark.parametrize("place", ["cancelling", "held", "ownerless"])
def test_only_a_running_turn_is_steered(place: str) -> None:
    """R1, "all else: queue": a cancelled, a doubted and an ownerless turn take nothing."""
    talk = working()
    if place == "cancelling":
        talk.client(cancel())
    elif place == "held":
        talk.agent(ended(1))
        talk.wait(1.0)
        talk.client(prompt(3, "three"))
        talk.agent(ended(3, usage=False))
    else:
        talk.agent(ended(1))
        talk.wait(1.0)
        talk.agent(chunk("by itself"))
    forget(talk)

    assert place == talk.bridge.sessions["s1"].phase.value

    talk.client(prompt(2, "two"))

    assert [] == talk.got()


# -- the policy -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("policy", "wish", "seen", "got"),
    [
        ("auto", None, [], [STEERING]),
        ("steer", None, [], [STEERING]),
        ("queue", None, [], []),
        ("reject", None, [(2, "busy")], []),
        ("queue", "steer", [], [STEERING]),
        ("reject", "auto", [], [STEERING]),
        ("auto", "queue", [], []),
        ("auto", "reject", [(2, "busy")], []),
        ("auto", "maybe", [], [STEERING]),
        ("queue", 5, [], []),
    ],
)
def test_the_policy_holds_unless_the_prompt_has_a_wish(
    policy: str, wish: Any, seen: list[Any], got: list[Any]
) -> None:
    """R2: `--midturn`, and `_meta.acpbridge.midturn` for one prompt; other words are no wish."""
    talk = working(midturn=policy)
    frame = prompt(2, "two")
    if wish is not None:
        frame["params"]["_meta"] = {"acpbridge": {"midturn": wish}}
    talk.client(frame)

    assert seen == kinds(talk.seen())
    assert got == kinds(talk.got())
    assert int(wish in ("maybe", 5)) == talk.count("unknown_midturn")


def test_a_prompt_is_refused_as_busy_while_a_steer_is_unanswered() -> None:
    """R2 and the flag Steering: the owner's answer alone does not make the session Idle."""
    talk = asked()
    talk.agent(ended(1))
    talk.client(prompt(3, "three", _meta={"acpbridge": {"midturn": "reject"}}))

    assert (3, "busy") in kinds(talk.seen())
