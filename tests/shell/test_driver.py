from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from acpbridge.core.effects import (
    ArmTimer,
    DisarmTimer,
    Effect,
    Finish,
    Note,
    Persist,
    StartAgent,
    StopAgent,
    ToAgent,
    ToClient,
)
from acpbridge.core.events import (
    AgentGarbled,
    AgentSent,
    ClientClosed,
    ClientGarbled,
    ClientSent,
    Event,
    Persisted,
    StopAsked,
    TimerFired,
)
from acpbridge.shell.driver import Core, Driver
from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.outbox import Outbox
from acpbridge.wire.lines import Oversize
from tests.shell import passthrough
from tests.shell.clock import passes
from tests.shell.streams import RecordingStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GO = StopAsked("go")
"""The event that a test's script answers first."""


def new_outbox() -> Outbox:
    return Outbox(high_bytes=1000, piece_bytes_max=1000)


class Agent:
    """An agent handle that only remembers."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.outbox = new_outbox()
        self.stops: list[bool] = []

    def stop(self, *, now: bool) -> None:
        self.stops.append(now)


class Tape:
    def __init__(self) -> None:
        self.lines: list[tuple[float, str, bytes]] = []

    def take(self, at_s: float, side: str, line: bytes) -> None:
        self.lines.append((at_s, side, line))


@define
class Script:
    """Answers each kind of event with the effects that a test gives for it."""

    answers: dict[type[Event], Sequence[Effect]]
    seen: list[tuple[float, Event]] = field(factory=list)


def play(script: Script, now_s: float, event: Event) -> Sequence[Effect]:
    script.seen.append((now_s, event))
    return script.answers.get(type(event), ())


def nothing(_bridge: object, _now_s: float) -> Sequence[Effect]:
    """A core that begins with nothing."""
    return ()


class Rig:
    """A driver with everything around it in memory."""

    def __init__(self) -> None:
        self.agents: list[Agent] = []
        self.client = new_outbox()
        self.notes = Notes(Sink(2, bytes_max=10_000), level="error")
        self.tape = Tape()

    def drive(self, core: Core[Any]) -> Driver[Any]:
        return Driver(
            core,
            client=self.client,
            start_agent=self._start,
            notes=self.notes,
            chance=random.Random(1),
            recorder=self.tape,
        )

    def play(self, **answers: Sequence[Effect]) -> tuple[Driver[Script], Script]:
        """A driver whose core answers `GO` and the named events."""
        script = Script({globals()[name]: effects for name, effects in answers.items()})
        return self.drive(Core(script, nothing, play)), script

    def _start(self, run: int) -> Agent:
        self.agents.append(Agent(run))
        return self.agents[-1]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def written(outbox: Outbox) -> bytes:
    """What waits in an outbox, as its stream gets it."""
    stream = RecordingStream()
    outbox.end()
    await outbox.run(stream)
    return stream.data


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}'
UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}'
)


async def test_lines_go_through_as_they_came(rig: Rig) -> None:
    driver = rig.drive(passthrough.core())
    driver.begin()
    driver.take_client([REQUEST])
    updates = [UPDATE % word for word in (b"a", b"b", b'c \\"quoted\\"')]
    driver.take_agent(1, updates)

    assert await written(rig.client) == b"".join(line + b"\n" for line in updates)
    assert await written(rig.agents[0].outbox) == REQUEST + b"\n"


async def test_effects_come_in_order_and_their_events_behind_them(rig: Rig) -> None:
    """`Persisted` must not overtake the effects of the step that asked for it."""
    driver, script = rig.play(
        StopAsked=(Persist(7, 1, "accepted", "s"), ToClient(b"first"), Persist(0, 1, "x", "s")),
        Persisted=(ToClient(b"second"),),
    )
    driver.feed(GO)

    assert [GO, Persisted(7)] == [event for _, event in script.seen]
    assert await written(rig.client) == b"first\nsecond\n"


async def test_what_the_beginning_causes_is_fed_too(rig: Rig) -> None:
    _, script = rig.play(Persisted=(ToClient(b"second"),))
    begin = (Persist(7, 1, "accepted", "s"), ToClient(b"first"))
    driver = rig.drive(Core(script, lambda _bridge, _now_s: begin, play))
    driver.begin()

    assert [Persisted(7)] == [event for _, event in script.seen]
    assert await written(rig.client) == b"first\nsecond\n"


async def test_an_event_fed_while_stepping_waits_for_its_turn(rig: Rig) -> None:
    """A process that fails to start may tell so from within the effect that started it."""
    order: list[str] = []

    def start_agent(run: int) -> Agent:
        driver.feed(ClientClosed())
        order.append("started")
        return Agent(run)

    def step(_bridge: None, _now_s: float, event: Event) -> Sequence[Effect]:
        order.append(type(event).__name__)
        return (StartAgent(1), ToClient(b"x")) if event == GO else ()

    driver: Driver[None] = Driver(
        Core(None, nothing, step),
        client=rig.client,
        start_agent=start_agent,
        notes=rig.notes,
        chance=random.Random(1),
    )
    driver.feed(GO)

    assert ["StopAsked", "started", "ClientClosed"] == order


async def test_a_fault_of_the_core_is_not_swallowed(rig: Rig) -> None:
    """There is no half-applied step to go on from; the next one is not blocked either."""

    def step(_bridge: None, _now_s: float, event: Event) -> Sequence[Effect]:
        if event == GO:
            raise ZeroDivisionError
        return (ToClient(b"after"),)

    driver = rig.drive(Core(None, nothing, step))
    with pytest.raises(ZeroDivisionError):
        driver.feed(GO)
    driver.feed(ClientClosed())

    assert await written(rig.client) == b"after\n"


async def test_timers_are_armed_and_disarmed(
    rig: Rig, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    driver, script = rig.play(
        StopAsked=(
            ArmTimer(("a", ""), 1.0),
            ArmTimer(("b", ""), 2.0),
            DisarmTimer(("b", "")),
        ),
        TimerFired=(ToClient(b"ring"),),
    )
    nursery.start_soon(driver.timers.run)
    await wait_all_tasks_blocked()
    driver.feed(GO)
    await passes(10)

    assert [(0.0, GO), (1.0, TimerFired(("a", "")))] == script.seen


async def test_agents_are_started_and_stopped(rig: Rig) -> None:
    driver, _ = rig.play(
        StopAsked=(StartAgent(1), StopAgent(1), StartAgent(2), ToAgent(b"hello")),
        ClientClosed=(StopAgent(2, now=True),),
    )
    driver.feed(GO)
    driver.feed(ClientClosed())

    assert [(1, [False]), (2, [True])] == [(agent.run, agent.stops) for agent in rig.agents]
    assert await written(rig.agents[1].outbox) == b"hello\n"


async def test_a_line_without_an_agent_is_counted(rig: Rig) -> None:
    driver, _ = rig.play(StopAsked=(StopAgent(1), ToAgent(b"hello")))
    driver.feed(GO)

    assert rig.notes.counters["line_without_agent"] == 1


async def test_finish_keeps_its_code_and_starts_nothing_more(rig: Rig) -> None:
    driver, _ = rig.play(StopAsked=(Finish(3), StartAgent(2), Note("bye", {"n": 1})))
    driver.feed(GO)

    assert driver.finished.is_set()
    assert driver.exit_code == 3
    assert [] == rig.agents
    assert rig.notes.counters["bye"] == 1


async def test_garbled_lines_are_told_by_side(rig: Rig) -> None:
    driver, script = rig.play()
    oversize = Oversize(b'{"id":', 99)
    driver.take_client([b"not json", oversize])
    driver.take_agent(2, [b"[log] hi", oversize])
    kinds = [type(event) for _, event in script.seen]

    assert [ClientGarbled, ClientGarbled, AgentGarbled, AgentGarbled] == kinds
    assert script.seen[1][1] == ClientGarbled(oversize)
    assert script.seen[3][1] == AgentGarbled(2, oversize)


async def test_both_sides_are_taped_as_received(rig: Rig, autojump_clock: MockClock) -> None:
    driver, _ = rig.play()
    driver.take_client([REQUEST])
    await passes(2)
    driver.take_agent(1, [b"noise", Oversize(b"{", 99)])

    assert [
        (0.0, "client", REQUEST),
        (2.0, "agent", b"noise"),
        (2.0, "agent", b"<a line of 99 bytes, over the limit>"),
    ] == rig.tape.lines


@pytest.mark.parametrize("kind", [ClientSent, AgentSent])
async def test_one_read_is_one_reading_of_the_clock(
    kind: type[Event], rig: Rig, autojump_clock: MockClock
) -> None:
    driver, script = rig.play()
    await passes(5)
    take: Callable[[list[bytes]], None] = (
        driver.take_client if kind is ClientSent else lambda lines: driver.take_agent(1, lines)
    )
    take([REQUEST, REQUEST])

    assert [(5.0, kind), (5.0, kind)] == [(at, type(event)) for at, event in script.seen]
