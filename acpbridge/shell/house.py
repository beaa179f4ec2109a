"""What one run over stdio and a daemon have in common: a driver, agents, signals, an end.

Everything lives in one nursery and ends within a bound: a stop is an event for the core, the
core ends the agent and asks to finish, and whatever the core forgets is ended here.
"""

from __future__ import annotations

import random
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from acpbridge.core.events import StopAsked
from acpbridge.shell.agent import AgentProcess
from acpbridge.shell.disk import Disk
from acpbridge.shell.driver import Core, Driver
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.stdio import stop_signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from acpbridge.config import Settings
    from acpbridge.core.events import HubEvent
    from acpbridge.shell.journaling import Journaling
    from acpbridge.shell.pace import Reader
    from acpbridge.shell.surroundings import Surroundings

StateT = TypeVar("StateT")

_SPARE_S = 1.0
"""Time beyond the agent's own bounds before a stop is forced."""


class House(Generic[StateT]):
    """A driver and what lives around it, whoever its clients are.

    Args:
        settings: What this bridge was told.
        argv: The agent's command.
        core: What decides.
        client: Where lines toward the one client go; the agent is not read while it is full.
        around: Where the agent's stderr, the log and the tape go.
        journaling: The journal; its disk is ended with the house.
    """

    def __init__(
        self,
        settings: Settings,
        argv: Sequence[str],
        core: Core[StateT],
        *,
        client: Outbox,
        around: Surroundings,
        journaling: Journaling | None = None,
    ) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._argv = argv
        self._stderr = around.stderr
        self._notes = around.notes
        self._nursery: trio.Nursery | None = None
        self._processes: set[AgentProcess] = set()
        self._client = client
        self._reader: Reader = client
        """For whom the agent is held up."""
        self._is_stop_asked = False
        self._disk: Disk | None = None
        if journaling is not None:
            self._disk = Disk(journaling, feed=self._feed, notes=around.notes, limits=self._limits)
        self._driver = Driver(
            core,
            client=client,
            start_agent=self._start_agent,
            notes=around.notes,
            # Jitter only spreads retries; it guards nothing.
            chance=random.Random(),  # noqa: S311
            recorder=around.recorder,
            disk=self._disk,
        )

    def _feed(self, event: HubEvent) -> None:
        self._driver.feed(event)

    @asynccontextmanager
    async def _lit(self) -> AsyncIterator[trio.Nursery]:
        """Signals, timers and the disk at work; at the block's end no agent and no task is left."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._watch_signals)
            nursery.start_soon(self._driver.timers.run)
            if self._disk is not None:
                nursery.start_soon(self._disk.run)
            yield nursery
            await self._end_agents()
            nursery.cancel_scope.cancel()
        if self._disk is not None:
            with trio.move_on_after(self._limits.flush_max_s):
                await self._disk.end()

    async def _end_agents(self) -> None:
        """The core has ended them already; one that it forgot is ended the same way."""
        forgotten = list(self._processes)
        for agent in forgotten:
            agent.stop(now=False)
        for agent in forgotten:
            await agent.ended.wait()

    def _start_agent(self, run: int) -> AgentProcess:
        agent = AgentProcess(
            run,
            self._argv,
            limits=self._limits,
            line_bytes_max=self._settings.policy.line_bytes_max,
            client=self._reader,
            stderr=self._stderr,
            notes=self._notes,
            feeder=self._driver,
        )
        self._processes.add(agent)
        assert self._nursery is not None
        self._nursery.start_soon(self._run_agent, agent)
        return agent

    async def _run_agent(self, agent: AgentProcess) -> None:
        await agent.live()
        self._processes.discard(agent)

    async def _room(
        self,
        outbox: Outbox,
        high_bytes: int,
        hung_up: Callable[[], Awaitable[None]] | None,
        gone: Callable[[], None],
    ) -> None:
        """Wait until the outbox takes more; a client that leaves meanwhile ends the wait's cause.

        The EOF stands behind what we do not read, so an agent that reads nothing would hide it.
        """
        if outbox.has_room(high_bytes):
            return

        async def watch() -> None:
            assert hung_up is not None
            await hung_up()
            gone()

        async with trio.open_nursery() as nursery:
            if hung_up is not None:
                nursery.start_soon(watch)
            await outbox.room(high_bytes)
            nursery.cancel_scope.cancel()

    async def _watch_signals(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """A signal asks to stop; the same one again kills the agent at once.

        Only the same one: a terminal that closes sends SIGHUP, and its client SIGTERM with it.
        """
        seen: set[int] = set()
        with trio.open_signal_receiver(*stop_signals()) as signals:
            task_status.started()
            async for number in signals:
                for agent in self._processes if number in seen else ():
                    agent.stop(now=True)
                seen.add(number)
                self._ask_to_stop(signal.Signals(number).name)

    def _ask_to_stop(self, reason: str) -> None:
        """Feed a stop; the first one is forced in the end, whatever the core thinks."""
        if not self._is_stop_asked:
            self._is_stop_asked = True
            assert self._nursery is not None
            self._nursery.start_soon(self._force_stop)
        self._driver.feed(StopAsked(reason))

    async def _force_stop(self) -> None:
        """End in any case."""
        limits = self._limits
        await trio.sleep(limits.agent_eof_s + limits.agent_term_s + limits.flush_max_s + _SPARE_S)
        self._notes.note("stop_forced", "error")
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
