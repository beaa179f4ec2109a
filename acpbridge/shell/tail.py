"""`acpbridge tail`: follow a session through the daemon's event plane.

An observer with events: it never answers and never prompts. Each event carries its place, so
after a lost connection it goes on from where it was; a daemon that was started anew has a new
epoch, and its log is shown from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from acpbridge.core.policy import MIB
from acpbridge.errors import AcpBridgeError, DaemonFault, UsageFault
from acpbridge.shell.attach import dial
from acpbridge.shell.stdio import READ_BYTES, stop_signals
from acpbridge.wire import acp, codec
from acpbridge.wire.frame import Frame, Kind, peek
from acpbridge.wire.lines import LineDecoder
from acpbridge.wire.look import member

if TYPE_CHECKING:
    from pathlib import Path

LINE_BYTES_MAX = 64 * MIB
RETRY_FIRST_S = 0.1
RETRY_CAP_S = 2.0
"""Between two attempts to reach a daemon that has gone: the first, and the longest."""
LOOK_S = 0.5
"""Between two looks for a session where there is none yet."""


@define
class Tail:
    """What is followed, and how far it was seen."""

    show: Callable[[Frame], None]
    say: Callable[[str], None]
    session: str = ""
    """Empty: the one with a turn, or the newest one."""
    epoch: str = field(default="", init=False)
    seq: int = field(default=0, init=False)

    def take(self, frame: Frame) -> None:
        """Show a frame if it is new and ours, and remember its place."""
        if self.session and frame.session != self.session and frame.method != acp.CANCEL_REQUEST:
            return
        place = _place(frame)
        if place is not None:
            epoch, seq = place
            # A request that is shown again carries the place of the last event.
            if frame.kind is Kind.NOTIFICATION and epoch == self.epoch and seq <= self.seq:
                return
            self.epoch, self.seq = epoch, seq
        self.show(frame)

    def caught_up(self, result: dict[str, Any]) -> None:
        """Show the answer of `_acpbridge/events_since`."""
        if self.epoch and result.get("epoch") != self.epoch:
            self.say("the daemon was started anew")
            self.epoch, self.seq = "", 0
        elif result.get("truncated") is True:
            self.say("what came before is not kept any more")
        for one in result.get("frames") or ():
            frame = peek(codec.encode(one), strict=False)
            if isinstance(frame, Frame):
                self.take(frame)
        epoch, seq = result.get("epoch"), result.get("latestSeq")
        if isinstance(epoch, str) and isinstance(seq, int):
            self.epoch, self.seq = epoch, seq


def choose(stats: dict[str, Any]) -> str:
    """The session to follow: the last one with a turn, else the newest; empty for none.

    Args:
        stats: The result of `_acpbridge/stats`.
    """
    for name in ("turns", "sessions"):
        found = _sessions(stats, name)
        if found and isinstance(found[-1], str):
            return found[-1]
    return ""


def _sessions(stats: dict[str, Any], name: str = "sessions") -> list[Any]:
    return [one.get("sessionId") for one in stats.get(name) or () if isinstance(one, dict)]


def _place(frame: Frame) -> tuple[str, int] | None:
    epoch, seq = (member(frame.params, "_meta", "acpbridge", name) for name in ("epoch", "seq"))
    return (epoch, seq) if isinstance(epoch, str) and isinstance(seq, int) else None


def follow(path: Path, tail: Tail, *, once: bool) -> None:
    """Follow a session until a stop signal, or only show what there is.

    Raises:
        DaemonFault: No daemon listens at the beginning.
        UsageFault: With `once`: there is no session.
    """
    fault = trio.run(_until_stopped, path, tail, once)
    if fault is not None:
        raise fault


async def _until_stopped(path: Path, tail: Tail, once: bool) -> AcpBridgeError | None:
    """Follow until a signal says stop; a fault is returned, so that it comes out alone.

    A KeyboardInterrupt would be raised wherever Python stands, and where that is a callback of the
    interpreter's own it is lost.
    """
    fault: AcpBridgeError | None = None
    with trio.open_signal_receiver(*stop_signals()) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                await _follow(path, tail, once)
            except AcpBridgeError as error:
                fault = error
            nursery.cancel_scope.cancel()
    return fault


async def _follow(path: Path, tail: Tail, once: bool) -> None:
    stream = await dial(path)
    while True:
        async with stream:
            link = _Link(stream, tail)
            try:
                await link.catch_up(once=once)
                if once:
                    return
                await link.live()
            except trio.BrokenResourceError:
                pass
        tail.say("the daemon has gone: waiting for it")
        stream = await _redial(path)


async def _redial(path: Path) -> trio.SocketStream:
    wait_s = RETRY_FIRST_S
    while True:
        try:
            return await dial(path)
        except DaemonFault:
            await trio.sleep(wait_s)
            wait_s = min(wait_s * 2, RETRY_CAP_S)


class _Link:
    """One connection."""

    def __init__(self, stream: trio.SocketStream, tail: Tail) -> None:
        self._stream = stream
        self._tail = tail
        self._decoder = LineDecoder(LINE_BYTES_MAX)
        self._frames: list[Frame] = []
        self._last_id = 0

    async def catch_up(self, *, once: bool) -> None:
        """Say who we are, find the session, and show what came since the cursor."""
        tail = self._tail
        meta = {"acpbridge": {"observe": True, "events": True}}
        await self._ask(
            acp.INITIALIZE,
            {"protocolVersion": acp.PROTOCOL_VERSION, "clientCapabilities": {"_meta": meta}},
        )
        stats = await self._ask("_acpbridge/stats", {})
        while not tail.session:
            tail.session = choose(stats)
            if not tail.session:
                if once:
                    raise UsageFault("no_session", "the daemon has no session yet: open one first")
                await trio.sleep(LOOK_S)
                stats = await self._ask("_acpbridge/stats", {})
        cursor = {"epoch": tail.epoch, "seq": tail.seq} if tail.epoch else None
        params = {"sessionId": tail.session, "cursor": cursor}
        result = await self._ask("_acpbridge/events_since", params)
        tail.caught_up(result)
        if not result.get("latestSeq") and tail.session not in _sessions(stats):
            absent = f"the daemon has no session {tail.session}"
            if once:
                raise UsageFault("no_session", f"{absent}: name another, or none for the newest")
            tail.say(f"{absent} yet: waiting for it")

    async def live(self) -> None:
        """Show what comes, until the daemon has gone."""
        while True:
            for frame in await self._more():
                self._tail.take(frame)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; what else comes before it is shown in its order."""
        self._last_id += 1
        id_ = codec.rpc_id(self._last_id)
        await self._stream.send_all(codec.request(id_, method, params) + b"\n")
        while True:
            for index, frame in enumerate(frames := await self._more()):
                if frame.kind is Kind.ERROR and frame.id == id_:
                    raise DaemonFault("daemon_refused", f"{method}: {frame.error.get('message')}")
                if frame.kind is Kind.RESPONSE and frame.id == id_:
                    self._frames = frames[index + 1 :]
                    return frame.result if isinstance(frame.result, dict) else {}
                self._tail.take(frame)

    async def _more(self) -> list[Frame]:
        """The next frames, one at least.

        Raises:
            trio.BrokenResourceError: The daemon has gone.
        """
        found, self._frames = self._frames, []
        while not found:
            data = await self._stream.receive_some(READ_BYTES)
            if not data:
                raise trio.BrokenResourceError("the daemon has gone")
            lines = (one for one in self._decoder.feed(data) if isinstance(one, bytes))
            looks = (peek(line, strict=False) for line in lines)
            found = [look for look in looks if isinstance(look, Frame)]
        return found
