"""The agent's life and the sessions' second one: start, death, restart, load, fork (R22 to R24).

A revival is a chain of requests of the bridge's own. Their answers are ordinary events, so a
revival can be interrupted at any step by a death, a cancel or the end of the bridge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from acpbridge.core import identity, openings, present, prompts, queue
from acpbridge.core.effects import Finish, StartAgent, StopAgent
from acpbridge.core.model import (
    NEVER,
    AgentState,
    Bridge,
    Cause,
    Pending,
    Phase,
    Session,
    Stage,
    Trigger,
)
from acpbridge.core.requests import fail_pending, forward, forward_load
from acpbridge.wire import acp, codec, splice
from acpbridge.wire.frame import Frame, Kind

EXIT_STOPPED = 0
EXIT_AGENT = 3

_Own: TypeAlias = Callable[[Bridge, Frame | None], None]
_Then: TypeAlias = Callable[[Bridge, Session | None, Frame | None], None]


# -- the process ----------------------------------------------------------------------------
def start(bridge: Bridge) -> None:
    """Start the first agent process."""
    bridge.agent_state = AgentState.STARTING
    bridge.out.append(StartAgent(bridge.run))


def start_again(bridge: Bridge) -> None:
    """Start another process after a death or a stop of our own."""
    if bridge.closing:
        return
    bridge.run += 1
    bridge.agent_state = AgentState.STARTING
    bridge.note("agent_restarting", "warning", run=bridge.run)
    bridge.out.append(StartAgent(bridge.run))
    bridge.arm("restart", None, bridge.policy.restart_max_s)


def started(bridge: Bridge, run: int) -> None:
    """The process runs: the first is the client's to initialize, a later one ours."""
    if run != bridge.run or bridge.agent_state is not AgentState.STARTING:
        return
    if bridge.initialize is None or run == 1:
        bridge.agent_state = AgentState.FRESH
        bridge.disarm("restart", None)
        return
    bridge.agent_state = AgentState.INITIALIZING
    _ask(bridge, None, acp.INITIALIZE, openings.params_bytes(bridge.initialize), _initialized)


def _initialized(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    if frame is None:
        return
    if frame.kind is Kind.ERROR:
        bridge.note("restart_failed", "error", reason=present.agent_words(frame))
        bridge.agent_state = AgentState.STOPPING
        bridge.out.append(StopAgent(bridge.run, now=True))
        return
    bridge.agent_state = AgentState.READY
    bridge.disarm("restart", None)
    openings.initialized(bridge, frame)
    wake_sessions(bridge)


def wake_sessions(bridge: Bridge) -> None:
    """The agent is ready: revive what is wanted, send on what waits."""
    for session in list(bridge.sessions.values()):
        if session.queue or session.waiting:
            bridge.fire(session, Trigger.WANT)


def restart_late(bridge: Bridge) -> None:
    """`restart_max` is over and the agent is not back: what waits is told so."""
    why = f"The agent did not come back in {bridge.policy.restart_max_s:.0f} s"
    bridge.note("restart_failed", "error", reason=why)
    _fail_waiting(bridge, why)
    if bridge.agent_state in (AgentState.STARTING, AgentState.INITIALIZING):
        bridge.agent_state = AgentState.STOPPING
        bridge.out.append(StopAgent(bridge.run, now=True))


def _fail_waiting(bridge: Bridge, why: str) -> None:
    for session in list(bridge.sessions.values()):
        openings.refuse_queue(bridge, session, "agent-exited", why)
    while bridge.waiting:
        openings.refuse_frame(bridge, bridge.waiting.popleft(), "agent-exited", why)


# -- the process ends -----------------------------------------------------------------------
def exited(bridge: Bridge, run: int, reason: str) -> None:
    """The agent is gone: answer what was open, keep what was not sent, decide what next (R22)."""
    if run != bridge.run:
        return
    asked_for = bridge.agent_state is AgentState.STOPPING
    open_work = _has_open_work(bridge)
    bridge.agent_state = AgentState.DEAD
    bridge.disarm("restart", None)
    bridge.note("agent_exited", "info" if asked_for else "error", reason=reason, run=run)
    for session in list(bridge.sessions.values()):
        _end_at_agent(bridge, session, reason)
    fail_pending(bridge, reason)
    bridge.requests.clear()
    for session in list(bridge.sessions.values()):
        bridge.fire(session, Trigger.GONE)
    if bridge.closing:
        bridge.out.append(Finish(bridge.exit_code or EXIT_STOPPED))
        return
    if not asked_for:
        bridge.deaths.append(bridge.now)
    if not _may_restart(bridge):
        _fail_waiting(bridge, f"The agent ended ({reason}) and is not started again")
        bridge.closing = "agent exited"
        bridge.out.append(Finish(EXIT_AGENT if open_work or not bridge.initialized else 0))
        return
    if _is_needed(bridge):
        start_again(bridge)


def _has_open_work(bridge: Bridge) -> bool:
    if bridge.pending or bridge.waiting:
        return True
    return any(one.at_agent or one.queue for one in bridge.sessions.values())


def _is_needed(bridge: Bridge) -> bool:
    return bool(bridge.waiting) or any(
        session.queue or session.waiting for session in bridge.sessions.values()
    )


def _may_restart(bridge: Bridge) -> bool:
    """R23: the breaker opens at `breaker_deaths` in `breaker_window`, started well or not."""
    policy = bridge.policy
    while bridge.deaths and bridge.deaths[0] <= bridge.now - policy.breaker_window_s:
        bridge.deaths.popleft()
    if not policy.restart or not bridge.initialized:
        return False
    if len(bridge.deaths) >= policy.breaker_deaths:
        bridge.note("breaker_open", "error", deaths=len(bridge.deaths))
        return False
    return True


def _end_at_agent(bridge: Bridge, session: Session, reason: str) -> None:
    """What the dead agent had: answered if it was sent, back in the queue if it was not."""
    while session.hold:
        present.update(bridge, session, session.hold.pop(0))
    if any(one.stage is Stage.DOUBTED for one in session.at_agent):
        bridge.fire(session, Trigger.GRACE)
    for prompt in reversed([one for one in session.at_agent if one.stage is Stage.SENDING]):
        queue.take_back(bridge, session, prompt, "the agent ended before it was written")
    for prompt in list(session.at_agent):
        bridge.pending.pop(prompt.wire_id, None)
        text = (
            f"The agent ended ({reason}) while this message was with it; it may have run. "
            "Look at the conversation before you send it again."
        )
        present.refuse(bridge, session, prompt, "agent-exited", text)


def lose(bridge: Bridge, session: Session, cause: Cause) -> None:
    """GONE: no live agent knows the session until it is revived."""
    session.phase = Phase.LOST
    session.turn = None
    session.reviving = ""
    session.wedged_by = ""
    bridge.wedged.discard(session.id)
    session.muted = session.cancel_due = session.cancel_unanswered = session.crossed = False
    session.ghosts.clear()
    session.gated.clear()
    session.gate_until_s = 0.0
    session.loading = session.resuming = session.settings_open = 0
    session.load_until_s = 0.0
    for name in ("quiet", "marker", "settle", "trail", "wait_max", "cancel", "grace", "hold",
                 "gate", "revive", "busy"):  # fmt: skip
        bridge.disarm(name, session)
    head = session.head()
    if head is not None:
        head.busy_until_s = 0.0


# -- a session is revived -------------------------------------------------------------------
def revive(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT while Lost: make a live agent know the session again (R23)."""
    queue.watch(bridge, session)
    if bridge.closing or session.reviving:
        return
    if bridge.agent_state is AgentState.DEAD and bridge.policy.restart:
        start_again(bridge)
        return
    if bridge.agent_state is not AgentState.READY:
        return
    first = session.queue[0] if session.queue else None
    if isinstance(first, Frame) and not session.loading:
        session.queue.popleft()
        forward_load(bridge, session, first)
        return
    if session.loading:
        return
    if not session.known:
        bridge.fire(session, Trigger.UNREVIVED)
        return
    bridge.arm("revive", session, bridge.policy.restart_max_s)
    _revive_by(bridge, session)


def _revive_by(bridge: Bridge, session: Session) -> None:
    load_id = session.tip or session.agent_id
    params = splice.with_member(session.params, (), "sessionId", codec.encode(load_id))
    can_resume = isinstance(_session_capability(bridge, "resume"), dict)
    if session.fresh:
        session.reviving = "new"
        params = splice.without_members(session.params, (), frozenset({"sessionId"}))
        _ask(bridge, session, acp.SESSION_NEW, params, _reopened)
    elif bridge.capabilities.get("loadSession") is True:
        session.reviving = "load"
        session.replayed = 0
        identity.alias(bridge, session, load_id)
        session.load_until_s = NEVER
        _ask(bridge, session, acp.SESSION_LOAD, params, _reloaded)
    elif can_resume:
        session.reviving = "resume"
        identity.alias(bridge, session, load_id)
        session.load_until_s = NEVER
        _ask(bridge, session, acp.SESSION_RESUME, params, _reloaded)
    else:
        bridge.fire(session, Trigger.UNREVIVED)


def _session_capability(bridge: Bridge, name: str) -> object:
    capabilities = bridge.capabilities.get("sessionCapabilities")
    return capabilities.get(name) if isinstance(capabilities, dict) else None


def _reopened(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    """Our session/new or session/fork is answered: the new id stands for the old one."""
    if session is None or frame is None or session.reviving not in ("new", "fork"):
        return
    result = frame.result if isinstance(frame.result, dict) else {}
    agent_id = result.get("sessionId")
    if frame.kind is Kind.ERROR or not isinstance(agent_id, str) or not agent_id:
        bridge.fire(session, Trigger.UNREVIVED)
        return
    identity.alias(bridge, session, agent_id)
    session.tip = ""
    identity.learn_tip(bridge, session, result)
    _restore_settings(bridge, session)


def _reloaded(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    """Our session/load or session/resume is answered: is the conversation really there?"""
    if session is None or frame is None or session.reviving not in ("load", "resume"):
        return
    lost = "" if frame.kind is Kind.RESPONSE else present.agent_words(frame)
    lost = lost or openings.nothing_loaded(bridge, session, frame)
    if not lost and session.reviving == "load" and session.settled and not session.replayed:
        lost = "it replayed nothing of a conversation that had turns"
    if lost:
        bridge.note("session_lost", "warning", session=session.id, reason=lost)
        bridge.fire(session, Trigger.UNREVIVED)
        return
    identity.learn_tip(bridge, session, frame.result)
    _restore_settings(bridge, session)


def _restore_settings(bridge: Bridge, session: Session) -> None:
    """Send the last acknowledged mode, model and config options again, before the queue."""
    session.reviving = "settings"
    session.settings_open = len(session.settings)
    for frame in session.settings.values():
        line = splice.with_session(frame.raw, session.agent_id)
        own = bridge.own_id()
        bridge.pending[own] = Pending(frame.method, own, session.id, own=_own(session, _setting))
        bridge.to_agent(splice.with_id(line, own))
    if not session.settings_open:
        bridge.fire(session, Trigger.REVIVED)


def _setting(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    if session is None or frame is None or session.reviving != "settings":
        return
    if frame.kind is Kind.ERROR:
        bridge.note("setting_refused", "warning", session=session.id)
    session.settings_open -= 1
    if not session.settings_open:
        bridge.fire(session, Trigger.REVIVED)


def _ask(bridge: Bridge, session: Session | None, method: str, params: bytes, then: _Then) -> None:
    """Write a request of the bridge's own."""
    own = bridge.own_id()
    name = session.id if session else ""
    bridge.pending[own] = Pending(method, own, name, own=_own(session, then))
    bridge.to_agent(codec.request(own, method, codec.verbatim(params)))


def _own(session: Session | None, then: _Then) -> _Own:
    def answered(bridge: Bridge, frame: Frame | None) -> None:
        then(bridge, session, frame)

    return answered


def revived(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A live agent knows the session: what waited goes on, in order."""
    session.reviving = ""
    session.wedged_by = ""
    bridge.wedged.discard(session.id)
    session.cancel_unanswered = session.crossed = False
    session.phase = Phase.IDLE
    session.known = True
    session.load_until_s = bridge.now + bridge.policy.load_tail_s
    bridge.disarm("revive", session)
    bridge.note("session_revived", session=session.id, generation=session.generation)
    while session.waiting:
        forward(bridge, session, session.waiting.popleft())
    prompts.settle(bridge, session)


def unrevived(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The session cannot be brought back: everything that waits for it is told so (R25)."""
    session.reviving = ""
    session.known = False
    session.load_until_s = 0.0
    bridge.disarm("revive", session)
    why = f"The session {session.id} could not be brought back after the agent's end"
    openings.refuse_queue(bridge, session, "session-lost", why)


# -- a wedge is mended ----------------------------------------------------------------------
def recover(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT while Wedged: restart where nothing else lives in that process, else fork (R24)."""
    queue.watch(bridge, session)
    if bridge.closing or session.reviving or bridge.agent_state is not AgentState.READY:
        return
    if session.head() is None and not session.queue:
        return
    if not _others_live(bridge, session) and bridge.policy.restart:
        bridge.note("restart_for_wedge", "warning", session=session.id)
        bridge.agent_state = AgentState.STOPPING
        bridge.out.append(StopAgent(bridge.run, now=True))
        bridge.arm("restart", None, bridge.policy.restart_max_s)
        return
    if isinstance(_session_capability(bridge, "fork"), dict) and session.known:
        session.reviving = "fork"
        params = splice.with_member(session.params, (), "sessionId", codec.encode(session.agent_id))
        bridge.arm("revive", session, bridge.policy.restart_max_s)
        _ask(bridge, session, acp.SESSION_FORK, params, _reopened)
        return
    if not bridge.policy.restart:
        why = "The session is wedged and restart is off"
        openings.refuse_queue(bridge, session, "wedged", why)


def _others_live(bridge: Bridge, session: Session) -> bool:
    """Whether a restart would cost another session or request something."""
    quiet = (Phase.IDLE, Phase.LOST, Phase.WEDGED)
    if any(one.phase not in quiet for one in bridge.sessions.values() if one is not session):
        return True
    return any(
        one.session != session.id and one.own is None and one.prompt is None
        for one in bridge.pending.values()
    )


def mend_wedged(bridge: Bridge) -> None:
    """A turn has ended somewhere: a wedged session that waited for that may be recovered."""
    for session_id in sorted(bridge.wedged):
        session = bridge.sessions.get(session_id)
        if session is not None and session.queue:
            bridge.fire(session, Trigger.WANT)
