"""Looking at real processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import trio


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that its new parent has not reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = stat(pid)[0]
    except (FileNotFoundError, ProcessLookupError):
        # Gone before it could be read, or a system without /proc, where kill has the last word.
        return not Path("/proc/self").exists()
    return state not in "ZX"


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: state, parent, group, session and so on.

    The field before them is the program's name in brackets and may hold any character. Raises
    FileNotFoundError for a process that is gone, ProcessLookupError for one that goes meanwhile.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    """The processes that its threads have started; one that ends leaves its own to another."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


async def gone(pid: int) -> None:
    """Return once the process runs no more; bound it."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)
