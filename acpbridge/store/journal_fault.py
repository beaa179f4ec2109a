"""What can go wrong with the journal's file, as one exception with a kind.

Kinds: `full`, `io`, `readonly`, `busy`, `damaged`, `other`. The shell refuses a prompt as
`not-durable` for any of them and goes on; only the message differs.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import TYPE_CHECKING

from acpbridge.errors import AcpBridgeError, StateDirFault

if TYPE_CHECKING:
    from pathlib import Path

BUSY_WAIT_S_MAX = 5.0
"""How long one statement waits for another bridge's transaction (`busy_timeout`)."""

FULL, IO, READONLY, BUSY, DAMAGED, OTHER = "full", "io", "readonly", "busy", "damaged", "other"
KINDS = (FULL, IO, READONLY, BUSY, DAMAGED, OTHER)

_BY_CODE = {
    3: READONLY,  # SQLITE_PERM
    5: BUSY,  # SQLITE_BUSY
    6: BUSY,  # SQLITE_LOCKED
    8: READONLY,  # SQLITE_READONLY
    10: IO,  # SQLITE_IOERR
    11: DAMAGED,  # SQLITE_CORRUPT
    13: FULL,  # SQLITE_FULL
    14: READONLY,  # SQLITE_CANTOPEN: mostly a -wal or -shm that cannot be made
    15: BUSY,  # SQLITE_PROTOCOL: lost the race for the WAL's locks too often
    26: DAMAGED,  # SQLITE_NOTADB
}
_BY_ERRNO = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
    errno.EACCES: READONLY,
    errno.EPERM: READONLY,
    errno.EROFS: READONLY,
    errno.EWOULDBLOCK: BUSY,
}
_WAITED = f"was held by another process for over {BUSY_WAIT_S_MAX:.0f} s"
_WORDS = {
    FULL: "has no room on its disk ({}); free some space",
    IO: "met a failing disk ({}); look at the disk, or choose another --state-dir",
    READONLY: "cannot be written ({}); give yourself the directory, or choose another --state-dir",
    BUSY: f"{_WAITED} ({{}}); try again, and look for a stopped acpbridge",
    DAMAGED: "is damaged ({}); the next bridge here sets it aside and begins a new one",
    OTHER: "cannot be used ({}); choose another --state-dir, or report this",
}


class JournalFault(StateDirFault):
    """The journal cannot be opened, read or written; nothing of what was asked for was done."""

    def __init__(self, kind: str, path: Path, detail: str) -> None:
        super().__init__(f"journal_{kind}", f"the journal {path} {_WORDS[kind].format(detail)}")
        self.kind = kind
        """One of `KINDS`."""
        self.path = path
        self.detail = detail
        """What SQLite or the system said; no prompt text is in it."""


class KeyTaken(AcpBridgeError):
    """A prompt with this `promptKey` has run, runs, or waits in this session.

    Another bridge may have accepted it between `find_key` and `record`; look again and join it.
    """

    def __init__(self, number: int, prompt_id: int) -> None:
        super().__init__("key_taken", f"the promptKey is that of prompt {prompt_id}; look it up")
        self.number = number
        """The number of the entry that was refused; nothing of its batch was written."""
        self.prompt_id = prompt_id


def fault_of(error: sqlite3.Error, path: Path) -> JournalFault:
    """The fault that SQLite's error is; codes are SQLite's primary result codes."""
    code = getattr(error, "sqlite_errorcode", None)
    kind = OTHER if code is None else _BY_CODE.get(code & 0xFF, OTHER)
    if kind == IO and _is_full(path):
        # SQLite reports a -shm that cannot grow as an I/O error, whatever the reason is.
        kind = FULL
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return JournalFault(kind, path, f"{name}: {error}")


def fault_of_os(error: OSError, path: Path) -> JournalFault:
    """The fault that the system's error is."""
    return JournalFault(_BY_ERRNO.get(error.errno or 0, IO), path, error.strerror or str(error))


def _is_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
