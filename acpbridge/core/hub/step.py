"""`step` of a hub: one event in, the effects it demands out."""

from __future__ import annotations

from acpbridge.core import bridge as inner
from acpbridge.core.effects import Effect, StreamToClient, ToClient, ToClients
from acpbridge.core.events import ClientJoined, ClientLeft, HubEvent
from acpbridge.core.hub.state import Hub
from acpbridge.core.model import Bridge
from acpbridge.core.ring import EventLog


def open_hub(bridge: Bridge, *, is_shared: bool) -> Hub:
    """A hub before a bridge that has seen nothing yet; its epoch is the bridge's nonce."""
    policy = bridge.policy
    log = EventLog(
        bridge.nonce,
        events_max=policy.log_events_max,
        event_bytes_max=policy.log_event_bytes_max,
        text_bytes_max=policy.log_text_bytes_max,
        sessions_max=policy.log_sessions_max,
        bytes_max=policy.log_bytes_max,
    )
    return Hub(bridge, log, is_shared)


def begin(hub: Hub, now_s: float) -> list[Effect]:
    """The effects with which a hub begins: the agent is started."""
    return _given(hub, inner.begin(hub.bridge, now_s))


def step(hub: Hub, now_s: float, event: HubEvent) -> list[Effect]:
    """Take in one event at `now_s` (monotonic seconds) and say what is to be done."""
    if isinstance(event, ClientJoined):
        hub.clients[event.client] = True
        return []
    if isinstance(event, ClientLeft):
        hub.clients.pop(event.client, None)
        return []
    return _given(hub, inner.step(hub.bridge, now_s, event))


def _given(hub: Hub, effects: list[Effect]) -> list[Effect]:
    if not hub.is_shared:
        return effects
    all_ = tuple(hub.clients)
    given: list[Effect] = []
    for effect in effects:
        if isinstance(effect, ToClient):
            given.append(ToClients(all_, (effect.line,)))
        elif isinstance(effect, StreamToClient):
            given.append(ToClients(all_, effect.lines))
        else:
            given.append(effect)
    return given
