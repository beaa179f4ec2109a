"""Every order in which a client, an agent and a clock can handle steers: a search, not a list.

The agent of these lives is honest about each steer, or says nothing; what it says is the truth of
the book that is held against the bridge's answers (I1, I3, I5, R14).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.core.phases import Phase
from tests.core.script import Json, Talk, cancel, chunk, ended, error, notify, prompt, usage
from tests.core.steer_talk import STEERING, said

ANSWERS = ("injected", "promptRequired", "startedNewTurn", "failed", -32601, -32002, -32603)
MOVES = (
    "prompt",
    "prompt",
    "prompt",
    "command",
    "ended",
    "ended",
    "chunk",
    "cancel",
    "take back",
    "late disk",
    "marker",
    "die",
)
WAITS_S = (0.004, 0.1, 0.3, 1.0, 9.0, 61.0)


@define
class Life:
    """One session, and what both sides have of it."""

    talk: Talk
    asked: list[str] = field(factory=list)
    owed: list[Json] = field(factory=list)
    """Prompts at the agent without an answer, oldest first."""
    steers: list[Json] = field(factory=list)
    written: list[tuple[str, str]] = field(factory=list)
    """(method, text) in the order of writing."""
    refused: set[str] = field(factory=set)
    answers: Counter[str] = field(factory=Counter)
    stopped: int = 0

    def look(self) -> None:
        while len(self.talk.stops) > self.stopped:
            self.stopped += 1
            self.move("die")
        for line in self.talk.got():
            method = line.get("method")
            if method in ("session/prompt", STEERING):
                self.written.append((method, line["params"]["prompt"][0]["text"]))
                (self.owed if method == "session/prompt" else self.steers).append(line)
            elif method in ("initialize", "session/load", "session/new"):
                self._opens(line)
        for line in self.talk.seen():
            if "method" not in line:
                self.answers[str(line["id"])] += 1

    def _opens(self, line: Json) -> None:
        result: Json = {"agentCapabilities": {"loadSession": True}, "sessionId": "s1"}
        result |= {"_meta": {"steering": {"supported": True}}, "protocolVersion": 1}
        self.talk.agent(chunk("old"), {"jsonrpc": "2.0", "id": line["id"], "result": result})
        self.look()

    def move(self, what: Any) -> None:
        talk = self.talk
        if isinstance(what, float):
            talk.wait(what)
        elif what in ("prompt", "command"):
            id_ = f"p{len(self.asked)}"
            self.asked.append(id_)
            talk.client(prompt(id_, f"/{id_}" if what == "command" else id_))
        elif what == "ended" and self.owed:
            talk.agent(ended(self.owed.pop(0)["id"]))
        elif what == "chunk":
            talk.agent(chunk("words"))
        elif what == "marker":
            talk.agent(usage(cost={"amount": 1}))
        elif what == "cancel":
            talk.client(cancel())
        elif what == "take back" and self.asked:
            talk.client(notify("$/cancel_request", {"requestId": self.asked[-1]}))
        elif what == "late disk":
            talk.disk = not talk.disk
            if talk.disk:
                talk.persisted()
        elif what == "die":
            self.owed.clear()
            self.steers.clear()
            talk.die()
        elif what in ANSWERS and self.steers:
            self._answer_steer(what)
        self.look()

    def _answer_steer(self, what: Any) -> None:
        line = self.steers.pop(0)
        text = line["params"]["prompt"][0]["text"]
        if what in ("promptRequired", -32601, -32002):
            self.refused.add(text)
        frame = error(line["id"], what) if isinstance(what, int) else said(line["id"], what)
        self.talk.agent(frame)

    def rest(self) -> None:
        """From here on everybody does their duty."""
        self.talk.disk = True
        self.talk.persisted()
        self.look()
        for _ in range(40 + 8 * len(self.asked)):
            self.move("promptRequired" if self.steers else "ended" if self.owed else 61.0)


@given(
    st.sampled_from(["generic", "claude", "codex"]),
    st.sampled_from(["generic", "codeg"]),
    st.lists(st.sampled_from([*MOVES, *ANSWERS, *WAITS_S]), max_size=30),
)
def test_no_order_of_steers_loses_a_prompt_or_runs_one_twice(
    agent: str, client: str, moves: list[Any]
) -> None:
    """I1: one answer each. I3: a text goes again only where the agent has refused it."""
    talk = Talk(agent, client, breaker_deaths=100)
    talk.open(steering=True)
    life = Life(talk)
    for what in moves:
        life.move(what)
    life.rest()

    assert dict.fromkeys(life.asked, 1) == dict(life.answers), talk.show()
    for text, count in Counter(text for _, text in life.written).items():
        assert count <= 1 + (text in life.refused), (text, talk.show())
    prompts = [text for method, text in life.written if method == "session/prompt"]
    assert len(set(prompts)) == len(prompts), talk.show()
    assert all(not text.startswith("/") for method, text in life.written if method == STEERING)
    firsts = list(dict.fromkeys(text.lstrip("/") for _, text in life.written))
    assert [id_ for id_ in life.asked if id_ in firsts] == firsts, talk.show()
    assert talk.bridge.sessions["s1"].phase in (Phase.IDLE, Phase.LOST), talk.show()
    assert 0 == talk.count("unexpected_event")
