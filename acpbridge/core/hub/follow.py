"""Who follows which session, what the log says to those who come, and what an absence means."""

from __future__ import annotations

from acpbridge.core import replies
from acpbridge.core.effects import ArmTimer, DisarmTimer
from acpbridge.core.hub.state import Client, Conversation, Hub
from acpbridge.core.model import Phase, Session
from acpbridge.core.ring import stamped
from acpbridge.core.ring_entries import Replay

ORPHAN = "orphan"
"""The timer of a session that nobody follows who could answer its agent."""
IDLE = "idle"
"""The timer of a daemon without a client."""
_OURS = b'{"jsonrpc":"2.0","method":"_acpbridge/'
"""How the lines of the log begin that are for those alone who asked for events."""


# -- who follows ----------------------------------------------------------------------------
def follow(hub: Hub, client: Client, conversation: Conversation) -> None:
    """From here on the client is told what happens in the session."""
    number = client.number
    if number not in conversation.followers:
        if client.wants_events:
            conversation.eventful += (number,)
        else:
            conversation.plain += (number,)
    if not client.observes and conversation.is_orphaned:
        conversation.is_orphaned = False
        hub.out.append(DisarmTimer((ORPHAN, conversation.id)))
        session = hub.bridge.sessions.get(conversation.id)
        if session is not None:
            session.is_abandoned = False


def unfollow(hub: Hub, number: int, conversation: Conversation) -> None:
    """The client is told nothing more of the session; the last one's absence begins a grace."""
    if number not in conversation.followers:
        return
    if conversation.followers == (number,):
        conversation.seen_seq = latest_seq(hub, conversation)
    conversation.plain = tuple(one for one in conversation.plain if one != number)
    conversation.eventful = tuple(one for one in conversation.eventful if one != number)
    others = hub.participants(conversation)
    for ask in hub.asks.values():
        if ask.session != conversation.id or number not in ask.shown:
            continue
        ask.shown.discard(number)
        if others and not ask.shown:
            # It was the turn's owner's to do; somebody else has to, now.
            hub.send(others[:1], ask.frame.raw)
            ask.shown.add(others[0])
    watch(hub, conversation)


def watch(hub: Hub, conversation: Conversation) -> None:
    """Where nobody is left who could answer, and something is open, the grace begins."""
    if conversation.is_orphaned or hub.participants(conversation) or not hub.is_shared:
        return
    session = hub.bridge.sessions.get(conversation.id)
    if session is not None and is_busy(session):
        conversation.is_orphaned = True
        hub.out.append(ArmTimer((ORPHAN, conversation.id), hub.bridge.policy.grace_s))


def is_busy(session: Session) -> bool:
    """Whether a turn runs in it, or a message waits."""
    at_rest = session.phase in (Phase.IDLE, Phase.LOST, Phase.WEDGED)
    return not at_rest or bool(session.queue or session.at_agent)


def latest_seq(hub: Hub, conversation: Conversation) -> int:
    """The seq of the session's last event, 0 for none."""
    return hub.log.latest_seq(conversation.id)


# -- what the log says ----------------------------------------------------------------------
def replayed(hub: Hub, client: Client, replay: Replay) -> list[bytes]:
    """The frames of a replay as this client is to see them."""
    frames = replay.frames
    if not client.wants_events:
        return [frame.line for frame in frames if not frame.line.startswith(_OURS)]
    epoch = hub.log.epoch
    return [stamped(frame.line, epoch, frame.seq, frame.trace_id) for frame in frames]


def history_of(client: Client, conversation: Conversation) -> list[bytes]:
    """What the agent said at the session's load, as this client is to see it."""
    lines = conversation.history or []
    if not client.wants_events:
        return lines
    return [replies.marked(line, "params", {"history": True}) for line in lines]


def show_asks(hub: Hub, client: Client, conversation: Conversation) -> None:
    """Show what the agent is still waiting for to one who has come."""
    for id_, ask in list(hub.asks.items()):
        if ask.session != conversation.id:
            continue
        request = hub.bridge.requests.get(id_)
        if request is None or request.settled or request.withdrawn:
            # Its end was told to nobody, because this client profile is told of none.
            del hub.asks[id_]
        elif client.number not in ask.shown:
            hub.send((client.number,), ask_line(hub, client, conversation, ask.frame.raw))
            if not client.observes:
                ask.shown.add(client.number)


def ask_line(hub: Hub, client: Client, conversation: Conversation, line: bytes) -> bytes:
    """A request of the agent as this client is to see it: where the log stands is said with it."""
    if not client.wants_events:
        return line
    seq = latest_seq(hub, conversation)
    return stamped(line, hub.log.epoch, seq, conversation.trace)
