"""Find processes below one of ours by the parent chain in /proc (Linux).

A bridged agent is a grandchild of the test; no name is ever matched outside our own tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import trio

from tests.shell.processes import gone, stat

PROC = Path("/proc")


def descendants(root_pid: int) -> list[int]:
    """Every living process below ``root_pid``, nearest first."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            children[_parent(int(entry.name))].append(int(entry.name))
    found: list[int] = []
    level = [root_pid]
    while level:
        level = [child for pid in level for child in sorted(children[pid])]
        found += level
    return found


def arguments(pid: int) -> list[str]:
    """The command line of a process; empty if it is gone or only waits to be reaped."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode("utf-8", "surrogateescape") for part in raw.split(b"\0") if part]


def find_below(root_pid: int, command: Sequence[str]) -> int | None:
    """The nearest process below ``root_pid`` that runs ``command``.

    A script's interpreter stands in front of its own words (``python …/hermes acp``), so the
    command line has to end with ``command``.
    """
    for pid in descendants(root_pid):
        if arguments(pid)[-len(command) :] == list(command):
            return pid
    return None


async def wait_gone(pid: int, within_s: float) -> None:
    """Wait until a process, which need not be a child, has ended. Raises TimeoutError."""
    with trio.move_on_after(within_s):
        await gone(pid)
        return
    raise TimeoutError(f"process {pid} ({arguments(pid)}) still lives after {within_s} s")


def _parent(pid: int) -> int:
    """The parent's id; 0 for a process that is gone or only waits to be reaped."""
    try:
        state, parent_pid = stat(pid)[:2]
    except OSError:
        return 0
    return 0 if state in "ZX" else int(parent_pid)
