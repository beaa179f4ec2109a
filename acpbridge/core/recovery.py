"""A session's second life: it is lost, revived, forked, given up (R23, R24).

A revival is a chain of requests of the bridge's own. Their answers are ordinary events, so a
revival can be interrupted at any step by a death, a cancel or the end of the bridge.
"""

from __future__ import annotations

from acpbridge.core import identity, life, openings, present, prompts, queue, work
from acpbridge.core.effects import StopAgent
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
    Turn,
)
from acpbridge.core.requests import agent_is_up, ask, forward, forward_load, own_answer
from acpbridge.wire import acp, codec, scan, splice
from acpbridge.wire.frame import Frame, Kind


def lose(bridge: Bridge, session: Session, cause: Cause) -> None:
    """GONE: no live agent knows the session until it is revived."""
    session.phase = Phase.LOST
    session.turn = None
    session.reviving = ""
    session.wedged_by = ""
    bridge.wedged.discard(session.id)
    session.muted = session.cancel_due = session.cancel_unanswered = session.crossed = False
    session.ghost_runs = session.request_cancelled = False
    session.ghosts.clear()
    session.gated.clear()
    session.behind.clear()
    session.gate_until_s = 0.0
    session.left_ids.clear()
    session.loading = session.resuming = session.settings_open = 0
    session.load_until_s = 0.0
    session.revive_until_s = NEVER
    session.steer_until_s = 0.0
    while session.steers_held:
        why = "The agent ended before the cancelled turn did"
        openings.refuse_frame(bridge, session.steers_held.popleft(), "agent-exited", why)
    for name in ("quiet", "marker", "settle", "trail", "wait_max", "cancel", "grace", "hold",
                 "gate", "revive", "busy", "steer", "silence"):  # fmt: skip
        bridge.disarm(name, session)
    head = session.head()
    if head is not None:
        head.busy_until_s = 0.0


# -- a session is revived -------------------------------------------------------------------
def revive(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT while Lost: make a live agent know the session again (R23)."""
    queue.watch(bridge, session)
    if bridge.closing or session.recovering:
        return
    if session.reviving:
        _wait_for_revival(bridge, session)
        return
    if bridge.agent_state is AgentState.DEAD and bridge.policy.restart:
        life.start_again(bridge)
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
    _wait_for_revival(bridge, session)
    _revive_by(bridge, session)


def _wait_for_revival(bridge: Bridge, session: Session) -> None:
    """What waits for a revival waits `restart_max` at most; the clock runs from the first."""
    if session.revive_until_s == NEVER:
        session.revive_until_s = bridge.now + bridge.policy.restart_max_s
        bridge.arm("revive", session, bridge.policy.restart_max_s)


def revive_late(bridge: Bridge, session: Session) -> None:
    """`restart_max` is over: what waits is told so (R23).

    The agent's answer still counts when it comes: a load that goes on goes on hidden, and a
    session that it opened for us is the client's. A fork is given up, for a restart may help; a
    setting without an answer is no reason to wait for longer.
    """
    session.revive_until_s = NEVER
    if session.reviving == "fork":
        bridge.fire(session, Trigger.UNREVIVED)
    elif session.reviving == "settings":
        bridge.note("setting_unanswered", "warning", session=session.id)
        bridge.fire(session, Trigger.REVIVED)
    else:
        wait_s = bridge.policy.restart_max_s
        why = f"The agent did not bring the session {session.id} back in {wait_s:.0f} s"
        openings.refuse_queue(bridge, session, "session-lost", why)


def _revive_by(bridge: Bridge, session: Session) -> None:
    load_id = session.tip or session.agent_id
    params = splice.with_member(_params(session), (), "sessionId", codec.encode(load_id))
    can_resume = isinstance(_session_capability(bridge, "resume"), dict)
    can_load = bridge.capabilities.get("loadSession") is True
    if session.fresh and not (session.prompted and can_load):
        _open_anew(bridge, session)
    elif can_load:
        session.reviving = "load"
        session.replayed = 0
        identity.alias(bridge, session, load_id)
        session.load_until_s = NEVER
        ask(bridge, session, acp.SESSION_LOAD, params, _reloaded)
    elif can_resume:
        session.reviving = "resume"
        identity.alias(bridge, session, load_id)
        session.load_until_s = NEVER
        ask(bridge, session, acp.SESSION_RESUME, params, _reloaded)
    else:
        bridge.fire(session, Trigger.UNREVIVED)


def _params(session: Session) -> bytes:
    """The remembered params, with what new and load need and a resume may leave out."""
    if scan.find(session.params, "mcpServers") is not None:
        return session.params
    return splice.with_member(session.params, (), "mcpServers", b"[]")


def _open_anew(bridge: Bridge, session: Session) -> None:
    session.reviving = "new"
    params = splice.without_members(_params(session), (), frozenset({"sessionId"}))
    ask(bridge, session, acp.SESSION_NEW, params, _reopened)


def _session_capability(bridge: Bridge, name: str) -> object:
    capabilities = bridge.capabilities.get("sessionCapabilities")
    return capabilities.get(name) if isinstance(capabilities, dict) else None


def _reopened(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    """Our session/new or session/fork is answered: the new id stands for the old one."""
    if session is None or frame is None or session.reviving not in ("new", "fork"):
        return
    result = frame.result if isinstance(frame.result, dict) else {}
    agent_id = result.get("sessionId")
    if not isinstance(agent_id, str) or not agent_id:
        bridge.fire(session, Trigger.UNREVIVED)
        return
    if session.reviving == "fork":
        session.left_ids.add(session.agent_id)
    else:
        session.prompted = False
    identity.alias(bridge, session, agent_id)
    session.tip = ""
    identity.learn_tip(bridge, session, result)
    _restore_settings(bridge, session)


def _reloaded(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    """Our session/load or session/resume is answered: is the conversation really there?"""
    if session is None or frame is None or session.reviving not in ("load", "resume"):
        return
    method = acp.SESSION_LOAD if session.reviving == "load" else acp.SESSION_RESUME
    lost = "" if frame.kind is Kind.RESPONSE else present.agent_words(frame)
    lost = lost or openings.nothing_loaded(bridge, session, method, frame)
    if lost and session.fresh:
        # An agent may keep a conversation from its first prompt on, or only from its first turn's
        # end on (tapes wedge-recovery and agent-killed-mid-turn of Hermes): this one does not.
        _open_anew(bridge, session)
        return
    if lost:
        bridge.note("session_lost", "warning", session=session.id, reason=lost)
        bridge.fire(session, Trigger.UNREVIVED)
        return
    identity.learn_tip(bridge, session, frame.result)
    _restore_settings(bridge, session)


def _restore_settings(bridge: Bridge, session: Session) -> None:
    """Send the last acknowledged mode, model and config options again, before the queue."""
    # After stdin EOF nothing is sent any more, but what the session still says is shown.
    settings = [] if bridge.closing else list(session.settings.values())
    session.reviving = "settings"
    session.settings_open = len(settings)
    for frame in settings:
        line = identity.without_argument_keys(bridge, frame, frame.raw)
        line = splice.with_session(line, session.agent_id)
        own = bridge.own_id()
        then = own_answer(session, _setting)
        bridge.pending[own] = Pending(frame.method, own, session.id, own=then)
        bridge.to_agent(splice.with_id(line, own))
    if not session.settings_open:
        bridge.fire(session, Trigger.REVIVED)


def _setting(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    if session is None or frame is None or session.reviving != "settings":
        return
    if frame.kind is Kind.ERROR:
        _refused_setting(bridge, session, frame)
    session.settings_open -= 1
    if not session.settings_open:
        bridge.fire(session, Trigger.REVIVED)


def _refused_setting(bridge: Bridge, session: Session, frame: Frame) -> None:
    """The queue was written for another mode or model: it waits until the client has its say."""
    bridge.note("setting_refused", "warning", session=session.id)
    waits = session.first_prompt() is not None
    if not waits or session.paused:
        return
    session.paused = "the restarted agent did not take a setting back"
    text = (
        f"The agent was started again and did not take a setting back. {present.agent_words(frame)}"
        ". What waits here is not sent until you choose the setting again, write on, or cancel."
    )
    present.say(bridge, session, text, acp.AGENT_THOUGHT_CHUNK)


def revived(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A live agent knows the session: what waited goes on, in order."""
    session.reviving = ""
    session.wedged_by = ""
    bridge.wedged.discard(session.id)
    session.cancel_unanswered = session.crossed = False
    session.phase = Phase.IDLE
    session.load_until_s = session.opened_until_s = bridge.now + bridge.policy.load_tail_s
    _over(bridge, session)
    bridge.note("session_revived", session=session.id, generation=session.generation)
    while session.waiting:
        forward(bridge, session, session.waiting.popleft())
    prompts.settle(bridge, session)


def _over(bridge: Bridge, session: Session) -> None:
    session.revive_until_s = NEVER
    bridge.disarm("revive", session)


def unrevived(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The session cannot be brought back: everything that waits for it is told so (R25)."""
    forked = session.reviving == "fork"
    session.reviving = ""
    session.load_until_s = 0.0
    _over(bridge, session)
    if forked:
        # The session is still there, only no copy of it: what is left is a restart (R24).
        session.wedged_by = "fork"
        bridge.fire(session, Trigger.WANT)
        return
    session.known = False
    why = f"The session {session.id} is not known to the agent any more"
    openings.refuse_queue(bridge, session, "session-lost", why)


# -- a wedge is mended ----------------------------------------------------------------------
def recover(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT while Wedged: restart where nothing else lives in that process, else fork (R24)."""
    queue.watch(bridge, session)
    if bridge.closing or session.reviving or not session.queue or not agent_is_up(bridge):
        return
    # An agent that refused its initialize once would refuse the bridge's own too.
    can_restart = bridge.policy.restart and bridge.initialized
    if can_restart and not _others_live(bridge, session):
        bridge.note("restart_for_wedge", "warning", session=session.id)
        _restart(bridge)
        return
    can_fork = isinstance(_session_capability(bridge, "fork"), dict)
    if can_fork and session.known and session.wedged_by != "fork":
        session.reviving = "fork"
        params = splice.with_member(session.params, (), "sessionId", codec.encode(session.agent_id))
        _wait_for_revival(bridge, session)
        ask(bridge, session, acp.SESSION_FORK, params, _reopened)
        return
    if not can_restart:
        why = "The session is wedged and restart is off"
        openings.refuse_queue(bridge, session, "wedged", why)


def works_after_all(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Work where only a receipt spoke for a wedge: it was the receipt of an unseen turn (R24).

    So the agent has the message, and written again it would run twice (I3).
    """
    assert isinstance(cause, Frame)
    if session.wedged_by != "receipt" or session.reviving:
        return
    session.wedged_by = ""
    bridge.wedged.discard(session.id)
    bridge.note("session_works_after_all", "warning", session=session.id)
    session.turn = Turn(bridge.now, bridge.now)
    session.phase = Phase.OWNERLESS
    head = session.head()
    if head is not None and head.taken_back:
        queue.keep(bridge, session, head)
        session.phase = Phase.HELD
    is_asking = cause.kind is Kind.REQUEST
    trigger = Trigger.WORK if is_asking else work.trigger_of(bridge, session, cause)
    # Only what is work, or an echo, came here; the new turn does not make it less.
    assert trigger is not None
    bridge.fire(session, trigger, cause)


def silent(bridge: Bridge, session: Session) -> None:
    """`silent_receipt` after a receipt: where nothing was seen since, the client is told (R24).

    An agent may work in silence, so it is started again only where the policy asks for that, and
    no other session pays for it.
    """
    waits = [
        one
        for one in session.at_agent
        if one.stage in (Stage.KEPT, Stage.JOINED)
        and not (one.worked_since_receipt or one.cancelled)
    ]
    turn = session.turn
    if bridge.closing or not waits or turn is None:
        return
    rest_s = turn.last_work_s + bridge.policy.silent_receipt_s - bridge.now
    if turn.requests or rest_s > 0:
        bridge.arm("silence", session, max(rest_s, work.REQUEST_LOOK_S))
        return
    bridge.note("silent_receipt", "warning", session=session.id, prompt=waits[0].number)
    can_restart = bridge.policy.on_silent_receipt == "restart" and bridge.policy.restart
    if can_restart and agent_is_up(bridge) and not _others_live(bridge, session):
        _restart(bridge)
        return
    wait_s = bridge.policy.silent_receipt_s
    text = (
        f"The agent acknowledged this message and has shown nothing for {wait_s:.0f} s. It may "
        "still be at work; cancel to give it up."
    )
    present.say(bridge, session, text, acp.AGENT_THOUGHT_CHUNK)


def _restart(bridge: Bridge) -> None:
    bridge.agent_state = AgentState.STOPPING
    bridge.out.append(StopAgent(bridge.run, now=True))
    life.await_agent(bridge)


def _others_live(bridge: Bridge, session: Session) -> bool:
    """Whether a restart would cost another session or request something."""
    quiet = (Phase.IDLE, Phase.LOST, Phase.WEDGED)
    others = [one for one in bridge.sessions.values() if one is not session]
    if any(one.phase not in quiet or one.at_agent for one in others):
        return True
    return any(
        one.session != session.id and one.own is None and one.prompt is None
        for one in bridge.pending.values()
    )


def mend_wedged(bridge: Bridge) -> None:
    """A turn has ended somewhere: a wedged session that waited for that may be recovered."""
    for session_id in sorted(bridge.wedged):
        session = bridge.sessions.get(session_id)
        if session is not None:
            bridge.fire(session, Trigger.WANT)
