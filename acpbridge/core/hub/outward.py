"""A line of the bridge among many clients: who is told, and what the log keeps of it."""

from __future__ import annotations

from collections.abc import Sequence

from acpbridge.core import replies
from acpbridge.core.effects import Effect, PromptWritten, StreamToClient, ToClient
from acpbridge.core.events import AgentSent, AgentStreamed, Event
from acpbridge.core.hub import first, follow, returns, settings
from acpbridge.core.hub.routes import renamed
from acpbridge.core.hub.state import SOLO, Ask, Conversation, Hub, Route
from acpbridge.core.present import CONTENT
from acpbridge.core.requests import ASKS, LOADS, OPENINGS, REQUEST_ID, named_in
from acpbridge.core.ring import stamped
from acpbridge.wire import acp, codec, scan, splice
from acpbridge.wire.frame import Frame, Kind, peek
from acpbridge.wire.ids import ANSWERS
from acpbridge.wire.shapes import Chunks

NOBODY = -1
"""The number of no client."""

ASKS_MAX = 64
"""With this many requests of the agent open, those that are over are looked for."""


def trace_before(hub: Hub, event: Event) -> str:
    """The trace id of the turn that an event of the agent belongs to, as it runs before it."""
    if isinstance(event, AgentStreamed):
        session_id = event.chunks.session
    elif isinstance(event, AgentSent):
        session_id = event.frame.session
    else:
        return ""
    conversation = hub.known(session_id) if session_id else None
    return hub.trace(conversation) if conversation is not None else ""


def give(hub: Hub, event: Event, effects: list[Effect], trace: str) -> None:
    """Give what came out of the bridge to whom it concerns."""
    for effect in effects:
        if isinstance(effect, StreamToClient) and isinstance(event, AgentStreamed):
            _streamed(hub, event.chunks, effect.lines, trace)
        elif isinstance(effect, ToClient):
            _line(hub, _look(event, effect.line), trace)
        elif isinstance(effect, PromptWritten):
            _written(hub, effect)
        else:
            hub.out.append(effect)


def _look(event: Event, line: bytes) -> Frame:
    """What a line for the client is; most are the agent's own, which was looked at already."""
    if isinstance(event, AgentSent) and event.frame.raw is line:
        return event.frame
    frame = peek(line, strict=False)
    assert isinstance(frame, Frame)
    return frame


def _line(hub: Hub, frame: Frame, trace: str) -> None:
    if frame.kind in ANSWERS:
        _answered(hub, frame)
    elif frame.kind is Kind.REQUEST:
        _asked(hub, frame)
    elif frame.method == acp.CANCEL_REQUEST:
        _withdrawn(hub, frame)
    elif frame.session:
        _updated(hub, hub.conversation(frame.session), frame, trace)
    else:
        ready = (one.number for one in hub.clients.values() if one.is_initialized)
        hub.send(tuple(ready), frame.raw)


# -- what happens in a session --------------------------------------------------------------
def _streamed(hub: Hub, chunks: Chunks, lines: Sequence[bytes], trace: str) -> None:
    """Text chunks in a row, of a turn in which nothing is in doubt."""
    conversation = hub.conversation(chunks.session)
    last = hub.log.append_all(conversation.id, lines, chunks, trace)
    hub.send(conversation.plain, *lines)
    if conversation.eventful:
        epoch = hub.log.epoch
        seqs = enumerate(lines, last - len(lines) + 1)
        hub.send(conversation.eventful, *[stamped(one, epoch, seq, trace) for seq, one in seqs])


def _updated(hub: Hub, conversation: Conversation, frame: Frame, trace: str) -> None:
    """Anything that the agent, or the bridge, says in a session."""
    session = hub.bridge.sessions.get(conversation.id)
    if session is not None and session.loading:
        if frame.variant in CONTENT and not replies.is_notice(frame):
            _replayed(hub, conversation, frame.raw)
            return
        if conversation.window_seq is None:
            conversation.window_seq = hub.log.latest_seq(conversation.id)
    settings.learn(conversation, frame)
    trace = trace or hub.trace(conversation)
    log(hub, conversation, frame.raw, trace, frame.variant)


def log(
    hub: Hub,
    conversation: Conversation,
    line: bytes,
    trace: str,
    variant: str = "",
    *,
    but: int = NOBODY,
    for_all: bool = True,
) -> None:
    """Keep an event of a session, and give it to those who follow it, `but` one.

    Not `for_all`: only those who asked for events are told.
    """
    seq = hub.log.append(conversation.id, line, trace, variant)
    plain, eventful = conversation.plain, conversation.eventful
    if but in conversation.followers:
        plain, eventful = (tuple(n for n in some if n != but) for some in (plain, eventful))
    if for_all:
        hub.send(plain, line)
    if eventful:
        hub.send(eventful, stamped(line, hub.log.epoch, seq, trace))


def _replayed(hub: Hub, conversation: Conversation, line: bytes) -> None:
    """History that a load brings is for its asker alone, and no event (field case S12)."""
    if not hub.is_shared:
        hub.send((SOLO,), follow.history(hub.clients[SOLO], line))
        return
    number, load, _ = conversation.loads[0]
    client = hub.clients.get(number)
    if client is not None:
        hub.send((number,), follow.history(client, line))
    if load.method == acp.SESSION_LOAD and conversation.replay is not None:
        conversation.replay.append(line)
        conversation.replay_bytes += len(line)
        if conversation.replay_bytes > hub.bridge.policy.history_bytes_max:
            conversation.replay = None


def _written(hub: Hub, effect: PromptWritten) -> None:
    """A message goes to the agent: those who did not write it see what it says."""
    conversation = hub.conversation(effect.session)
    route = hub.routes.get(effect.id)
    owner = NOBODY
    if route is not None:
        route.trace, owner = effect.trace, route.client
    conversation.trace = effect.trace
    for begin, end in scan.elements(effect.content, 0) if effect.content else ():
        update = b'{"sessionUpdate":"user_message_chunk","content":%b}' % effect.content[begin:end]
        params = {"sessionId": conversation.id, "update": codec.verbatim(update)}
        line = codec.notification(acp.SESSION_UPDATE, params)
        log(hub, conversation, line, effect.trace, acp.USER_MESSAGE_CHUNK, but=owner)


# -- what the agent asks --------------------------------------------------------------------
def _asked(hub: Hub, frame: Frame) -> None:
    """Show a request of the agent to whoever may answer it."""
    if _about_request(hub, frame):
        return
    if len(hub.asks) >= ASKS_MAX:
        _forget_asks(hub)
    conversation = _conversation_of(hub, frame)
    targets = _targets(hub, conversation, frame.method)
    ask = hub.asks[frame.id] = Ask(frame, conversation.id if conversation else "")
    if conversation is None:
        hub.send(targets, frame.raw)
        ask.shown, ask.seen = set(targets), set(targets)
        if not targets:
            follow.unanswerable(hub, ask)
        return
    if frame.method in ASKS:
        # An observer sees it too; what it would answer is dropped.
        targets += tuple(one for one in conversation.followers if one not in targets)
    for number in targets:
        follow.show(hub, hub.clients[number], conversation, ask)
    follow.watch(hub, conversation)


def _conversation_of(hub: Hub, frame: Frame) -> Conversation | None:
    """What a request is about; None where it is of nobody's session, and may concern anybody."""
    if not frame.session:
        return None
    conversation = hub.conversation(frame.session)
    is_known = conversation.id in hub.bridge.sessions or hub.participants(conversation)
    return conversation if is_known else None


def _forget_asks(hub: Hub) -> None:
    """Drop those whose end nobody was told of, because the client profile is told of none."""
    for id_ in list(hub.asks):
        if not follow.is_open(hub, id_):
            del hub.asks[id_]


def _targets(hub: Hub, conversation: Conversation | None, method: str) -> tuple[int, ...]:
    """Who may answer: all for what a person decides, else the owner of the turn."""
    if conversation is None:
        ready = (one for one in hub.clients.values() if one.is_initialized and not one.observes)
        found = tuple(one.number for one in ready)
    else:
        found = hub.participants(conversation)
    if method in ASKS or not found:
        return found
    session = hub.bridge.sessions.get(conversation.id) if conversation is not None else None
    owners = [one.client for one in session.at_agent] if session is not None else []
    owner = next((one for one in owners if one in found), found[0])
    return (owner,)


def _about_request(hub: Hub, frame: Frame) -> bool:
    """An elicitation that names a request of one client goes to that one, by its own id for it."""
    is_one = frame.method == acp.ELICITATION_CREATE
    route = hub.routes.get(named_in(frame)) if is_one else None
    if route is None or route.client not in hub.clients:
        return False
    hub.asks[frame.id] = Ask(frame, "", {route.client}, {route.client})
    hub.send((route.client,), splice.with_value(frame.raw, REQUEST_ID, route.id))
    return True


def unshow(hub: Hub, number: int) -> None:
    """A client has left: what no session names, and only that client had, has no answer."""
    for ask in [one for one in hub.asks.values() if number in one.seen]:
        ask.drop(number)
        if not ask.shown and not ask.session:
            follow.unanswerable(hub, ask)


def _withdrawn(hub: Hub, frame: Frame) -> None:
    """The bridge or the agent takes a request back: whoever has it is told."""
    ask = hub.asks.pop(named_in(frame), None)
    if ask is None:
        hub.count("withdrawal_of_nothing")
        return
    hub.send(tuple(sorted(ask.seen)), frame.raw)


# -- answers --------------------------------------------------------------------------------
def _answered(hub: Hub, frame: Frame) -> None:
    """A response goes to the client that asked, if it is still there, under its own id."""
    route = hub.routes.get(frame.id)
    if route is None:
        _stray(hub, frame)
        return
    _route_over(hub, route, frame)
    if frame.id in hub.routes:
        # Its client has gone, and was not answered.
        hub.end_route(frame.id)
    hub.bridge.unheard.discard(frame.id)


def _route_over(hub: Hub, route: Route, frame: Frame) -> None:
    if route.method == acp.INITIALIZE:
        first.initialized(hub, route, frame)
        return
    if route.method in LOADS and hub.is_shared:
        returns.loaded(hub, route, frame)
        return
    if route.method in OPENINGS and frame.kind is Kind.RESPONSE:
        # What the agent has said in it before this answer goes before this answer (I6).
        returns.opened(hub, route, frame)
    hub.answer(route.client, route.id, renamed(frame.raw, route), frame.id)
    if route.method == acp.SESSION_PROMPT:
        _ended(hub, route, frame)
    elif route.client not in hub.clients:
        hub.note("answer_to_nobody", method=route.method)
    if frame.kind is Kind.RESPONSE:
        _learn(hub, route, frame)


def _stray(hub: Hub, frame: Frame) -> None:
    """An answer under a client's own id: to a line that was refused unread."""
    if not hub.is_shared:
        hub.send((SOLO,), frame.raw)
        return
    found = next((one for one in hub.strays if one[0] == frame.id), None)
    if found is None:
        hub.note("answer_to_nobody", "warning", id=frame.id.decode(errors="replace"))
        return
    hub.strays.remove(found)
    hub.answer(found[1], frame.id, frame.raw)


def _ended(hub: Hub, route: Route, frame: Frame) -> None:
    """A prompt has its answer: those who follow with events learn that its turn has ended."""
    conversation = hub.known(route.session)
    if not route.trace or conversation is None:
        # It never went to the agent, or shares the answer of another request.
        return
    name = "result" if frame.kind is Kind.RESPONSE else "error"
    said = codec.verbatim(scan.value(frame.raw, name))
    line = codec.notification(follow.TURN_ENDED, {"sessionId": conversation.id, name: said})
    log(hub, conversation, line, route.trace, but=route.client, for_all=False)


def _learn(hub: Hub, route: Route, frame: Frame) -> None:
    """What an answer tells about a session: it is over, or set otherwise."""
    conversation = hub.known(route.session) if route.session else None
    if conversation is None:
        return
    if route.method in (acp.SESSION_CLOSE, acp.SESSION_DELETE):
        returns.closed(hub, conversation)
    else:
        settings.acknowledged(conversation, route, frame)
