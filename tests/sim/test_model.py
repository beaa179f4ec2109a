"""Hypothesis looks for the shortest history that breaks a promise.

The world of `world.py` finds rare things; this one finds small ones: a dozen rules, each one move
of the client, the agent, the disk or the clock, and the invariants after every one of them.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acpbridge.core.phases import Phase, Stage
from acpbridge.wire.frame import Frame
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
    new_result,
    notify,
    prompt,
    tool,
    tool_update,
    update,
    usage,
    wedge,
)

SID = "s1"
OWN = "acpbridge-"
WAITS_S = (0.01, 0.11, 0.26, 0.6, 1.1, 5.1, 31.0, 61.0, 301.0)
MARKERS: dict[str, Json] = {
    "hermes": usage(),
    "claude": usage(cost={"amount": 1}),
    "codex": update("session_info_update", _meta={"codex": {"threadStatus": {"type": "idle"}}}),
    "generic": usage(),
}
BUSY = {"reason": "session_busy"}
WORK = (chunk("word"), tool(), tool_update(), chunk(""), usage())


class Bridged(RuleBasedStateMachine):
    """One session of one bridge, and books of what each side has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.talk: Talk
        self.agent = "generic"
        self.agent_sid = SID
        self.prompts = 0
        self.open: dict[Any, str] = {}
        """Prompts that the client waits for: id to text."""
        self.order: dict[str, int] = {}
        self.at_agent: list[tuple[Any, str]] = []
        """Prompts that the agent has to answer: (wire id, text), in the order of the writing."""
        self.kept: list[str] = []
        """Texts under a receipt."""
        self.bound: set[str] = set()
        """Texts whose last answer was a receipt: it never goes out as an answer."""
        self.written: dict[str, int] = {}
        self.unrun: set[str] = set()
        """Texts whose last write was refused, so that nothing of it ran."""
        self.owed: list[Json] = []
        """The bridge's own requests that the agent has not answered."""
        self.durable: set[int] = set()

    @initialize(
        agent=st.sampled_from(("hermes", "hermes", "claude", "codex", "generic")),
        client=st.sampled_from(("generic", "codeg")),
        restart=st.sampled_from((True, True, True, False)),
        slow_disk=st.sampled_from((False, False, True)),
    )
    def begin(self, agent: str, client: str, restart: bool, slow_disk: bool) -> None:
        self.agent = agent
        self.talk = Talk(agent, client, disk=not slow_disk, restart=restart)
        self.talk.open(SID)

    # -- moves ------------------------------------------------------------------------------
    @rule()
    def client_prompts(self) -> None:
        self.prompts += 1
        text = f"p{self.prompts}"
        self.open[self.prompts] = text
        self.order[text] = self.prompts
        self.talk.client(prompt(self.prompts, text, SID))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def client_cancels(self, data: st.DataObject) -> None:
        """The session, or one request of it."""
        id_ = data.draw(st.sampled_from([0, *sorted(self.open)]))
        if id_:
            self.talk.client(notify("$/cancel_request", {"requestId": id_}))
        else:
            self.talk.client(cancel(SID))

    @precondition(lambda self: self.talk.unanswered)
    @rule(well=st.sampled_from((True, True, False)))
    def disk_answers(self, well: bool) -> None:
        if well:
            self.durable |= {one.token for one in self.talk.unanswered}
            self.talk.persisted()
        else:
            self.talk.persist_failed()

    @rule(data=st.data())
    def agent_says(self, data: st.DataObject) -> None:
        """Work, an end marker, or an echo of what it keeps or of somebody else's text."""
        texts = [*self.kept, "somebody else's"]
        echoes = [echo(text, SID) for text in texts]
        self._agent(data.draw(st.sampled_from([*WORK, MARKERS[self.agent], *echoes])))

    @precondition(lambda self: self.at_agent)
    @rule(data=st.data())
    def agent_answers(self, data: st.DataObject) -> None:
        """A real answer, a bare one, a refusal; from Hermes a receipt or its error too."""
        ways = ["end_turn", "cancelled", "max_tokens", "bare", "busy"]
        receipts = [QUEUED, REDIRECTED, "wedge"] if self.agent == "hermes" else []
        how = data.draw(st.sampled_from([*receipts, *ways]))
        wire_id, text = self.at_agent.pop(0)
        if how in (QUEUED, "busy", "wedge") or (how == "cancelled" and self.agent == "hermes"):
            self.unrun.add(text)
        if how in (QUEUED, REDIRECTED):
            self.bound.add(text)
            self.kept += [text] if how == QUEUED else []
            self._agent(chunk(how, SID), ended(wire_id, usage=False))
        elif how == "busy":
            self._agent(error(wire_id, -32000, "busy", BUSY))
        elif how == "wedge":
            self._agent(wedge(wire_id))
        else:
            stop = "end_turn" if how == "bare" else how
            self._agent(ended(wire_id, stop, usage=how != "bare"))

    @precondition(lambda self: self.owed or self.talk.stops)
    @rule(well=st.sampled_from((True, True, True, False)))
    def agent_obeys(self, well: bool) -> None:
        """It ends if it was asked to, else it answers a request of the bridge's own."""
        if self.talk.stops:
            self.talk.stops.clear()
            self._forget_agent()
            self.talk.die("stopped")
            return
        frame = self.owed.pop(0)
        if not well:
            self._agent(error(frame["id"], -32603, "no"))
            return
        results: Json = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
            "session/new": new_result(f"{SID}-{frame['id']}"),
            "session/fork": new_result(f"{SID}-{frame['id']}"),
        }
        self._agent(answer(frame["id"], results.get(frame["method"], new_result(SID))))

    @precondition(lambda self: self.at_agent and not self._is_over())
    @rule()
    def agent_dies(self) -> None:
        self._forget_agent()
        self.talk.die()

    @rule(seconds=st.sampled_from(WAITS_S))
    def time_passes(self, seconds: float) -> None:
        self.talk.wait(seconds)

    # -- what must hold ---------------------------------------------------------------------
    @invariant()
    def both_ends_saw_what_they_may_see(self) -> None:
        for frame in self.talk.got():
            self._agent_got(frame)
        for frame in self.talk.seen():
            self._client_got(frame)

    def _agent_got(self, frame: Json) -> None:
        id_ = frame.get("id")
        if frame.get("method") != "session/prompt":
            if isinstance(id_, str) and id_.startswith(OWN) and "method" in frame:
                self.owed.append(frame)
            return
        self.agent_sid = frame["params"]["sessionId"]
        text = frame["params"]["prompt"][0]["text"]
        # I3: again only where the agent's own word proves that nothing of it ran.
        assert text not in self.written or text in self.unrun
        # I5: first writes come in the order of arrival.
        assert all(self.order[one] <= self.order[text] for one in self.written)
        # I4: alone, unless the bridge has given up on the others.
        assert not [one for _, one in self.at_agent if one in self.open.values()]
        # I1: nobody has been told that it was over.
        assert text in self.open.values()
        # I8: the disk has the intent.
        token = max(one.token for one in self.talk.persists if self._is_for(one, text))
        assert self.talk.disk or token in self.durable
        self.unrun.discard(text)
        self.bound.discard(text)
        self.written[text] = self.written.get(text, 0) + 1
        self.at_agent.append((id_, text))

    def _is_for(self, persist: Any, text: str) -> bool:
        return bool(persist.token) and persist.prompt == self.order[text]

    def _client_got(self, frame: Json) -> None:
        if "method" in frame or frame.get("id") not in self.order.values():
            return
        # I1: one response for each.
        text = self.open.pop(frame["id"])
        result = frame.get("result", {})
        said = result.get("_meta", {}).get("acpbridge", {})
        waits = [*self.bound, *(one for _, one in self.at_agent)]
        if result.get("stopReason") == "end_turn" and not said:
            # I2: an untagged completion is the agent's own.
            assert text not in waits

    @invariant()
    def the_books_balance(self) -> None:
        if not hasattr(self, "talk"):
            return
        bridge = self.talk.bridge
        # The transition table met nothing that cannot be.
        assert not bridge.counters.get("unexpected_event", 0)
        sessions = bridge.sessions.values()
        prompts = [one for session in sessions for one in session.at_agent]
        assert bridge.running == sum(p.stage in (Stage.SENDING, Stage.WRITTEN) for p in prompts)
        waiting = [one for session in sessions for one in session.queue]
        texts = [one for one in waiting if not isinstance(one, Frame)]
        assert bridge.queue_bytes == sum(len(one.frame.raw) for one in texts)
        for session in sessions:
            if session.phase in (Phase.IDLE, Phase.TRAILING, Phase.OWNERLESS):
                assert not session.at_agent
            if session.phase in (Phase.RUNNING, Phase.HELD):
                assert session.at_agent
            if session.phase is Phase.RUNNING:
                assert session.owner() is not None

    def teardown(self) -> None:
        """I10: with everybody kind, every prompt is answered; what is bound, at its cancel."""
        if not hasattr(self, "talk"):
            return
        for round_ in range(40):
            self._be_kind()
            if not self.open or self._is_over():
                break
            if round_ % 10 == 9:
                self.talk.client(cancel(SID))
        self.both_ends_saw_what_they_may_see()

        assert not self.open or self._is_over(), json.dumps(self.talk.dialogue[-30:])

    # -- how ---------------------------------------------------------------------------------
    def _agent(self, *frames: Json) -> None:
        """The agent writes, under the id that it has for the session now."""
        if self._is_over():
            return
        for frame in frames:
            params = frame.get("params", {})
            named = {"params": {**params, "sessionId": self.agent_sid}} if params else {}
            self.talk.agent({**frame, **named})

    def _is_over(self) -> bool:
        return self.talk.exit_code is not None

    def _forget_agent(self) -> None:
        self.at_agent.clear()
        self.owed.clear()
        self.kept.clear()

    def _be_kind(self) -> None:
        self.both_ends_saw_what_they_may_see()
        if self._is_over():
            return
        if self.talk.unanswered:
            self.disk_answers(True)
        self.both_ends_saw_what_they_may_see()
        while (self.owed or self.talk.stops) and not self._is_over():
            self.agent_obeys(True)
            self.both_ends_saw_what_they_may_see()
        while self.at_agent and not self._is_over():
            wire_id, _ = self.at_agent.pop(0)
            self._agent(chunk("word", SID), ended(wire_id))
            self.both_ends_saw_what_they_may_see()
        self.talk.wait(310.0)
        self.both_ends_saw_what_they_may_see()


Bridged.TestCase.settings = settings(
    settings.default, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
TestBridged = Bridged.TestCase
