"""Requests in both directions: every one is answered once, by whom it was meant for.

Ids are kept by direction and by their own JSON text. The client's ids pass as they are unless
one is in use; the agent's ids are spliced after a restart, so that an old card can never approve
a new process's request (R22).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from acpbridge.core import answers, identity, openings, own_steers, present, replies, work
from acpbridge.core.model import (
    NEVER,
    AgentRequest,
    AgentState,
    Bridge,
    Pending,
    Phase,
    Session,
    Stage,
    Trigger,
)
from acpbridge.core.outgoing import send
from acpbridge.wire import acp, codec, scan, splice
from acpbridge.wire.frame import Frame, Kind, RpcId

LOADS = (acp.SESSION_LOAD, acp.SESSION_RESUME)
OPENINGS = (acp.SESSION_NEW, acp.SESSION_FORK)
SETTINGS = (acp.SESSION_SET_MODE, acp.SESSION_SET_MODEL, acp.SESSION_SET_CONFIG_OPTION)
ASKS = (acp.REQUEST_PERMISSION, acp.ELICITATION_CREATE)
"""What an agent asks a person: a cancel answers it (R17)."""

REQUEST_ID = ("params", "requestId")
"""Where a message names another request: a `$/cancel_request`, or an elicitation for one."""

SETTLED_MAX = 256
"""Agent requests remembered for the client's own, late answer (R17)."""

_UP = (AgentState.FRESH, AgentState.READY)

_Own: TypeAlias = Callable[[Bridge, Frame | None], None]
_Then: TypeAlias = Callable[[Bridge, Session | None, Frame | None], None]


# -- toward the agent -----------------------------------------------------------------------
def forward(bridge: Bridge, session: Session | None, frame: Frame) -> None:
    """Pass a client's request on and remember who waits for its answer."""
    if frame.kind is Kind.NOTIFICATION:
        # One that waited among requests for the session's revival.
        send(bridge, session, identity.toward_agent(session, frame))
        return
    if frame.method == acp.STEERING and own_steers.kept_back(bridge, session, frame):
        return
    wire_id = present.id_of(bridge, frame)
    name = session.id if session else ""
    bridge.pending[wire_id] = Pending(frame.method, frame.id, name, None, frame)
    if frame.method in OPENINGS:
        bridge.opening += 1
    if frame.method == acp.STEERING and session is not None:
        own_steers.goes(bridge, session)
    line = identity.toward_agent(session, frame)
    if wire_id != frame.id:
        line = splice.with_id(line, wire_id)
    send(bridge, session, identity.without_argument_keys(bridge, frame, line))


def release_steers(bridge: Bridge, session: Session) -> None:
    """The cancelled turn has ended: the client's own steers that waited for that go (R16)."""
    while session.steers_held and session.phase is not Phase.CANCELLING:
        forward(bridge, session, session.steers_held.popleft())


def ask(bridge: Bridge, session: Session | None, method: str, params: bytes, then: _Then) -> None:
    """Write a request of the bridge's own, unless the end was asked for (R23)."""
    if bridge.closing:
        return
    own = bridge.own_id()
    name = session.id if session else ""
    bridge.pending[own] = Pending(method, own, name, own=own_answer(session, then))
    send(bridge, session, codec.request(own, method, codec.verbatim(params)))


def own_answer(session: Session | None, then: _Then) -> _Own:
    """What to do with the answer to a request of the bridge's own."""

    def answered(bridge: Bridge, frame: Frame | None) -> None:
        then(bridge, session, frame)

    return answered


def forward_load(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Pass a load or resume on; its window opens with the write."""
    session.loading += 1
    session.resuming += frame.method == acp.SESSION_RESUME
    session.load_until_s = NEVER
    session.replayed = 0
    session.muted = session.ghost_runs = False
    if session.tip and session.phase is Phase.LOST:
        identity.alias(bridge, session, session.tip)
    forward(bridge, session, frame)


# -- the agent answers ----------------------------------------------------------------------
def answered(bridge: Bridge, frame: Frame) -> None:
    """A response of the agent: to a prompt, to another request of the client, or to our own."""
    pending = bridge.pending.pop(frame.id, None)
    if pending is None:
        bridge.note("unknown_answer_dropped", "warning", id=frame.id.decode(errors="replace"))
        return
    if pending.own is not None:
        pending.own(bridge, frame)
        return
    prompt = pending.prompt
    if prompt is None:
        _pass_answer(bridge, pending, frame)
        return
    session = bridge.sessions.get(pending.session)
    if session is None:
        return
    if pending.method == acp.STEERING:
        prompt.answer = frame
        bridge.fire(session, Trigger.VERDICT, prompt)
        return
    if prompt.stage is Stage.ENDED:
        _late_answer(bridge, session, frame)
        return
    prompt.answer = frame
    bridge.fire(session, Trigger.ANSWER, prompt)


def _late_answer(bridge: Bridge, session: Session, frame: Frame) -> None:
    """The real end of a turn that we had given up: the session is whole after all."""
    bridge.note("late_answer_dropped", "warning", session=session.id)
    if session.phase is not Phase.WEDGED or session.wedged_by != "settle":
        return
    if answers.says_wedged(bridge, frame):
        # It did end, and in the very way that leaves the session stuck (R24).
        session.wedged_by = "cancel"
        return
    session.wedged_by = ""
    bridge.fire(session, Trigger.REVIVED)


def _pass_answer(bridge: Bridge, pending: Pending, frame: Frame) -> None:
    method = pending.method
    if method == acp.INITIALIZE and frame.kind is Kind.RESPONSE:
        openings.initialized(bridge, frame)
    session = bridge.sessions.get(pending.session)
    line = frame.raw
    if method in OPENINGS:
        bridge.opening -= 1
        line = openings.opened(bridge, pending, frame)
    elif method in LOADS and session is not None:
        line = openings.loaded(bridge, session, pending, frame)
    elif method == acp.SESSION_LIST:
        line = identity.list_for_client(bridge, frame)
    elif method in SETTINGS and session is not None:
        _remember_setting(session, pending, frame)
        if session.paused and frame.kind is Kind.RESPONSE:
            session.paused = ""
            bridge.fire(session, Trigger.WANT)
    elif method in (acp.SESSION_CLOSE, acp.SESSION_DELETE) and session is not None:
        _closed_session(bridge, session, frame)
    if bridge.client.null_as_object and method in (*LOADS, *SETTINGS):
        line = _object_result(line, frame)
    if session is not None and method not in OPENINGS:
        line = identity.named_for_client(session, frame, line)
    if frame.id != pending.id:
        line = splice.with_id(line, pending.id)
    present.respond(bridge, frame.id, line)
    # A wedged session may have waited for the last open request of the others (R24).
    bridge.settled = bridge.settled or bool(bridge.wedged)
    if method in LOADS and session is not None:
        openings.load_over(bridge, session)
    elif method == acp.STEERING and session is not None:
        bridge.fire(session, Trigger.VERDICT, frame)


def _closed_session(bridge: Bridge, session: Session, frame: Frame) -> None:
    """The agent has closed it: nothing of it is remembered, unless something is open still."""
    # While it is being revived, the history that our load brings must stay hidden.
    # A load that the client sent behind its close opens the session again.
    waits = session.queue or session.waiting or session.gated or session.loading
    waits = waits or session.steers_held
    if frame.kind is Kind.RESPONSE and not (waits or session.at_agent or session.reviving):
        present.release_paced(bridge, session)
        identity.forget(bridge, session)


def _object_result(line: bytes, frame: Frame) -> bytes:
    # Not where the answer was not believed: the line is an error of ours by then.
    if frame.kind is Kind.RESPONSE and frame.result is None and line is frame.raw:
        return splice.with_value(line, ("result",), b"{}")
    return line


def _remember_setting(session: Session, pending: Pending, frame: Frame) -> None:
    """Keep the last acknowledged mode, model and config options for a restart (R23)."""
    if pending.frame is None or frame.kind is not Kind.RESPONSE:
        return
    config_id = pending.frame.params.get("configId")
    key = f"{pending.method} {config_id}" if isinstance(config_id, str) else pending.method
    session.settings.pop(key, None)
    session.settings[key] = pending.frame


# -- the agent asks -------------------------------------------------------------------------
def asked(bridge: Bridge, session: Session | None, frame: Frame) -> None:
    """A request of the agent: show it to the client under an id that names this run."""
    if session is not None and session.phase is Phase.CANCELLING and frame.method in ASKS:
        # It crossed the cancel on its way: the client has said already what it thinks of it.
        answer_cancelled(bridge, frame)
        return
    line = identity.toward_client(session, frame)
    shown_id = frame.id
    if bridge.run > 1:
        shown_id = RpcId(b'"acpbridge-run%d-' % bridge.run + _bare(frame.id) + b'"')
        line = splice.with_id(line, shown_id)
    if shown_id in bridge.requests:
        # The client still has a card of that id; what it says there must not answer this one.
        bridge.note("agent_request_id_reused", "warning")
        shown_id = bridge.own_id()
        line = splice.with_id(line, shown_id)
    turn = session.turn if session is not None and work.is_work_request(frame) else None
    bridge.requests[shown_id] = AgentRequest(
        agent_id=frame.id,
        method=frame.method,
        session=session.id if session else "",
        turn=turn,
    )
    if turn is not None:
        turn.requests += 1
    if bridge.client_gone or (session is not None and session.is_abandoned):
        settle_request(bridge, shown_id)
        return
    bridge.to_client(line)


def answer_cancelled(bridge: Bridge, frame: Frame) -> None:
    """Answer what a cancelled turn asks, without a card for a turn that is over (R17)."""
    bridge.count("asked_after_cancel")
    bridge.to_agent(replies.cancelled_outcome(frame.id, frame.method))


def _bare(id_: RpcId) -> bytes:
    """An id's JSON text as part of a string: quotes and backslashes out of the way."""
    return id_.replace(b"\\", b"/").replace(b'"', b"'")


def client_answered(bridge: Bridge, frame: Frame) -> None:
    """The client's response to a request of the agent; late or unknown ones are dropped."""
    request = bridge.requests.get(frame.id)
    if request is None or request.settled:
        if frame.id in (b"", b"null"):
            bridge.count("idless_error_from_client")
        else:
            bridge.note("late_client_answer_dropped", id=frame.id.decode(errors="replace"))
        if request is not None and request.settled:
            del bridge.requests[frame.id]
        return
    del bridge.requests[frame.id]
    line = (
        frame.raw if request.agent_id == frame.id else splice.with_id(frame.raw, request.agent_id)
    )
    bridge.to_agent(line)
    _closed(bridge, request)


def _closed(bridge: Bridge, request: AgentRequest) -> None:
    """R6: while it was open no quiet clock ran; they start again now."""
    if request.turn is None or request.withdrawn:
        return
    request.turn.requests -= 1
    request.turn.last_work_s = bridge.now


def settle_request(bridge: Bridge, shown_id: RpcId) -> None:
    """Answer an open agent request toward the agent ourselves (R17)."""
    request = bridge.requests.get(shown_id)
    if request is None or request.settled:
        return
    request.settled = True
    if request.method in ASKS:
        bridge.to_agent(replies.cancelled_outcome(request.agent_id, request.method))
    else:
        text = "The client is gone; nobody can answer this request."
        bridge.to_agent(codec.error(request.agent_id, acp.REQUEST_CANCELLED, text))
    if not request.withdrawn:
        withdraw(bridge, shown_id)
    _closed(bridge, request)
    over = [key for key, one in bridge.requests.items() if one.settled or one.withdrawn]
    for key in over[:-SETTLED_MAX]:
        del bridge.requests[key]


def withdraw(bridge: Bridge, shown_id: RpcId) -> None:
    """Tell the client that an agent's request needs no answer any more."""
    if bridge.client.told_of_withdrawal and not bridge.client_gone:
        bridge.to_client(replies.withdrawal(shown_id))


def cancel_open_asks(bridge: Bridge, session: Session) -> None:
    """R17: the session's open permission and elicitation requests are answered `cancelled`."""
    for shown_id, request in list(bridge.requests.items()):
        if request.session != session.id or request.settled:
            continue
        if request.method in ASKS:
            settle_request(bridge, shown_id)


def named_in(frame: Frame) -> RpcId:
    """The id of the request that a message is about; empty where it names none."""
    return RpcId(scan.value(frame.raw, *REQUEST_ID))


def agent_took_back(bridge: Bridge, frame: Frame) -> None:
    """The agent's `$/cancel_request`: passed on under the id that the client knows."""
    agent_id, line = named_in(frame), frame.raw
    meant = [(key, one) for key, one in bridge.requests.items() if one.agent_id == agent_id]
    still = [(key, one) for key, one in meant if not one.settled]
    if meant and not still:
        # We have answered it, and have told the client so.
        return
    if still:
        shown_id, request = still[0]
        _closed(bridge, request)
        request.withdrawn = True
        if shown_id != agent_id:
            line = splice.with_value(line, REQUEST_ID, shown_id)
    if bridge.client.told_of_withdrawal:
        bridge.to_client(line)


def is_meant(bridge: Bridge, cancel: Frame, request: Frame) -> bool:
    """Whether a `$/cancel_request` names this waiting request, the oldest of its id."""
    wire_ids = bridge.open_ids.get(request.id)
    if not wire_ids or bridge.reserved.get(request) != wire_ids[0]:
        return False
    return named_in(cancel) == request.id


def fail_pending(bridge: Bridge, reason: str) -> None:
    """The agent is gone: every open request of the client that is no prompt is told so (R22)."""
    lost = list(bridge.pending.items())
    bridge.pending.clear()
    bridge.opening = 0
    for wire_id, pending in lost:
        if pending.own is not None:
            pending.own(bridge, None)
        elif pending.prompt is None:
            session = bridge.sessions.get(pending.session)
            if pending.method in LOADS and session is not None:
                openings.window_closed(bridge, session, pending)
            remedy = "Try again" if bridge.initialized else "Run its command by hand to see why"
            text = f"The agent ended ({reason}) before it answered {pending.method}. {remedy}."
            present.respond(bridge, wire_id, replies.refusal(pending.id, "agent-exited", text))
    for shown_id, request in list(bridge.requests.items()):
        if not request.settled:
            request.settled = True
            withdraw(bridge, shown_id)


def too_long(id_: RpcId, text: str) -> Frame:
    """An error response in place of an answer that was too long to be kept."""
    raw = replies.refusal(id_, "frame-too-large", text)
    return Frame(raw, Kind.ERROR, "", id_, "", "", False, "")


def agent_is_up(bridge: Bridge) -> bool:
    """Whether a frame can be written to the agent now."""
    return bridge.agent_state in _UP
