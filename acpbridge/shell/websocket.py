"""One WebSocket connection, after its handshake, as a stream of ACP lines.

One text frame is one JSON-RPC message, as a line without its LF. Many lines go out in one write,
as one frame each: a write per frame is what limits a proxy. Pings are answered and sent by
`keep_alive`, so that a reader never waits for a writer. A peer that is lost ends the connection
and nothing else: what that means for a turn is decided elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from acpbridge.shell.frames import (
    ABNORMAL,
    GOING_AWAY,
    NORMAL,
    Close,
    Fault,
    FrameParser,
    Ping,
    close_frame,
    is_utf8,
    ping_frame,
    pong_frame,
    text_frames,
)
from acpbridge.shell.stdio import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.abc import HalfCloseableStream

    from acpbridge.config import Limits
    from acpbridge.shell.frames import Received


@frozen
class Ended:
    """Why a connection ended."""

    code: int
    """Of the close frame (RFC 6455 section 7.4), the peer's or ours; 1005 or 1006 if none."""
    reason: str
    """One line; the peer's own words, if it closed with some."""
    by_peer: bool


class WebSocket:
    """The server's end. One task reads, any number may write, one runs `keep_alive`.

    Args:
        stream: After the 101; closed when the connection ends.
        limits: Sizes and times.
        connection_id: As on the 101.
        trailing: What was read behind the request's head.
    """

    def __init__(
        self,
        stream: HalfCloseableStream,
        limits: Limits,
        *,
        connection_id: str = "",
        trailing: bytes = b"",
    ) -> None:
        self.connection_id = connection_id
        self.ended: Ended | None = None
        """None while it is open. Set once, by whatever ends it first."""
        self.mended_lines = 0
        """Lines that were no UTF-8 and went out with U+FFFD where they were not."""
        self._stream = stream
        self._limits = limits
        self._trailing: bytes | bytearray = trailing
        self._parser = FrameParser(limits.message_bytes_max)
        self._write_lock = trio.Lock()
        self._is_torn = False
        """A write was cut off, and half a frame is followed by nothing; or the last was said."""
        self._is_said = False
        """Our close frame was written whole."""
        self._pong: bytes | None = None
        """The payload of the last ping that was not answered yet (section 5.5.3)."""
        self._news = trio.lowlevel.ParkingLot()
        self._heard = trio.lowlevel.ParkingLot()
        self._heard_count = 0
        self._reading_since_s: float | None = None
        self._is_done = trio.Event()
        """The peer has closed or left, or the stream is closed: nothing will be read any more."""

    @property
    def ignored_messages(self) -> int:
        """Binary messages so far: ACP ignores them."""
        return self._parser.ignored_messages

    async def receive_lines(self) -> list[bytes]:
        """What one read brings, in order: one line a text message, empty at the end.

        A line has no LF: line ends inside a message, which JSON allows between its tokens, come
        as spaces. Blank messages are dropped, as blank lines are on stdio.
        """
        while self.ended is None:
            data = await self._receive()
            if not data:
                self._end(ABNORMAL, "the peer left without a close frame", by_peer=True)
                break
            is_open = self.ended is None
            lines = self._sorted(self._parser.feed(data))
            # What comes after we have said our last word is dropped.
            if lines and is_open:
                return lines
        await self._finish()
        return []

    async def _receive(self) -> bytes | bytearray:
        """What one read brings, empty when there is no more, however it ended."""
        data, self._trailing = self._trailing, b""
        if data:
            return data
        self._reading_since_s = trio.current_time()
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        finally:
            self._reading_since_s = None
        if data:
            self._heard_count += 1
            if self._heard:
                self._heard.unpark_all()
        else:
            self._is_done.set()
        return data

    def _sorted(self, found: list[Received]) -> list[bytes]:
        """The lines of what was found; the rest is noted for those who act on it."""
        lines: list[bytes] = []
        for item in found:
            if isinstance(item, bytes):
                if item and not item.isspace():
                    lines.append(_line(item))
            elif isinstance(item, Ping):
                self._pong = item.payload
                self._news.unpark_all()
            elif isinstance(item, Close):
                self._is_done.set()
                self._end(item.code, item.reason, by_peer=True)
            elif isinstance(item, Fault):
                self._end(item.code, item.reason, by_peer=False)
        return lines

    def _end(self, code: int, reason: str, *, by_peer: bool) -> None:
        if self.ended is None:
            self.ended = Ended(code, reason, by_peer)
            self._news.unpark_all()
            self._heard.unpark_all()

    async def send_lines(self, lines: Sequence[bytes], joined: bytes | None = None) -> None:
        """Send each line as one text frame, all in one write.

        Args:
            lines: Without LF.
            joined: The same with an LF each, where somebody has that.

        Raises:
            trio.BrokenResourceError: The connection has ended, or a write was cut off.
        """
        if not is_utf8(b"\n".join(lines) if joined is None else joined):
            # One such frame would end the connection of a peer that keeps to section 8.1.
            self.mended_lines += sum(not is_utf8(line) for line in lines)
            lines = [line.decode("utf-8", "replace").encode() for line in lines]
        await self._write(text_frames(lines))

    async def _write(self, data: bytes) -> None:
        async with self._write_lock:
            if self.ended is not None or self._is_torn:
                raise trio.BrokenResourceError("the WebSocket connection has ended")
            if self._pong is not None:
                data = pong_frame(self._pong) + data
                self._pong = None
            await self._put(data)

    async def _put(self, data: bytes) -> None:
        """Write with the lock held."""
        self._is_torn = True
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            self._end(ABNORMAL, "the peer left without a close frame", by_peer=True)
            raise
        self._is_torn = False

    async def keep_alive(self) -> None:
        """Answer pings and send our own, until the connection ends; then return.

        A peer that is lost ends it: its stream is closed, the reader sees the end.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_pings)
            nursery.start_soon(self._send_pings)
            while self.ended is None:
                await self._news.park()
            nursery.cancel_scope.cancel()

    async def _answer_pings(self) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while self.ended is None:
                if self._pong is None:
                    await self._news.park()
                else:
                    await self._write(b"")

    async def _send_pings(self) -> None:
        wait_s = self._limits.pong_wait_s
        while True:
            await trio.sleep(self._limits.ping_interval_s)
            heard, asked_s = self._heard_count, trio.current_time()
            # A peer that does not even take our ping may be lost as well, so this counts too.
            with trio.move_on_after(wait_s):
                try:
                    await self._write(ping_frame(b"acpbridge"))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return
            while self._heard_count == heard:
                # Only while somebody reads: a pong may stand behind what is left unread.
                now_s, since_s = trio.current_time(), self._reading_since_s
                left_s = wait_s if since_s is None else max(asked_s, since_s) + wait_s - now_s
                if left_s <= 0:
                    self._end(ABNORMAL, f"nothing heard for {wait_s:g} s", by_peer=True)
                    await trio.aclose_forcefully(self._stream)
                    return
                with trio.move_on_after(left_s):
                    await self._heard.park()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End the connection with a close frame, and wait for the peer's, `close_wait_s` in all.

        The stream is closed in the end, in any case. Does nothing more when called again.
        """
        self._end(code, reason, by_peer=False)
        await self._finish()

    async def _finish(self) -> None:
        """Say our last word, let the peer read it, and close the stream."""
        try:
            with trio.move_on_after(self._limits.close_wait_s):
                # Closing over unread bytes would reset the connection, and what we wrote last
                # might never be read (section 7.1.1).
                if await self._say_close():
                    await self._drain()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(self._stream)
            self._is_done.set()

    async def _say_close(self) -> bool:
        """Send the close frame, ours or the echo of the peer's code (section 5.5.1), and EOF.

        Once, whoever comes first; returns whether the peer can read it.
        """
        assert self.ended is not None
        async with self._write_lock:
            if not self._is_torn and self.ended.code != ABNORMAL:
                reason = "" if self.ended.by_peer else self.ended.reason
                await self._put(close_frame(self.ended.code, reason))
                self._is_torn = True
                self._is_said = True
                await self._stream.send_eof()
        return self._is_said

    async def _drain(self) -> None:
        """Return once the peer has closed or left; what else it sends is dropped."""
        if self._reading_since_s is not None:
            # The reader is in a read; it will see the end for us.
            await self._is_done.wait()
        while not self._is_done.is_set():
            self._sorted(self._parser.feed(await self._receive()))

    def ends(self) -> tuple[LineReceiver, LineSender]:
        """The two directions as byte streams of lines with LF, as `Outbox` and `Front` use them."""
        return LineReceiver(self), LineSender(self)


class LineSender(trio.abc.SendStream):
    """Takes whole lines with their LF, as an `Outbox` writes them; closing it says 1000."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send one text frame a line.

        Raises:
            trio.BrokenResourceError: The connection has ended.
        """
        whole = bytes(data)
        lines = whole.split(b"\n")
        rest = lines.pop()
        assert not rest, "a write holds whole lines"
        await self._websocket.send_lines(lines, whole)

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: a batch waits where it is sent."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close the connection; see `WebSocket.close`."""
        await self._websocket.close(NORMAL)


class LineReceiver(trio.abc.ReceiveStream):
    """Gives what messages bring as lines with LF, then b"", however the connection ended."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._rest = memoryview(b"")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """At most `max_bytes` of what is there; a line may come in several pieces."""
        if not self._rest:
            lines = await self._websocket.receive_lines()
            self._rest = memoryview(b"\n".join([*lines, b""]))
        else:
            await trio.lowlevel.checkpoint()
        size_bytes = len(self._rest) if max_bytes is None else max_bytes
        piece, self._rest = bytes(self._rest[:size_bytes]), self._rest[size_bytes:]
        return piece

    async def aclose(self) -> None:
        """Close the connection: nobody reads it any more."""
        await self._websocket.close(GOING_AWAY)


async def linger(stream: HalfCloseableStream) -> None:
    """Say that nothing more comes, and drop what still comes, to the peer's end.

    Raises:
        trio.BrokenResourceError: The peer has reset the connection.
    """
    await stream.send_eof()
    while await stream.receive_some(READ_BYTES):
        pass


_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


def _line(message: bytes) -> bytes:
    if b"\n" in message or b"\r" in message:
        return message.translate(_LINE_ENDS)
    return message
