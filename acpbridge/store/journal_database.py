"""The journal's database: opened, followed where it is set aside, used in transactions.

SQLite in WAL mode with `synchronous=FULL`: a commit that has returned survives a power cut. The
connection may be used from any thread, by one at a time (the shell's limiter sees to that).

Damage (a malformed page, a file that is no database, tables that nobody made) is answered by
setting the file aside as `journal.damaged-UTC-STAMP`, with its -wal and -shm, and beginning a new
one; see `journal_gate` for what the other bridges do. What can be read of the old file stays
there for people: nothing is copied from it, since nobody knows which half to trust.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen

from acpbridge.store.journal_fault import (
    BUSY_WAIT_S_MAX,
    DAMAGED,
    OTHER,
    JournalFault,
    fault_of,
    fault_of_os,
)
from acpbridge.store.journal_gate import Gate, database_path
from acpbridge.store.migrations import SchemaFault, migrate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

WAL_BYTES_MAX = 16 * 1024 * 1024
"""What a -wal file is cut down to after a checkpoint, where a large prompt has blown it up."""
STATEMENTS_MAX = 128
"""Prepared statements that a connection keeps."""
DAMAGED_FILES_MAX = 4
"""Damaged journals that are kept; the oldest goes where a bad disk damages one after the other."""
SUFFIXES = ("", "-wal", "-shm")
SQLITE_MIN = (3, 37, 0)
"""STRICT tables; RETURNING is older."""
_WAL_TRY_GAP_S = 0.005


@frozen
class SetAside:
    """The journal was damaged, and a new one was begun."""

    path: str
    """Where the damaged file is now; "" where another bridge has set it aside."""
    reason: str


class Database:
    """One open journal.

    Args:
        state_dir: The state directory, prepared.
        renews: Whether damage is answered by a new journal, or raised.

    Raises:
        JournalFault: It cannot be opened.
    """

    def __init__(self, state_dir: Path, *, renews: bool) -> None:
        self.state_dir = state_dir
        self.renewals = 0
        """How often this object has gone over to a new file."""
        self.news: list[SetAside] = []
        """What is to be told, oldest first; whoever tells it takes it out."""
        self._renews = renews
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        """Which file the connection has, whatever is at its path by now."""
        self._number = 0
        self._own_number = 0
        if sqlite3.sqlite_version_info < SQLITE_MIN:
            detail = f"SQLite {sqlite3.sqlite_version} is older than 3.37"
            raise JournalFault(OTHER, state_dir, detail)
        self._gate = Gate(state_dir)
        try:
            self.read(lambda _: None)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """The file that is, or was last, the journal."""
        return database_path(self.state_dir, self._number or 1)

    def close(self) -> None:
        """Close the file; the last process to do so folds the -wal into it."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._gate.close()

    def hurry(self, wait_s: float) -> None:
        """From now on wait no longer than this for other processes."""
        self._gate.wait_s_max = wait_s
        if self._connection is not None:
            self._connection.execute(f"PRAGMA busy_timeout = {wait_s * 1000:.0f}")

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the connection; each of its statements sees one state of the file."""
        for last in (False, True):
            with self._gate.shared() as number:
                try:
                    return work(self._follow(number))
                except sqlite3.IntegrityError:
                    # A CHECK or key of the tables: our own mistake, and no fault of the disk.
                    raise
                except sqlite3.Error as error:
                    fault = fault_of(error, self.path)
                    if fault.kind != DAMAGED or not self._renews or last:
                        raise fault from error
                except SchemaFault as error:
                    kind = DAMAGED if error.is_damage else OTHER
                    fault = JournalFault(kind, self.path, str(error))
                    if not error.is_damage or not self._renews or last:
                        raise fault from error
                except OSError as error:
                    raise fault_of_os(error, self.path) from error
            self._set_aside(number, fault.detail)
        raise AssertionError("the last round returns or raises")

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one write transaction: all of it is durable, or nothing of it is there."""

        def transaction(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                value = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself, as it does where the disk is full.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise
            return value

        return self.read(transaction)

    # -- the file ---------------------------------------------------------------------------
    def _follow(self, number: int) -> sqlite3.Connection:
        """The connection to the journal of this number; inside the gate."""
        path, is_same = database_path(self.state_dir, number), number == self._number
        if self._connection is not None and is_same:
            if _file_of(path) == self._file:
                return self._connection
            # Its name leads nowhere, or to another file: nobody would ever find what we write.
            self.renewals += 1
            self.news.append(SetAside("", "somebody has removed it; a new one is begun"))
        if self._number and not is_same:
            self.renewals += 1
            if number != self._own_number:
                self.news.append(SetAside("", "another bridge has set the damaged journal aside"))
        if self._connection is not None:
            # Its names are taken by nobody else, so what SQLite removes now is its own.
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._number = number
        self._connection = _connect(path)
        self._file = _file_of(path)
        return self._connection

    def _set_aside(self, number: int, reason: str) -> None:
        """Rename the damaged journal, unless another bridge has done so by now."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        try:
            with self._gate.exclusive() as current:
                if current != number:
                    return
                self._own_number = number + 1
                # The number first: should we die in between, nobody uses the old name again.
                self._gate.turn(number + 1)
                target = _free_name(self.state_dir, f"journal.damaged-{stamp}")
                source = database_path(self.state_dir, number)
                for suffix in SUFFIXES:
                    with suppress(FileNotFoundError):
                        _beside(source, suffix).rename(_beside(target, suffix))
                _forget_oldest(self.state_dir, target)
                _sync_directory(self.state_dir)
        except OSError as error:
            raise fault_of_os(error, self.path) from error
        self.news.append(SetAside(str(target), reason))


def _file_of(path: Path) -> tuple[int, int] | None:
    """Device and inode of what is at the path; None where nothing is."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    is_new = _prepare(path)
    connection = sqlite3.connect(
        path,
        timeout=BUSY_WAIT_S_MAX,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_MAX,
    )
    try:
        if is_new:
            # Only before the first page is written; prune gives pages back in steps.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        # A damaged page is told as one as early as it can be seen.
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA secure_delete = FAST")
        migrate(connection, int(time.time() * 1000))
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(path: Path) -> bool:
    """See that the file is there, for its owner alone; whether it is empty.

    SQLite gives -wal and -shm the mode of the database, so they never have another one. The file
    is not opened where it exists: closing it would drop the locks of another connection of this
    process (POSIX locks belong to process and file).
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        status = path.stat()
        if status.st_mode & 0o077:
            path.chmod(0o600)
        return status.st_size == 0
    os.close(fd)
    _sync_directory(path.parent)
    return True


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a new file to WAL; SQLite does not wait for others who do the same."""
    last_s = time.monotonic() + BUSY_WAIT_S_MAX
    while True:
        try:
            for ask in ("PRAGMA journal_mode", "PRAGMA journal_mode = WAL"):
                if connection.execute(ask).fetchone() == ("wal",):
                    return
            raise SchemaFault("it cannot be used with a write-ahead log", is_damage=False)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > last_s:
                raise
        time.sleep(_WAL_TRY_GAP_S)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _free_name(folder: Path, name: str) -> Path:
    number = 1
    path = folder / name
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}"
    return path


def _forget_oldest(folder: Path, newest: Path) -> None:
    """Leave `DAMAGED_FILES_MAX`. One that came from a backup may be old by its time of writing."""
    found = sorted(
        (path for path in folder.glob("journal.damaged-*") if not path.name.endswith(SUFFIXES[1:])),
        key=lambda path: (path == newest, path.stat().st_mtime_ns),
    )
    for path in found[:-DAMAGED_FILES_MAX]:
        for suffix in SUFFIXES:
            _beside(path, suffix).unlink(missing_ok=True)


def _sync_directory(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
