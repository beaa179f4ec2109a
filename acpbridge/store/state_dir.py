"""The directory that holds everything durable."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from acpbridge.errors import StateDirFault

if TYPE_CHECKING:
    from pathlib import Path


def prepare_state_dir(path: Path) -> Path:
    """Create it for its owner alone if it is missing, and see that it can be written.

    Raises:
        StateDirFault: It cannot be used.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        hint = f"cannot create the state directory {path}: {error.strerror}; choose --state-dir"
        raise StateDirFault("state_dir_unusable", hint) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        hint = f"cannot write in the state directory {path}; choose another --state-dir"
        raise StateDirFault("state_dir_unusable", hint)
    return path
