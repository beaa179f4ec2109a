"""The world's moves, for searches: anything that a client, an agent and a clock can do."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from tests.core.reach import forget, idle, obey
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
    permission,
    prompt,
    tool,
    tool_update,
    update,
    usage,
    wedge,
)

MOVES: list[Json | float | str] = [
    chunk("plain"),
    chunk("plain"),
    chunk("other plain"),
    chunk("not \n plain"),
    chunk(""),
    update("agent_thought_chunk", content={"type": "text", "text": "thought"}),
    chunk(QUEUED),
    chunk(REDIRECTED),
    chunk("⏩ Steer queued for the active turn: x"),
    chunk("x", "s2"),
    tool(),
    tool_update(),
    usage(),
    echo("p1"),
    echo("p2"),
    permission(7),
    "message",
    "prompt",
    "prompt",
    "ended",
    "ended",
    "bare",
    "wedge",
    "cancel",
    "die",
    "allow",
    0.001,
    0.1,
    0.26,
    1.0,
    61.0,
]


@define
class World:
    """A dialogue under way, and the prompts that its agent owes an answer."""

    talk: Talk
    asked: int = 0
    owes: list[Any] = field(factory=list)
    """Ids of prompts that the agent has and has not answered, oldest first."""
    stopped: int = 0

    def make(self, moves: list[Json | float | str]) -> None:
        """The moves, each as far as it can be made where the dialogue stands."""
        for move in moves:
            self._make(move)
            self.obey()

    def _make(self, move: Json | float | str) -> None:
        talk = self.talk
        if isinstance(move, float):
            self.wait(move)
        elif isinstance(move, dict):
            talk.agent(move)
        elif move == "prompt":
            self.asked += 1
            talk.client(prompt(f"p{self.asked}", f"p{self.asked}"))
        elif move == "message":
            talk.agent(chunk("of a message", messageId=f"m{self.asked}"))
        elif move == "cancel":
            talk.client(cancel())
        elif move == "allow":
            talk.client(answer(7, {"outcome": {"outcome": "cancelled"}}))
        elif move == "die":
            talk.die()
            self.owes.clear()
        elif self.owes:
            self.answers(move)

    def wait(self, seconds: float) -> None:
        """Let time pass; what is asked meanwhile is done at once."""
        until = self.talk.now + seconds
        while self.talk.timers and (due := min(self.talk.timers.values())) <= until:
            self.talk.wait(max(0.0, due - self.talk.now))
            self.obey()
        self.talk.wait(max(0.0, until - self.talk.now))

    def answers(self, how: str) -> None:
        """The agent answers what it has owed longest."""
        id_ = self.owes.pop(0)
        frames = {"ended": ended(id_), "bare": ended(id_, usage=False), "wedge": wedge(id_)}
        self.talk.agent(frames[how])

    def obey(self) -> None:
        """The agent does at once what is asked of it besides prompts; a stopped process ends."""
        while len(self.talk.stops) > self.stopped:
            self.stopped += 1
            self.talk.die("stopped")
            self.owes.clear()
        got = [one["id"] for one in obey(self.talk) if one.get("method") == "session/prompt"]
        self.owes += got


def world(talk: Talk) -> World:
    """Two idle sessions."""
    idle(talk)
    talk.new("s2")
    forget(talk)
    return World(talk)
