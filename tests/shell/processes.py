"""Looking at real processes."""

from __future__ import annotations

import os
from pathlib import Path

import trio

SLACK_S = 5.0
"""What a busy machine may add to a time that a test bounds from above."""


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that its new parent has not reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        # Gone before it could be read, or a system without /proc, where kill has the last word.
        return not Path("/proc/self").exists()
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


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
