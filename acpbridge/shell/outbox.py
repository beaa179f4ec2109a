"""Lines that wait to be written to one end, and the one task that writes them.

`put` is synchronous, so a core effect never waits. Whoever reads from the other end waits for
`room` before it reads on: that is the back-pressure. What has gathered since the last wake is
joined into one write, because a write per frame is what limits a proxy, not the event loop. A
write that was cut off ends the outbox: half a line is never followed by another one.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.abc import SendStream

_NO_DESCRIPTOR = -1


class Outbox:
    """A bounded queue of lines toward one stream.

    Args:
        high_bytes: `room()` waits while this many bytes or more wait to be written.
        piece_bytes_max: One write joins whole lines up to this size; a longer line is written
            by itself.
    """

    def __init__(self, *, high_bytes: int, piece_bytes_max: int) -> None:
        self._high_bytes = high_bytes
        self._piece_bytes_max = piece_bytes_max
        self._lines: deque[bytes] = deque()
        self._rest: memoryview | None = None
        self._descriptor = _NO_DESCRIPTOR
        self._news = trio.lowlevel.ParkingLot()
        self._progress = trio.lowlevel.ParkingLot()
        self._is_ending = False
        self._is_writing = False
        self.waiting_bytes = 0
        """Bytes that were put and are not written yet, line feeds included."""
        self.is_closed = False
        """Nothing can be written any more; lines that are put are dropped and counted."""
        self.dropped_lines = 0
        """Lines that were put and not written; what was cut off in a write counts as one."""

    def put(self, line: bytes) -> None:
        """Queue one line (no line feed in it); never waits, never raises. Then `flush`."""
        if self.is_closed or self._is_ending:
            self.dropped_lines += 1
            return
        self._lines.append(line)
        self.waiting_bytes += len(line) + 1

    def put_all(self, lines: Sequence[bytes]) -> None:
        """Queue several lines, as `put` does each."""
        if self.is_closed or self._is_ending:
            self.dropped_lines += len(lines)
            return
        self._lines.extend(lines)
        self.waiting_bytes += sum(map(len, lines)) + len(lines)

    def flush(self) -> None:
        """Have what was put written: at once as far as the pipe takes it, the rest soon.

        Writing from here saves two task switches on every frame's way, about 25 us each.
        """
        if not self._lines or self._is_writing:
            return
        if self._descriptor == _NO_DESCRIPTOR or self._rest is not None:
            self._news.unpark_all()
            return
        if len(self._lines) == 1:
            piece = self._lines.popleft() + b"\n"
        else:
            piece = _joined(self._take_piece()[0])
        size_bytes = len(piece)
        try:
            written_bytes = os.write(self._descriptor, piece)
        except OSError:
            # EAGAIN: the writer waits. Anything else: the writer meets it too, and tells.
            written_bytes = 0
        self.waiting_bytes -= written_bytes
        if written_bytes < size_bytes:
            self._rest = memoryview(piece)[written_bytes:]
        if self._rest is not None or self._lines:
            self._news.unpark_all()
        if self._progress:
            self._progress.unpark_all()

    async def room(self, high_bytes: int | None = None) -> None:
        """Return once fewer than `high_bytes` wait, or the outbox is broken.

        Passes without a checkpoint when there is room: the caller's next read has one.
        """
        limit_bytes = self._high_bytes if high_bytes is None else high_bytes
        while not self.has_room(limit_bytes):
            await self._progress.park()

    def has_room(self, high_bytes: int) -> bool:
        """Whether `room` would return at once."""
        return self.waiting_bytes < high_bytes or self.is_closed

    async def drained(self) -> None:
        """Return once everything that was put is written, or the outbox is broken."""
        await self.room(1)

    def end(self) -> None:
        """Write what waits, close the stream, take nothing more."""
        self._is_ending = True
        self._news.unpark_all()

    def abandon(self) -> None:
        """Drop what waits and wake everyone: nobody will write this any more."""
        self.dropped_lines += len(self._lines) + (self._rest is not None)
        self._lines.clear()
        self._rest = None
        self._descriptor = _NO_DESCRIPTOR
        self.waiting_bytes = 0
        self.is_closed = True
        self._progress.unpark_all()
        self._news.unpark_all()

    async def run(self, stream: SendStream) -> bool:
        """Write to the stream until `end`; returns False if the peer closed it before.

        Closes the stream in the end, in any case. A cancelled write closes the outbox.
        """
        if isinstance(stream, trio.lowlevel.FdStream):
            self._descriptor = stream.fileno()
        try:
            async with stream:
                while True:
                    while self._rest is not None or self._lines:
                        await self._write_piece(stream)
                    if self._is_ending or self.is_closed:
                        return not self.is_closed
                    await self._news.park()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        finally:
            self._is_writing = False
            self.abandon()

    async def _write_piece(self, stream: SendStream) -> None:
        if self._rest is None:
            taken, _ = self._take_piece()
            self._rest = memoryview(_joined(taken))
        size_bytes = len(self._rest)
        self._is_writing = True
        await stream.send_all(self._rest)
        self._is_writing = False
        self._rest = None
        self.waiting_bytes -= size_bytes
        self._progress.unpark_all()

    def _take_piece(self) -> tuple[list[bytes], int]:
        """Whole lines up to the size of a piece, one at least, and their size as written."""
        lines = self._lines
        size_bytes = self.waiting_bytes
        if size_bytes <= self._piece_bytes_max and self._rest is None:
            taken = list(lines)
            lines.clear()
            return taken, size_bytes
        taken = [lines.popleft()]
        size_bytes = len(taken[0]) + 1
        while lines and size_bytes + len(lines[0]) < self._piece_bytes_max:
            line = lines.popleft()
            taken.append(line)
            size_bytes += len(line) + 1
        return taken, size_bytes


def _joined(lines: list[bytes]) -> bytes:
    lines.append(b"")
    return b"\n".join(lines)
