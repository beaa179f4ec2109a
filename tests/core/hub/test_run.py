"""The hub of `run`: asleep until its one client asks for events, and then only they are new."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.core import hub as hubs
from acpbridge.core.effects import Effect
from acpbridge.core.events import Event
from acpbridge.core.hub.state import Hub
from tests.core.hub.crowd import EVENTS, OBSERVES, load, methods, place, since, words
from tests.core.script import (
    CAPABILITIES,
    INFOS,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    notify,
    permission,
    prompt,
    request,
    tool,
)


class Solo(Talk):
    """A hub with the one client of `run`."""

    nonce = "0123abcd"
    hub: Hub

    def begin(self) -> list[Effect]:
        self.hub = hubs.open_hub(self.bridge, is_shared=False)
        return hubs.begin(self.hub, self.now)

    def step(self, event: Event) -> list[Effect]:
        return hubs.step(self.hub, self.now, event)

    def hello(self, meta: Json | None) -> Json:
        """The client initializes with this in its capabilities' `_meta`; what it is told."""
        capabilities = {"_meta": meta} if meta else {}
        params = {"protocolVersion": 1, "clientCapabilities": capabilities}
        self.client(request("i", "initialize", params))
        (asked,) = self.got()
        assert asked["id"] == "i"
        result = {
            "protocolVersion": 1,
            "agentInfo": INFOS[self.agent_name],
            "agentCapabilities": CAPABILITIES,
        }
        self.agent(answer("i", result))
        (heard,) = self.seen()
        return heard

    def settle(self) -> None:
        """Open a session; what was said of that is forgotten."""
        self.new()
        self.wait(1.0)
        self.seen()
        self.got()


class Awake(Solo):
    """With a client that has asked for events, and a session."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(**policy)
        self.hello(EVENTS)
        self.settle()


CONVERSATION: tuple[tuple[str, Json | bytes], ...] = (
    ("client", request("i", "initialize", {"protocolVersion": 1, "clientCapabilities": {}})),
    ("agent", answer("i", {"protocolVersion": 1})),
    ("client", request(1, "session/new", {"cwd": "/w", "mcpServers": []})),
    ("agent", answer(1, {"sessionId": "s1"})),
    ("client", prompt(2, "hello")),
    ("client", prompt(2, "again")),
    ("agent", chunk("a")),
    ("agent", chunk("b")),
    ("agent", permission(9)),
    ("client", answer(9, {"outcome": {"outcome": "cancelled"}})),
    ("client", since(3)),
    ("client", b"nonsense"),
    ("client", cancel()),
    ("agent", ended(2, "cancelled")),
)


def test_asleep_it_changes_no_effect_of_the_bridge() -> None:
    class Bare(Talk):
        nonce = Solo.nonce

    with_hub, without = Solo(), Bare()
    for side, frame in CONVERSATION:
        for talk in (with_hub, without):
            getattr(talk, side)(frame)
    with_hub.wait(5.0)
    without.wait(5.0)
    assert with_hub.dialogue == without.dialogue
    assert with_hub.persists == without.persists
    assert with_hub.hub.conversations == {}
    assert with_hub.hub.log.stats().events == 0


@pytest.mark.parametrize("meta", [None, {}, {"acpbridge": {}}, {"acpbridge": {"events": 1}}])
def test_nobody_is_woken_by_less_than_the_wish(meta: Json | None) -> None:
    talk = Solo()
    assert "_meta" not in talk.hello(meta)["result"]
    assert talk.hub.is_asleep


def test_the_wish_is_answered_with_the_epoch() -> None:
    talk = Solo()
    assert talk.hello(EVENTS)["result"]["_meta"] == {"acpbridge": {"epoch": Solo.nonce}}
    talk = Solo()
    talk.hello(OBSERVES)
    assert not talk.hub.clients[0].observes, "of run nobody watches another"


def test_frames_carry_their_place_and_ids_are_the_client_s_own() -> None:
    talk = Awake()
    talk.client(prompt(7))
    assert [frame["id"] for frame in talk.got()] == [7]
    assert talk.seen() == [], "its own message"
    talk.agent(chunk("a"), chunk("b"))
    talk.agent(*[chunk(letter) for letter in "cde"])
    talk.agent(tool(), permission(9), ended(7))
    heard = talk.seen()
    assert methods(heard) == [
        *["agent_message_chunk"] * 5, "tool_call", "session/request_permission", "=7",
    ]  # fmt: skip
    assert [place(frame)["seq"] for frame in heard[:-1]] == [2, 3, 4, 5, 6, 7, 7]
    talk.client(answer(9, {"outcome": {"outcome": "cancelled"}}))
    assert [frame["id"] for frame in talk.got()] == [9]


def test_the_log_tells_what_was_missed() -> None:
    talk = Awake()
    talk.client(prompt(7))
    talk.agent(*[chunk(letter) for letter in "abcdef"], ended(7))
    talk.seen()
    talk.client(since("e", {"epoch": Solo.nonce, "seq": 4}))
    (heard,) = talk.seen()
    assert words(heard["result"]["frames"]) == "def"
    assert heard["result"]["latestSeq"] == 8
    for method in ("_acpbridge/stats", "_acpbridge/prompts"):
        talk.client(request("s", method, {}))
        assert "result" in talk.seen()[0]


def test_a_load_goes_to_the_agent_and_what_it_replays_is_history() -> None:
    talk = Awake()
    talk.client(load("l", "s2"))
    talk.agent(echo("old", "s2"), chunk("words", "s2"), answer("l", {}))
    heard = talk.seen()
    assert methods(heard) == ["user_message_chunk", "agent_message_chunk", "=l"]
    assert place(heard[0]) == place(heard[1]) == {"history": True}
    assert talk.got()[0]["id"] == "l"


def test_what_else_is_said_passes_as_it_is() -> None:
    talk = Awake()
    talk.agent(notify("_agent/news", {}))
    talk.agent(request(8, "_vendor/who", {}))
    assert methods(talk.seen()) == ["_agent/news", "_vendor/who"]
    talk.client(answer(8, {}), answer(99, {}))
    assert [frame["id"] for frame in talk.got()] == [8]
    talk.client(b"nonsense")
    assert talk.seen()[0]["error"]["code"] == -32700
    talk.agent(notify("$/cancel_request", {"requestId": 5}))


def test_what_the_agent_says_before_its_initialize_is_answered_passes_too() -> None:
    talk = Solo()
    params = {"protocolVersion": 1, "clientCapabilities": {"_meta": EVENTS}}
    talk.client(request("i", "initialize", params))
    talk.agent(notify("_agent/news", {}), request(8, "_vendor/who", {}))
    assert methods(talk.seen()) == ["_agent/news", "_vendor/who"]


def test_a_cancel_request_names_the_agent_s_own_id() -> None:
    talk = Awake()
    talk.client(request(5, "session/list", {}), notify("$/cancel_request", {"requestId": 5}))
    assert talk.got()[-1]["params"] == {"requestId": 5}


def test_two_under_one_id_are_answered_in_their_order() -> None:
    talk = Awake()
    talk.client(prompt(5), request(5, "session/list", {}))
    first, second = (frame["id"] for frame in talk.got())
    talk.agent(answer(second, {"sessions": []}))
    assert talk.seen() == []
    talk.agent(chunk(), ended(first))
    assert methods(talk.seen()) == ["agent_message_chunk", "=5", "=5"]


def test_a_close_goes_to_the_agent() -> None:
    talk = Awake()
    talk.client(request("c", "session/close", {"sessionId": "s1"}))
    talk.agent(answer("c", {}))
    assert methods(talk.seen()) == ["=c"]
    assert talk.got()[0]["method"] == "session/close"


def test_who_asks_for_events_no_more_sleeps_again() -> None:
    talk = Awake()
    params: Json = {"protocolVersion": 1, "clientCapabilities": {}}
    talk.client(request("j", "initialize", params))
    assert talk.hub.is_asleep
    talk.agent(answer("j", {"protocolVersion": 1}))
    talk.client(prompt(7))
    talk.agent(chunk("a"), ended(7))
    assert "_meta" not in json.dumps(talk.seen())


def test_its_end_is_the_bridge_s_end() -> None:
    talk = Awake()
    talk.client(prompt(7))
    talk.agent(chunk())
    talk.leave()
    talk.die("exit status 0")
    assert talk.exit_code == 0
