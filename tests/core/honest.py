"""A recorded Hermes as an honest agent: it says what it said, but only when it has been asked.

The client of the tape writes what it wrote, when it wrote it; only what answers a request or names
a session waits until it has seen that. The agent is made of the units of the tape (`units.py`):
each frame goes out with its recorded delay behind its cause, and never without it. What a tape
cannot know, because its own agent was lost by then, is made up by the rules of `made.py`.
Nothing here looks into the bridge: it sees the lines of both sides and the processes.
"""

from __future__ import annotations

import json

from attrs import define, field

from acpbridge.core.effects import Effect, StopAgent, ToAgent, ToClient
from acpbridge.core.events import AgentExited, ClientClosed
from tests.core import made
from tests.core.script import Json, Talk
from tests.core.tapes import Line, Tape, processes
from tests.core.units import Step, Unit, sorted_by_cause, text_of

KILLED = frozenset({"agent-term-mid-turn"})
"""The recorder ended these agents and started none after them."""
CLOSED = frozenset({"stdin-eof-idle", "stdin-eof-mid-turn"})
"""The recorder closed stdin here."""
QUIET_MAX_S = 120.0
"""Longer than any wait of the bridge that a tape can begin; what waits still, waits for ever."""
CANCEL_S = 0.15
"""From a cancel to its answer while text streams (measured)."""


class Watched(Talk):
    """A talk that keeps the order of the lines toward both sides."""

    def __init__(self, agent: str, client: str) -> None:
        self.log: list[tuple[str, bytes]] = []
        super().__init__(agent, client)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, ToClient):
            self.log.append(("client", effect.line))
        elif isinstance(effect, ToAgent):
            self.log.append(("agent", effect.line))
        super()._do(effect)


@define(eq=False)
class Speech:
    """One unit as it is being said."""

    unit: Unit
    began_s: float
    id: str
    """The id, in its JSON text, under which the bridge asked."""
    session: str
    """The session id under which the bridge asked."""
    steps: list[Step]
    cause_s: dict[str, float] = field(factory=dict)
    """When the things happened that some steps wait for."""
    said_s: float = 0.0

    def due_s(self) -> float | None:
        """When the next frame goes; None while its cause has not happened."""
        step = self.steps[0]
        if not step.after:
            due_s = self.began_s + step.t - self.unit.t
        elif step.after in self.cause_s:
            due_s = self.cause_s[step.after] + step.t - step.after_t
        else:
            return None
        return max(due_s, self.said_s)

    @property
    def is_turn(self) -> bool:
        """Whether it is a prompt's, and its response is still to come."""
        return self.unit.prompt is not None and any(
            "id" in s.frame and "method" not in s.frame for s in self.steps
        )


@define
class Stage:
    """The tape's client, the bridge, and the honest agent."""

    tape: Tape
    talk: Watched
    units: list[dict[str, Unit]]
    """By process of the tape."""
    process: int = 0
    speeches: list[Speech] = field(factory=list)
    read: int = 0
    """How much of the talk's log has been taken in."""
    asked_client: set[str] = field(factory=set)
    """Ids of the agent's requests that the client has seen."""
    answered_client: set[str] = field(factory=set)
    """Ids of its own requests that the client has seen answered."""
    memory: made.Memory = field(factory=made.Memory)
    stops: int = 0
    fed: set[bytes] = field(factory=set)
    exits: list[tuple[float, str]] = field(factory=list)

    # -- the agent ---------------------------------------------------------------------------
    def take_in(self) -> None:
        """Look at every line that has gone out since the last look."""
        while self.read < len(self.talk.log):
            side, raw = self.talk.log[self.read]
            self.read += 1
            frame: Json = json.loads(raw)
            if side == "client":
                known = self.asked_client if "method" in frame else self.answered_client
                if "id" in frame:
                    known.add(json.dumps(frame["id"]))
            else:
                self.asked(frame)
        while self.stops < len(self.talk.stops):
            stop: StopAgent = self.talk.stops[self.stops]
            self.stops += 1
            self.exits.append((self.talk.now, "killed by SIGKILL" if stop.now else "exit status 0"))

    def asked(self, frame: Json) -> None:
        """The bridge has written this to the agent."""
        session = frame.get("params", {}).get("sessionId", "")
        if frame.get("method") == "session/cancel":
            self.cancelled(session)
        elif "method" not in frame:
            for speech in self.speeches:
                speech.cause_s.setdefault(json.dumps(frame["id"]), self.talk.now)
        elif "id" in frame:
            self.say(self.unit_for(frame), json.dumps(frame["id"]), session)

    def unit_for(self, frame: Json) -> Unit:
        """The recorded unit of a request, or one that is made up."""
        id_ = json.dumps(frame["id"])
        for units in self.units:
            unit = units.get(id_)
            if unit is None:
                continue
            # The agent took a `_meta` key for an argument; without it, it would not have said so.
            same = frame["params"].get("_meta") == unit.request.params.get("_meta")
            whole = unit.is_recorded and unit.steps and (not unit.prompt or unit.prompt.response)
            return (
                unit
                if same and whole
                else made.turn(unit, self.tape, keep=unit.is_recorded and same)
            )
        if frame["method"] == "initialize":
            units = self.units[self.process]
            return next(one for one in units.values() if one.request.method == "initialize")
        return made.opening(frame, self.units[0], self.memory)

    def say(self, unit: Unit, id_: str, session: str) -> None:
        """Begin to say a unit. A prompt into a running turn is what the bridge must never write."""
        running = [one for one in self.speeches if one.is_turn and one.session == session]
        assert not (unit.prompt and running), f"{id_} was written into a running turn (I4)"
        if unit.prompt:
            self.memory.heard(session, text_of(unit.request))
        self.speeches.append(Speech(unit, self.talk.now, id_, session, list(unit.steps)))

    def cancelled(self, session: str) -> None:
        """The cancel has come; a turn whose tape knows none of it ends as Hermes ends one."""
        for speech in self.speeches:
            if not speech.is_turn or speech.session != session:
                continue
            speech.cause_s["cancel"] = self.talk.now
            if not any(step.after for step in speech.steps):
                t = speech.unit.t + self.talk.now - speech.began_s + CANCEL_S
                speech.steps = made.cancelled(speech.unit, t)

    def speak(self, speech: Speech) -> None:
        """Say the next frame, under the ids that the bridge has asked with."""
        step = speech.steps.pop(0)
        speech.said_s = self.talk.now
        raw = made.addressed(step.frame, speech.unit, speech.id, speech.session)
        self.fed.add(raw)
        self.memory.said(speech.session, step.frame)
        if not speech.steps:
            self.speeches.remove(speech)
        self.talk.agent(raw)

    def exit(self, reason: str) -> None:
        """The process is gone, and with it everything that it had still to say."""
        self.speeches.clear()
        self.talk.feed(AgentExited(self.talk.bridge.run, reason))

    # -- the clock ---------------------------------------------------------------------------
    def run_until(self, until_s: float) -> None:
        """Let time pass: the agent's frames, the bridge's timers, whichever is next."""
        self.take_in()
        while True:
            due = [(speech.due_s(), at) for at, speech in enumerate(self.speeches)]
            next_said = min(((t, at) for t, at in due if t is not None), default=(until_s + 1, -1))
            timer_s = min(self.talk.timers.values(), default=until_s + 1)
            exit_s = min((t for t, _ in self.exits), default=until_s + 1)
            if exit_s <= min(next_said[0], timer_s, until_s):
                self.exit(self.exits.pop(0)[1])
            elif timer_s <= min(next_said[0], until_s):
                self.talk.wait(max(0.0, timer_s - self.talk.now))
            elif next_said[0] <= until_s:
                self.talk.wait(max(0.0, next_said[0] - self.talk.now))
                self.speak(self.speeches[next_said[1]])
            else:
                break
            self.take_in()
        self.talk.wait(max(0.0, until_s - self.talk.now))

    # -- the client --------------------------------------------------------------------------
    def needs(self, line: Line) -> bool:
        """Whether the client cannot write this yet: it has not seen what it is about."""
        if line.is_response:
            return line.id not in self.asked_client
        creators = {
            unit.request.id
            for units in self.units
            for unit in units.values()
            if unit.request.method in {"session/new", "session/fork"}
            for step in unit.steps
            if (step.frame.get("result") or {}).get("sessionId") == line.session != ""
        }
        return not creators <= self.answered_client


def perform(tape: Tape) -> Stage:
    """Play one tape of Hermes as the bridge really behaves, to the end of everything."""
    parts = processes(tape)
    stage = Stage(tape, Watched("hermes", "generic"), [sorted_by_cause(part) for part in parts])
    talk = stage.talk
    began_s = talk.now - tape.lines[0].t
    for part in parts:
        for line in part.lines:
            if line.side == "agent":
                continue
            stage.run_until(max(talk.now, began_s + line.t))
            waited_s = talk.now
            while stage.needs(line) and talk.now < waited_s + QUIET_MAX_S:
                stage.run_until(talk.now + 0.01)
            began_s += talk.now - waited_s
            if line.method == "initialize" and part.process > 1:
                # The recorder had killed the first agent; its client began anew. This one is
                # told nothing: the bridge is its agent.
                stage.process += 1
                stage.exit("killed by SIGKILL")
                continue
            talk.client(line.raw)
    stage.run_until(max(talk.now, began_s + tape.lines[-1].t))
    if tape.scenario in KILLED:
        stage.exit("killed by SIGTERM")
    if tape.scenario in CLOSED:
        talk.feed(ClientClosed())
    stage.run_until(talk.now + QUIET_MAX_S)
    return stage
