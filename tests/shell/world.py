"""What an agent's process needs around it: one that feeds, sinks, and small agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import evolve

from acpbridge.config import Limits
from acpbridge.core.events import AgentLeft, Event
from acpbridge.shell.agent import AgentProcess
from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acpbridge.wire.lines import Oversize

LIMITS = Limits(agent_eof_s=0.2, agent_term_s=0.2, pipe_tail_s=0.2, stderr_tail_bytes=100)
PATIENT = evolve(LIMITS, agent_eof_s=20.0, agent_term_s=20.0, pipe_tail_s=20.0)
"""For what must not need the clock: the test's own bound is shorter."""
BOUND_S = 10.0


class World:
    """A feeder, and everything else that an agent needs."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.left: list[AgentLeft] = []
        self.news = trio.Event()
        self.client = Outbox(high_bytes=1000, piece_bytes_max=1000)
        self.stderr = Sink(2, bytes_max=1 << 20)
        self.notes = Notes(self.stderr, level="error")
        self.agent: AgentProcess | None = None

    def feed(self, event: Event) -> None:
        if isinstance(event, AgentLeft):
            # It comes between the last lines, wherever the exit is noticed.
            self.left.append(event)
        else:
            self._add(event)

    def take_agent(self, run: int, items: Sequence[bytes | Oversize]) -> None:
        for item in items:
            self._add(item)

    def _add(self, item: object) -> None:
        self.log.append(item)
        self.news.set()
        self.news = trio.Event()

    async def seen(self, item: object) -> None:
        while item not in self.log:
            await self.news.wait()

    def new_agent(self, *argv: str, limits: Limits = LIMITS) -> AgentProcess:
        return AgentProcess(
            1,
            argv,
            limits=limits,
            line_bytes_max=1 << 20,
            client=self.client,
            stderr=self.stderr,
            notes=self.notes,
            feeder=self,
        )

    @property
    def stderr_text(self) -> str:
        return b"".join(self.stderr._pieces).decode()


@pytest.fixture
def world() -> World:
    return World()


def shell(script: str) -> tuple[str, str, str]:
    return ("sh", "-c", script)


def python(script: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", script)
