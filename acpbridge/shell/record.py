"""The tee of `--record`: lines go to a list at once and to the tape's file by a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.shell.notes import Notes
    from acpbridge.store.tape import Tape


class TapeRecorder:
    """Feeds a tape without ever holding the loop up for its scrubbing or its disk.

    Args:
        tape: Closed by `run`.
        bytes_max: Lines that wait for the disk; past that the recording ends for good, since
            a tape with a hole would be a lie.
    """

    def __init__(self, tape: Tape, *, notes: Notes, bytes_max: int) -> None:
        self._tape = tape
        self._notes = notes
        self._bytes_max = bytes_max
        self._entries: list[tuple[float, str, bytes]] = []
        self._waiting_bytes = 0
        self._begin_s = trio.current_time()
        self._news = trio.lowlevel.ParkingLot()
        self._is_ending = False
        self._has_failed = False

    def take(self, at_s: float, side: str, line: bytes) -> None:
        """Queue one line for the tape; never waits."""
        if self._is_ending:
            return
        if self._waiting_bytes + len(line) > self._bytes_max:
            self._give_up("the disk is too slow")
            return
        self._entries.append((at_s - self._begin_s, side, line))
        self._waiting_bytes += len(line)
        self._news.unpark_all()

    def end(self) -> None:
        """Take nothing more; `run` writes the rest, closes the tape and returns."""
        self._is_ending = True
        self._news.unpark_all()

    async def run(self) -> None:
        """Write what is taken until `end`; cancelled, it leaves a stuck disk to its thread."""
        while self._entries or not self._is_ending:
            if self._entries:
                entries, self._entries = self._entries, []
                taken_bytes = self._waiting_bytes
                await self._in_thread(partial(self._tape.write, entries))
                self._waiting_bytes -= taken_bytes
            else:
                await self._news.park()
        await self._in_thread(self._tape.close)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        try:
            await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        except OSError as error:
            self._give_up(error.strerror or str(error))

    def _give_up(self, reason: str) -> None:
        """Stop for good; what was taken before is still written if the disk allows."""
        self._is_ending = True
        if not self._has_failed:
            self._has_failed = True
            self._notes.note("tape_ended", "warning", path=self._tape.path, reason=reason)
