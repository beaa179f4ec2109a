"""One seeded world: a client, the real bridge, an agent, a disk and a clock, and what must hold.

`World(seed).run()` plays a whole life and raises `Violation` at the first thing that a client must
not meet. The bridge's part is the real `step` over real bytes; the rest is models.
"""

from __future__ import annotations

import json
from collections import deque
from itertools import islice
from random import Random

from attrs import evolve

from acpbridge.core.bridge import begin, start, step
from acpbridge.core.effects import (
    ArmTimer,
    DisarmTimer,
    Effect,
    FindKey,
    Finish,
    Note,
    Persist,
    Recover,
    StartAgent,
    StopAgent,
    StreamToClient,
    ToAgent,
    ToClient,
)
from acpbridge.core.events import (
    AgentExited,
    AgentLeft,
    AgentStarted,
    ClientClosed,
    ClientGarbled,
    ClientSent,
    Event,
    StopAsked,
    TimerFired,
    TimerKey,
)
from acpbridge.core.policy import Policy
from acpbridge.profiles import agent_named, client_named
from acpbridge.wire.frame import Frame, peek
from acpbridge.wire.lines import Oversize
from acpbridge.wire.shapes import Chunks, Shapes
from tests.core.script import agent_news
from tests.sim import leaks, verdicts
from tests.sim import mix as mixes
from tests.sim.agent import Agent
from tests.sim.client import Client
from tests.sim.clock import Clock, Pipe, Plan, Restless
from tests.sim.disk import Disk
from tests.sim.frames import Style
from tests.sim.ledger import NONCE, Ledger, Seat
from tests.sim.models import MODELS
from tests.sim.toward_agent import TowardAgent
from tests.sim.toward_client import TowardClient
from tests.sim.violation import Violation, must

BEGAN_S = 100.0
REST_S = 7200.0
"""Virtual time after the last stimulus in which everything must come to rest."""


def over(line: bytes) -> Oversize:
    """What the decoder makes of a line that counts as too long."""
    return Oversize(line[: len(line) - 1], 1 << 30, line[-200:])


class World:
    """One life. `dialogue` is filled only if `verbose`."""

    name = ""
    """What stands before its violations."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.mix = self.draw()
        self.verbose = verbose
        self.dialogue: list[str] = []
        self.clock = Clock(BEGAN_S)
        self.timers: dict[TimerKey, Plan] = {}
        self.events: deque[Event] = deque()
        profile = agent_named(self.mix.profile) if self.mix.chosen else None
        if profile is not None and self.mix.traits["redirects"]:
            profile = evolve(profile, steer_by="prompt")
        self.bridge = start(
            Policy(**self.mix.policy), profile, client_named(self.mix.client), NONCE
        )
        self.agent: Agent | None = None
        self.shapes = Shapes()
        self.exit_code: int | None = None
        self.deaths_max = self.chance.choice((1, 3, 8))
        self.never: set[int] = set()
        """Runs that were asked to stop before they began."""
        self.disk = Disk(self)
        self.kind = False
        spaced, odd = self.chance.random() < 0.3, self.chance.choice((0.0, 0.2))
        self.client_style = Style(self.chance, spaced, self.chance.random() < 0.3, odd)
        self.agent_style = Style(self.chance, not spaced, self.chance.random() < 0.1, odd / 4)
        slow_s = self.mix.traits["latency_s"]
        self.from_client = Pipe(self.clock, self.chance, self._client_read, slow_s)
        self.to_client = Pipe(self.clock, self.chance, self._deliver_client, slow_s)
        self.to_agent: Pipe | None = None
        self.from_agent: Pipe | None = None
        self.ledger = Ledger(self, Seat(self.from_client))
        self.toward_agent = TowardAgent(self, self.ledger)
        self.toward_client = TowardClient(self, self.ledger)
        self.client = Client(self)

    def draw(self) -> mixes.Mix:
        """Draw who takes part."""
        return mixes.draw(self.chance)

    # -- a whole life -----------------------------------------------------------------------
    def run(self) -> None:
        """Play it; raises `Violation`."""
        try:
            self._perform(begin(self.bridge, self.clock.now_s))
            self.client.begin()
            self.clock.run(BEGAN_S + self.mix.span_s + 5.0, self._is_over)
            self.say("-- everybody is kind from here on")
            self.kind = True
            self._rest()
            self.toward_client.all_answered()
            if not self._is_over() and not self.client.gone:
                self.client.prompt_everywhere()
                self._rest()
                self.toward_client.all_answered()
            verdicts.at_the_end(self.toward_client)
            leaks.look(self)
        except Restless as fault:
            raise Violation("I10", str(fault)) from fault

    def _rest(self) -> None:
        """The stimuli are over, everybody is kind, and time goes by.

        A prompt that the agent has under a receipt and of which it says nothing more waits
        visibly for as long as its client lets it (R10, I10); then its client gives up.
        """
        self.client.be_kind()
        if self.agent is not None:
            self.agent.be_kind()
        self.clock.run(self.clock.now_s + REST_S, self._is_over)
        stuck = [] if self._is_over() or self.client.gone else self.toward_client.waits_visibly()
        if stuck:
            self.say(f"-- the client gives up on {stuck}")
            for sid in stuck:
                self.give_up(sid)
            self.clock.run(self.clock.now_s + REST_S, self._is_over)

    def give_up(self, sid: str) -> None:
        """The client waits no more for what nothing comes of."""
        self.client.cancel(sid)

    def _is_over(self) -> bool:
        return self.exit_code is not None

    def say(self, text: str) -> None:
        """One line of the dialogue."""
        if self.verbose:
            self.dialogue.append(f"{self.clock.now_s - BEGAN_S:10.4f}  {text}")

    def _show(self, who: str, line: bytes) -> None:
        if self.verbose:
            self.say(f"{who} {line.decode(errors='replace')}")

    # -- events in --------------------------------------------------------------------------
    def feed(self, event: Event) -> None:
        """Step the real core once; what its effects cause at once comes behind it, in order."""
        self.events.append(event)
        if len(self.events) > 1:
            return
        while self.events:
            self.take_in(self.events[0])
            self.events.popleft()
            unexpected = self.bridge.counters.get("unexpected_event", 0)
            must(not unexpected, "I10", "the transition table met what cannot be")

    def take_in(self, event: Event) -> None:
        """Step the core once."""
        self._perform(step(self.bridge, self.clock.now_s, event))

    def _client_read(self, lines: list[bytes]) -> None:
        for line in lines:
            if self._is_over():
                return
            self._show("client >", line)
            self.ledger.client_fed(line)
            is_too_long = line in self.ledger.oversize
            if is_too_long:
                self.say("(this line is over the limit)")
            frame = over(line) if is_too_long else peek(line, strict=True)
            self.feed(ClientSent(frame) if isinstance(frame, Frame) else ClientGarbled(frame))

    def _closing(self, why: str) -> None:
        self.toward_agent.closing = self.toward_agent.closing or why

    def client_leaves(self) -> None:
        """The client closes its end."""
        self.from_client.close(self._client_left)

    def _client_left(self) -> None:
        if not self._is_over():
            self.say("client > (end of file)")
            self._closing("client closed")
            self.feed(ClientClosed())

    def stop_asked(self) -> None:
        """A signal asks the bridge to end."""
        if not self._is_over():
            self.say("-- a stop signal")
            self._closing("stop asked")
            self.feed(StopAsked("SIGTERM"))

    def _agent_read(self, run: int, lines: list[bytes]) -> None:
        said = zip(lines, list(self.ledger.unfed), strict=False)
        items = [over(line) if one.too_long else line for line, one in said]
        unread = iter(lines)
        for look in self.shapes.look(items):
            if self._is_over():
                return
            for line in islice(unread, len(look.lines) if isinstance(look, Chunks) else 1):
                self._show("            agent >", line)
                if self.ledger.agent_fed().too_long:
                    self.say("(this line is over the limit)")
            self.feed(agent_news(run, look))

    def _left(self, run: int) -> None:
        """A write to the process has failed; what it wrote itself still comes."""
        if not self._is_over():
            self.say("            agent > (takes nothing any more)")
            self.toward_agent.has_left = True
            self.feed(AgentLeft(run))

    def _exited(self, run: int, reason: str) -> None:
        if not self._is_over():
            self.say(f"            agent > (gone: {reason})")
            self.ledger.agent_gone()
            self.feed(AgentExited(run, reason))

    # -- effects out ------------------------------------------------------------------------
    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if self._is_over():
                return
            match effect:
                case ToClient(line=line):
                    self._show("client <", line)
                    self.toward_client.write(line)
                    self.to_client.write(line)
                case StreamToClient(lines=lines):
                    self._perform([ToClient(line) for line in lines])
                case ToAgent(line=line):
                    self._show("            agent <", line)
                    self.toward_agent.write(line)
                    if self.to_agent is not None:
                        self.to_agent.write(line)
                case Persist() | Recover() | FindKey():
                    self.disk.take(effect)
                case ArmTimer(key=key, delay_s=delay_s, jitter=jitter):
                    self._arm(key, delay_s * (1 + jitter * self.chance.random()))
                case DisarmTimer(key=key):
                    self._disarm(key)
                case StartAgent(run=run):
                    self._start(run)
                case StopAgent(run=run, now=now):
                    self._stop(run, now)
                case Finish(code=code):
                    self.say(f"-- the bridge ends with {code}")
                    self.toward_client.all_answered()
                    self.exit_code = code
                case Note(name=name, fields=fields):
                    if self.verbose:
                        self.say(f"   note {name} {fields}")

    def _arm(self, key: TimerKey, delay_s: float) -> None:
        self._disarm(key)
        self.timers[key] = self.clock.later(delay_s, lambda: self._fire(key))

    def _disarm(self, key: TimerKey) -> None:
        plan = self.timers.pop(key, None)
        if plan is not None:
            plan.call_off()

    def _fire(self, key: TimerKey) -> None:
        del self.timers[key]
        if not self._is_over():
            if self.verbose:
                self.say(f"   timer {key[0]} {key[1]}")
            self.feed(TimerFired(key))

    # -- the agent's life -------------------------------------------------------------------
    def _start(self, run: int) -> None:
        self.toward_agent.agent_starts()
        chance, mix = self.chance, self.mix
        wait_s = chance.random() * 0.4
        if mix.has("slow_start") and not self.kind and run > 1:
            wait_s = chance.choice((1.0, 20.0, 40.0))
        if mix.has("fails_start") and not self.kind and chance.random() < 0.3:
            self.clock.later(wait_s, lambda: self._cannot_start(run))
            return
        self.clock.later(wait_s, lambda: self._started(run))

    def _cannot_start(self, run: int) -> None:
        if not self._is_over():
            self.say("            agent > (cannot be started)")
            self.ledger.deaths += 1
            self.feed(AgentExited(run, "cannot be started", started=False))

    def _started(self, run: int) -> None:
        if self._is_over() or run in self.never:
            return
        self.say(f"            agent > (process {run} runs)")
        agent = MODELS[self.mix.agent](self, run)
        self.agent = agent
        if self.kind:
            agent.be_kind()
        slow_s = self.mix.traits["latency_s"]
        self.shapes = Shapes()
        self.to_agent = Pipe(self.clock, self.chance, agent.read, slow_s)
        self.from_agent = Pipe(
            self.clock, self.chance, lambda lines: self._agent_read(run, lines), slow_s
        )
        if self.mix.has("dies"):
            life_s = self.chance.random() * min(self.mix.span_s, 60.0)
            agent.later(life_s, lambda: self.dies("killed by SIGKILL"))
        self.toward_agent.new_process()
        self.feed(AgentStarted(run))

    def dies(self, reason: str) -> None:
        """The agent dies, unless everybody is kind or it has happened often enough."""
        agent = self.agent
        if agent is None or agent.dead or self.kind or self.ledger.deaths >= self.deaths_max:
            return
        self.ledger.deaths += 1
        self.end_process(reason)

    def end_process(self, reason: str) -> None:
        """The process of now ends; what it wrote arrives first."""
        agent, pipe = self.agent, self.from_agent
        if agent is None or pipe is None or agent.dead:
            return
        agent.die()
        if self.to_agent is not None:
            self.to_agent.closed = True
        if self.chance.random() < 0.7:
            self.clock.later(self.chance.random() * pipe.slowest_s, lambda: self._left(agent.run))
        pipe.close(lambda: self._exited(agent.run, reason))

    def _stop(self, run: int, now: bool) -> None:
        agent = self.agent
        if agent is None or agent.run != run or agent.dead:
            if agent is None or agent.run != run:
                # Asked to stop before it ran: it never will.
                self.never.add(run)
                self.clock.later(0.1, lambda: self._exited(run, "stopped before it ran"))
            return
        wait_s = 0.01 if now else self.chance.random() * 2.0
        self.ledger.stops += 1
        self.clock.later(wait_s, lambda: self._stopped(agent))

    def _stopped(self, agent: Agent) -> None:
        if self.agent is agent:
            self.end_process("stopped")

    def _deliver_client(self, lines: list[bytes]) -> None:
        for line in lines:
            self.client.read(line, json.loads(line))
