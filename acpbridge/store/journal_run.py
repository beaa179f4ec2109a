"""One run of a bridge, and the proof that another one is dead.

A run holds an exclusive flock on `runs/NONCE.lock` for as long as it lives. The kernel drops the
lock with the last descriptor, however the process ends, and not one moment before: a stopped or
sleeping process keeps it. So a lock that can be taken proves the death, and a pid proves nothing,
for pids are used again (and mean nothing in another container). Only where the file is gone do
pid and start time decide: it was removed at an orderly end, or by somebody's hand under a live
run, which must not lose its prompts for that. A pid that lives with another start time, or in
another boot of the machine, is somebody else.

Those who only ask take the lock shared, so that two who ask at once do not see each other and
take a dead run for a live one. Descriptors are not inherited by the agent (O_CLOEXEC), which may
outlive us.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from attrs import define, frozen

from acpbridge.store.journal_fault import BUSY, JournalFault, fault_of_os
from acpbridge.store.journal_gate import is_at

RUNS = "runs"
LOCK_TRIES_MAX = 100
"""Attempts at our own lock: somebody may be asking in that moment whether it is held."""
_TRY_GAP_S = 0.005
_NONCE = re.compile(r"[\w-]{1,64}", re.ASCII)


@frozen
class RunId:
    """Who a run is."""

    nonce: str
    pid: int
    started: str
    """Boot id and start time in clock ticks since then; "" where there is no /proc."""


def run_id(nonce: str) -> RunId:
    """Who this process is, as a run of this nonce (random text, fit for a file name)."""
    assert _NONCE.fullmatch(nonce), "a nonce is part of a file name"
    pid = os.getpid()
    return RunId(nonce, pid, start_of(pid))


def start_of(pid: int) -> str:
    """When the process started, comparable as text; "" where it is gone or nobody can tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
    # Field 2, the name, is in parentheses and may hold anything; field 22 is the start time.
    return f"{boot}/{stat[stat.rindex(b')') + 1 :].split()[19].decode('ascii')}"


@define
class RunLock:
    """The lock of this run, held until `release`."""

    path: Path
    fd: int
    """-1 once it was released."""

    def is_there(self) -> bool:
        """Whether others can still see it."""
        return is_at(self.fd, self.path)

    def release(self) -> None:
        """An orderly end: the file goes first, while it is still held. Once is enough."""
        if self.fd >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self.fd)
            self.fd = -1


def lock_path(state_dir: Path, nonce: str) -> Path:
    """Where the lock of a run is."""
    return state_dir / RUNS / f"{nonce}.lock"


def hold(state_dir: Path, run: RunId) -> RunLock:
    """Take the lock of this run.

    Raises:
        JournalFault: The directory does not let us.
    """
    path = lock_path(state_dir, run.nonce)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        for _ in range(LOCK_TRIES_MAX):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _lock(fd, fcntl.LOCK_EX) and is_at(fd, path):
                os.pwrite(fd, f"{run.pid} {run.started}\n".encode("ascii"), 0)
                return RunLock(path, fd)
            # Somebody asks, or has found it unheld before we held it and has removed it.
            os.close(fd)
            time.sleep(_TRY_GAP_S)
    except OSError as error:
        raise fault_of_os(error, path) from error
    raise JournalFault(BUSY, path, "its lock is held")


def is_dead(state_dir: Path, run: RunId) -> bool:
    """Whether the run is proven dead."""
    is_free = lock_is_free(lock_path(state_dir, run.nonce))
    if is_free is not None:
        return is_free
    if run.started:
        return start_of(run.pid) != run.started
    return not _is_pid(run.pid)


def lock_is_free(path: Path) -> bool | None:
    """Whether nobody holds the lock; None where the file is gone, False where it cannot be seen."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return False
    try:
        return _lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def free_locks(state_dir: Path, own: str, most: int) -> list[Path]:
    """Up to `most` lock files that nobody holds, but for our own."""
    free = (path for path in _other_locks(state_dir, own) if lock_is_free(path))
    return list(islice(free, most))


def live_pids(state_dir: Path, own: str) -> list[int]:
    """The pids of other runs that hold their lock, as they wrote them down."""
    pids = []
    for path in _other_locks(state_dir, own):
        if lock_is_free(path) is False:
            with suppress(OSError, ValueError, IndexError):
                pids.append(int(path.read_bytes().split()[0]))
    return pids


def _other_locks(state_dir: Path, own: str) -> list[Path]:
    try:
        found = sorted((state_dir / RUNS).glob("*.lock"))
    except OSError:
        return []
    return [path for path in found if path.stem != own]


def _lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_pid(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
