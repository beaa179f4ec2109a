"""`acpbridge serve` and `attach`: the daemon, and a client's way to it."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from acpbridge.cli.options import ARGUMENTS, bridge_options
from acpbridge.errors import AcpBridgeError, UsageFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.config import Settings

UNIX = click.option(
    "--unix",
    metavar="PATH",
    help="The daemon's socket.  [default: daemon.sock in the state directory]",
)
STATE_DIR = click.option(
    "--state-dir", metavar="DIR", help="Where the daemon's state is.  [default: the user's]"
)
CONFIG = click.option("--config", metavar="FILE", help="A TOML file.  [env: ACPBRIDGE_CONFIG]")


_TOKEN_FILE = click.option(
    "--token-file",
    metavar="FILE",
    help="Holds the token of the WebSocket: yours alone (mode 0600), 16 characters or more.",
)


@click.command(context_settings=ARGUMENTS)
@UNIX
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
        if settings.ws is None:
            _refuse_without("--ws", "token_file", "origins", "hosts", "behind_tls_proxy")
        sys.exit(serve_daemon(settings, agent, WebDoor(origins, hosts), ready))
    except AcpBridgeError as fault:
        ready.say_fault(fault)
        raise


@click.command(context_settings=ARGUMENTS)
@UNIX
@click.option("--ws", metavar="URL", help="Join by WebSocket, as in ws://127.0.0.1:8137/acp.")
@_TOKEN_FILE
@click.option("--observe", is_flag=True, help="Only watch: never prompt, never answer.")
@click.option("--spawn", is_flag=True, help="Start the daemon of AGENT first if none listens.")
@click.option(
    "--idle-exit",
    "idle_exit_s",
    type=float,
    metavar="SECONDS",
    help="With --spawn: when the daemon ends without client and turn; 0 is never.  [default: 600]",
)
@STATE_DIR
@CONFIG
@click.argument("agent", nargs=-1, type=click.UNPROCESSED, metavar="[-- AGENT...]")
def attach(
    agent: tuple[str, ...], config: str | None, *, observe: bool, spawn: bool, **options: Any
) -> NoReturn:
    """Join the daemon from stdin and stdout: the agent command of any client.

    Example: acpbridge attach --spawn -- hermes acp

    With --spawn the daemon is started if it is not there; it lives on when the client ends, and
    writes daemon.log in the state directory.
    """
    from acpbridge.config import load_settings  # noqa: PLC0415

    is_web = options["ws"] is not None
    _check_spawn(agent, spawn=spawn, is_web=is_web)
    if not is_web:
        _refuse_without("--ws", "token_file")
    elif options["unix"] is not None:
        hint = "--unix and --ws are two ways to one daemon: say only one of them"
        raise UsageFault("two_ways", hint)
    settings = load_settings(options=options, environ=os.environ, config=config)
    if is_web:
        from acpbridge.shell.attach_ws import attach_websocket  # noqa: PLC0415 - 50 ms more

        limits = settings.limits
        sys.exit(
            attach_websocket(options["ws"], settings.token_file, observes=observe, limits=limits)
        )
    from acpbridge.shell.attach import attach_unix  # noqa: PLC0415
    from acpbridge.shell.unix import socket_path  # noqa: PLC0415

    is_told = options["idle_exit_s"] is not None
    ensure = _ensuring(settings, agent, config, is_told=is_told) if spawn else None
    sys.exit(attach_unix(socket_path(settings), observes=observe, ensure=ensure))


def _refuse_without(needed: str, *names: str) -> None:
    """An option that nothing would come of is a mistake to be told, not one to be forgiven.

    A file or the environment may say them to every command, so only the command line is asked.
    """
    context = click.get_current_context()
    for option in context.command.params:
        if (
            option.name in names
            and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        ):
            hint = f"{option.opts[0]} means something only with {needed}: add or drop it"
            raise UsageFault("option_without_use", hint)


def _check_spawn(agent: tuple[str, ...], *, spawn: bool, is_web: bool) -> None:
    example = "as in: acpbridge attach --spawn -- hermes acp"
    if spawn and not agent:
        raise UsageFault("spawn_needs_agent", f"--spawn starts an agent: name it, {example}")
    if agent and not spawn:
        hint = f"attach alone starts no agent: leave {agent[0]} away, or say --spawn, {example}"
        raise UsageFault("agent_needs_spawn", hint)
    if not spawn:
        _refuse_without("--spawn", "idle_exit_s")
    elif is_web:
        hint = "--spawn starts a daemon without a WebSocket: say only one of --spawn and --ws"
        raise UsageFault("spawn_not_by_ws", hint)


def _ensuring(
    settings: Settings, agent: tuple[str, ...], config: str | None, *, is_told: bool
) -> Callable[[], None]:
    from functools import partial  # noqa: PLC0415

    from acpbridge.shell.spawn import (  # noqa: PLC0415
        LOG_NAME,
        SPAWNED_IDLE_EXIT_S,
        ensure_daemon,
    )
    from acpbridge.shell.unix import socket_path, state_folder_of  # noqa: PLC0415

    folder = state_folder_of(settings)
    idle_exit_s = settings.policy.idle_exit_s
    if not idle_exit_s and not is_told:
        idle_exit_s = SPAWNED_IDLE_EXIT_S
    options = ["--idle-exit", f"{idle_exit_s:g}"]
    if config is not None:
        options += ["--config", os.path.abspath(config)]  # noqa: PTH100 - no link is to be resolved
    if settings.log_file is None:
        options += ["--log-file", str(folder / LOG_NAME)]
    return partial(
        ensure_daemon,
        socket_path(settings),
        agent,
        options,
        state_dir=folder,
        wait_s=settings.limits.spawn_wait_s,
    )


@click.command()
@UNIX
@STATE_DIR
@CONFIG
def stop(config: str | None, **options: Any) -> None:
    """End the daemon in order, and wait for it.

    Example: acpbridge stop

    The running turn is ended as the end of a run would end it. Exit code 0: it has ended; 5: no
    daemon listens, or it does not end.
    """
    from acpbridge.config import load_settings  # noqa: PLC0415
    from acpbridge.shell.stop import stop_daemon  # noqa: PLC0415
    from acpbridge.shell.unix import socket_path  # noqa: PLC0415

    settings = load_settings(options=options, environ=os.environ, config=config)
    said = stop_daemon(socket_path(settings), wait_s=settings.limits.stop_wait_s)
    clients = f"{said.clients} client{'' if said.clients == 1 else 's'}"
    click.echo(f"stopped the daemon, process {said.pid}, which had {clients}")
