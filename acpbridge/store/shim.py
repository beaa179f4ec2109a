"""The shim: an executable `hermes` that puts the bridge behind the subcommand `acp`.

For clients that start `hermes acp` from their PATH and let nobody choose another command, as
Codeg's built-in Hermes does. The rule of this module: a file is ours if its second line says so,
and only then is it written over or removed; everything in the shim is an absolute path, so that
it never finds itself.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import Literal

from attrs import frozen

from acpbridge.errors import UsageFault

NAME = "hermes"
VERSION = 1
"""Of the script's text. A higher one replaces what an older install wrote."""

DEPTH_MAX = 8
"""A shim below this many shims is one that starts itself through a wrapper."""
VERSION_WAIT_S = 10.0
"""`--version` of anything takes at most this long; clients wait as long."""

_MARK = b"# acpbridge-shim "
_MODE = 0o755
_HEAD_BYTES = 1 << 16
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")

_SCRIPT = """\
#!/bin/sh
# acpbridge-shim {version}
# Stands in for hermes: `hermes acp` goes through acpbridge, everything else is hermes itself.
# Written by `acpbridge shim install`, removed by `acpbridge shim uninstall`; do not edit it.
hermes={hermes}
bridge={program}

refuse() {{
    printf 'hermes (acpbridge shim): %s\\n' "$2" >&2
    exit "$1"
}}
if [ ! -f "$hermes" ] || [ ! -x "$hermes" ]; then
    refuse 127 "the real hermes is gone from $hermes; install it, then run: acpbridge shim install"
fi
mark=
if [ -r "$hermes" ]; then {{ read -r _ && read -r mark; }} <"$hermes"; fi
case $mark in
    '# acpbridge-shim '*) refuse 126 "$hermes is a shim too; run: acpbridge shim install" ;;
esac
case ${{_ACPBRIDGE_SHIM_DEPTH:-0}} in
    [0-{deepest}]) ;;
    *) refuse 126 "$hermes starts this shim again; run: acpbridge shim install --hermes PATH" ;;
esac
_ACPBRIDGE_SHIM_DEPTH=$((${{_ACPBRIDGE_SHIM_DEPTH:-0}} + 1))
export _ACPBRIDGE_SHIM_DEPTH

[ "${{1-}}" = acp ] || exec "$hermes" "$@"
for word; do
    # With these `hermes acp` prints or asks something and ends: there is no protocol to bridge.
    case $word in
        -h | --help | --version | --check | --setup | --setup-browser) exec "$hermes" "$@" ;;
    esac
done
if [ ! -x "$bridge" ]; then
    refuse 127 "acpbridge is gone from $bridge; install it and run: acpbridge shim install"
fi
exec "$bridge" {words}run --client-profile codeg -- "$hermes" "$@"
"""


@frozen
class Shim:
    """What a file of ours says."""

    path: Path
    version: int
    hermes: Path | None
    """The real one; None where the text is not as we write it."""
    bridge: tuple[str, ...]
    """The command of the bridge."""
    is_current: bool
    """Whether this version of ours would write the same text."""


@frozen
class Installed:
    """What `install` came to."""

    path: Path
    change: Literal["written", "updated", "kept"]
    """Kept: it stood there already, word for word."""


def read_shim(path: Path) -> Shim | None:
    """The shim in a file, through symlinks; None where it is none of ours, or is not there."""
    text = _text(path)
    if text is None:
        return None
    lines = text.split("\n")
    number = lines[1].removeprefix(_MARK.decode()).strip()
    values = dict(line.split("=", 1) for line in lines if line.startswith(("hermes=", "bridge=")))
    words = next((line for line in lines if line.startswith('exec "$bridge" ')), "")
    hermes = _one_word(values.get("hermes", ""))
    program = _one_word(values.get("bridge", ""))
    more = words.removeprefix('exec "$bridge" ').partition("run --client-profile")[0]
    bridge = (program, *more.split()) if program else ()
    return Shim(
        path,
        int(number) if number.isdecimal() else 0,
        Path(hermes) if hermes else None,
        bridge,
        bool(hermes and program) and text == _script(Path(hermes), bridge),
    )


def is_shim(path: Path) -> bool:
    """Whether a file is a shim of ours, this version or another, through symlinks."""
    return _text(path) is not None


def find_hermes(search: str) -> Path | None:
    """The first `hermes` on a PATH that is not a shim of ours; None where there is none.

    Folders that are not absolute are left out: they are others tomorrow.
    """
    return next((path for path in on_path(search) if not is_shim(path)), None)


def on_path(search: str) -> list[Path]:
    """Every executable `hermes` on a PATH, in order, by absolute path, symlinks as they are."""
    folders = [Path(part) for part in search.split(os.pathsep)]
    found = [folder / NAME for folder in folders if folder.is_absolute()]
    return [path for path in dict.fromkeys(found) if is_executable(path)]


def is_executable(path: Path) -> bool:
    """Whether it is a file that this user may start."""
    return path.is_file() and os.access(path, os.X_OK)


def check_hermes(path: Path) -> Path:
    """A path that the user names as the real Hermes, made absolute.

    Raises:
        UsageFault: It cannot be started, or it is a shim of ours.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - symlinks must stay
    if not is_executable(absolute):
        hint = f"{absolute} is no program that can be started; name the real hermes with --hermes"
        raise UsageFault("hermes_unusable", hint)
    if is_shim(absolute):
        hint = f"{absolute} is a shim itself; name the real hermes with --hermes"
        raise UsageFault("hermes_is_shim", hint)
    return absolute


def install(folder: Path, hermes: Path, bridge: tuple[str, ...]) -> Installed:
    """Put the shim into a folder, in one step; the folder is made if it is missing.

    Args:
        folder: Where; it should stand before Hermes' own on the client's PATH.
        hermes: The real one, by absolute path.
        bridge: The command of the bridge; its first word is an absolute path.

    Raises:
        UsageFault: A file that is not ours stands there, a path cannot be put into a script, or
            the folder cannot be written.
    """
    path = Path(os.path.abspath(folder)) / NAME  # noqa: PTH100 - symlinks must stay
    for named in (str(hermes), *bridge):
        if any(char < " " or char == "\x7f" for char in named):
            raise UsageFault("path_unusable", f"a path has a control character: {named!r}")
    _refuse_foreign(path)
    text = os.fsencode(_script(hermes, bridge))
    before = path.read_bytes() if path.exists() else None
    try:
        if before == text and stat.S_IMODE(path.stat().st_mode) == _MODE:
            return Installed(path, "kept")
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, text)
    except OSError as error:
        hint = f"cannot write {path}: {error.strerror}; choose another --dir"
        raise UsageFault("shim_unwritable", hint) from error
    return Installed(path, "written" if before is None else "updated")


def uninstall(folder: Path) -> Path | None:
    """Remove the shim from a folder; its path, or None where nothing stands there.

    Raises:
        UsageFault: What stands there is not ours, or it cannot be removed.
    """
    path = Path(os.path.abspath(folder)) / NAME  # noqa: PTH100 - symlinks must stay
    _refuse_foreign(path)
    try:
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = f"cannot remove {path}: {error.strerror}"
        raise UsageFault("shim_unwritable", hint) from error
    return path


def version_of(*command: str | Path, wait_s: float = VERSION_WAIT_S) -> str | None:
    """The version that a program prints; None where it does not say one in time."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a command that the user has installed
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            said, _ = process.communicate(timeout=wait_s)
        except subprocess.TimeoutExpired:
            # All of its group: what it left behind would hold the pipe open.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            return None
    found = _VERSION.search(said.decode("utf-8", "replace"))
    return found[0] if found is not None else None


def _script(hermes: Path, bridge: tuple[str, ...]) -> str:
    program, *words = bridge
    return _SCRIPT.format(
        version=VERSION,
        hermes=_quoted(str(hermes)),
        program=_quoted(program),
        words="".join(f"{word} " for word in words),
        deepest=DEPTH_MAX - 1,
    )


def _quoted(word: str) -> str:
    """Always in quotes, so that the line looks the same for every path."""
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _one_word(quoted: str) -> str:
    """The word that a shell reads from this; empty where it is not exactly one."""
    try:
        words = shlex.split(quoted)
    except ValueError:
        return ""
    return words[0] if len(words) == 1 else ""


def _text(path: Path) -> str | None:
    """The text of a shim of ours; None for anything else."""
    try:
        with path.open("rb") as file:
            data = file.read(_HEAD_BYTES + 1)
    except OSError:
        return None
    _, _, rest = data.partition(b"\n")
    if not data.startswith(b"#!") or not rest.startswith(_MARK):
        return None
    return os.fsdecode(data)


def _refuse_foreign(path: Path) -> None:
    """Raise where something stands there that we have not written."""
    if path.is_symlink():
        what = f"a symbolic link to {os.readlink(path)}"  # noqa: PTH115 - as it stands there
    elif path.exists() and not is_shim(path):
        what = "not a shim of acpbridge"
    else:
        return
    hint = f"{path} is {what}; it stays as it is: choose another --dir, or move it away"
    raise UsageFault("shim_foreign", hint)


def _write(path: Path, text: bytes) -> None:
    """Write a file beside it and rename it: nobody ever sees half of it."""
    fd, name = tempfile.mkstemp(prefix=f".{NAME}-", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text)
            os.fchmod(fd, _MODE)
            file.flush()
            os.fsync(fd)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
