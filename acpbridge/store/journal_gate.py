"""`journal.lock`: which file is the journal now, and who may set it aside.

The file holds a number N and the journal is `journal-N.db`. Every transaction, read or write,
holds the lock shared for its length; who sets a damaged journal aside holds it exclusively, so
nobody is inside, and raises N. The other bridges see the new N at their next transaction and open
that file. So nothing is ever committed into a file that has been set aside, and a damaged page
does not stop every bridge until the last of them has ended.

A name is never used twice: SQLite removes `NAME-wal` by its name when the last connection to a
database closes, and a bridge that still has the old one open would remove the new one's.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from acpbridge.store.journal_fault import BUSY, BUSY_WAIT_S_MAX, JournalFault, fault_of_os
from acpbridge.store.state_dir import prepare_state_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "journal.lock"
GATE_WAIT_S_MAX = BUSY_WAIT_S_MAX + 1.0
"""A transaction that waits for SQLite's own lock holds the gate for that long."""
_TRY_GAP_S = 0.002
_NAME = re.compile(r"journal-(\d{1,9})\.db", re.ASCII)


def database_path(state_dir: Path, number: int) -> Path:
    """The journal's file of this number."""
    return state_dir / f"journal-{number}.db"


def is_at(fd: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return fd >= 0 and os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False


class Gate:
    """The lock file of one state directory, open.

    Raises:
        JournalFault: It cannot be opened or created.
    """

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / LOCK
        self.wait_s_max = GATE_WAIT_S_MAX
        self._state_dir = state_dir
        self._fd = -1
        self._open()
        if not os.fstat(self._fd).st_size:
            with self.exclusive() as number:
                self.turn(number)

    def close(self) -> None:
        """Close the file; the lock goes with it. Once is enough."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextmanager
    def shared(self) -> Iterator[int]:
        """Hold the gate for one transaction; yields the number of the journal."""
        self._lock(fcntl.LOCK_SH)
        try:
            yield self._number()
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    @contextmanager
    def exclusive(self) -> Iterator[int]:
        """Hold the gate while nobody is inside; yields the number of the journal."""
        self._lock(fcntl.LOCK_EX)
        try:
            yield self._number()
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def turn(self, number: int) -> None:
        """Make `number` the journal's, durably; only inside `exclusive`."""
        os.pwrite(self._fd, b"%d\n" % number, 0)
        os.fsync(self._fd)

    def _open(self) -> None:
        self.close()
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise fault_of_os(error, self.path) from error

    def _number(self) -> int:
        text = os.pread(self._fd, 16, 0)
        if text.endswith(b"\n") and text[:-1].isdigit():
            return int(text)
        # New, or somebody has removed it: the journals that are there count.
        found = [_NAME.fullmatch(path.name) for path in self._state_dir.iterdir()]
        return max((int(name[1]) for name in found if name is not None), default=1)

    def _lock(self, how: int) -> None:
        # Not a blocking flock: that has no end where the holder was stopped in the middle.
        last_s = time.monotonic() + self.wait_s_max
        while True:
            if not is_at(self._fd, self.path):
                # Somebody has removed it, or the whole directory: what others lock now counts.
                prepare_state_dir(self._state_dir)
                self._open()
            try:
                fcntl.flock(self._fd, how | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > last_s:
                    raise JournalFault(BUSY, self.path, "its lock is held") from error
                time.sleep(_TRY_GAP_S)
            except OSError as error:
                raise fault_of_os(error, self.path) from error
            else:
                return
