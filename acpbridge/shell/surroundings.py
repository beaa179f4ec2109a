"""What a bridge stands on while it runs: its log, its tape, its journal.

Each is opened before anything is started, so that a fault of the world is told at once, and each
is written to its end, within a bound, when the block ends.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from acpbridge.errors import UsageFault
from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.record import TapeRecorder
from acpbridge.store.state_dir import prepare_state_dir, usual_state_dir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from acpbridge.config import Settings
    from acpbridge.shell.journaling import Journaling
    from acpbridge.store.tape import Tape

_LOG_FLUSH_MAX_S = 0.5
"""A stderr that nobody reads holds the end up for this long."""


@frozen
class Surroundings:
    """The places that a running bridge writes to, besides its clients and its agent."""

    stderr: Sink
    notes: Notes
    recorder: TapeRecorder | None


def state_folder(settings: Settings) -> Path:
    """The state directory, made if it is missing.

    Raises:
        StateDirFault: It cannot be used.
    """
    return prepare_state_dir(settings.state_dir or usual_state_dir())


def journaling_of(settings: Settings, nonce: str) -> Journaling | None:
    """The journal of this run, not opened yet: its thread does that while the agent starts.

    Raises:
        StateDirFault: There is no place for it.
    """
    if not settings.limits.journal:
        return None
    from acpbridge.shell.journaling import Journaling  # noqa: PLC0415 - the tests' bridges need none

    return Journaling(
        state_folder(settings),
        nonce,
        settings.limits.journal_days_max,
        settings.limits.journal_bytes_max,
        sends_undelivered=settings.policy.undelivered == "send",
    )


@asynccontextmanager
async def surroundings(settings: Settings) -> AsyncIterator[Surroundings]:
    """Open log and tape, write them while the block runs, and their rest after it.

    Raises:
        UsageFault: The log file or the tape cannot be written.
    """
    limits = settings.limits
    with ExitStack() as stack:
        log_fd = stack.enter_context(_log_descriptor(settings.log_file))
        tape = _open_tape(settings)
        stderr = Sink(2, bytes_max=limits.stderr_bytes_max)
        log = stderr if log_fd is None else Sink(log_fd, bytes_max=limits.stderr_bytes_max)
        notes = Notes(log, level=settings.log_level, is_stamped=log_fd is not None)
        async with _written({stderr, log}), _recording(tape, notes, settings) as recorder:
            yield Surroundings(stderr, notes, recorder)


def _open_tape(settings: Settings) -> Tape | None:
    if settings.record is None:
        return None
    from acpbridge.store.tape import open_tape  # noqa: PLC0415 - most starts record nothing

    return open_tape(settings.record, recorded=time.strftime("%Y-%m-%d"))


@asynccontextmanager
async def _written(sinks: set[Sink]) -> AsyncIterator[None]:
    """Write the sinks while the block runs, and what they still hold after it."""
    async with trio.open_nursery() as nursery:
        for sink in sinks:
            nursery.start_soon(sink.run)
        try:
            yield
        finally:
            with trio.move_on_after(_LOG_FLUSH_MAX_S, shield=True):
                for sink in sinks:
                    await sink.drained()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _recording(
    tape: Tape | None, notes: Notes, settings: Settings
) -> AsyncIterator[TapeRecorder | None]:
    """Write the tape while the block runs, and its rest after it."""
    if tape is None:
        yield None
        return
    recorder = TapeRecorder(tape, notes=notes, bytes_max=settings.limits.tape_bytes_max)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        try:
            yield recorder
        finally:
            recorder.end()
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.deadline = trio.current_time() + settings.limits.flush_max_s


@contextmanager
def _log_descriptor(path: Path | None) -> Iterator[int | None]:
    if path is None:
        yield None
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = f"cannot write the log file {path}: {error.strerror}; choose another --log-file"
        raise UsageFault("log_file_unusable", hint) from error
    try:
        yield fd
    finally:
        os.close(fd)
