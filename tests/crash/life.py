"""One life of a bridge: the real core over real bytes, the real `Journaling` over a model disk.

Every effect is performed between two boundaries, and every transaction of the disk too; `Killed`
comes out of the boundary that the schedule names, and nothing of this life happens after it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from acpbridge.core.bridge import begin, start, step
from acpbridge.core.effects import (
    Adopt,
    ArmTimer,
    DisarmTimer,
    Effect,
    FindKey,
    Finish,
    Persist,
    PersistAlias,
    Recover,
    StartAgent,
    StopAgent,
    StreamToClient,
    Tell,
    ToAgent,
    ToClient,
)
from acpbridge.core.events import AgentExited, AgentStarted, Event, TimerFired, TimerKey
from acpbridge.core.policy import Policy
from acpbridge.profiles import agent_named, client_named
from acpbridge.shell.journaling import Journaling, Timed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.schedule import Draw
    from tests.crash.world import World

DISK = (Persist, PersistAlias, Recover, Tell, Adopt, FindKey)


class Killed(BaseException):
    """kill -9 of the bridge."""


class Life:
    """From its start to its kill or its end."""

    def __init__(self, world: World, nonce: str, draw: Draw, nowhere: Path) -> None:
        self.world = world
        self.nonce = nonce
        self.policy = Policy(
            undelivered=draw.undelivered,
            midturn=draw.midturn,
            wait_notice=draw.notices,
            restart_first_s=0.0,
        )
        self.bridge = start(self.policy, agent_named(draw.agent), client_named(draw.client), nonce)
        self.journaling = Journaling(nowhere, nonce, 30.0, 1 << 28)
        self.journaling._journal = world.journal(nonce, self.boundary)
        self.events: deque[Event] = deque()
        self.timers: dict[TimerKey, float] = {}
        self.now = 100.0
        self.disk: list[Timed] = []
        self.writing: list[Timed] = []
        """What the disk's thread has in hand."""
        self.exit_code: int | None = None
        self.boundaries = 0
        self.kill_at = 0
        """The boundary at which it dies; 0 for none."""
        self.stops: list[int] = []
        self.is_early = False
        """A planted bug: the disk answers before it has written."""

    def boundary(self) -> None:
        """Between two things that happen: the bridge may die here."""
        self.boundaries += 1
        if self.boundaries == self.kill_at:
            raise Killed

    def begin(self) -> None:
        """Start it."""
        self.perform(begin(self.bridge, self.now))
        self._drain()

    def feed(self, event: Event) -> None:
        """Step once; what its effects cause at once comes behind it, in order."""
        self.events.append(event)
        self._drain()

    def _drain(self) -> None:
        while self.events and self.exit_code is None:
            self.perform(step(self.bridge, self.now, self.events.popleft()))
            unexpected = self.bridge.counters.get("unexpected_event", 0)
            assert not unexpected, "I10: the table met what cannot be"

    def perform(self, effects: list[Effect]) -> None:
        """In their order, each between two boundaries."""
        self.world.edges.see(effects)
        for effect in effects:
            self.boundary()
            self._do(effect)
        self.boundary()

    def _do(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case ToClient(line=line):
                world.to_client(line)
            case StreamToClient(lines=lines):
                for line in lines:
                    world.to_client(line)
            case ToAgent(line=line):
                world.to_agent(line)
            case ArmTimer(key=key, delay_s=delay_s):
                self.timers[key] = self.now + delay_s
            case DisarmTimer(key=key):
                self.timers.pop(key, None)
            case StartAgent(run=run):
                world.agent_starts()
                self.events.append(AgentStarted(run))
            case StopAgent(run=run):
                self.stops.append(run)
            case Finish(code=code):
                self.exit_code = code
            case _ if isinstance(effect, DISK):
                world.asked(effect)
                self.disk.append((world.wall_ms(), effect))

    # -- the disk ---------------------------------------------------------------------------
    def disk_moves(self) -> None:
        """Its thread takes what waits, or has done what it took: then the answers come."""
        if not self.writing:
            self.writing, self.disk = self.disk, []
            if not self.is_early:
                return
        batch, self.writing = self.writing, []
        if self.is_early:
            self._answer_early(batch)
        outcome = self.journaling.perform(batch, self.world.wall_ms())
        assert not outcome.fault, outcome.fault
        refused = [fields for name, _, fields in outcome.said if name != "prompts_recovered"]
        assert not refused, f"I8: the journal has refused {refused}"
        if not self.is_early:
            for event in outcome.events:
                self.feed(event)

    def _answer_early(self, batch: list[Timed]) -> None:
        from acpbridge.core.events import KeyFound, Persisted, Recovered  # noqa: PLC0415

        for _, effect in batch:
            match effect:
                case Persist(token=token) if token:
                    self.feed(Persisted(token))
                case Recover(session=session):
                    self.feed(Recovered(session))
                case FindKey(token=token):
                    self.feed(KeyFound(token))

    def is_disk_busy(self) -> bool:
        """Whether something is on its way to it."""
        return bool(self.disk or self.writing)

    # -- the clock --------------------------------------------------------------------------
    def wait(self, most_s: float) -> None:
        """Until the next timer, or so long."""
        if not self.timers:
            self.now += most_s
            return
        key, due_s = min(self.timers.items(), key=lambda item: item[1])
        if due_s > self.now + most_s:
            self.now += most_s
            return
        del self.timers[key]
        self.now = max(self.now, due_s)
        self.feed(TimerFired(key))

    def stopped(self) -> None:
        """The process that was to be stopped has ended."""
        run = self.stops.pop()
        self.world.agent = None
        self.feed(AgentExited(run, "stopped"))

    def end(self) -> None:
        """What the shell does behind `Finish`: the disk writes what is left, the journal closes."""
        while self.is_disk_busy():
            self.disk_moves()
        self.journaling.close()
