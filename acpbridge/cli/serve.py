"""`acpbridge serve` and `attach`: the daemon, and a client's way to it."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, NoReturn

import click

from acpbridge.cli.options import ARGUMENTS, bridge_options
from acpbridge.errors import AcpBridgeError, UsageFault

_UNIX = click.option(
    "--unix",
    metavar="PATH",
    help="The daemon's socket.  [default: daemon.sock in the state directory]",
)
_STATE_DIR = click.option(
    "--state-dir", metavar="DIR", help="Where the daemon's state is.  [default: the user's]"
)
_CONFIG = click.option("--config", metavar="FILE", help="A TOML file.  [env: ACPBRIDGE_CONFIG]")


_TOKEN_FILE = click.option(
    "--token-file",
    metavar="FILE",
    help="Holds the token of the WebSocket: yours alone (mode 0600), 16 characters or more.",
)


@click.command(context_settings=ARGUMENTS)
@_UNIX
@click.option(
    "--ws",
    metavar="ADDRESS:PORT",
    help="Listen for WebSockets too, as in 127.0.0.1:8137; needs --token-file.",
)
@_TOKEN_FILE
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let the pages of this web site connect, as in https://app.example.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A further name of this daemon, as clients send it: name:port.",
)
@click.option(
    "--behind-tls-proxy",
    is_flag=True,
    default=None,
    help="Something else ends TLS, so --ws may be another address than loopback.",
)
@click.option(
    "--idle-exit",
    "idle_exit_s",
    type=float,
    metavar="SECONDS",
    help="End after this long without a client and without a turn; 0 is never.  [default: 0]",
)
@click.option(
    "--orphan",
    type=click.Choice(["finish", "cancel"]),
    help="What becomes of a running turn when no client comes back.  [default: finish]",
)
@click.option(
    "--grace",
    "grace_s",
    type=float,
    metavar="SECONDS",
    help="How long a session waits for a client to come back.  [default: 120]",
)
@click.option("--ready-fd", type=int, hidden=True)
@bridge_options
@click.argument("agent", nargs=-1, type=click.UNPROCESSED, metavar="-- AGENT...")
def serve(
    agent: tuple[str, ...],
    config: str | None,
    ready_fd: int | None,
    origins: tuple[str, ...],
    hosts: tuple[str, ...],
    **options: Any,
) -> NoReturn:
    """Keep an agent and its turns alive while clients come, leave, and come back.

    Example: acpbridge serve -- hermes acp

    Clients join by `acpbridge attach`, and by WebSocket where --ws says so. Only the user who
    started it can connect to the socket. It stays in the foreground until it is stopped.
    """
    from acpbridge.shell.ready import Ready  # noqa: PLC0415 - `--version` needs none of it

    ready = Ready(ready_fd)
    try:
        if not agent:
            hint = "name the agent to keep, as in: acpbridge serve -- hermes acp"
            raise UsageFault("no_agent", hint)
        gc.disable()
        from acpbridge.config import load_settings  # noqa: PLC0415
        from acpbridge.shell.serve import WebDoor, serve_daemon  # noqa: PLC0415 - trio

        settings = load_settings(options=options, environ=os.environ, config=config)
        gc.freeze()
        gc.enable()
        sys.exit(serve_daemon(settings, agent, WebDoor(origins, hosts), ready))
    except AcpBridgeError as fault:
        ready.say_fault(fault)
        raise


@click.command(context_settings=ARGUMENTS)
@_UNIX
@click.option("--ws", metavar="URL", help="Join by WebSocket, as in ws://127.0.0.1:8137/acp.")
@_TOKEN_FILE
@click.option("--observe", is_flag=True, help="Only watch: never prompt, never answer.")
@_STATE_DIR
@_CONFIG
def attach(config: str | None, *, observe: bool, **options: Any) -> NoReturn:
    """Join the daemon from stdin and stdout: the agent command of any client.

    Example: acpbridge attach
    """
    from acpbridge.config import load_settings  # noqa: PLC0415

    settings = load_settings(options=options, environ=os.environ, config=config)
    if options["ws"] is not None:
        from acpbridge.shell.attach_ws import attach_websocket  # noqa: PLC0415 - 50 ms more

        sys.exit(
            attach_websocket(
                options["ws"], settings.token_file, observes=observe, limits=settings.limits
            )
        )
    from acpbridge.shell.attach import attach_unix  # noqa: PLC0415
    from acpbridge.shell.unix import socket_path  # noqa: PLC0415

    sys.exit(attach_unix(socket_path(settings), observes=observe))
