"""An agent process that keeps books: what it got, what it ran, and what it proved not to have run.

It does one thing at a time and in order, and what it says is chosen by the seed. Its conversations
outlive it where the schedule says so.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from acpbridge.core.events import AgentSent
from acpbridge.wire.frame import Frame, peek
from tests.core.script import (
    CAPABILITIES,
    INFOS,
    QUEUED,
    Json,
    answer,
    chunk,
    dumps,
    echo,
    ended,
    error,
    new_result,
    wedge,
)

if TYPE_CHECKING:
    from tests.crash.world import World


def text_of(params: Json) -> str:
    """The text of a prompt or steer."""
    return str(params["prompt"][0]["text"])


class Agent:
    """One process."""

    def __init__(self, world: World, run: int) -> None:
        self.world = world
        self.run = run
        self.chance = world.chance
        self.name = world.draw.agent
        self.inbox: deque[Json] = deque()
        self.open: deque[tuple[object, str]] = deque()
        """(id, text) of prompts that it has, the one that runs first."""
        self.kept: deque[str] = deque()
        """Texts under a *queued* receipt."""
        self.steered: list[tuple[object, str]] = []
        """Steers that it has not answered."""
        self.kind = False
        self.worked = False

    def has_something(self) -> bool:
        """Whether it has anything to do."""
        return bool(self.inbox or self.open or self.kept or self.steered)

    def move(self) -> None:
        """Do one thing."""
        if self.inbox and (self.kind or not self.open or self.chance.random() < 0.6):
            self._take(self.inbox.popleft())
        elif self.steered:
            self._answer_steer(*self.steered.pop(0))
        elif self.open:
            self._work()
        elif self.kept:
            text = self.kept.popleft()
            self.say(echo(text), chunk("late"), dumps_usage())
        elif self.inbox:
            self._take(self.inbox.popleft())

    def say(self, *frames: Json) -> None:
        """Write frames."""
        for frame in frames:
            seen = peek(dumps(frame), strict=False)
            assert isinstance(seen, Frame)
            self.world.life.feed(AgentSent(self.run, seen))

    def _take(self, line: Json) -> None:
        method, id_ = line.get("method"), line.get("id")
        params = line.get("params") or {}
        match method:
            case "initialize":
                result: Json = {"protocolVersion": 1, "agentInfo": INFOS[self.name]}
                result["agentCapabilities"] = CAPABILITIES
                if self.name == "claude":
                    result["_meta"] = {"steering": {"supported": True}}
                self.say(answer(id_, result))
            case "session/new":
                self.world.conversation = []
                self.say(answer(id_, new_result("s1")))
            case "session/load" | "session/resume":
                self._load(id_, params)
            case "session/prompt":
                self.open.append((id_, text_of(params)))
                self.worked = self.worked and len(self.open) > 1
            case "_session/steering":
                self.steered.append((id_, text_of(params)))
            case "session/cancel":
                self._cancelled()
            case _:
                assert id_ is None, line

    def _load(self, id_: object, params: Json) -> None:
        if not self.world.draw.knows or self.world.conversation is None:
            self.say(error(id_, -32002, "no such session"))
            return
        for text in self.world.conversation:
            self.say(echo(text), chunk("old"))
        self.say(answer(id_, new_result(params["sessionId"])))

    def _cancelled(self) -> None:
        if self.open:
            id_, text = self.open.popleft()
            self._ran(text)
            self.worked = False
            self.say(ended(id_, "cancelled"))

    def _work(self) -> None:
        id_, text = self.open[0]
        luck = 1.0 if self.kind else self.chance.random()
        if luck < 0.1 and not self.worked and self.name == "hermes":
            # Its error for a busy session, or for one that a cancel has wedged: nothing ran.
            self.open.popleft()
            self.world.proven(text)
            busy = error(id_, -32000, "busy", {"reason": "session_busy"})
            self.say(busy if self.chance.random() < 0.5 else wedge(id_))
        elif luck < 0.2 and not self.worked and self.name == "hermes":
            self.open.popleft()
            self.kept.append(text)
            self._ran(text)
            self.say(chunk(QUEUED), ended(id_, usage=False))
        elif luck < 0.6:
            self.worked = True
            self.say(chunk("word"))
        else:
            self.open.popleft()
            self._ran(text)
            self.worked = False
            self.say(chunk("last"), ended(id_))

    def _ran(self, text: str) -> None:
        if self.world.conversation is not None:
            self.world.conversation.append(text)

    def _answer_steer(self, id_: object, text: str) -> None:
        luck = self.chance.random()
        if luck < 0.4:
            self._ran(text)
            self.say(answer(id_, {"outcome": "injected"}))
        elif luck < 0.75:
            self.world.proven(text)
            self.say(answer(id_, {"outcome": "promptRequired"}))
        elif luck < 0.85:
            self.world.proven(text)
            self.say(error(id_, -32602))
        else:
            self.say(error(id_, -32000, "what now"))


def dumps_usage() -> Json:
    """Hermes' end of a turn that no request owns."""
    update = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
    params = {"sessionId": "s1", "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}
