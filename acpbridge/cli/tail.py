"""`acpbridge tail`: watch a conversation of the daemon in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import click

from acpbridge.cli.serve import CONFIG, STATE_DIR, UNIX


@click.command()
@UNIX
@click.option("--once", is_flag=True, help="Show what the daemon still has, and end.")
@click.option("--no-color", is_flag=True, help="Use no colour; so does NO_COLOR, or no terminal.")
@STATE_DIR
@CONFIG
@click.argument("session", default="")
def tail(session: str, config: str | None, *, once: bool, no_color: bool, **options: Any) -> None:
    """Follow a conversation of the daemon, as it happens, from what it still has on.

    Example: acpbridge tail

    Without SESSION it is the one with a turn, or the newest. It only watches, and when the daemon
    goes away it waits for it and goes on where it was. Ctrl-C ends it.
    """
    from acpbridge.cli.demo_view import Style  # noqa: PLC0415 - `--version` needs none of it
    from acpbridge.cli.tail_view import View  # noqa: PLC0415
    from acpbridge.config import load_settings  # noqa: PLC0415
    from acpbridge.shell.tail import Tail, follow  # noqa: PLC0415
    from acpbridge.shell.unix import socket_path  # noqa: PLC0415

    settings = load_settings(options=options, environ=os.environ, config=config)
    has_colour = sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR")
    has_unicode = "utf" in (sys.stdout.encoding or "").lower()
    view = View(Style(shutil.get_terminal_size().columns, has_colour, has_unicode))

    def write(text: str) -> None:
        if text:
            click.echo(text, nl=False)

    watched = Tail(
        lambda frame: write(view.show(frame)), lambda words: write(view.say(words)), session
    )
    try:
        follow(socket_path(settings), watched, once=once)
        write(view.close())
    except KeyboardInterrupt:
        write("\n")
