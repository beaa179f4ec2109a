"""A frame of one client among many: who says it, whether it may, and what the bridge is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from acpbridge.core import replies
from acpbridge.core.events import ClientGarbled, ClientSent, Event
from acpbridge.core.hub import first, follow, queries, returns
from acpbridge.core.hub.routes import forward
from acpbridge.core.hub.state import Client, Hub
from acpbridge.core.model import Stage
from acpbridge.core.requests import LOADS, REQUEST_ID, named_in
from acpbridge.wire import acp, splice
from acpbridge.wire.frame import Frame, Kind, Malformed, RpcId
from acpbridge.wire.ids import ANSWERS, salvage

STRAYS_MAX = 256
"""Refused lines whose answer the bridge may still owe under the client's own id."""

_OBSERVED = (acp.SESSION_LIST, *LOADS)
"""What an observer may ask, beside the bridge's own methods; a load only of a live session."""

_Query: TypeAlias = Callable[[Hub, Client, Frame], None]
_QUERIES: dict[str, _Query] = {
    "_acpbridge/events_since": queries.events_since,
    "_acpbridge/stats": queries.stats,
    "_acpbridge/prompts": queries.prompts,
}


def sent(hub: Hub, event: ClientSent) -> list[Event]:
    """Take in one well-formed frame of a client; what the bridge is to be told of it."""
    frame = event.frame
    client = hub.clients.get(event.client)
    if client is None:
        return []
    if frame.kind in ANSWERS:
        return _answer(hub, client, event)
    if frame.method == acp.INITIALIZE and frame.kind is Kind.REQUEST:
        return first.initialize(hub, client, event)
    if not client.has_greeted and hub.is_shared:
        _unready(hub, client, frame)
        return []
    if frame.kind is Kind.NOTIFICATION:
        return _notification(hub, client, event)
    return _request(hub, client, frame)


def _request(hub: Hub, client: Client, frame: Frame) -> list[Event]:
    query = _QUERIES.get(frame.method)
    if query is not None:
        query(hub, client, frame)
        return []
    is_early = frame.method == acp.SESSION_LIST and not hub.initialized
    if client.observes and (frame.method not in _OBSERVED or is_early):
        text = f"An observer only watches: {frame.method} was not sent. Attach without --observe."
        if is_early:
            # The agent has heard no initialize, and an observer's is not for it.
            text = "Nobody but observers has come yet: session/list was not sent. Ask again later."
        hub.answer(client.number, frame.id, replies.refusal(frame.id, "observer", text))
        return []
    if client.open_count >= hub.bridge.policy.client_requests_max and hub.is_shared:
        text = "Too many requests of this client are open (client_requests_max); not sent."
        hub.answer(client.number, frame.id, replies.refusal(frame.id, "queue-full", text))
        return []
    if frame.method in LOADS and hub.is_shared:
        return returns.load(hub, client, frame)
    if frame.method == acp.SESSION_CLOSE and _leaves_others(hub, client, frame):
        return []
    if frame.method == acp.SESSION_PROMPT and frame.session:
        # Who prompts is shown what waits for an answer, or the turn before could never end.
        returns.catch_up(hub, client, hub.conversation(frame.session))
    return [forward(hub, client, frame)]


def _leaves_others(hub: Hub, client: Client, frame: Frame) -> bool:
    """A close among others ends the session for its sender alone."""
    conversation = hub.known(frame.session)
    others = hub.participants(conversation) if conversation is not None else ()
    if conversation is None or not any(one != client.number for one in others):
        return False
    follow.unfollow(hub, client, conversation)
    hub.respond(client.number, frame.id, {})
    return True


def _unready(hub: Hub, client: Client, frame: Frame) -> None:
    if frame.kind is Kind.REQUEST:
        text = f"{frame.method} came before initialize; send initialize first."
        hub.refuse(client.number, frame.id, acp.INVALID_REQUEST, text)
    else:
        hub.note("notification_dropped", "warning", method=frame.method, reason="no initialize")


# -- notifications --------------------------------------------------------------------------
def _notification(hub: Hub, client: Client, event: ClientSent) -> list[Event]:
    frame = event.frame
    if client.observes:
        hub.count("observer_notification_dropped")
        return []
    if frame.method == acp.CANCEL_REQUEST and hub.is_shared:
        return _cancel_request(hub, client, frame)
    if frame.method == acp.SESSION_CANCEL:
        _tell_of_cancel(hub, client, frame)
    return [event]


def _cancel_request(hub: Hub, client: Client, frame: Frame) -> list[Event]:
    """The client names its own id; the bridge knows the request by the hub's."""
    id_ = named_in(frame)
    if id_ in client.open:
        line = splice.with_value(frame.raw, REQUEST_ID, client.open[id_][0])
        return [ClientSent(frame.spelled(line), client.number)]
    hub.note("cancel_of_unknown_request", id=id_.decode(errors="replace"))
    return []


def _tell_of_cancel(hub: Hub, client: Client, frame: Frame) -> None:
    """Others whose messages are open hear who stopped the turn, and that theirs still wait."""
    conversation, session = hub.known(frame.session), hub.session(frame.session)
    owner = session.owner() if session is not None else None
    if conversation is None or (owner is not None and owner.stage is Stage.SENDING):
        # Nothing runs yet, so nothing is stopped.
        return
    waiting = {
        route.client
        for route in hub.routes.values()
        if route.method == acp.SESSION_PROMPT and hub.known(route.session) is conversation
    }
    text = "Another client stopped the running turn; what you sent and has not begun still waits."
    line = replies.chunk(conversation.id, text, acp.AGENT_THOUGHT_CHUNK)
    others = tuple(one for one in conversation.followers if one in waiting)
    hub.send(tuple(one for one in others if one != client.number), line)


# -- answers --------------------------------------------------------------------------------
def _answer(hub: Hub, client: Client, event: ClientSent) -> list[Event]:
    """The first answer to what the agent asked wins; the others are told that it is over."""
    if not hub.is_shared:
        hub.asks.pop(event.frame.id, None)
        return [event]
    if _steps_aside(hub, client, event.frame):
        return []
    return [event] if _wins(hub, client, event.frame.id) else []


def _steps_aside(hub: Hub, client: Client, frame: Frame) -> bool:
    """That a client does not know the method is no answer, while others have the question."""
    ask = hub.asks.get(frame.id)
    if frame.kind is not Kind.ERROR or frame.error.get("code") != acp.METHOD_NOT_FOUND:
        return False
    if ask is None or client.number not in ask.shown or len(ask.shown) == 1:
        return False
    ask.drop(client.number)
    hub.note("client_cannot_answer", client=client.number, method=ask.frame.method)
    return True


def _wins(hub: Hub, client: Client, id_: RpcId) -> bool:
    """Whether a client's answer is the first to a request that it may answer."""
    ask = hub.asks.get(id_)
    if ask is None or client.number not in ask.shown:
        hub.note("late_client_answer_dropped", id=id_.decode(errors="replace"))
        return False
    del hub.asks[id_]
    hub.send(tuple(sorted(ask.seen - {client.number})), replies.withdrawal(id_))
    return True


# -- lines that are refused -----------------------------------------------------------------
def garbled(hub: Hub, event: ClientGarbled) -> list[Event]:
    """A line that is refused: its own client hears of it, whoever else is there."""
    client, fault = hub.clients.get(event.client), event.fault
    if client is None or not hub.is_shared:
        return [event]
    if isinstance(fault, Malformed):
        hub.note("client_line_refused", "warning", client=client.number, reason=fault.message)
        hub.refuse(client.number, fault.id, fault.code, fault.message)
        return []
    known = salvage(fault.head, fault.tail)
    if known.kind in ANSWERS:
        return [event] if _wins(hub, client, known.id) else []
    if known.id in hub.routes:
        # The answer would be taken for that of somebody's open request.
        text = "The line is too long (line_bytes_max) and has an id of the bridge's own."
        line = replies.refusal(known.id, "frame-too-large", text)
        hub.answer(client.number, known.id, line)
        return []
    hub.strays.append((known.id, client.number))
    del hub.strays[:-STRAYS_MAX]
    return [event]
