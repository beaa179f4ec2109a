"""A frame of the client: what it asks for, where it waits, how it goes on."""

from __future__ import annotations

from collections import deque

from acpbridge.core import (
    admission,
    cancel,
    identity,
    keeping,
    life,
    openings,
    outgoing,
    present,
    replies,
    requests,
)
from acpbridge.core.model import AgentState, Bridge, Phase, Prompt, Session, Trigger
from acpbridge.wire import acp, codec, scan
from acpbridge.wire.frame import Frame, Kind, Malformed, RpcId
from acpbridge.wire.ids import ANSWERS, salvage
from acpbridge.wire.lines import Oversize

ENDINGS = (acp.SESSION_CLOSE, acp.SESSION_DELETE)


def client_frame(bridge: Bridge, frame: Frame) -> None:
    """Route one frame of the client."""
    if frame.kind in ANSWERS:
        requests.client_answered(bridge, frame)
    elif frame.method == acp.CANCEL_REQUEST:
        _cancel_request(bridge, frame)
    elif frame.kind is Kind.NOTIFICATION:
        _notification(bridge, frame)
    elif frame.method == acp.SESSION_PROMPT and frame.session:
        admission.admit(bridge, frame)
        _wake_agent(bridge)
    else:
        _request(bridge, frame)


def _cancel_request(bridge: Bridge, frame: Frame) -> None:
    places: list[deque[Frame] | deque[Prompt | Frame]] = [bridge.waiting]
    for session in bridge.sessions.values():
        places += (session.waiting, session.queue, session.steers_held)
    for place in places:
        for one in place:
            if isinstance(one, Frame) and requests.is_meant(bridge, frame, one):
                place.remove(one)
                wire_id = present.id_of(bridge, one)
                text = f"{one.method} was cancelled before it was sent."
                line = codec.error(one.id, acp.REQUEST_CANCELLED, text)
                present.respond(bridge, wire_id, line)
                return
    cancel.cancel_request(bridge, frame)


def _notification(bridge: Bridge, frame: Frame) -> None:
    session = identity.of_client(bridge, frame.session)
    if frame.method == acp.SESSION_CANCEL and session is not None:
        cancel.cancel_session(bridge, session, frame)
        return
    if frame.method == acp.SESSION_CANCEL and frame.session:
        # Nobody has prompted in it: there is nothing to cancel (R16).
        bridge.note("cancel_swallowed", session=frame.session, phase="unknown")
        return
    if not _is_up(bridge) or (session is not None and session.phase is Phase.LOST):
        _wait(bridge, session, frame)
        return
    outgoing.send(bridge, session, identity.toward_agent(session, frame))


def _request(bridge: Bridge, frame: Frame) -> None:
    if bridge.closing:
        openings.refuse_frame(bridge, frame, "agent-exited", "The bridge is ending")
        return
    if frame.method == acp.INITIALIZE:
        openings.initialize_sent(bridge, frame)
    session = identity.of_client(bridge, frame.session) if frame.session else None
    if frame.method in requests.LOADS and frame.session:
        _load(bridge, session or identity.session_of(bridge, frame.session), frame)
    elif session is not None and frame.method in ENDINGS:
        _end(bridge, session, frame)
    elif not _is_up(bridge) or (session is not None and session.phase is Phase.LOST):
        _wait(bridge, session, frame)
    else:
        requests.forward(bridge, session, frame)


def _end(bridge: Bridge, session: Session, frame: Frame) -> None:
    """R20: close and delete go through at once, unless there is no agent to delete it."""
    if frame.method == acp.SESSION_DELETE and not _is_up(bridge):
        cancel.drop_queue(bridge, session)
        _wait(bridge, None, frame)
        return
    cancel.close_session(bridge, session, frame)


def _load(bridge: Bridge, session: Session, frame: Frame) -> None:
    """R4: a load waits for the turn and the queue before it, in the queue's own order."""
    keeping.recover(bridge, session)
    is_free = session.phase in (Phase.IDLE, Phase.LOST) and not session.reviving
    is_free = is_free and session.steer() is None and not session.recovering
    if not session.queue and is_free and _is_up(bridge):
        requests.forward_load(bridge, session, frame)
        return
    if len(session.queue) >= bridge.policy.queue_prompts_max:
        why = "Too much waits in this session already (queue_prompts_max)"
        openings.refuse_frame(bridge, frame, "queue-full", why)
        return
    present.reserve_id(bridge, frame)
    session.queue.append(frame)
    bridge.fire(session, Trigger.WANT)
    _wake_agent(bridge)


def _wake_agent(bridge: Bridge) -> None:
    """What waits in a session that the dead agent never knew needs a living one all the same."""
    if bridge.agent_state is AgentState.DEAD:
        life.start_again(bridge)


def _is_up(bridge: Bridge) -> bool:
    return requests.agent_is_up(bridge)


def _wait(bridge: Bridge, session: Session | None, frame: Frame) -> None:
    """The agent, or the session in it, is not there yet: keep the frame in its order (R23)."""
    lost = session is not None and session.phase is Phase.LOST
    # A session will be lost with the agent that leaves: what waits for it stays in one row (I5).
    leaves = bridge.agent_state in (AgentState.LEAVING, AgentState.STOPPING)
    waiting = session.waiting if session is not None and (lost or leaves) else bridge.waiting
    if len(waiting) >= bridge.policy.waiting_frames_max:
        why = "Too much waits for the agent already (waiting_frames_max)"
        openings.refuse_frame(bridge, frame, "queue-full", why)
        return
    present.reserve_id(bridge, frame)
    waiting.append(frame)
    if session is not None and lost:
        bridge.fire(session, Trigger.WANT)
    else:
        _wake_agent(bridge)


def flush_waiting(bridge: Bridge) -> None:
    """The agent is there: what waited for it goes on, in order."""
    while bridge.waiting and _is_up(bridge):
        client_frame(bridge, bridge.waiting.popleft())
    if _is_up(bridge):
        life.wake_sessions(bridge)


def gap_over(bridge: Bridge, session: Session) -> None:
    """The gap before a response is over: it goes, and so may the next prompt."""
    present.gap_over(bridge, session)
    if not session.paced:
        bridge.fire(session, Trigger.WANT)


def client_garbled(bridge: Bridge, fault: Malformed | Oversize) -> None:
    """A line that is refused is answered on its id where that can be found (R26)."""
    if isinstance(fault, Malformed):
        bridge.note("client_line_refused", "warning", reason=fault.message)
        bridge.to_client(codec.error(fault.id, fault.code, fault.message))
        return
    known = salvage(fault.head, fault.tail)
    bridge.note("client_line_too_long", "warning", bytes=fault.size_bytes, method=known.method)
    if known.kind in ANSWERS:
        _answer_too_long(bridge, known.id, fault.size_bytes)
        return
    text = (
        f"The line has {fault.size_bytes} bytes and the limit is "
        f"{bridge.policy.line_bytes_max} (line_bytes_max); send less or raise the limit."
    )
    session = _named_in(bridge, fault.head)
    if known.method == acp.SESSION_PROMPT and session is not None:
        present.refuse_unread(bridge, session, known.id, "frame-too-large", text)
        return
    bridge.to_client(replies.refusal(known.id, "frame-too-large", text))


def _named_in(bridge: Bridge, head: bytes) -> Session | None:
    """The session that a cut-off line names, where its params begin with it, as most do."""
    for name, span, _ in scan.walk(head, 0):
        if name == "params":
            for inner, _, value in scan.walk(head, head.find(b":", span[1]) + 1):
                if inner == "sessionId" and value is not None:
                    return bridge.sessions.get(scan.decode_string(head[value[0] : value[1]]))
    return None


def _answer_too_long(bridge: Bridge, id_: RpcId, size_bytes: int) -> None:
    """The client's answer to an agent request cannot be passed: the agent is told, not left."""
    text = f"The client's answer has {size_bytes} bytes, over the limit (line_bytes_max)."
    requests.client_answered(bridge, requests.too_long(id_, text))
