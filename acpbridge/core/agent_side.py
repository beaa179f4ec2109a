"""A frame of the agent: whose it is, what it means for a turn, how it goes on."""

from __future__ import annotations

from acpbridge.core import answering, hold, identity, present, replies, requests, work
from acpbridge.core.model import Bridge, Phase, Session, Stage, Trigger
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame, Kind, Malformed, RpcId
from acpbridge.wire.ids import ANSWERS, salvage
from acpbridge.wire.lines import Oversize

NOISE_CHARS_MAX = 200
"""Characters of a noise line that the log shows."""


def agent_frame(bridge: Bridge, frame: Frame) -> None:
    """Route one frame of the agent."""
    if frame.kind in ANSWERS:
        _response(bridge, frame)
        return
    session = identity.of_agent(bridge, frame.session) if frame.session else None
    if session is not None and frame.session in session.left_ids:
        _left_behind(bridge, session, frame)
        return
    if session is not None and session.hold:
        _hold_more(bridge, session, frame)
        return
    if frame.kind is Kind.REQUEST:
        _request(bridge, session, frame)
    elif frame.method == acp.SESSION_UPDATE and session is not None:
        _update(bridge, session, frame)
    elif frame.method == acp.CANCEL_REQUEST:
        _took_back(bridge, frame)
    else:
        bridge.to_client(identity.toward_client(session, frame))


def _took_back(bridge: Bridge, frame: Frame) -> None:
    """It names a request and no session; where that request is held, it waits behind it (I6)."""
    meant = requests.named_in(frame)
    for session in bridge.sessions.values():
        if any(held.kind is Kind.REQUEST and held.id == meant for held in session.hold):
            _hold_more(bridge, session, frame)
            return
    requests.agent_took_back(bridge, frame)


def _left_behind(bridge: Bridge, session: Session, frame: Frame) -> None:
    """A fork has left this turn behind, cancelled and stuck: it is no work of the new one (R24)."""
    if frame.kind is Kind.REQUEST and frame.method in requests.ASKS:
        requests.answer_cancelled(bridge, frame)
    elif frame.kind is Kind.REQUEST:
        requests.asked(bridge, session, frame)
    elif frame.method == acp.SESSION_UPDATE:
        present.old_update(bridge, session, frame)
    else:
        bridge.to_client(identity.toward_client(session, frame))


def _hold_more(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Hold one more frame behind a receipt text; a flood ends the hold (I9)."""
    session.hold.append(frame)
    if len(session.hold) > bridge.policy.hold_frames_max:
        bridge.note("hold_overflow", "warning", session=session.id)
        release_hold(bridge, session)


def release_hold(bridge: Bridge, session: Session) -> None:
    """It was no receipt, or the time is over: take in what was held as if it came now."""
    bridge.disarm("hold", session)
    held, session.hold = session.hold, []
    for frame in held:
        take_in(bridge, session, frame)


def take_in(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Take in a frame that was held (see `hold`)."""
    if frame.kind in ANSWERS:
        requests.answered(bridge, frame)
    elif frame.kind is Kind.REQUEST:
        _request(bridge, session, frame)
    elif frame.method == acp.SESSION_UPDATE:
        _pass_update(bridge, session, frame)
    elif frame.method == acp.CANCEL_REQUEST:
        requests.agent_took_back(bridge, frame)
    else:
        bridge.to_client(identity.toward_client(session, frame))


def release_dead(bridge: Bridge, session: Session) -> None:
    """The agent died over the hold: what it said goes on, what it asked nobody can use."""
    bridge.disarm("hold", session)
    held, session.hold = session.hold, []
    for frame in held:
        if frame.kind is Kind.REQUEST:
            bridge.count("dead_agent_request_dropped")
        else:
            take_in(bridge, session, frame)


def _response(bridge: Bridge, frame: Frame) -> None:
    pending = bridge.pending.get(frame.id)
    session = bridge.sessions.get(pending.session) if pending else None
    after: list[Frame] = []
    if session is not None and session.hold and pending is not None:
        if pending.prompt is None:
            # I6: what the agent said before this answer is held, so the answer is too.
            _hold_more(bridge, session, frame)
            return
        receipt = hold.answer(bridge, session, frame)
        if receipt is None:
            release_hold(bridge, session)
        else:
            after = receipt
    requests.answered(bridge, frame)
    for held in after:
        assert session is not None
        take_in(bridge, session, held)


def _request(bridge: Bridge, session: Session | None, frame: Frame) -> None:
    is_work = work.is_work_request(frame)
    if session is not None and is_work and not in_window(bridge, session):
        bridge.fire(session, Trigger.WORK, frame)
    requests.asked(bridge, session, frame)


def in_window(bridge: Bridge, session: Session) -> bool:
    """Whether the session is in its load window: nothing there is work, echo or marker."""
    return bridge.now < session.load_until_s


def _update(bridge: Bridge, session: Session, frame: Frame) -> None:
    if session.reviving in ("load", "resume"):
        _hidden(bridge, session, frame)
        return
    kind = "" if in_window(bridge, session) else work.receipt_kind(bridge, frame)
    prompt = session.newest_open() if kind else None
    if prompt is not None:
        hold.begin(bridge, session, prompt, frame, kind)
    elif not kind or not answering.late_receipt(bridge, session, kind):
        _pass_update(bridge, session, frame)
        # Not for a frame that was held: more of the same step may follow it.
        _consider_fast(bridge, session)


def _hidden(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Content between our own load and its answer is history that the client has seen (R23)."""
    if frame.variant in present.CONTENT:
        session.replayed += 1
        bridge.count("replay_hidden")
        return
    present.update(bridge, session, frame)


def _is_openings_own(bridge: Bridge, session: Session, frame: Frame) -> bool:
    """Whether this is the one usage that follows an opening, whatever was written since (R9).

    Hermes says it up to 60 ms behind new or load; it ends no turn. The next one may.
    """
    if frame.variant != acp.USAGE_UPDATE or bridge.now >= session.opened_until_s:
        return False
    session.opened_until_s = 0.0
    return True


def _pass_update(bridge: Bridge, session: Session, frame: Frame) -> None:
    is_own = _is_openings_own(bridge, session, frame)
    if in_window(bridge, session):
        if session.loading and frame.variant in present.CONTENT:
            session.replayed += 1
        _learn(bridge, session, frame)
        present.update(bridge, session, frame)
        return
    trigger = None if is_own else work.trigger_of(bridge, session, frame)
    if trigger is not None:
        bridge.fire(session, trigger, frame)
    if frame.variant == acp.USAGE_UPDATE and not is_own:
        for prompt in session.at_agent:
            prompt.usage = True
    _learn(bridge, session, frame)
    present.update(bridge, session, frame)


def _learn(bridge: Bridge, session: Session, frame: Frame) -> None:
    """What an update teaches about the session beside its turn."""
    if frame.variant == acp.SESSION_INFO_UPDATE:
        identity.learn_tip(bridge, session, frame.update)
    elif frame.variant == acp.AVAILABLE_COMMANDS_UPDATE:
        listed = frame.update.get("availableCommands")
        if isinstance(listed, list):
            names = (entry.get("name") for entry in listed if isinstance(entry, dict))
            session.commands = frozenset(name for name in names if isinstance(name, str))


def _consider_fast(bridge: Bridge, session: Session) -> None:
    """From here on plain chunks of this turn need no thought, until anything else happens."""
    owner = session.owner()
    settled = (
        session.phase is Phase.RUNNING
        and owner is not None
        and owner.worked
        and owner.shown
        and len(session.at_agent) == 1
        and owner.stage is Stage.WRITTEN
        and session.turn is not None
        and not session.turn.echoing
        and session.agent_id == session.id
        and not session.muted
        and not session.cancel_due
        and not session.paced
    )
    # An empty head is a receipt text without a literal beginning: every chunk needs a look.
    if settled and "" not in bridge.agent.receipt_heads:
        bridge.fast[session.agent_id] = session


def agent_garbled(bridge: Bridge, fault: Malformed | Oversize) -> None:
    """A line that is no frame is noise for the log; one that is too long may be an answer."""
    if isinstance(fault, Malformed):
        text = fault.raw[:NOISE_CHARS_MAX].decode(errors="replace")
        bridge.note("agent_noise", "warning", reason=fault.message, line=text)
        return
    known = salvage(fault.head, fault.tail)
    bridge.note("agent_line_too_long", "error", bytes=fault.size_bytes, method=known.method)
    if known.kind is Kind.REQUEST:
        # The client never sees it, so nobody else would answer it.
        text = f"The request has {fault.size_bytes} bytes, over the limit (line_bytes_max)."
        bridge.to_agent(replies.refusal(known.id, "frame-too-large", text))
    if known.kind in ANSWERS or known.kind is None:
        _answer_too_long(bridge, known.id, fault.size_bytes)


def _answer_too_long(bridge: Bridge, id_: RpcId, size_bytes: int) -> None:
    pending = bridge.pending.get(id_)
    if pending is None:
        return
    text = (
        f"The agent's answer has {size_bytes} bytes and the limit is "
        f"{bridge.policy.line_bytes_max} (line_bytes_max); raise the limit."
    )
    line = requests.too_long(id_, text)
    _response(bridge, line)
