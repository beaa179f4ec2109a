"""Whoever is there all the time, and whoever comes back by its cursor, has the whole conversation.

A state machine of the playbook: turns, questions, cancels, and clients that come, leave and return
at any moment. The simulator (`tests/sim/crowd.py`) plays the same with real agents' faults.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.core.hub.crowd import EVENTS, Crowd, place, since
from tests.core.script import Json, answer, cancel, chunk, ended, permission, prompt, tool

ALLOW = {"outcome": {"outcome": "selected", "optionId": "a"}}
CLIENTS_MAX = 4
DELTAS = ("agent_message_chunk", "agent_thought_chunk")
STAYS = 1
"""The client that is there all the time."""


@define
class Kept:
    """What one person has been shown, over all connections."""

    items: list[tuple[str, str, str]] = field(factory=list)
    """(trace id, kind, words): a text goes on with the text before it, if nothing came between."""
    seq: int = 0
    own: set[str] = field(factory=set)
    """The words of its own messages."""
    is_new: bool = True
    """It has no cursor yet."""

    def take(self, frame: Json) -> None:
        """One frame, live or replayed, which must come behind all that came before."""
        at = place(frame)
        is_event = "id" not in frame
        assert at["seq"] > self.seq or not is_event, (self.seq, frame)
        self.seq = at["seq"]
        if frame["method"] != "session/update":
            # A card says where the log stands; the end of a turn is an event, and no words.
            return
        update = frame["params"]["update"]
        kind, trace = update["sessionUpdate"], at.get("traceId", "")
        words = update["content"]["text"] if "content" in update else update["toolCallId"]
        if kind == "user_message_chunk" and words in self.own:
            return
        last = self.items[-1] if self.items else ("", "", "")
        if kind in DELTAS and last[:2] == (trace, kind):
            self.items[-1] = (trace, kind, last[2] + words)
        else:
            self.items.append((trace, kind, words))


class Lives(RuleBasedStateMachine):
    """One session, an agent that answers in order, and people with one connection each."""

    def __init__(self) -> None:
        super().__init__()
        self.crowd = Crowd()
        self.number = 0
        self.there: dict[int, Kept] = {}
        self.away: list[Kept] = []
        self.count = 0
        self.running: list[Any] = []
        """Ids of the prompts that the agent has, in the order in which it got them."""
        self.cards: list[Any] = []

    @initialize()
    def begin(self) -> None:
        self._comes(Kept())
        self.crowd.start(STAYS)
        self.crowd.say(STAYS, since("e"))
        self.there[STAYS].is_new = False
        self._look()

    def _comes(self, kept: Kept) -> int:
        self.number += 1
        self.crowd.greet(self.number, EVENTS)
        self.there[self.number] = kept
        return self.number

    def _look(self) -> None:
        """Let the agent and everybody read what was written."""
        for frame in self.crowd.got():
            if frame.get("method") == "session/prompt":
                self.running.append(frame["id"])
        for number, kept in self.there.items():
            for frame in self.crowd.hears(number):
                if "frames" in (frame.get("result") or {}):
                    for one in frame["result"]["frames"]:
                        kept.take(one)
                    assert frame["result"]["latestSeq"] >= kept.seq
                    kept.seq = frame["result"]["latestSeq"]
                elif "acpbridge" in (frame.get("params", {}).get("_meta") or {}):
                    kept.take(frame)
        assert self.crowd.lines == {}

    def _words(self) -> str:
        self.count += 1
        return f"w{self.count} "

    # -- people -----------------------------------------------------------------------------
    @precondition(lambda self: len(self.there) < CLIENTS_MAX)
    @rule(returns=st.booleans())
    def comes(self, returns: bool) -> None:
        kept = self.away.pop() if returns and self.away else Kept()
        number = self._comes(kept)
        cursor = None if kept.is_new else {"epoch": Crowd.nonce, "seq": kept.seq}
        kept.is_new = False
        self.crowd.say(number, since("e", cursor))
        self._look()

    @precondition(lambda self: len(self.there) > 1)
    @rule(which=st.integers(0, CLIENTS_MAX))
    def leaves(self, which: int) -> None:
        others = [number for number in self.there if number != STAYS]
        number = others[which % len(others)]
        self.away.append(self.there.pop(number))
        self.crowd.go(number)
        self._look()

    @rule(which=st.integers(0, CLIENTS_MAX))
    def prompts(self, which: int) -> None:
        number = list(self.there)[which % len(self.there)]
        words = self._words()
        self.there[number].own.add(words)
        self.crowd.say(number, prompt(self.count, words))
        self._look()

    @rule(which=st.integers(0, CLIENTS_MAX))
    def cancels(self, which: int) -> None:
        self.crowd.say(list(self.there)[which % len(self.there)], cancel())
        self._look()

    @precondition(lambda self: self.cards)
    @rule(which=st.integers(0, CLIENTS_MAX))
    def answers(self, which: int) -> None:
        number = list(self.there)[which % len(self.there)]
        self.crowd.say(number, answer(self.cards.pop(), ALLOW))
        self._look()

    # -- the agent --------------------------------------------------------------------------
    @precondition(lambda self: self.running)
    @rule(count=st.integers(1, 5))
    def talks(self, count: int) -> None:
        self.crowd.agent(*[chunk(self._words()) for _ in range(count)])
        self._look()

    @precondition(lambda self: self.running)
    @rule()
    def works(self) -> None:
        self.crowd.agent(tool(self._words()))
        self._look()

    @precondition(lambda self: self.running)
    @rule()
    def asks(self) -> None:
        self.count += 1
        self.cards.append(self.count)
        self.crowd.agent(permission(self.count))
        self._look()

    @precondition(lambda self: self.running)
    @rule(stop=st.sampled_from(["end_turn", "cancelled"]))
    def ends(self, stop: str) -> None:
        self.crowd.agent(ended(self.running.pop(0), stop))
        self.crowd.wait(1.0)
        self._look()

    @rule(seconds=st.sampled_from([0.1, 3.0, 200.0]))
    def waits(self, seconds: float) -> None:
        self.crowd.wait(seconds)
        self._look()

    # -- what holds -------------------------------------------------------------------------
    @invariant()
    def each_has_the_whole_conversation(self) -> None:
        if not self.there:
            return
        for number, kept in self.there.items():
            self.crowd.say(number, since("all"))
            (heard,) = [one for one in self.crowd.hears(number) if one.get("id") == "all"]
            whole = Kept(own=kept.own)
            for frame in heard["result"]["frames"]:
                whole.take(frame)
            assert whole.items == kept.items, number


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=settings().max_examples * 2 // 5, stateful_step_count=30, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
