"""What processes cost, as Linux's /proc tells it."""

from __future__ import annotations

import os
import re
import select
import time
from contextlib import suppress
from pathlib import Path

from attrs import frozen

PROC = Path("/proc")
_KIB_IN_MIB = 1024
SYNCS = 15
"""Appends of which `sync_ms` takes the median."""
SYNC_BYTES = 8 * 1024
"""About what the journal writes for one intent."""
_SCHED_CLOCK = 2
"""`CPUCLOCK_SCHED` of the kernel's posix-timers.h: user and system time of a whole process."""


@frozen
class Cost:
    """What a process tree without its agent has used, or holds."""

    cpu_s: float
    rss_mib: float
    peak_mib: float
    """The sum of each process's own highest RSS."""


def tree(root: int) -> list[int]:
    """`root` and all its descendants, in no order."""
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                # The name, in brackets, may hold anything: what counts stands behind the last one.
                parent = int((folder / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def name(pid: int) -> str:
    """The process's own short name, empty if it is gone."""
    try:
        return (PROC / str(pid) / "comm").read_text("utf-8").strip()
    except OSError:
        return ""


def cost(root: int, *, without: str) -> Cost:
    """The cost of a tree, the processes named `without` left out."""
    cpu_s = rss_kib = peak_kib = 0.0
    for pid in tree(root):
        if name(pid) != without:
            with suppress(OSError):
                status = (PROC / str(pid) / "status").read_text("utf-8")
                cpu_s += cpu(pid)
                rss_kib += _kib(status, "VmRSS")
                peak_kib += _kib(status, "VmHWM")
    return Cost(cpu_s, rss_kib / _KIB_IN_MIB, peak_kib / _KIB_IN_MIB)


def cpu(pid: int) -> float:
    """Seconds of CPU time, to the nanosecond: /proc itself counts in hundredths of a second.

    Raises:
        OSError: The process is gone.
    """
    # MAKE_PROCESS_CPUCLOCK of the kernel; clock_getcpuclockid(3) computes the same.
    return time.clock_gettime(~pid << 3 | _SCHED_CLOCK)


def written_bytes(pid: int) -> int:
    """Bytes that the process has written so far, to pipes too.

    Raises:
        OSError: The process is gone.
    """
    found = re.search(r"^wchar: (\d+)$", (PROC / str(pid) / "io").read_text("ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1])


def written_when_still(pid: int, still_s: float) -> int:
    """Wait until the process has written nothing for `still_s`; what it has written until then.

    Raises:
        OSError: The process has gone.
    """
    written = -1
    with os.fdopen(os.pidfd_open(pid)) as process:
        while written != (written := written_bytes(pid)):
            # Wakes early if the process ends, and the next look raises.
            select.select([process], [], [], still_s)
    return written


def _kib(status: str, field: str) -> int:
    """A field of /proc/PID/status; a zombie has none, which is 0."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) if found else 0


def sync_ms(folder: Path) -> float:
    """What one small durable append costs on the disk of this folder: the median of some.

    Nobody can promise durability for less, and disks differ by a factor of twenty.
    """
    path = folder / "sync.probe"
    took: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(bytes(SYNC_BYTES))
            begin_s = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begin_s) * 1e3)
    path.unlink()
    return sorted(took)[len(took) // 2]


def folder_of(pid: int) -> Path:
    """The working directory of a process."""
    return Path(f"/proc/{pid}/cwd").resolve()
