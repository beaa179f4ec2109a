"""`acpbridge shim`: install, remove and look at the stand-in for `hermes`; see `store.shim`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acpbridge.errors import AcpBridgeError, UsageFault

if TYPE_CHECKING:
    from acpbridge.store.shim import Shim

_DIR = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    help="Where the shim is.  [default: acpbridge/shim in the user's data directory]",
)


@click.group()
def shim() -> None:
    """Bridge a client that starts `hermes acp` from its PATH, as Codeg's built-in Hermes does.

    Example: acpbridge shim install --dir ~/shims

    The shim is an executable called hermes: `hermes acp` goes through the bridge with the Codeg
    profile, and everything else is the real hermes.
    """


@shim.command()
@_DIR
@click.option(
    "--hermes",
    metavar="PATH",
    help="The real hermes.  [default: the first on PATH that is no shim]",
)
def install(folder: str | None, hermes: str | None) -> None:
    """Write the shim, or bring it up to date.

    Example: acpbridge shim install --dir ~/shims --hermes /opt/hermes/bin/hermes

    A file that is not a shim of ours is never written over.
    """
    from acpbridge.store import shim as store  # noqa: PLC0415 - only here

    real = store.find_hermes(os.environ.get("PATH", "")) if hermes is None else Path(hermes)
    if real is None:
        hint = "there is no hermes on PATH; install it, or name it with --hermes"
        raise UsageFault("hermes_missing", hint)
    real = store.check_hermes(real)
    bridge = _bridge()
    if store.version_of(*bridge) is None:
        hint = f"{' '.join(bridge)} does not start; install acpbridge in an environment of its own"
        raise UsageFault("bridge_unusable", hint)
    done = store.install(_folder(folder), real, bridge)
    where = done.path.parent
    click.echo(f"{done.change}: {_shown(done.path)}")
    command = f"{' '.join(map(_shown, bridge))} run --client-profile codeg -- {_shown(real)} acp"
    click.echo(f"  hermes acp   {command}")
    click.echo(f"  all else     {_shown(real)} ({store.version_of(real) or 'tells no version'})")
    click.echo(
        f"Put {_shown(where)} in front of the PATH of the client's process and start it again:\n"
        f"  in a shell   export PATH={_quoted(where)}:$PATH\n"
        f'  in systemd   Environment="PATH={_shown(where)}:/usr/local/bin:/usr/bin:/bin"\n'
        f"Then check:    acpbridge shim status --dir {_quoted(where)} --path THAT_PATH"
    )


@shim.command()
@_DIR
def uninstall(folder: str | None) -> None:
    """Remove the shim, and nothing else.

    Example: acpbridge shim uninstall --dir ~/shims
    """
    from acpbridge.store.shim import uninstall as remove  # noqa: PLC0415 - only here

    where = _folder(folder)
    removed = remove(where)
    if removed is None:
        click.echo(f"there is no hermes in {_shown(where)}")
    else:
        click.echo(f"removed: {_shown(removed)}")


@shim.command()
@_DIR
@click.option(
    "--path",
    "search",
    metavar="PATH",
    help="The PATH of the client's process, as of a service.  [default: that of this shell]",
)
def status(folder: str | None, search: str | None) -> None:
    """Say which hermes a client would start, and what to do if it is not bridged.

    Example: acpbridge shim status --path /home/me/shims:/usr/local/bin:/usr/bin:/bin

    Exit code 0: `hermes acp` is bridged; 1: it is not, or not for long.
    """
    from acpbridge.store.shim import version_of  # noqa: PLC0415 - only here
    from acpbridge.store.shim_status import look  # noqa: PLC0415 - only here

    where = _folder(folder)
    path = os.environ.get("PATH", "") if search is None else search
    seen = look(path, where, Path.home())
    if seen.started is None:
        click.echo("a client starts  nothing: there is no hermes on this PATH")
    elif seen.shim is None:
        version = version_of(seen.started) or "tells no version"
        click.echo(f"a client starts  {_shown(seen.started)} ({version}), unbridged")
    else:
        click.echo(f"a client starts  {_shown(seen.started)} (shim {seen.shim.version})")
        _show_shim(seen.shim)
    if seen.installed is not None and seen.installed != seen.shim:
        click.echo(f"installed        {_shown(seen.installed.path)}")
    for remedy in seen.remedies:
        click.echo(f"to do            {_clean(remedy)}")
    if seen.remedies:
        sys.exit(AcpBridgeError.exit_code)
    click.echo("hermes acp is bridged")


def _show_shim(found: Shim) -> None:
    from acpbridge.store.shim import is_executable, version_of  # noqa: PLC0415 - only here

    if found.bridge:
        version = version_of(*found.bridge) or "does not start"
        click.echo(f"  hermes acp     {' '.join(map(_shown, found.bridge))} ({version})")
    if found.hermes is not None:
        version = version_of(found.hermes) or "tells no version"
        there = version if is_executable(found.hermes) else "gone"
        click.echo(f"  all else       {_shown(found.hermes)} ({there})")


def _bridge() -> tuple[str, ...]:
    """The command of this very installation: the console script, else the interpreter."""
    script = Path(sys.executable).with_name("acpbridge")
    if os.access(script, os.X_OK):
        return (str(script),)
    # -P: the client starts it in a project's folder, whose modules are none of ours.
    return (sys.executable, "-P", "-m", "acpbridge")


def _folder(chosen: str | None) -> Path:
    if chosen is not None:
        return Path(os.path.abspath(Path(chosen).expanduser()))  # noqa: PTH100 - keep symlinks
    from platformdirs import user_data_path  # noqa: PLC0415 - only here

    return user_data_path("acpbridge") / "shim"


def _quoted(path: Path) -> str:
    from shlex import quote  # noqa: PLC0415 - only here

    return quote(_shown(path))


def _shown(path: Path | str) -> str:
    return _clean(click.format_filename(path))


def _clean(text: str) -> str:
    """A text without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
