"""The driver: it owns the bridge's state, feeds it events and performs its effects.

`feed` is synchronous and is called by whichever task has the news; trio runs one task at a
time, so calls form one total order, and each is finished before the next one starts. An effect
that causes an event at once queues it behind the current one: nothing is ever fed recursively.
A fault in the core is ours and ends the process; there is no half-applied step to go on from.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, assert_never

import trio
from attrs import frozen

from acpbridge.core.effects import (
    Adopt,
    ArmTimer,
    DisarmTimer,
    Effect,
    FindKey,
    Finish,
    Note,
    Persist,
    PersistAlias,
    PromptWritten,
    Recover,
    StartAgent,
    StopAgent,
    StreamToClient,
    Tell,
    ToAgent,
    ToClient,
    ToClients,
)
from acpbridge.core.events import (
    AgentExited,
    AgentGarbled,
    AgentSent,
    AgentStreamed,
    ClientGarbled,
    ClientSent,
    Event,
    HubEvent,
    KeyFound,
    Persisted,
    Recovered,
    TimerFired,
)
from acpbridge.shell.timers import Timers
from acpbridge.wire.frame import Frame, peek
from acpbridge.wire.shapes import Chunks, Shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from acpbridge.shell.journaling import DiskEffect
    from acpbridge.shell.notes import Notes
    from acpbridge.shell.outbox import Outbox
    from acpbridge.wire.frame import Malformed
    from acpbridge.wire.lines import Oversize

StateT = TypeVar("StateT")
StateT_contra = TypeVar("StateT_contra", contravariant=True)


class Step(Protocol[StateT_contra]):
    """`acpbridge.core.hub.step`, `acpbridge.core.bridge.step`, or a test's smaller one."""

    # Any: a hub takes clients that come and go as well, and a bridge is never fed those.
    def __call__(self, bridge: StateT_contra, now_s: float, event: Any, /) -> Iterable[Effect]:
        """Change the state, and say what is to be done, in order."""


class Begin(Protocol[StateT_contra]):
    """`acpbridge.core.bridge.begin`: the effects that come before any event."""

    def __call__(self, bridge: StateT_contra, now_s: float, /) -> Iterable[Effect]:
        """Say what is to be done first."""


@frozen
class Core(Generic[StateT]):
    """A core and its state; nobody but the driver touches the state."""

    bridge: StateT
    begin: Begin[StateT]
    step: Step[StateT]


class AgentHandle(Protocol):
    """What the driver needs of a running agent process."""

    outbox: Outbox

    def stop(self, *, now: bool) -> None:
        """Begin to end the process; its end is fed as `AgentExited`."""


class ClientDoor(Protocol):
    """What the driver needs of one of the daemon's clients."""

    def put_all(self, lines: Sequence[bytes], /) -> None:
        """Queue lines for it; never waits."""

    def flush(self) -> None:
        """Have what was queued written; called once behind all that one read has brought."""


class Recorder(Protocol):
    """The tape; takes lines as they were received."""

    def take(self, at_s: float, side: str, line: bytes) -> None:
        """Queue one line for the tape; never waits."""


def _client_news(items: Iterable[bytes | Oversize], client: int) -> Iterator[Event]:
    for item in items:
        look = peek(item, strict=True) if isinstance(item, bytes) else item
        if isinstance(look, Frame):
            yield ClientSent(look, client)
        else:
            yield ClientGarbled(look, client)


def _agent_news(
    run: int, looks: Iterable[Frame | Malformed | Oversize | Chunks]
) -> Iterator[Event]:
    for look in looks:
        if isinstance(look, Frame):
            yield AgentSent(run, look)
        elif isinstance(look, Chunks):
            yield AgentStreamed(run, look)
        else:
            yield AgentGarbled(run, look)


def _record(recorder: Recorder, side: str, items: Iterable[bytes | Oversize]) -> None:
    now_s = trio.current_time()
    for item in items:
        if isinstance(item, bytes):
            recorder.take(now_s, side, item)
        else:
            text = f"<a line of {item.size_bytes} bytes, over the limit>"
            recorder.take(now_s, side, text.encode())


class DiskDoor(Protocol):
    """What the driver needs of the disk."""

    def take(self, effect: DiskEffect, /) -> None:
        """Queue one effect; its answer is fed later."""


class Driver(Generic[StateT]):
    """One bridge at work.

    Args:
        core: What decides.
        client: Where lines toward the client go.
        start_agent: Starts a process of this run in the background and returns at once.
        notes: Where `Note` goes.
        chance: The jitter of timers.
        recorder: The tape of `--record`.
        disk: The journal; without one what is in memory is as durable as it gets.
    """

    def __init__(
        self,
        core: Core[StateT],
        *,
        client: Outbox,
        start_agent: Callable[[int], AgentHandle],
        notes: Notes,
        chance: Random,
        recorder: Recorder | None = None,
        disk: DiskDoor | None = None,
    ) -> None:
        self.core = core
        self._caused: deque[HubEvent] = deque()
        self._is_stepping = False
        self._start_agent = start_agent
        self._notes = notes
        self._recorder = recorder
        self._disk = disk
        self._shapes = Shapes()
        self.client = client
        self.clients: dict[int, ClientDoor] = {}
        """The daemon's clients, by number."""
        self._touched: set[ClientDoor] = set()
        """Those that were given lines since they were flushed."""
        self.agent: AgentHandle | None = None
        """The process of the newest run, alive or not; lines go there."""
        self.agents: dict[int, AgentHandle] = {}
        """The processes that were started and whose end was not fed, by run."""
        self.timers = Timers(self._fire, chance)
        self.finished = trio.Event()
        """The core has asked for the end."""
        self.exit_code = 0

    def begin(self) -> None:
        """Perform what comes before any event."""
        self._is_stepping = True
        try:
            for effect in self.core.begin(self.core.bridge, trio.current_time()):
                self.perform(effect)
        finally:
            self._is_stepping = False
        caused, self._caused = self._caused, deque()
        self._take(caused)

    def feed(self, event: HubEvent) -> None:
        """Step the core with one event and perform what it asks for."""
        if isinstance(event, AgentExited):
            self.agents.pop(event.run, None)
        self._take((event,))

    def take_client(self, items: Sequence[bytes | Oversize], client: int = 0) -> None:
        """Feed the lines that one read from a client has brought; 0 is the one of a run."""
        if self._recorder is not None:
            _record(self._recorder, "client", items)
        self._take(_client_news(items, client))

    def take_agent(self, run: int, items: Sequence[bytes | Oversize]) -> None:
        """Feed the lines that one read from the agent of this run has brought."""
        if self._recorder is not None:
            _record(self._recorder, "agent", items)
        self._take(_agent_news(run, self._shapes.look(items)))

    def _take(self, news: Iterable[HubEvent]) -> None:
        """Step through the news; what an effect of one causes comes before the next one."""
        if self._is_stepping:
            self._caused.extend(news)
            return
        caused = self._caused
        step, bridge, perform = self.core.step, self.core.bridge, self.perform
        put_client, put_stream = self.client.put, self.client.put_all
        # One reading of the clock serves all events of a read: nothing waits in between.
        now_s = trio.current_time()
        self._is_stepping = True
        try:
            for event in news:
                for effect in step(bridge, now_s, event):
                    # Most effects pass a line on; they need no dispatch.
                    if type(effect) is StreamToClient:
                        put_stream(effect.lines)
                    elif type(effect) is ToClient:
                        put_client(effect.line)
                    elif type(effect) is ToClients:
                        self._to_clients(effect.clients, effect.lines)
                    elif type(effect) is ToAgent:
                        self._to_agent(effect.line)
                    else:
                        perform(effect)
                while caused:
                    for effect in step(bridge, now_s, caused.popleft()):
                        perform(effect)
        finally:
            self._is_stepping = False
        self.client.flush()
        while self._touched:
            # One that is over its limit leaves, and the others may be told of that.
            self._touched.pop().flush()
        if self.agent is not None:
            self.agent.outbox.flush()

    def perform(self, effect: Effect) -> None:
        """Do one thing that the core asks for; the only place where effects are performed."""
        match effect:
            case ToClient(line):
                self.client.put(line)
            case StreamToClient(lines):
                self.client.put_all(lines)
            case ToClients(clients, lines):
                self._to_clients(clients, lines)
            case ToAgent(line):
                self._to_agent(line)
            case Persist() | PersistAlias() | Recover() | Tell() | Adopt() | FindKey():
                if self._disk is not None:
                    self._disk.take(effect)
                else:
                    self._from_memory(effect)
            case ArmTimer(key, delay_s, jitter):
                self.timers.arm(key, delay_s, jitter)
            case DisarmTimer(key):
                self.timers.disarm(key)
            case StartAgent() | StopAgent():
                self._lead(effect)
            case Finish(code):
                self.exit_code = code
                self.finished.set()
            case PromptWritten():
                raise AssertionError("this is for the hub alone")
            case Note(name, fields, level):
                self._notes.note(name, level, **fields)
            case _:
                assert_never(effect)

    def _lead(self, effect: StartAgent | StopAgent) -> None:
        run = effect.run
        if isinstance(effect, StopAgent):
            if run in self.agents:
                self.agents[run].stop(now=effect.now)
        elif not self.finished.is_set():
            # Nothing is started any more once the end was asked for.
            self.agent = self.agents[run] = self._start_agent(run)

    def _to_clients(self, clients: Iterable[int], lines: Sequence[bytes]) -> None:
        for number in clients:
            door = self.clients.get(number)
            # One that has left meanwhile is told nothing; its `ClientLeft` is on its way.
            if door is not None:
                door.put_all(lines)
                self._touched.add(door)

    def _from_memory(self, effect: DiskEffect) -> None:
        """Without a journal nothing is known from before, and memory is as durable as it gets."""
        match effect:
            case Persist(token=token) if token:
                self._caused.append(Persisted(token))
            case Recover(session):
                self._caused.append(Recovered(session))
            case FindKey(token):
                self._caused.append(KeyFound(token))

    def _to_agent(self, line: bytes) -> None:
        if self.agent is None:
            self._notes.note("line_without_agent", "warning")
            return
        self.agent.outbox.put(line)

    def _fire(self, key: Any) -> None:
        self.feed(TimerFired(key))
