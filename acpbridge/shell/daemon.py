"""The daemon: one agent that stays, and clients that come and go.

A connection becomes a client with its first line, and gets a number that no later one gets. What
it means that a client has come or left is the core's business: here it is fed, once each. The
agent's reader and the other clients wait for no client longer than `pace` says.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import trio

from acpbridge.core.events import ClientJoined, ClientLeft
from acpbridge.shell.daemon_requests import stop_answer, stop_request, too_many, words_of_too_many
from acpbridge.shell.house import House
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.pace import Pace
from acpbridge.shell.peers import GOING_AWAY, NORMAL, TRY_AGAIN
from acpbridge.shell.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from acpbridge.config import Settings
    from acpbridge.shell.driver import Core
    from acpbridge.shell.journaling import Journaling
    from acpbridge.shell.peers import Items, Peer
    from acpbridge.shell.surroundings import Surroundings
    from acpbridge.wire.frame import Frame

StateT = TypeVar("StateT")

Listener: TypeAlias = "trio.abc.Listener[trio.SocketStream]"
Greet: TypeAlias = "Callable[[trio.SocketStream], AbstractAsyncContextManager[Peer | None]]"
"""Makes a peer of a connection, and closes it at the block's end; None: it was no client."""


class Daemon(House[StateT], Generic[StateT]):
    """The tasks of one daemon."""

    def __init__(
        self,
        settings: Settings,
        argv: Sequence[str],
        core: Core[StateT],
        *,
        around: Surroundings,
        journaling: Journaling | None = None,
    ) -> None:
        # There is no one client here: the agent is read, whoever reads us.
        nobody = Outbox(high_bytes=1, piece_bytes_max=1)
        nobody.abandon()
        super().__init__(
            settings,
            argv,
            core,
            client=nobody,
            around=around,
            journaling=journaling,
        )
        self._visitors: dict[int, Visitor] = {}
        """The clients, and those whose goodbye is not finished, by number."""
        self._reader = Pace(
            self._visitors,
            high_bytes=settings.limits.client_bytes_max // 2,
            wait_max_s=settings.limits.client_wait_max_s,
        )
        self._last_number = 0
        self._connections: Counter[Listener] = Counter()
        self._accepting = trio.CancelScope()
        self._goodbyes = trio.lowlevel.ParkingLot()

    async def serve(
        self, listeners: Sequence[tuple[Listener, Greet]], ready: Callable[[str], None]
    ) -> int:
        """Serve until the core asks to finish; then let the clients go. Returns the exit code.

        Args:
            listeners: Each with what greets its connections; closed in the end.
            ready: Called once the agent runs with "", or with the reason why it cannot.
        """
        driver = self._driver
        async with self._lit() as nursery:
            nursery.start_soon(self._accept, listeners)
            driver.begin()
            nursery.start_soon(self._watch_start, ready)
            await driver.finished.wait()
            self._accepting.cancel()
            for number in list(driver.clients):
                self._leave(number, "the daemon ends")
            with trio.move_on_after(self._limits.flush_max_s + self._limits.close_wait_s):
                while self._visitors:
                    await self._goodbyes.park()
        assert not self._client.dropped_lines, "a hub names the clients that it speaks to"
        return driver.exit_code

    async def _watch_start(self, ready: Callable[[str], None]) -> None:
        for agent in list(self._processes):
            await agent.begun.wait()
            ready(agent.start_fault)

    async def _accept(self, listeners: Sequence[tuple[Listener, Greet]]) -> None:
        """Accept until the end is asked for: then the paths are free for the next daemon."""
        async with trio.open_nursery() as connections:
            with self._accepting:
                async with trio.open_nursery() as accepting:
                    for listener, greet in listeners:
                        accepting.start_soon(
                            partial(
                                trio.serve_listeners,
                                partial(self._connect, listener, greet),
                                [listener],
                                handler_nursery=connections,
                            )
                        )

    def _ask_to_stop(self, reason: str) -> None:
        self._accepting.cancel()
        super()._ask_to_stop(reason)

    async def _connect(self, listener: Listener, greet: Greet, stream: trio.SocketStream) -> None:
        """One connection from its accept to its end.

        Each listener has its own limit: whoever cannot even say a token must not close the unix
        socket to its user, and to `acpbridge stop`.
        """
        if self._connections[listener] >= self._limits.connections_max:
            self._notes.note("connection_refused", "warning", reason="connections_max")
            await trio.aclose_forcefully(stream)
            return
        self._connections[listener] += 1
        try:
            async with greet(stream) as peer:
                if peer is not None:
                    await self._attend(peer)
        finally:
            self._connections[listener] -= 1

    async def _attend(self, peer: Peer) -> None:
        """See what its first line makes of a peer: a client, mostly."""
        lost = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_alive, peer, lost)
            items: Items | None = []
            while not items and items is not None:
                items = await peer.receive()
            if items:
                request = stop_request(items[0]) if peer.kind == "unix" else None
                if request is not None:
                    await self._stop_for(peer, request)
                elif len(self._visitors) >= self._settings.policy.clients_max:
                    await self._turn_away(peer, items)
                else:
                    await self._host(peer, items, lost)
            nursery.cancel_scope.cancel()

    async def _keep_alive(self, peer: Peer, lost: trio.Event) -> None:
        await peer.keep_alive()
        lost.set()

    async def _stop_for(self, peer: Peer, request: Frame) -> None:
        """Answer, and hold the connection: whoever asked sees our end as its end."""
        said = {
            "pid": os.getpid(),
            "clients": len(self._driver.clients),
        }
        try:
            await peer.outgoing.send_all(stop_answer(request, said) + b"\n")
        except trio.BrokenResourceError:
            self._notes.note("stop_asker_gone", "debug")
        self._ask_to_stop("acpbridge stop")
        await trio.sleep_forever()

    async def _turn_away(self, peer: Peer, items: Items) -> None:
        clients_max = self._settings.policy.clients_max
        self._notes.note("client_refused", "warning", reason="clients_max")
        with trio.move_on_after(self._limits.close_wait_s):
            try:
                await peer.outgoing.send_all(too_many(items[0], clients_max) + b"\n")
            except trio.BrokenResourceError:
                return
            await peer.close(TRY_AGAIN, words_of_too_many(clients_max))

    async def _host(self, peer: Peer, items: Items, lost: trio.Event) -> None:
        """One client from its first lines to the last that it is sent."""
        self._last_number += 1
        number = self._last_number
        visitor = Visitor(number, limits=self._limits, detach=self._leave)
        self._visitors[number] = self._driver.clients[number] = visitor
        self._notes.note("client_joined", client=number, by=peer.kind)
        self._driver.feed(ClientJoined(number))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, visitor, peer)
                nursery.start_soon(self._watch_loss, visitor, peer, lost)
                nursery.start_soon(self._read, visitor, peer, items)
                await visitor.has_left.wait()
                code = GOING_AWAY if self._driver.finished.is_set() else NORMAL
                if visitor.is_slow:
                    code = TRY_AGAIN
                else:
                    with trio.move_on_after(self._limits.flush_max_s):
                        await visitor.outbox.drained()
                with trio.move_on_after(self._limits.close_wait_s):
                    await peer.close(code, visitor.left_reason)
                nursery.cancel_scope.cancel()
        finally:
            del self._visitors[number]
            self._goodbyes.unpark_all()

    def _leave(self, number: int, reason: str) -> None:
        """Feed that a client is gone, or has to go; the first reason counts."""
        if self._driver.clients.pop(number, None) is None:
            return
        visitor = self._visitors[number]
        name, level = ("client_left", "info")
        if visitor.is_slow:
            name, level = ("client_detached", "warning")
        self._notes.note(name, level, client=number, reason=reason)
        visitor.left_reason = reason
        visitor.has_left.set()
        self._driver.feed(ClientLeft(number, reason))

    async def _read(self, visitor: Visitor, peer: Peer, items: Items | None) -> None:
        driver, number = self._driver, visitor.number
        high_bytes, own_bytes = self._limits.outbox_high_bytes, self._limits.client_bytes_max // 2

        def gone() -> None:
            self._leave(number, "it closed the connection")

        while items is not None:
            for item in items:
                if visitor.has_left.is_set():
                    return
                # One by one: what one read brings may ask for a gigabyte of replays.
                driver.take_client((item,), number)
                if driver.agent is not None and not driver.agent.outbox.has_room(high_bytes):
                    await self._room(driver.agent.outbox, high_bytes, peer.hung_up, gone)
                # Who only writes is not read, and so makes no more answers, before it is detached.
                if not visitor.outbox.has_room(own_bytes):
                    await self._room(visitor.outbox, own_bytes, peer.hung_up, gone)
            items = await peer.receive()
        self._leave(number, peer.end_reason)

    async def _write(self, visitor: Visitor, peer: Peer) -> None:
        await visitor.outbox.run(peer.outgoing)
        self._leave(visitor.number, "it reads no more")

    async def _watch_loss(self, visitor: Visitor, peer: Peer, lost: trio.Event) -> None:
        await lost.wait()
        self._leave(visitor.number, peer.end_reason)
