"""A daemon of many clients in memory: peers that tests hold the other ends of, and a small core."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_one_way_pair

from acpbridge.config import Limits, Settings
from acpbridge.core.effects import Effect, Finish, StartAgent, StopAgent, ToAgent, ToClients
from acpbridge.core.events import (
    AgentExited,
    AgentSent,
    AgentStreamed,
    ClientJoined,
    ClientLeft,
    ClientSent,
    HubEvent,
    StopAsked,
)
from acpbridge.core.policy import Policy
from acpbridge.shell.daemon import Daemon
from acpbridge.shell.driver import Core
from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.peers import Items
from acpbridge.shell.surroundings import Surroundings
from acpbridge.wire.lines import LineDecoder

BOUND_S = 10.0
LIMITS = Limits(
    agent_eof_s=0.2, agent_term_s=0.2, pipe_tail_s=0.2, flush_max_s=0.2, close_wait_s=0.2
)


@define
class Crowd:
    """The whole state: who is there, and every event so far."""

    present: list[int] = field(factory=list)
    replay: Sequence[bytes] = ()
    """What a `replay` request is answered with."""
    seen: list[HubEvent] = field(factory=list)
    news: trio.Event = field(factory=trio.Event)

    async def until(self, kind: type, count: int = 1) -> list[Any]:
        """The events of this kind, once there are so many."""
        with trio.fail_after(BOUND_S):
            while len(found := [one for one in self.seen if isinstance(one, kind)]) < count:
                await self.news.wait()
        return found


def begin(_crowd: Crowd, _now_s: float) -> Sequence[Effect]:
    """The agent is started."""
    return (StartAgent(1),)


def step(crowd: Crowd, _now_s: float, event: HubEvent) -> Iterable[Effect]:
    """Everybody gets what the agent says; a stop ends the agent, and its end ends us."""
    crowd.seen.append(event)
    crowd.news.set()
    crowd.news = trio.Event()
    match event:
        case ClientJoined(number):
            crowd.present.append(number)
        case ClientLeft(number):
            crowd.present.remove(number)
        case AgentSent(frame=frame):
            return (ToClients(tuple(crowd.present), (frame.raw,)),)
        case AgentStreamed(chunks=chunks):
            return (ToClients(tuple(crowd.present), chunks.lines),)
        case ClientSent(frame, number) if frame.method == "replay":
            return (ToClients((number,), crowd.replay),)
        case ClientSent(frame):
            return (ToAgent(frame.raw),)
        case StopAsked():
            return (StopAgent(1),)
        case AgentExited():
            return (Finish(0),)
        case _:
            pass
    return ()


class MemoryPeer:
    """A connection whose other end a test holds."""

    end_reason = "it closed the connection"

    def __init__(self, outgoing: trio.abc.SendStream | None = None, kind: str = "unix") -> None:
        self.kind = kind
        self.to_us: MemorySendStream
        self._incoming: MemoryReceiveStream
        self.to_us, self._incoming = memory_stream_one_way_pair()
        self.from_us: MemoryReceiveStream | None = None
        if outgoing is None:
            outgoing, self.from_us = memory_stream_one_way_pair()
        self.outgoing = outgoing
        self.lost = trio.Event()
        self.left = trio.Event()
        """The other end is closed, read or not."""
        self.closed_with: tuple[int, str] | None = None
        self.is_over = trio.Event()
        """The daemon is done with it."""
        self._decoder = LineDecoder(1 << 20)
        self._read_bytes = b""

    async def receive(self) -> Items | None:
        data = await self._incoming.receive_some()
        return self._decoder.feed(data) if data else None

    async def keep_alive(self) -> None:
        await self.lost.wait()

    async def hung_up(self) -> None:
        await self.left.wait()

    async def close(self, code: int, reason: str) -> None:
        self.closed_with = (code, reason)
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """The connection is closed, in any case."""
        self.is_over.set()
        await self.outgoing.aclose()

    async def say(self, *lines: bytes) -> None:
        await self.to_us.send_all(b"".join(line + b"\n" for line in lines))

    async def lines(self, count: int) -> list[bytes]:
        """The next so many lines that it is sent."""
        assert self.from_us is not None
        with trio.fail_after(BOUND_S):
            while self._read_bytes.count(b"\n") < count:
                data = await self.from_us.receive_some()
                assert data, "it was closed"
                self._read_bytes += data
        *lines, self._read_bytes = self._read_bytes.split(b"\n", count)
        return lines


class Doors(trio.abc.Listener[trio.SocketStream]):
    """A listener that a test puts peers into."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Any](1000)
        self.is_closed = False

    def put(self, peer: MemoryPeer) -> None:
        self._send.send_nowait(peer)

    async def accept(self) -> trio.SocketStream:
        found: trio.SocketStream = await self._receive.receive()
        return found

    async def aclose(self) -> None:
        self.is_closed = True
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def greet(stream: Any) -> AsyncIterator[MemoryPeer]:
    """The peer itself stands for the connection."""
    yield stream


class Rig:
    """A daemon at work in the background."""

    def __init__(self, *argv: str, limits: Limits = LIMITS, policy: Policy | None = None) -> None:
        self.crowd = Crowd()
        self.doors = Doors()
        self.other_doors = Doors()
        self.notes = Notes(Sink(2, bytes_max=1 << 20), level="error")
        self.daemon = Daemon(
            Settings(policy=policy or Policy(), limits=limits),
            argv or ("cat",),
            Core(self.crowd, begin, step),
            around=Surroundings(Sink(2, bytes_max=1 << 20), self.notes, None),
        )
        self.code: int | None = None
        self.ready: list[str] = []
        self.ended = trio.Event()

    async def serve(self) -> None:
        with trio.fail_after(3 * BOUND_S):
            self.code = await self.daemon.serve(
                [(self.doors, greet), (self.other_doors, greet)], self.ready.append
            )
        self.ended.set()

    def come(
        self, outgoing: trio.abc.SendStream | None = None, *, kind: str = "unix"
    ) -> MemoryPeer:
        """Somebody connects."""
        peer = MemoryPeer(outgoing, kind)
        (self.doors if kind == "unix" else self.other_doors).put(peer)
        return peer

    def stop(self) -> None:
        self.daemon._ask_to_stop("a test")
