"""The directory that holds everything durable."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from acpbridge.errors import StateDirFault


def usual_state_dir() -> Path:
    """Where state is kept unless somebody says otherwise: the user's, by the system's custom."""
    from platformdirs import user_state_path  # noqa: PLC0415 - most starts are told a place

    return user_state_path("acpbridge", appauthor=False)


def prepare_state_dir(path: Path) -> Path:
    """Create it for its owner alone if it is missing, and see that it can be written.

    Raises:
        StateDirFault: It cannot be used.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        hint = f"cannot create the state directory {path}: {error.strerror}; choose --state-dir"
        raise StateDirFault("state_dir_unusable", hint) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        hint = f"cannot write in the state directory {path}; choose another --state-dir"
        raise StateDirFault("state_dir_unusable", hint)
    if mode & 0o077 and path.stat().st_uid == os.getuid():
        # What people wrote to their agents is nobody else's.
        path.chmod(0o700)
    return path
