"""The bridge's log and counters: one event name a line, values as key=value.

stdout belongs to the protocol, so everything here goes to stderr or to a file, and nothing here
ever waits: a thread writes, a full buffer drops and counts. Clients show the last lines of our
stderr to people, so lines are short. Values are names, numbers and ids; never prompt text.

Written by hand, a page long: importing structlog takes about 80 ms, and a bridge is started
anew for every conversation.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import Counter, deque
from typing import Any

import trio

from acpbridge.config import LOG_LEVELS

_VALUE_CHARS_MAX = 300
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@+,")


def render(name: str, level: str, fields: dict[str, Any]) -> str:
    """One line for people and for `grep`: `acpbridge warning agent_exited run=1 reason="…"`."""
    words = ["acpbridge", level, name]
    words.extend(f"{key}={_value(value)}" for key, value in fields.items())
    return " ".join(words)


def _value(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    if len(text) > _VALUE_CHARS_MAX:
        text = text[: _VALUE_CHARS_MAX - 1] + "…"
    if text and _BARE.issuperset(text):
        return text
    return json.dumps(text, ensure_ascii=False)


class Sink:
    """Bytes on their way to a file descriptor that may be slow, stuck or gone.

    A thread writes, with the descriptor's mode left as it is: another program may share it.

    Args:
        fd: Stays open; not closed here.
        bytes_max: What waits beyond this is dropped and counted.
    """

    def __init__(self, fd: int, *, bytes_max: int) -> None:
        self._fd = fd
        self._bytes_max = bytes_max
        self._pieces: deque[bytes | bytearray] = deque()
        self._news = trio.lowlevel.ParkingLot()
        self._progress = trio.lowlevel.ParkingLot()
        self._is_gone = False
        self._ends_a_line = True
        self.waiting_bytes = 0
        self.dropped_bytes = 0

    def put(self, data: bytes | bytearray) -> None:
        """Queue bytes as they are; never waits."""
        if not data:
            return
        if self._is_gone or self.waiting_bytes + len(data) > self._bytes_max:
            self.dropped_bytes += len(data)
            return
        self._ends_a_line = data.endswith(b"\n")
        self._pieces.append(data)
        self.waiting_bytes += len(data)
        self._news.unpark_all()

    def put_line(self, text: str) -> None:
        """Queue a line of our own; it never continues a line of somebody else."""
        line = text.encode("utf-8", "replace") + b"\n"
        self.put(line if self._ends_a_line else b"\n" + line)

    async def run(self) -> None:
        """Write what is put, until cancelled."""
        while True:
            while not self._pieces:
                await self._news.park()
            data = b"".join(self._pieces)
            self._pieces.clear()
            is_written = await trio.to_thread.run_sync(
                _write_all, self._fd, data, abandon_on_cancel=True
            )
            if not is_written:
                self._is_gone = True
                self.dropped_bytes += self.waiting_bytes
            self.waiting_bytes = 0 if self._is_gone else self.waiting_bytes - len(data)
            self._progress.unpark_all()

    async def drained(self) -> None:
        """Return once nothing waits; bound it, since a reader may never come back."""
        while self.waiting_bytes and not self._is_gone:
            await self._progress.park()


def _write_all(fd: int, data: bytes) -> bool:
    """Write everything, in a thread; False when nobody can read it any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Somebody who shares the descriptor made it non-blocking.
            select.select((), (fd,), ())
        except OSError:
            return False
    return True


class Notes:
    """Where `Note` effects and the shell's own remarks go.

    Args:
        sink: Where lines go.
        level: Lines below this level are counted and not written.
        is_stamped: Lines carry the wall-clock time; for files.
    """

    def __init__(self, sink: Sink, *, level: str, is_stamped: bool = False) -> None:
        self._sink = sink
        self._lowest = LOG_LEVELS.index(level)
        self._is_stamped = is_stamped
        self.counters: Counter[str] = Counter()
        """How often each event name was noted, at any level."""

    def note(self, name: str, level: str = "info", /, **fields: object) -> None:
        """Count one event, and write its line if the level asks for it."""
        self.counters[name] += 1
        if LOG_LEVELS.index(level) < self._lowest:
            return
        line = render(name, level, fields)
        if self._is_stamped:
            line = time.strftime("%Y-%m-%dT%H:%M:%S%z ") + line
        self._sink.put_line(line)
