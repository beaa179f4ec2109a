"""A unix socket's path, a listener at it, and what else may be there."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acpbridge.shell.unix import UnixListener, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "d.sock"


@pytest.fixture
async def listener(path: Path) -> AsyncIterator[UnixListener]:
    found = listen(path)
    yield found
    found.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def names(folder: Path) -> set[str]:
    return {item.name for item in folder.iterdir()}


def make(path: Path, what: str) -> None:
    """Something at a path, its directory made if need be."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if what == "file":
        path.write_text("precious")
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(os.devnull)


def remove(path: Path) -> None:
    path.unlink()


def reachable(mode: int) -> Path:
    """A new folder that other users can reach, which a test's own is not; remove it."""
    folder = Path(tempfile.mkdtemp(prefix="acpbridge-", dir="/tmp"))
    folder.chmod(mode)
    return folder


def widen(path: Path) -> None:
    """Let everybody connect, as far as modes can."""
    path.parent.chmod(0o711)
    path.chmod(0o666)


def stale_socket(path: Path) -> None:
    """What a daemon that was killed leaves."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
