"""Who follows which session, what the log says to those who come, and what an absence means."""

from __future__ import annotations

from acpbridge.core import replies
from acpbridge.core.effects import ArmTimer, DisarmTimer
from acpbridge.core.events import ClientSent
from acpbridge.core.hub.state import Ask, Client, Conversation, Hub
from acpbridge.core.model import Phase, Session
from acpbridge.core.requests import ASKS
from acpbridge.core.ring import stamped
from acpbridge.core.ring_entries import Replay
from acpbridge.wire import acp, codec
from acpbridge.wire.frame import Frame, RpcId, peek

ORPHAN = "orphan"
"""The timer of a session that nobody follows who could answer its agent."""
IDLE = "idle"
"""The timer of a daemon without a client."""
TURN_ENDED = "_acpbridge/turn_ended"
"""Tells those who follow a session of the end of a turn whose prompt was another's."""
_TURN_ENDED = codec.notification(TURN_ENDED, {})[: -len(b"{}}")]
"""How such a line begins: only clients that have asked for events get it."""


# -- who follows ----------------------------------------------------------------------------
def follow(hub: Hub, client: Client, conversation: Conversation) -> None:
    """From here on the client is told what happens in the session, and what is asked in it now."""
    number = client.number
    if number not in conversation.followers:
        if client.wants_events:
            conversation.eventful += (number,)
        else:
            conversation.plain += (number,)
    if not client.observes:
        session = hub.bridge.sessions.get(conversation.id)
        if session is not None:
            session.is_abandoned = False
        if conversation.is_orphaned:
            conversation.is_orphaned = False
            hub.out.append(DisarmTimer((ORPHAN, conversation.id)))
    _show_asks(hub, client, conversation)


def unfollow(hub: Hub, client: Client, conversation: Conversation) -> None:
    """The client is told nothing more of the session; the last one's absence begins a grace."""
    number = client.number
    if number not in conversation.followers:
        return
    conversation.plain = tuple(one for one in conversation.plain if one != number)
    conversation.eventful = tuple(one for one in conversation.eventful if one != number)
    others = hub.participants(conversation)
    if not (others or client.observes):
        conversation.seen_seq = latest_seq(hub, conversation)
    for ask in hub.asks.values():
        if ask.session != conversation.id or number not in ask.seen:
            continue
        ask.drop(number)
        if others and not ask.shown:
            # It was the turn's owner's to do; somebody else has to, now.
            show(hub, hub.clients[others[0]], conversation, ask)
    watch(hub, conversation)


def watch(hub: Hub, conversation: Conversation) -> None:
    """Where nobody is left who could answer, and something is open, the grace begins."""
    session = hub.bridge.sessions.get(conversation.id)
    is_left = conversation.is_orphaned or (session is not None and session.is_abandoned)
    if is_left or hub.participants(conversation) or not hub.is_shared:
        return
    if is_waiting(hub, conversation):
        conversation.is_orphaned = True
        hub.out.append(ArmTimer((ORPHAN, conversation.id), hub.bridge.policy.grace_s))


def is_waiting(hub: Hub, conversation: Conversation) -> bool:
    """Whether something of it goes on: a turn, a message, or a question of its agent."""
    session = hub.bridge.sessions.get(conversation.id)
    if session is not None and is_busy(session):
        return True
    asks = hub.asks.items()
    return any(one.session == conversation.id and is_open(hub, id_) for id_, one in asks)


def is_open(hub: Hub, id_: RpcId) -> bool:
    """Whether the agent still waits for this answer.

    Of some ends nobody is told, because this client profile is told of none.
    """
    request = hub.bridge.requests.get(id_)
    return request is not None and not (request.settled or request.withdrawn)


def is_busy(session: Session) -> bool:
    """Whether a turn runs in it, or a message waits."""
    at_rest = session.phase in (Phase.IDLE, Phase.LOST, Phase.WEDGED)
    return not at_rest or bool(session.queue or session.at_agent)


def latest_seq(hub: Hub, conversation: Conversation) -> int:
    """The seq of the session's last event, 0 for none."""
    return hub.log.latest_seq(conversation.id)


def unanswerable(hub: Hub, ask: Ask) -> None:
    """Nobody is there, or comes back, who could answer it: the agent is not left waiting."""
    id_, method = ask.frame.id, ask.frame.method
    del hub.asks[id_]
    hub.send(tuple(sorted(ask.seen)), replies.withdrawal(id_))
    if method in ASKS:
        line = replies.cancelled_outcome(id_, method)
    else:
        line = codec.error(id_, acp.REQUEST_CANCELLED, "No client is there to answer it.")
    answer = peek(line, strict=True)
    assert isinstance(answer, Frame)
    hub.more.append(ClientSent(answer))


# -- what the log says ----------------------------------------------------------------------
def replayed(hub: Hub, client: Client, replay: Replay) -> list[bytes]:
    """The frames of a replay as this client is to see them."""
    frames = replay.frames
    if not client.wants_events:
        return [frame.line for frame in frames if not frame.line.startswith(_TURN_ENDED)]
    epoch = hub.log.epoch
    return [stamped(frame.line, epoch, frame.seq, frame.trace_id) for frame in frames]


def history_of(client: Client, conversation: Conversation) -> list[bytes]:
    """What the agent said at the session's load, as this client is to see it."""
    return [history(client, line) for line in conversation.history or []]


def history(client: Client, line: bytes) -> bytes:
    """A line that the agent has replayed, as this client is to see it: flagged, without a place."""
    return replies.marked(line, "params", {"history": True}) if client.wants_events else line


def _show_asks(hub: Hub, client: Client, conversation: Conversation) -> None:
    """Show what the agent is still waiting for to one who has come."""
    for id_, ask in list(hub.asks.items()):
        if ask.session != conversation.id:
            continue
        if not is_open(hub, id_):
            del hub.asks[id_]
        elif client.number not in ask.seen and _concerns(client, ask):
            show(hub, client, conversation, ask)


def _concerns(client: Client, ask: Ask) -> bool:
    """What a person decides concerns all; what a client has to do, one, and no observer."""
    return ask.frame.method in ASKS or not (client.observes or ask.shown)


def show(hub: Hub, client: Client, conversation: Conversation, ask: Ask) -> None:
    """Show a request of the agent to a client; where the log stands is said with it."""
    line = ask.frame.raw
    if client.wants_events:
        hub.trace(conversation)
        seq = latest_seq(hub, conversation)
        line = stamped(line, hub.log.epoch, seq, conversation.trace)
    hub.send((client.number,), line)
    ask.seen.add(client.number)
    if not client.observes:
        ask.shown.add(client.number)
