"""`acpbridge serve`: open the doors, be the daemon, and say when it can be used."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from acpbridge.core import hub
from acpbridge.core.bridge import start
from acpbridge.errors import AgentFault
from acpbridge.shell.daemon import Daemon
from acpbridge.shell.driver import Core
from acpbridge.shell.metrics import Family, page
from acpbridge.shell.peers import UnixPeer
from acpbridge.shell.ready import READY
from acpbridge.shell.spawn import agent_digest
from acpbridge.shell.surroundings import journaling_of, state_folder, surroundings
from acpbridge.shell.unix import ends, listen, socket_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from acpbridge.config import Settings
    from acpbridge.shell.daemon import Greet, Listener
    from acpbridge.shell.gate import Gate
    from acpbridge.shell.journaling import Journaling
    from acpbridge.shell.notes import Notes
    from acpbridge.shell.ready import Ready


@frozen
class WebDoor:
    """Who may come by WebSocket, besides that they show the token."""

    origins: tuple[str, ...] = ()
    """Web pages, each as its `Origin` header says."""
    hosts: tuple[str, ...] = ()
    """Further names of this daemon, each as a `Host` header says."""


def serve_daemon(settings: Settings, argv: Sequence[str], door: WebDoor, ready: Ready) -> int:
    """Be the daemon to its end in this process; returns the exit code.

    Raises:
        AcpBridgeError: It cannot be used: a file, a directory, a path or an address is not ours.
    """
    state_folder(settings)
    nonce = secrets.token_hex(4)
    journaling = journaling_of(settings, nonce)
    bridge = start(settings.policy, settings.agent, settings.client, nonce)
    core = Core(hub.open_hub(bridge, is_shared=True), hub.begin, hub.step)
    return trio.run(_serve, settings, argv, core, journaling, door, ready)


async def _serve(
    settings: Settings,
    argv: Sequence[str],
    core: Core[hub.Hub],
    journaling: Journaling | None,
    door: WebDoor,
    ready: Ready,
) -> int:
    # Whatever can be refused is, before there is a task: a fault then reaches the command line.
    with closing(listen(socket_path(settings), agent_digest(argv))) as unix:
        gate = None if settings.ws is None else await _open_gate(settings, door)
        words = f"listening unix={unix.path}" + (f" ws={gate.address}" if gate else "")
        async with surroundings(settings) as around:
            notes = around.notes
            listeners: list[tuple[Listener, Greet]] = [(unix, _greet_unix(settings))]
            if gate is not None:
                greet = gate.greeting(lambda: page(_families(core.bridge, notes)), notes)
                listeners += [(listener, greet) for listener in gate.listeners]

            def tell(start_fault: str) -> None:
                if start_fault:
                    hint = f"cannot start the agent: {start_fault}"
                    ready.say_fault(AgentFault("agent_not_started", hint))
                else:
                    around.stderr.put_line(words)
                    ready.say(READY)

            daemon = Daemon(settings, argv, core, around=around, journaling=journaling)
            return await daemon.serve(listeners, tell)


async def _open_gate(settings: Settings, door: WebDoor) -> Gate:
    # h11 and wsproto, which the unix socket does not need, cost a start some 30 ms.
    from acpbridge.shell.gate import open_gate  # noqa: PLC0415

    return await open_gate(settings, origins=door.origins, hosts=door.hosts)


def _families(state: hub.Hub, notes: Notes) -> list[Family]:
    return [
        *(
            Family(name, f"{name.replace('_', ' ')} right now.".capitalize(), {"": value})
            for name, value in hub.gauges(state).items()
        ),
        Family("decisions_total", "What the core has counted.", state.bridge.counters, "of"),
        Family("notes_total", "Events of the log, written or not.", notes.counters, "of"),
    ]


def _greet_unix(settings: Settings) -> Greet:
    line_bytes_max = settings.policy.line_bytes_max

    @asynccontextmanager
    async def greet(stream: trio.SocketStream) -> AsyncIterator[UnixPeer]:
        with ends(stream) as (incoming, outgoing):
            yield UnixPeer(incoming, outgoing, line_bytes_max)

    return greet
