"""`step` of a hub: one event in, the effects it demands out.

Deterministic, as the bridge's own. Of `run`, where one client has the agent for itself, nothing
is looked at before that client asks for events.
"""

from __future__ import annotations

from acpbridge.core import bridge as inner
from acpbridge.core.effects import Effect
from acpbridge.core.events import (
    ClientGarbled,
    ClientJoined,
    ClientLeft,
    ClientSent,
    Event,
    HubEvent,
    TimerFired,
)
from acpbridge.core.hub import clients, follow, inward, outward
from acpbridge.core.hub.state import SOLO, Client, Hub
from acpbridge.core.model import Bridge
from acpbridge.core.ring import EventLog
from acpbridge.wire import acp

_TIMERS = (follow.ORPHAN, follow.IDLE)


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
    # Nobody but a hub that is awake takes in what a bridge says beside its lines.
    bridge.is_shared = is_shared
    hub = Hub(bridge, log, is_shared, is_asleep=not is_shared)
    if not is_shared:
        hub.clients[SOLO] = Client(SOLO, is_initialized=True)
    return hub


def begin(hub: Hub, now_s: float) -> list[Effect]:
    """The effects with which a hub begins: the agent is started."""
    effects = inner.begin(hub.bridge, now_s)
    if hub.is_shared:
        clients.watch_idle(hub)
    return effects + _taken(hub)


def step(hub: Hub, now_s: float, event: HubEvent) -> list[Effect]:
    """Take in one event at `now_s` (monotonic seconds) and say what is to be done."""
    if hub.is_asleep and not _wakes(event):
        assert not isinstance(event, ClientJoined | ClientLeft)
        return inner.step(hub.bridge, now_s, event)
    hub.bridge.now = now_s
    if isinstance(event, ClientJoined):
        clients.joined(hub, event.client)
    elif isinstance(event, ClientLeft):
        clients.left(hub, event.client)
        _pass_more(hub, now_s)
    elif isinstance(event, TimerFired) and event.key[0] in _TIMERS:
        passed = clients.timer_fired(hub, event.key)
        if passed is not None:
            _pass(hub, now_s, passed)
    else:
        for one in _inward(hub, event):
            _pass(hub, now_s, one)
    return _taken(hub)


def _wakes(event: HubEvent) -> bool:
    """Whether the one client's hub has to look: only its initialize may ask for events."""
    return isinstance(event, ClientSent) and event.frame.method == acp.INITIALIZE


def _inward(hub: Hub, event: Event) -> list[Event]:
    """What the bridge is to be told."""
    if isinstance(event, ClientSent):
        return inward.sent(hub, event)
    if isinstance(event, ClientGarbled):
        return inward.garbled(hub, event)
    return [event]


def _pass(hub: Hub, now_s: float, event: Event) -> None:
    """Step the bridge, and give what comes out to whom it concerns."""
    trace = outward.trace_before(hub, event)
    effects = inner.step(hub.bridge, now_s, event)
    if hub.is_asleep:
        hub.out += effects
    else:
        outward.give(hub, event, effects, trace)
    _pass_more(hub, now_s)


def _pass_more(hub: Hub, now_s: float) -> None:
    while hub.more:
        _pass(hub, now_s, hub.more.pop(0))


def _taken(hub: Hub) -> list[Effect]:
    out, hub.out = hub.out, []
    return out
