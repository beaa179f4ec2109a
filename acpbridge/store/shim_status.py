"""What `hermes` a client would start, and what to do about it. Looks at files, starts nothing."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen

from acpbridge.store.shim import NAME, Shim, is_executable, is_shim, on_path, read_shim

_CODEG_BIN = Path(".codeg", "npm-global", "bin")
"""Codeg puts this folder of its user's home in front of its own PATH, unless it stands there
already (xintaofei/codeg b263b6ce, `ensure_user_npm_prefix_in_path`)."""


@frozen
class Status:
    """What was seen."""

    started: Path | None
    """The first `hermes` on the PATH: what a client starts."""
    shim: Shim | None
    """That file, if it is one of ours."""
    installed: Shim | None
    """The shim in the folder that was asked about."""
    remedies: tuple[str, ...]
    """What is wrong and what to do, one sentence each; empty where `hermes acp` is bridged."""


def look(search: str, folder: Path, home: Path) -> Status:
    """Look along a PATH.

    Args:
        search: The PATH of the client's process.
        folder: Where `install` puts the shim.
        home: The home folder of the client's user.
    """
    folders = {Path(part) for part in search.split(os.pathsep)}
    found = on_path(search)
    started = found[0] if found else None
    shim = read_shim(started) if started is not None else None
    installed = read_shim(folder / NAME)
    if shim is not None:
        remedies = _of_shim(shim)
    else:
        remedies = [_of_path(started, folder, installed, is_on_path=folder in folders)]
    codeg = home / _CODEG_BIN
    if codeg not in folders and is_executable(codeg / NAME) and not is_shim(codeg / NAME):
        remedies.append(
            f"Codeg puts {codeg} in front of its PATH, and there is a hermes in it: name that "
            "folder on the PATH yourself, behind the shim's, and Codeg leaves it there"
        )
    return Status(started, shim, installed, tuple(remedies))


def _of_shim(shim: Shim) -> list[str]:
    folder = shim.path.parent
    again = f"acpbridge shim install --dir {folder}"
    if shim.hermes is None or not shim.bridge:
        return [f"{shim.path} cannot be read: run {again}"]
    remedies = []
    if not is_executable(shim.hermes):
        remedies.append(f"the real hermes is gone from {shim.hermes}: install it, then run {again}")
    elif is_shim(shim.hermes):
        remedies.append(f"{shim.hermes} is a shim too: run {again}")
    if not is_executable(Path(shim.bridge[0])):
        remedies.append(f"acpbridge is gone from {shim.bridge[0]}: install it, then run {again}")
    if not shim.is_current:
        remedies.append(f"{shim.path} was written by another acpbridge: run {again}")
    return remedies


def _of_path(
    started: Path | None, folder: Path, installed: Shim | None, *, is_on_path: bool
) -> str:
    if installed is None:
        return f"no shim is installed in {folder}: run acpbridge shim install --dir {folder}"
    if started is None or not is_on_path:
        return f"{folder} is not on this PATH: put it in front of the client's PATH"
    return f"{started} comes before {folder} on this PATH: put {folder} in front"
