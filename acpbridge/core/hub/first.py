"""`initialize` of many clients: the agent hears the first one's, the others hear its answer."""

from __future__ import annotations

from typing import Any

from acpbridge.core import replies
from acpbridge.core.events import ClientSent, Event
from acpbridge.core.hub.routes import forward, renamed
from acpbridge.core.hub.state import Client, Hub, Route
from acpbridge.wire import acp, codec, scan
from acpbridge.wire.frame import Frame, Kind, RpcId
from acpbridge.wire.look import member

LATE_MAX = 4
"""How often one client may say initialize before the agent has answered the first one's."""
_LEVELS_MAX = 8
"""Capabilities are compared down to this level; what is below is one with what holds it."""
_NOTHING_YET = codec.encode({"protocolVersion": acp.PROTOCOL_VERSION, "agentCapabilities": {}})
"""What an observer hears that comes before anybody whose agent it could be."""


def initialize(hub: Hub, client: Client, event: ClientSent) -> list[Event]:
    """Take in a client's initialize: it goes to the agent, waits for another's, or is answered."""
    frame = event.frame
    if client.is_initialized and hub.is_shared:
        # Said twice: what it follows goes on as it was asked for the first time.
        _answer(hub, client, frame)
        return []
    client.has_greeted = True
    capabilities = frame.params.get("clientCapabilities")
    client.capabilities = capabilities if isinstance(capabilities, dict) else {}
    said = member(client.capabilities, "_meta", "acpbridge")
    client.observes = hub.is_shared and member(said, "observe") is True
    client.wants_events = member(said, "events") is True
    if not hub.is_shared:
        hub.is_asleep = not client.wants_events
        hub.bridge.is_shared = client.wants_events
        return [forward(hub, client, frame)] if client.wants_events else [event]
    if hub.initialized or client.observes:
        # The agent is not to take an observer's capabilities for those of all.
        _answer(hub, client, frame)
    elif hub.first is None:
        hub.first = client
        return [forward(hub, client, frame)]
    elif sum(number == client.number for number, _ in hub.late) < LATE_MAX:
        hub.late.append((client.number, frame))
    else:
        text = "initialize was sent before; wait for its answer."
        hub.refuse(client.number, frame.id, acp.INVALID_REQUEST, text)
    return []


def initialized(hub: Hub, route: Route, frame: Frame) -> None:
    """The agent has answered the first one's: all who wait are answered, or the next one asks."""
    client = hub.clients.get(route.client)
    if frame.kind is Kind.ERROR:
        hub.first = None
        hub.answer(route.client, route.id, renamed(frame.raw, route), frame.id)
        late, hub.late = hub.late, []
        for number, waiting in late:
            hub.more += initialize(hub, hub.clients[number], ClientSent(waiting, number))
        return
    hub.initialized = scan.value(frame.raw, "result")
    if client is not None:
        _give(hub, client, route.id, renamed(frame.raw, route), [], frame.id)
    late, hub.late = hub.late, []
    for number, waiting in late:
        _answer(hub, hub.clients[number], waiting)


def _answer(hub: Hub, client: Client, frame: Frame) -> None:
    """Answer from what the agent said to the first one."""
    first = hub.first.capabilities if hub.first is not None else {}
    differs = sorted(_flags(first) ^ _flags(client.capabilities))
    if differs:
        hub.note("capabilities_differ", "warning", client=client.number, differs=differs)
    line = codec.result(frame.id, codec.verbatim(hub.initialized or _NOTHING_YET))
    _give(hub, client, frame.id, line, differs)


def _give(
    hub: Hub, client: Client, id_: RpcId, line: bytes, differs: list[str], own: RpcId | None = None
) -> None:
    """Say the result, and with it what the bridge has to say to this client."""
    client.is_initialized = True
    said: dict[str, Any] = {"epoch": hub.log.epoch} if client.wants_events else {}
    if differs and not client.observes:
        said["capabilitiesDiffer"] = differs
    line = replies.marked(line, "result", said) if said else line
    hub.answer(client.number, id_, line, own)


def _flags(capabilities: dict[str, Any], path: str = "", level: int = 1) -> set[str]:
    """The names of all capabilities that are switched on, as `fs.readTextFile`."""
    found: set[str] = set()
    for name, value in capabilities.items():
        if name == "_meta":
            continue
        if isinstance(value, dict):
            inner = _flags(value, f"{path}{name}.", level + 1) if level < _LEVELS_MAX else set()
            found |= inner or {f"{path}{name}"}
        elif value:
            found.add(f"{path}{name}")
    return found
