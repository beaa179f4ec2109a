"""Initialize, new, load, resume and fork: what their answers teach, and which of them are true.

An agent that "succeeds" in loading nothing is not believed: the client hears `session-lost`
instead of being led into an empty conversation (R25).
"""

from __future__ import annotations

from acpbridge.core import identity, outgoing, present, replies
from acpbridge.core.model import AgentState, Bridge, Pending, Phase, Prompt, Session, Trigger
from acpbridge.profiles import agent_called, client_called, is_fifo
from acpbridge.wire import acp, scan
from acpbridge.wire.frame import Frame, Kind
from acpbridge.wire.look import member


def initialize_sent(bridge: Bridge, frame: Frame) -> None:
    """Remember the client's initialize for a restart, and who the client says it is."""
    bridge.initialize = frame
    # ACP v2 calls it `info` on both sides.
    name = member(frame.params, "clientInfo", "name") or member(frame.params, "info", "name")
    if not bridge.client_chosen and isinstance(name, str):
        bridge.client = client_called(name)


def initialized(bridge: Bridge, frame: Frame) -> None:
    """Learn from the agent's initialize result who it is and what it can do."""
    result = frame.result if isinstance(frame.result, dict) else {}
    who = "agentInfo" if "agentInfo" in result else "info"
    name, version = (member(result, who, key) for key in ("name", "version"))
    if not bridge.agent_chosen and isinstance(name, str):
        bridge.agent = agent_called(name)
    bridge.agent_version = version if isinstance(version, str) else ""
    bridge.fifo = is_fifo(bridge.agent, bridge.agent_version)
    capabilities = result.get("agentCapabilities")
    bridge.capabilities = capabilities if isinstance(capabilities, dict) else {}
    bridge.steering = member(result, "_meta", "steering", "supported") is True
    bridge.initialized = True
    if bridge.agent_state is AgentState.FRESH:
        bridge.agent_state = AgentState.READY
    bridge.note(
        "initialized",
        profile=bridge.agent.name,
        agent=name if isinstance(name, str) else "",
        version=bridge.agent_version,
        client_profile=bridge.client.name,
        steering=bridge.steering,
    )


def params_bytes(bridge: Bridge, frame: Frame) -> bytes:
    """The params of a request as the agent got them, for saying them again after a restart."""
    line = identity.without_argument_keys(bridge, frame, frame.raw)
    return scan.value(line, "params") or b"{}"


# -- new and fork ---------------------------------------------------------------------------
def opened(bridge: Bridge, pending: Pending, frame: Frame) -> bytes:
    """The answer to new or fork: a session begins; the line for the client is returned."""
    session_id = member(frame.result, "sessionId")
    if frame.kind is Kind.ERROR:
        return frame.raw
    if not isinstance(session_id, str) or not session_id:
        bridge.note("session_lost", "warning", method=pending.method)
        return replies.refusal(
            pending.id,
            "session-lost",
            f"The agent answered {pending.method} without a session; "
            "the session named in the request is unknown to it. Open a new one.",
        )
    known = identity.of_agent(bridge, session_id)
    if known is not None:
        bridge.note("session_id_reused", "warning", session=session_id)
        if known.queue or known.at_agent:
            return frame.raw
        known.reviving = ""
        refuse_queue(bridge, known, "session-lost", f"The agent opened {session_id} anew")
        present.release_paced(bridge, known)
        # What waited out the gap around a cancel is owed an answer by the agent all the same.
        outgoing.gate_over(bridge, known)
        identity.forget(bridge, known)
    session = identity.session_of(bridge, session_id)
    session.known = session.fresh = True
    assert pending.frame is not None
    session.params = params_bytes(bridge, pending.frame)
    if pending.method == acp.SESSION_FORK:
        source = bridge.sessions.get(pending.session)
        session.fresh = source is None or not source.settled
    session.load_until_s = session.opened_until_s = bridge.now + bridge.policy.load_tail_s
    identity.learn_tip(bridge, session, frame.result)
    return frame.raw


# -- load and resume ------------------------------------------------------------------------
def loaded(bridge: Bridge, session: Session, pending: Pending, frame: Frame) -> bytes:
    """The answer to load or resume: believed, or turned into `session-lost`."""
    window_closed(bridge, session, pending)
    session.load_failed = frame.kind is Kind.ERROR
    if session.load_failed:
        return frame.raw
    lost = nothing_loaded(bridge, session, pending.method, frame)
    if lost:
        bridge.note("session_lost", "warning", session=session.id, reason=lost)
        # Also where it was known before: what waits must not go into an empty one (R4, R25).
        session.known = False
        session.load_failed = True
        text = f"The agent does not know the session {session.id} ({lost}). Open a new one."
        return replies.refusal(pending.id, "session-lost", text)
    session.known = True
    session.fresh = False
    session.settled = session.settled or session.replayed > 0
    session.settled_before = False
    assert pending.frame is not None
    session.params = params_bytes(bridge, pending.frame)
    identity.learn_tip(bridge, session, frame.result)
    return identity.own_provenance(bridge, session, frame.raw, "result")


def nothing_loaded(bridge: Bridge, session: Session, method: str, frame: Frame) -> str:
    """Why a successful answer to load or resume (`method`) is not to be believed, or ""."""
    profile = bridge.agent
    result = frame.result
    if profile.load_proof and member(result, profile.load_proof) is None:
        return f"its answer has no {profile.load_proof}"
    real = identity.provenance(profile, result)
    current = (real.get("acpSessionId"), real.get("rootHermesSessionId"))
    asked = {session.id, session.agent_id, session.tip}
    if real and asked.isdisjoint(value for value in current if isinstance(value, str)):
        return "it opened another session instead"
    had_turns = session.settled if session.phase is Phase.LOST else session.settled_before
    if method == acp.SESSION_LOAD and had_turns and not session.replayed:
        return "it replayed nothing of a conversation that had turns"
    return ""


def window_closed(bridge: Bridge, session: Session, pending: Pending) -> None:
    """The load's request is answered, by whatever: the window's tail begins."""
    session.loading = max(0, session.loading - 1)
    session.resuming -= pending.method == acp.SESSION_RESUME
    if not session.loading:
        session.load_until_s = session.opened_until_s = bridge.now + bridge.policy.load_tail_s


def load_over(bridge: Bridge, session: Session) -> None:
    """What waited behind the load goes on, or is told that the session is lost (R4)."""
    if session.loading:
        return
    if session.load_failed:
        refuse_queue(bridge, session, "session-lost", "The session could not be loaded")
    elif session.phase is Phase.LOST:
        bridge.fire(session, Trigger.REVIVED)
    else:
        bridge.fire(session, Trigger.WANT)


def refuse_queue(bridge: Bridge, session: Session, kind: str, why: str) -> None:
    """Answer everything that waits in a session with one error; nothing of it was sent."""
    while session.queue:
        item = session.queue[0]
        if isinstance(item, Prompt):
            bridge.unqueue(session, item)
            present.refuse(bridge, session, item, kind, f"{why}; this message was not sent.")
        else:
            session.queue.popleft()
            refuse_frame(bridge, item, kind, why)
    for waiting in (session.waiting, session.steers_held):
        while waiting:
            refuse_frame(bridge, waiting.popleft(), kind, why)


def refuse_frame(bridge: Bridge, frame: Frame, kind: str, why: str) -> None:
    """Answer a client's request that never reached the agent; a notification is lost, and named."""
    if frame.kind is not Kind.REQUEST:
        bridge.note("notification_dropped", "warning", method=frame.method, reason=why)
        return
    wire_id = present.id_of(bridge, frame)
    text = f"{why}; {frame.method} was not sent."
    present.respond(bridge, wire_id, replies.refusal(frame.id, kind, text))
