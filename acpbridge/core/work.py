"""What counts as work, and the clocks that only work moves (R5, R6, R9, design "work")."""

from __future__ import annotations

from acpbridge.core.model import NEVER, Bridge, Phase, Prompt, Session, Stage, Trigger, Turn
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame
from acpbridge.wire.look import member

MESSAGES_MAX = 256
"""Message ids remembered of one turn."""
CALLS_MAX = 4096
"""Tool calls remembered of one turn."""
REQUEST_LOOK_S = 1.0
"""How often an end that an open agent request delays is looked at again."""
WORK_REQUESTS = ("fs/", "terminal/")
"""Beginnings of the methods by which the agent works through the client."""
ENDED_STATUSES = ("completed", "failed", "cancelled")


def trigger_of(bridge: Bridge, session: Session, frame: Frame) -> Trigger | None:
    """What a `session/update` outside a load window is for a turn; None for nothing at all."""
    variant = frame.variant
    if variant in (acp.AGENT_MESSAGE_CHUNK, acp.AGENT_THOUGHT_CHUNK):
        is_work = (frame.plain or _has_content(frame)) and not receipt_kind(bridge, frame)
        return Trigger.CHUNK if is_work else None
    if variant == acp.TOOL_CALL:
        known = session.turn is not None and _call_id(frame) in session.turn.calls
        return None if _is_snapshot(bridge, frame) or known else Trigger.WORK
    if variant == acp.TOOL_CALL_UPDATE:
        turn = session.turn
        return Trigger.WORK if turn is not None and _call_id(frame) in turn.calls else None
    if variant == acp.PLAN:
        return Trigger.WORK
    if variant == acp.USER_MESSAGE_CHUNK:
        return Trigger.ECHO
    return Trigger.MARKER if is_marker(bridge, session, frame) else None


def is_work_request(frame: Frame) -> bool:
    """Whether this request of the agent is work, and stops the quiet clocks while it is open."""
    asks = (acp.REQUEST_PERMISSION, acp.ELICITATION_CREATE)
    return frame.method in asks or frame.method.startswith(WORK_REQUESTS)


def _has_content(frame: Frame) -> bool:
    content = frame.update.get("content")
    if not isinstance(content, dict):
        return False
    return content.get("type") != "text" or bool(content.get("text"))


def receipt_kind(bridge: Bridge, frame: Frame) -> str:
    """The kind of receipt that this update reads like, or ""; such a text is never work."""
    if frame.variant not in (acp.AGENT_MESSAGE_CHUNK, acp.AGENT_THOUGHT_CHUNK):
        return ""
    heads = bridge.agent.receipt_heads
    if not heads or (frame.plain and not frame.known_text.startswith(heads)):
        return ""
    return bridge.agent.receipt_kind(frame.text) if frame.text else ""


def _call_id(frame: Frame) -> str:
    call = frame.update.get("toolCallId")
    return call if isinstance(call, str) else ""


def _is_snapshot(bridge: Bridge, frame: Frame) -> bool:
    return _call_id(frame).startswith(bridge.agent.snapshot_call_prefixes)


def is_marker(bridge: Bridge, session: Session, frame: Frame) -> bool:
    """Whether this update is what the profile says ends an ownerless turn (R9)."""
    kind = bridge.agent.end_marker
    if frame.variant == acp.USAGE_UPDATE:
        if kind == "usage":
            return session.turn is not None and session.turn.content
        return kind == "usage_cost" and frame.update.get("cost") is not None
    if frame.variant == acp.SESSION_INFO_UPDATE and kind == "thread_status":
        status = member(frame.update, "_meta", "codex", "threadStatus", "type")
        return status in ("idle", "systemError")
    return False


def touch(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Work has come: move the clocks and remember what it opens and closes."""
    turn = session.turn
    assert turn is not None
    turn.last_work_s = bridge.now
    turn.content = True
    turn.echoing = False
    if turn.marked:
        turn.marked = False
        bridge.disarm("marker", session)
    for prompt in session.at_agent:
        if prompt.stage is Stage.WRITTEN:
            if not prompt.worked:
                prompt.worked = True
                bridge.persist(prompt, session, "started")
        elif prompt.stage is not Stage.KEPT and not (prompt.steered and _is_an_end(frame)):
            prompt.worked_since_receipt = True
    if not frame.plain:
        _remember(bridge, turn, frame)


def _is_an_end(frame: Frame) -> bool:
    """Whether it only tells of a call that was there before: no sign that a steer was read.

    A card that was refused and a cancel end their calls so, and both agents then drop what was
    steered behind them (measured: claude-agent-acp 0.101.0, codex-acp 2.6.0).
    """
    return frame.variant == acp.TOOL_CALL_UPDATE


def _remember(bridge: Bridge, turn: Turn, frame: Frame) -> None:
    message = frame.update.get("messageId")
    if isinstance(message, str) and len(turn.messages) < MESSAGES_MAX:
        turn.messages.add(message)
    if frame.variant not in (acp.TOOL_CALL, acp.TOOL_CALL_UPDATE):
        return
    call = _call_id(frame)
    if frame.variant == acp.TOOL_CALL and len(turn.calls) < CALLS_MAX:
        turn.calls.add(call)
        if frame.update.get("kind") not in bridge.agent.never_closed_kinds:
            turn.tools[call] = bridge.now
    if frame.update.get("status") in ENDED_STATUSES:
        turn.tools.pop(call, None)
    elif call in turn.tools:
        turn.tools[call] = bridge.now


def watch_steers(bridge: Bridge, session: Session) -> None:
    """Arm the one clock of a session's steers: the first thing that one of them waits for (R14)."""
    policy = bridge.policy
    due_s = [session.steer_until_s] if session.steer_until_s > bridge.now else []
    for prompt in session.at_agent:
        if prompt.stage is Stage.STEERED:
            due_s.append(prompt.written_s + policy.steer_answer_s)
        elif lacks_sign(prompt):
            due_s.append(prompt.alone_s + policy.answer_quiet_s * session.quiet_factor)
    if due_s:
        bridge.arm("steer", session, min(due_s) - bridge.now)
    else:
        bridge.disarm("steer", session)


def lacks_sign(prompt: Prompt) -> bool:
    """Whether the agent took it, no owner's response can end it, and no work speaks for it."""
    taken = prompt.stage is Stage.JOINED and prompt.steered
    return taken and prompt.alone_s != NEVER and not prompt.worked_since_receipt


def owner_gone(bridge: Bridge, session: Session) -> None:
    """No owner is left: what was steered and outlives it is proved by work from here on (R14)."""
    for prompt in session.at_agent:
        if prompt.stage is Stage.STEERED:
            prompt.worked_since_receipt = False
        elif prompt.steered and prompt.alone_s == NEVER:
            prompt.alone_s = bridge.now
            prompt.worked_since_receipt = False
    watch_steers(bridge, session)


def late_after_inference(bridge: Bridge, session: Session) -> None:
    """R9: work after an inferred answer means that the quiet times here are too short."""
    if not session.inferred:
        return
    session.inferred = False
    session.quiet_factor = min(session.quiet_factor * 2, bridge.policy.quiet_factor_max)
    bridge.note(
        "late_after_inferred", "warning", session=session.id, quiet_factor=session.quiet_factor
    )


def quiet_s(bridge: Bridge, session: Session) -> float:
    """How long silence must last here before it is taken for an end (R5, R8, R18)."""
    policy = bridge.policy
    habit = bridge.agent.busy
    # A build too old to serialise honestly counts as one that aborts.
    may_harm = habit in ("redirect", "aborts") or (habit == "fifo" and not bridge.fifo)
    patient = may_harm and session.phase is Phase.OWNERLESS
    base_s = policy.answer_quiet_s if patient or session.at_agent else policy.wait_quiet_s
    return base_s * session.quiet_factor


def watch_quiet(bridge: Bridge, session: Session) -> None:
    """Arm the quiet timer where silence may end the turn; it re-arms itself lazily."""
    turn = session.turn
    if turn is None or turn.watched or session.owner() is not None:
        return
    if session.phase is Phase.HELD and not any(
        prompt.stage in (Stage.JOINED, Stage.SEGMENT) and prompt.worked_since_receipt
        for prompt in session.at_agent
    ):
        return
    turn.watched = True
    bridge.arm("quiet", session, turn.last_work_s + quiet_s(bridge, session) - bridge.now)


def quiet_fired(bridge: Bridge, session: Session) -> None:
    """The quiet timer fired: silence counts only where nothing is open (R6)."""
    turn = session.turn
    assert turn is not None
    turn.watched = False
    if turn.requests:
        turn.watched = True
        bridge.arm("quiet", session, quiet_s(bridge, session))
        return
    tool_s = _open_tool_s(bridge, session, turn)
    if tool_s > 0:
        turn.watched = True
        bridge.arm("quiet", session, min(tool_s, quiet_s(bridge, session)))
        return
    bridge.fire(session, Trigger.QUIET)


def _open_tool_s(bridge: Bridge, session: Session, turn: Turn) -> float:
    """For how long the tool call that showed life last still delays an end (R6)."""
    if not turn.tools or session.phase is Phase.CANCELLING:
        return 0.0
    return max(turn.tools.values()) + bridge.policy.open_tool_max_s - bridge.now


def mark(bridge: Bridge, session: Session) -> None:
    """The end marker has come: some silence behind it makes it an end (R9)."""
    turn = session.turn
    if turn is None or session.owner() is not None:
        return
    turn.marked = True
    bridge.arm("marker", session, bridge.agent.marker_quiet_s)


def marker_fired(bridge: Bridge, session: Session) -> None:
    """The silence after a marker is over; an open request or tool call still delays it (R6)."""
    turn = session.turn
    assert turn is not None
    if turn.requests:
        bridge.arm("marker", session, max(bridge.agent.marker_quiet_s, REQUEST_LOOK_S))
        return
    tool_s = _open_tool_s(bridge, session, turn)
    if tool_s > 0:
        bridge.arm("marker", session, tool_s)
        return
    bridge.fire(session, Trigger.MARKED)
