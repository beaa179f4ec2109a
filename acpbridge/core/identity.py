"""Which session is meant: the client's id never changes, the agent's may (R25).

An alias comes from the agent's own word (a rotation it reports, a fork or a new session of ours),
never from a title, a folder or from being the latest.
"""

from __future__ import annotations

from typing import Any

from acpbridge.core.effects import PersistAlias
from acpbridge.core.model import Bridge, Phase, Session
from acpbridge.core.phases import SESSION_TIMERS
from acpbridge.profiles import AgentProfile
from acpbridge.wire import codec, scan, splice
from acpbridge.wire.frame import Frame
from acpbridge.wire.look import member


def of_client(bridge: Bridge, name: str) -> Session | None:
    """The session that a client means, by its own id for it or by the agent's."""
    return bridge.sessions.get(name) or bridge.by_agent_id.get(name)


def session_of(bridge: Bridge, client_id: str) -> Session:
    """The session that the client calls so; made when it is not known yet."""
    session = of_client(bridge, client_id)
    if session is None:
        _forget_idle(bridge)
        session = Session(id=client_id, agent_id=client_id)
        bridge.sessions[client_id] = session
    return session


def _forget_idle(bridge: Bridge) -> None:
    """Make room for one more session within the limit; the oldest idle one goes."""
    if len(bridge.sessions) < bridge.policy.sessions_max:
        return
    for session in bridge.sessions.values():
        open_ = session.queue or session.at_agent or session.paced or session.loading
        known = session.recovering or session.untold
        # Only we know what an alias stands for (R25) and what a cancel has left behind (R24).
        told = session.generation or session.cancel_unanswered or session.crossed or session.ghosts
        # Its next answer may have to keep its distance from what was just shown.
        shown = bridge.now - session.shown_s < bridge.client.answer_gap_s
        if session.phase is Phase.IDLE and not (open_ or known) and not told and not shown:
            forget(bridge, session)
            bridge.note("session_forgotten", session=session.id)
            return


def forget(bridge: Bridge, session: Session) -> None:
    """Drop what is remembered of a session that ended at the agent."""
    bridge.sessions.pop(session.id, None)
    for name in SESSION_TIMERS:
        # Another session may come under this id, and must not be woken by this one's clocks.
        bridge.disarm(name, session)
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
    bridge.out.append(PersistAlias(session.id, session.generation, agent_id))
    bridge.note(
        "session_aliased", session=session.id, agent=agent_id, generation=session.generation
    )


def provenance(profile: AgentProfile, holder: Any) -> dict[str, Any]:
    """The object in which the agent names its real session ids, or {}."""
    if not profile.provenance:
        return {}
    found = member(holder, *profile.provenance)
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
        bridge.out.append(PersistAlias(session.id, session.generation, told))
        bridge.note("session_rotated", session=session.id, generation=session.generation)


def toward_agent(session: Session | None, frame: Frame) -> bytes:
    """A client's frame with the id that the agent knows; its own bytes where nothing differs."""
    if session is None or session.agent_id == frame.session:
        return frame.raw
    return splice.with_session(frame.raw, session.agent_id)


def without_argument_keys(bridge: Bridge, frame: Frame, line: bytes) -> bytes:
    """A client's line without those `_meta` keys that this agent would take as arguments."""
    keys = bridge.agent.argument_meta_keys
    if not keys:
        return line
    meta = frame.params.get("_meta")
    if not isinstance(meta, dict) or keys.isdisjoint(meta):
        return line
    bridge.note("meta_keys_dropped", keys=sorted(keys & meta.keys()))
    return splice.without_members(line, ("params", "_meta"), keys)


def toward_client(session: Session | None, frame: Frame) -> bytes:
    """An agent's frame with the id that the client knows; its own bytes where nothing differs."""
    if session is None or session.id == frame.session:
        return frame.raw
    return splice.with_session(frame.raw, session.id)


def own_provenance(bridge: Bridge, session: Session, line: bytes, *holder: str) -> bytes:
    """A line for the client in which the agent's proof of the session names the client's id.

    `holder` leads to the object with the profile's `provenance`. A client that compares, as this
    bridge does with a load's answer (R25), must not take the session for another one.
    """
    if not bridge.agent.provenance or session.agent_id == session.id:
        return line
    span = scan.find(line, *holder, *bridge.agent.provenance, "acpSessionId")
    if span is None or scan.decode_string(line[span[0] : span[1]]) != session.agent_id:
        return line
    return splice.replace(line, span, codec.encode(session.id))


def named_for_client(session: Session, frame: Frame, line: bytes) -> bytes:
    """The line of a response whose result names the session, with the id the client knows."""
    if session.agent_id == session.id:
        return line
    named = frame.result.get("sessionId") if isinstance(frame.result, dict) else None
    if named != session.agent_id:
        return line
    return splice.with_session(line, session.id)


def list_for_client(bridge: Bridge, frame: Frame) -> bytes:
    """The result of session/list with the ids that the client knows (R25), each of them once.

    Hermes lists a rotated conversation twice, by its own id and by its tip (tape compact-rotation).
    """
    result = frame.result
    listed = result.get("sessions") if isinstance(result, dict) else None
    line = frame.raw
    if not isinstance(listed, list):
        return line
    named = [entry.get("sessionId") for entry in listed if isinstance(entry, dict)]
    seen = {agent_id for agent_id in named if isinstance(agent_id, str)}
    twice: set[int] = set()
    for at, entry in enumerate(listed):
        agent_id = entry.get("sessionId") if isinstance(entry, dict) else None
        session = bridge.by_agent_id.get(agent_id) if isinstance(agent_id, str) else None
        if session is None or session.id == agent_id:
            continue
        place = ("result", "sessions", at, "sessionId")
        line = splice.with_value(line, place, codec.encode(session.id))
        if session.id in seen:
            twice.add(at)
        seen.add(session.id)
    return _without_sessions(line, twice) if twice else line


def _without_sessions(line: bytes, gone: set[int]) -> bytes:
    """A session/list result without the entries at these places."""
    span = scan.find(line, "result", "sessions")
    assert span is not None
    entries = enumerate(scan.elements(line, span[0]))
    kept = [line[begin:end] for at, (begin, end) in entries if at not in gone]
    return splice.replace(line, (span[0] + 1, span[1] - 1), b",".join(kept))
