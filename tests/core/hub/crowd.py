"""A playbook for the hub: many clients on paper, one agent, a clock that only tests move."""

from __future__ import annotations

import json
from typing import Any, cast

from acpbridge.core import hub as hubs
from acpbridge.core.effects import Effect, StreamToClient, ToClient, ToClients
from acpbridge.core.events import (
    ClientGarbled,
    ClientJoined,
    ClientLeft,
    ClientSent,
    Event,
    HubEvent,
)
from acpbridge.core.hub.state import Hub
from acpbridge.wire.frame import Frame, peek
from acpbridge.wire.lines import Oversize
from tests.core.script import (
    CAPABILITIES,
    INFOS,
    Json,
    Talk,
    answer,
    dumps,
    new_result,
    prompt,
    request,
)

EVENTS = {"acpbridge": {"events": True}}
OBSERVES = {"acpbridge": {"events": True, "observe": True}}


class Crowd(Talk):
    """A daemon's hub, its clients, its agent and its clock."""

    nonce = "0123abcd"
    hub: Hub

    def begin(self) -> list[Effect]:
        """The hub begins."""
        self.hub = hubs.open_hub(self.bridge, is_shared=True)
        self.lines: dict[int, list[bytes]] = {}
        return hubs.begin(self.hub, self.now)

    def step(self, event: Event) -> list[Effect]:
        """Step the hub; nothing of it may be for one client that has no number."""
        effects = hubs.step(self.hub, self.now, cast("HubEvent", event))
        assert not any(isinstance(one, ToClient | StreamToClient) for one in effects)
        for effect in effects:
            if isinstance(effect, ToClients):
                for number in effect.clients:
                    assert number in self.hub.clients, f"{number} is told after it has left"
                    self.lines.setdefault(number, []).extend(effect.lines)
                    self.dialogue += [
                        f"{self.now:9.3f} {number}< {line.decode(errors='replace')}"
                        for line in effect.lines
                    ]
        return [one for one in effects if not isinstance(one, ToClients)]

    # -- clients ----------------------------------------------------------------------------
    def join(self, *numbers: int) -> None:
        """Clients connect and say nothing yet."""
        for number in numbers:
            self.feed(cast("Event", ClientJoined(number)))

    def go(self, *numbers: int, reason: str = "it closed the connection") -> None:
        """Clients leave."""
        for number in numbers:
            self.feed(cast("Event", ClientLeft(number, reason)))

    def say(self, number: int, *frames: Json | bytes | Oversize) -> None:
        """One client writes frames."""
        for frame in frames:
            if isinstance(frame, Oversize):
                self.feed(ClientGarbled(frame, number))
                continue
            line = dumps(frame)
            self.dialogue.append(f"{self.now:9.3f} {number}> {line.decode(errors='replace')}")
            seen = peek(line, strict=True)
            if isinstance(seen, Frame):
                self.feed(ClientSent(seen, number))
            else:
                self.feed(ClientGarbled(seen, number))

    def hears(self, number: int) -> list[Json]:
        """What one client got since the last call, parsed."""
        return [json.loads(line) for line in self.raw(number)]

    def raw(self, number: int) -> list[bytes]:
        """What one client got since the last call."""
        return self.lines.pop(number, [])

    # -- openings that most tests share -----------------------------------------------------
    def greet(self, number: int, meta: Json | None = None, **capabilities: Any) -> Json:
        """A client joins and initializes; the agent answers where it is asked. Its answer."""
        self.join(number)
        if meta is not None:
            capabilities["_meta"] = meta
        params = {"protocolVersion": 1, "clientCapabilities": capabilities}
        self.say(number, request(f"i{number}", "initialize", params))
        for frame in self.got():
            if frame.get("method") == "initialize":
                result = {
                    "protocolVersion": 1,
                    "agentInfo": INFOS[self.agent_name],
                    "agentCapabilities": CAPABILITIES,
                }
                self.agent(answer(frame["id"], result))
        (heard,) = self.hears(number)
        assert heard["id"] == f"i{number}"
        return heard

    def start(self, number: int, session: str = "s1") -> None:
        """A client opens a session; what anybody saw of that is forgotten."""
        self.say(number, request(f"n{number}", "session/new", {"cwd": "/w", "mcpServers": []}))
        self.agent(answer(self.took("session/new")["id"], new_result(session)))
        self.wait(1.0)
        self.hears(number)

    def took(self, method: str) -> Json:
        """The one request of this method that the agent got since the last look."""
        (found,) = (frame for frame in self.got() if frame.get("method") == method)
        return found

    def prompted(self, number: int, id_: Any, text: str = "hello", **rest: Any) -> Any:
        """A client prompts and the agent gets it; the id that the agent has to answer."""
        self.say(number, prompt(id_, text, **rest))
        return self.took("session/prompt")["id"]


def load(id_: Any, session: str = "s1") -> Json:
    return request(id_, "session/load", {"sessionId": session, "cwd": "/w", "mcpServers": []})


def resume(id_: Any, session: str = "s1") -> Json:
    return request(id_, "session/resume", {"sessionId": session, "cwd": "/w", "mcpServers": []})


def since(id_: Any, cursor: Json | None = None, session: str = "s1") -> Json:
    params: Json = {"sessionId": session} | ({"cursor": cursor} if cursor else {})
    return request(id_, "_acpbridge/events_since", params)


def place(frame: Json) -> Json:
    """What the frame says of its place in the log."""
    found: Json = frame["params"]["_meta"]["acpbridge"]
    return found


def words(frames: list[Json]) -> str:
    """The agent's words in some frames, joined."""
    updates = [
        frame["params"]["update"] for frame in frames if frame.get("method") == "session/update"
    ]
    said = [
        one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"
    ]
    return "".join(said)


def methods(frames: list[Json]) -> list[str]:
    """What some frames are: a method, an update's variant, or an id that is answered."""
    found = []
    for frame in frames:
        if frame.get("method") == "session/update":
            found.append(frame["params"]["update"]["sessionUpdate"])
        else:
            found.append(frame.get("method") or f"={frame['id']}")
    return found
