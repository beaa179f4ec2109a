"""`acpbridge serve`: open the doors, be the daemon, and say when it can be used."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from acpbridge.core import hub
from acpbridge.core.bridge import start
from acpbridge.errors import AgentFault
from acpbridge.shell.daemon import Daemon
from acpbridge.shell.driver import Core
from acpbridge.shell.peers import UnixPeer
from acpbridge.shell.surroundings import journaling_of, state_folder, surroundings
from acpbridge.shell.unix import ends, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from acpbridge.config import Settings
    from acpbridge.shell.daemon import Greet, Listener
    from acpbridge.shell.journaling import Journaling
    from acpbridge.shell.ready import Ready

SOCKET_NAME = "daemon.sock"
"""In the state directory."""


def socket_path(settings: Settings) -> Path:
    """Where the daemon of these settings listens, absolute; the directory need not exist yet."""
    if settings.unix is not None:
        return Path.cwd() / settings.unix
    from acpbridge.store.state_dir import usual_state_dir  # noqa: PLC0415 - most are told a place

    return Path.cwd() / (settings.state_dir or usual_state_dir()) / SOCKET_NAME


def serve_daemon(settings: Settings, argv: Sequence[str], ready: Ready) -> int:
    """Be the daemon to its end in this process; returns the exit code.

    Raises:
        AcpBridgeError: It cannot be used: a file, a directory, a path or an address is not ours.
    """
    state_folder(settings)
    nonce = secrets.token_hex(4)
    journaling = journaling_of(settings, nonce)
    bridge = start(settings.policy, settings.agent, settings.client, nonce)
    core = Core(hub.open_hub(bridge, is_shared=True), hub.begin, hub.step)
    return trio.run(_serve, settings, argv, core, journaling, ready)


async def _serve(
    settings: Settings,
    argv: Sequence[str],
    core: Core[hub.Hub],
    journaling: Journaling | None,
    ready: Ready,
) -> int:
    path = socket_path(settings)
    async with AsyncExitStack() as stack:
        around = await stack.enter_async_context(surroundings(settings))
        unix = listen(path)
        stack.callback(unix.close)
        listeners: list[tuple[Listener, Greet]] = [(unix, _greet_unix(settings))]
        words = f"listening unix={path}"
        daemon = Daemon(settings, argv, core, around=around, journaling=journaling)

        def tell(start_fault: str) -> None:
            if start_fault:
                ready.say_fault(AgentFault("agent_not_started", f"cannot start {start_fault}"))
            else:
                around.stderr.put_line(words)
                ready.say("ready")

        return await daemon.serve(listeners, tell)


def _greet_unix(settings: Settings) -> Greet:
    line_bytes_max = settings.policy.line_bytes_max

    @asynccontextmanager
    async def greet(stream: trio.SocketStream) -> AsyncIterator[UnixPeer]:
        with ends(stream) as (incoming, outgoing):
            yield UnixPeer(incoming, outgoing, line_bytes_max)

    return greet
