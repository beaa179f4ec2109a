"""Streams that tests look into."""

from __future__ import annotations

import trio


class RecordingStream(trio.abc.SendStream):
    """Keeps each write apart; can be told to block or to break."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False
        self.is_broken = False
        self._gate = trio.Event()
        self._gate.set()

    @property
    def data(self) -> bytes:
        return b"".join(self.writes)

    def block(self) -> None:
        """Let the next write take one byte and wait."""
        self._gate = trio.Event()

    def unblock(self) -> None:
        self._gate.set()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            raise trio.BrokenResourceError
        if not self._gate.is_set():
            self.writes.append(bytes(data[:1]))
            await self._gate.wait()
            data = data[1:]
        self.writes.append(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._gate.wait()

    async def aclose(self) -> None:
        self.is_closed = True
        await trio.lowlevel.checkpoint()
