"""Clients come and go; the conversation stays (issue 6, points 5 and 6)."""

from __future__ import annotations

from acpbridge.core.effects import ArmTimer, DisarmTimer
from acpbridge.core.events import Event, SessionAbandoned, StopAsked, TimerKey
from acpbridge.core.hub import follow, outward
from acpbridge.core.hub.state import Client, Hub


def joined(hub: Hub, number: int) -> None:
    """A client has connected; it is told nothing before its initialize."""
    hub.clients[number] = Client(number)
    hub.out.append(DisarmTimer((follow.IDLE, "")))
    hub.count("clients_joined")


def left(hub: Hub, number: int) -> None:
    """A client is gone: its turns go on, and nobody reads the answers that it is owed."""
    client = hub.clients.pop(number, None)
    if client is None:
        return
    hub.late = [waiting for waiting in hub.late if waiting[0] != number]
    for conversation in list(hub.conversations.values()):
        # The first of them is at the agent; its answer will come.
        for waiting in [one for one in conversation.loads[1:] if one[0] == number]:
            conversation.loads.remove(waiting)
            hub.end_route(waiting[2])
        follow.unfollow(hub, client, conversation)
    hub.bridge.unheard |= {id_ for id_, one in hub.routes.items() if one.client == number}
    outward.unshow(hub, number)
    watch_idle(hub)


def watch_idle(hub: Hub) -> None:
    """Without a client the daemon's own end draws nearer, where it has one."""
    idle_s = hub.bridge.policy.idle_exit_s
    if idle_s and not hub.clients:
        hub.out.append(ArmTimer((follow.IDLE, ""), idle_s))


def timer_fired(hub: Hub, key: TimerKey) -> Event | None:
    """A timer of the hub's own has run out; what the bridge is to be told of it."""
    name, session_id = key
    if name == follow.ORPHAN:
        return _abandoned(hub, session_id)
    if hub.clients:
        return None
    if any(follow.is_busy(session) for session in hub.bridge.sessions.values()):
        watch_idle(hub)
        return None
    return StopAsked("no client and no turn (idle_exit_s)")


def _abandoned(hub: Hub, session_id: str) -> Event | None:
    """The grace is over and nobody who could answer has come back."""
    conversation = hub.conversations.get(session_id)
    if conversation is None or not conversation.is_orphaned:
        return None
    # What the bridge has abandoned it knows by itself, as long as it knows the session.
    conversation.is_orphaned = False
    if not follow.is_waiting(hub, conversation):
        return None
    for ask in [one for one in hub.asks.values() if one.session == session_id]:
        request = hub.bridge.requests.get(ask.frame.id)
        if request is None or request.session not in hub.bridge.sessions:
            # It was asked before the bridge knew the session, or is open still after its end.
            follow.unanswerable(hub, ask)
    return SessionAbandoned(session_id, cancels=hub.bridge.policy.orphan == "cancel")
