"""Which session is meant: the client's id never changes, the agent's may (R25).

An alias comes from the agent's own word (a rotation it reports, a fork or a new session of ours),
never from a title, a folder or from being the latest.
"""

from __future__ import annotations

from typing import Any

from acpbridge.core.model import Bridge, Phase, Session
from acpbridge.profiles import AgentProfile
from acpbridge.wire import codec, scan, splice
from acpbridge.wire.frame import Frame


def session_of(bridge: Bridge, client_id: str) -> Session:
    """The session that the client calls so; made when it is not known yet."""
    session = bridge.sessions.get(client_id)
    if session is None:
        session = bridge.by_agent_id.get(client_id)
    if session is None:
        session = Session(id=client_id, agent_id=client_id)
        bridge.sessions[client_id] = session
        _forget_idle(bridge)
    return session


def _forget_idle(bridge: Bridge) -> None:
    """Keep the number of remembered sessions in its limit; the oldest idle one goes."""
    if len(bridge.sessions) <= bridge.policy.sessions_max:
        return
    for session in bridge.sessions.values():
        if session.phase is Phase.IDLE and not session.queue and not session.at_agent:
            forget(bridge, session)
            bridge.note("session_forgotten", session=session.id)
            return


def forget(bridge: Bridge, session: Session) -> None:
    """Drop what is remembered of a session that ended at the agent."""
    bridge.sessions.pop(session.id, None)
    for agent_id in [key for key, value in bridge.by_agent_id.items() if value is session]:
        del bridge.by_agent_id[agent_id]


def of_agent(bridge: Bridge, agent_id: str) -> Session | None:
    """The session that the agent means, or None when nobody has opened one of that id."""
    return bridge.by_agent_id.get(agent_id) or bridge.sessions.get(agent_id)


def alias(bridge: Bridge, session: Session, agent_id: str) -> None:
    """From now on the agent knows the session as `agent_id`; the client's id stays."""
    if agent_id == session.agent_id:
        return
    session.agent_id = agent_id
    session.generation += 1
    bridge.by_agent_id[agent_id] = session
    bridge.note(
        "session_aliased", session=session.id, agent=agent_id, generation=session.generation
    )


def provenance(profile: AgentProfile, holder: Any) -> dict[str, Any]:
    """The object in which the agent names its real session ids, or {}."""
    if not profile.provenance:
        return {}
    found = holder
    for name in profile.provenance:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def learn_tip(bridge: Bridge, session: Session, holder: Any) -> None:
    """Remember the id to load after a restart, where the agent reports a rotation.

    The agent goes on using the old id while its process lives (tape compact-rotation).
    """
    told = provenance(bridge.agent, holder).get("currentHermesSessionId")
    if isinstance(told, str) and told and told != (session.tip or session.agent_id):
        session.tip = told
        session.generation += 1
        bridge.by_agent_id.setdefault(told, session)
        bridge.note("session_rotated", session=session.id, generation=session.generation)


def toward_agent(session: Session | None, frame: Frame) -> bytes:
    """A client's frame with the id that the agent knows; its own bytes where nothing differs."""
    if session is None or session.agent_id == frame.session:
        return frame.raw
    return splice.with_session(frame.raw, session.agent_id)


def toward_client(session: Session | None, frame: Frame) -> bytes:
    """An agent's frame with the id that the client knows; its own bytes where nothing differs."""
    if session is None or session.id == frame.session:
        return frame.raw
    return splice.with_session(frame.raw, session.id)


def list_for_client(bridge: Bridge, frame: Frame) -> bytes:
    """The result of session/list with the ids that the client knows (R25)."""
    result = frame.result
    listed = result.get("sessions") if isinstance(result, dict) else None
    line = frame.raw
    if not isinstance(listed, list):
        return line
    for at, entry in enumerate(listed):
        agent_id = entry.get("sessionId") if isinstance(entry, dict) else None
        session = bridge.by_agent_id.get(agent_id) if isinstance(agent_id, str) else None
        if session is None or session.id == agent_id:
            continue
        span = scan.find(line, "result", "sessions", at, "sessionId")
        if span is not None:
            line = splice.replace(line, span, codec.encode(session.id))
    return line
