"""A core that passes everything on: the smallest thing that the shell can drive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from acpbridge.core.effects import (
    Effect,
    Finish,
    StartAgent,
    StopAgent,
    StreamToClient,
    ToAgent,
    ToClient,
)
from acpbridge.core.events import (
    AgentExited,
    AgentSent,
    AgentStreamed,
    ClientClosed,
    ClientSent,
    Event,
    StopAsked,
)
from acpbridge.shell.driver import Core

if TYPE_CHECKING:
    from collections.abc import Sequence


@define
class Passthrough:
    """The whole state: what was seen, and whether the end was asked for."""

    is_stopping: bool = False
    others: list[Event] = field(factory=list)
    """Events that cause nothing, for tests to look at."""


def begin(_bridge: Passthrough, _now_s: float) -> Sequence[Effect]:
    """The agent is started."""
    return (StartAgent(1),)


def step(bridge: Passthrough, _now_s: float, event: Event) -> Sequence[Effect]:
    """Frames go through; a closed client or a stop ends the agent; its exit ends us."""
    match event:
        case AgentSent(frame=frame):
            return (ToClient(frame.raw),)
        case AgentStreamed(chunks=chunks):
            return (StreamToClient(chunks.lines),)
        case ClientSent(frame):
            return (ToAgent(frame.raw),)
        case ClientClosed() | StopAsked():
            bridge.is_stopping = True
            return (StopAgent(1),)
        case AgentExited():
            return (Finish(0 if bridge.is_stopping else 3),)
        case _:
            bridge.others.append(event)
            return ()


def core() -> Core[Passthrough]:
    """A fresh one for a driver."""
    return Core(Passthrough(), begin, step)
