"""Cancel, `$/cancel_request`, close: what is stopped, what is told, what is sent (R16 to R20).

A cancel is about the session: the canceller's queued prompts end at once and are never sent, the
running turn ends with the agent's own answer, and one cancel per turn goes to the agent.
"""

from __future__ import annotations

from acpbridge.core import identity, openings, present, prompts, queue, replies
from acpbridge.core.model import (
    Bridge,
    Cause,
    Phase,
    Prompt,
    Session,
    Stage,
    Trigger,
)
from acpbridge.core.outgoing import release_behind, send
from acpbridge.core.requests import (
    REQUEST_ID,
    cancel_open_asks,
    forward,
    named_in,
    release_steers,
)
from acpbridge.core.work import watch_quiet
from acpbridge.wire import acp, codec, splice
from acpbridge.wire.frame import Frame, RpcId


# -- the client cancels ---------------------------------------------------------------------
def cancel_session(bridge: Bridge, session: Session, frame: Frame | None) -> None:
    """`session/cancel`: the turn stops, and the canceller's own queue with it (R16).

    Without a frame the session ends, or its clients have left it: then everybody's.
    """
    drop_queue(bridge, session, None if frame is None else bridge.speaker)
    if frame is not None and _is_anothers_yet(session, bridge.speaker):
        # It has not begun: what another client has asked for is no turn that runs.
        bridge.note("cancel_swallowed", session=session.id, phase="sending")
        return
    session.cancel_line = identity.toward_agent(session, frame) if frame else _cancel_line(session)
    bridge.fire(session, Trigger.CANCEL)
    if session.queue:
        # A load or resume that stood behind a prompt stands behind nothing now (R4).
        bridge.fire(session, Trigger.WANT)


def _cancel_line(session: Session) -> bytes:
    return codec.notification(acp.SESSION_CANCEL, {"sessionId": session.agent_id})


def drop_queue(bridge: Bridge, session: Session, client: int | None = None) -> None:
    """Queued prompts are answered `cancelled`, in order, and never sent: a client's, or all."""
    owner = session.owner()
    unsent = (Stage.STEERING, Stage.SENDING)
    for prompt in [one for one in session.at_agent if one.stage in unsent and one is not owner]:
        if _is_of(prompt, client):
            answer_unsent(bridge, session, prompt)
    for item in [one for one in session.queue if isinstance(one, Prompt)]:
        if _is_of(item, client):
            drop_queued(bridge, session, item)
    if session.first_prompt() is None:
        bridge.disarm("busy", session)
        bridge.disarm("notice", session)


def _is_anothers_yet(session: Session, client: int) -> bool:
    """Whether the prompt that is to run next is another's and has not gone to the agent."""
    owner = session.owner()
    return owner is not None and owner.stage is Stage.SENDING and not _is_of(owner, client)


def _is_of(prompt: Prompt, client: int | None) -> bool:
    """Whether a client's cancel means it; what nobody asked for now is everybody's."""
    return client in (None, prompt.client) or prompt.unasked


def drop_queued(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """One queued prompt ends before it was sent."""
    bridge.unqueue(session, prompt)
    answer_unsent(bridge, session, prompt)


def answer_unsent(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """Nothing of it was sent: it is `cancelled`, or undelivered if the client leaves now (R20)."""
    prompt.cancelled = True
    bridge.persist(prompt, session, "cancelled", "cancelled before it was sent")
    if present.is_unheard(prompt):
        # Whoever cancels stops it, and may not know of it: it is undelivered again.
        present.leave_again(bridge, session, prompt, "cancelled before it was sent")
    session.dropped.append((bridge.now, prompt))
    del session.dropped[: -bridge.policy.queue_prompts_max]
    bridge.arm("undelivered", None, bridge.policy.cancel_eof_s)
    line = replies.completion(prompt.id, acp.CANCELLED)
    present.answer(bridge, session, prompt, line, acp.CANCELLED)


def cancel_nothing(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A cancel without a turn goes nowhere: it would hit the next one (R16)."""
    _cancel_steers(session)
    bridge.note("cancel_swallowed", session=session.id, phase=session.phase.value)


def cancel_again(bridge: Bridge, session: Session, cause: Cause) -> None:
    """One cancel per turn is enough; a `$/cancel_request` of the prompt was none (R16, R20)."""
    _cancel_steers(session)
    if session.request_cancelled:
        session.request_cancelled = False
        session.cancel_due = True
        try_cancel(bridge, session)
        return
    bridge.note("cancel_swallowed", session=session.id, phase=session.phase.value)


def cancel_running(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A prompt of ours is open: the agent is told, and its own answer ends it."""
    owner = session.owner()
    if owner is not None and owner.stage is Stage.SENDING:
        _drop_unwritten(bridge, session, owner)
        return
    _end_held(bridge, session)
    _begin(bridge, session)


def cancel_held(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The agent has answered: what is only doubted goes out, what is bound is cancelled."""
    doubted = [one for one in session.at_agent if one.stage is Stage.DOUBTED]
    bound = [one for one in session.bound() if one not in doubted]
    for prompt in doubted:
        prompt.cancelled = True
    _cancel_steers(session)
    if doubted:
        bridge.disarm("grace", session)
        bridge.fire(session, Trigger.GRACE)
    # What was steered into the turn has ended with the answer that was only doubted.
    if all(one.stage is Stage.ENDED for one in bound):
        bridge.note("cancel_swallowed", session=session.id, phase="held")
        return
    _end_held(bridge, session)
    _begin(bridge, session)


def _cancel_steers(session: Session) -> None:
    """What was given to the agent for a turn is cancelled with it (R15)."""
    for prompt in session.at_agent:
        if prompt.steered:
            prompt.cancelled = True


def cancel_ownerless(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The agent works by itself and the client wants it to stop."""
    _cancel_steers(session)
    _begin(bridge, session)


def unsent_back(bridge: Bridge, session: Session) -> None:
    """What was about to go into this turn, or beside it, waits for its end."""
    for prompt in list(session.at_agent):
        if prompt.stage in (Stage.SENDING, Stage.STEERING):
            queue.take_back(bridge, session, prompt, "its turn is being stopped")
    # The cancel comes behind what the client said before it (I5).
    release_behind(bridge)


def _drop_unwritten(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """Its bytes have not gone and will not: the cancel is its answer, and goes nowhere else."""
    answer_unsent(bridge, session, prompt)
    prompts.settle_or_stay(bridge, session)


def _end_held(bridge: Bridge, session: Session) -> None:
    """R19: what the agent holds under a receipt is answered `cancelled` at once."""
    unsent_back(bridge, session)
    for prompt in list(session.at_agent):
        prompt.cancelled = True
        if prompt.stage not in (Stage.KEPT, Stage.JOINED, Stage.SEGMENT):
            continue
        if prompt.steered and not prompt.own_turn and session.owner() is not None:
            # R15: it shares the owner's answer.
            continue
        if prompt.stage is Stage.KEPT:
            session.ghosts.append(prompt.text)
            del session.ghosts[: -bridge.policy.queue_prompts_max]
        line = replies.completion(prompt.id, acp.CANCELLED, completion="inferred")
        present.answer(bridge, session, prompt, line, acp.CANCELLED)


def _begin(bridge: Bridge, session: Session) -> None:
    """A turn is to be stopped: from here to its end the session is Cancelling (R18)."""
    unsent_back(bridge, session)
    session.phase = Phase.CANCELLING
    session.muted = session.muted or bridge.client.hides_cancelled_work
    assert session.turn is not None
    cancel_open_asks(bridge, session)
    session.cancel_due = True
    # The clock of an ownerless turn may run for the longer quiet of a turn that nobody stops.
    session.turn.watched = False
    # Silence before the cancel says nothing of how long the agent needs to stop.
    session.turn.last_work_s = bridge.now
    # The timer is armed before the write: a write that blocks must not escape it.
    bridge.arm("settle", session, bridge.policy.cancel_settle_s)
    try_cancel(bridge, session)
    watch_quiet(bridge, session)


def try_cancel(bridge: Bridge, session: Session) -> None:
    """Write the cancel as soon as the agent's profile lets it go (R16)."""
    if not session.cancel_due:
        return
    owner = session.owner()
    due_s = session.last_sent_s + bridge.agent.cancel_gap_s
    if any(prompt.redirect and prompt.stage is Stage.WRITTEN for prompt in session.at_agent):
        due_s = max(due_s, session.gate_until_s)
    if owner is not None and not owner.worked:
        due_s = max(due_s, owner.written_s + bridge.agent.cancel_after_s)
    if due_s > bridge.now:
        bridge.arm("cancel", session, due_s - bridge.now)
        return
    session.cancel_due = False
    session.cancel_sent_s = bridge.now
    session.cancel_unanswered = True
    send(bridge, session, session.cancel_line)
    session.gate_until_s = bridge.now + bridge.agent.cancel_gap_s


def stop_ghost(bridge: Bridge, session: Session) -> None:
    """R19: a cancelled prompt runs after all: one more cancel, and nothing of it is shown."""
    session.ghost_runs = True
    session.cancel_line = _cancel_line(session)
    muted = session.muted
    _begin(bridge, session)
    # Only the ghost is hidden; what else runs in this turn the client has not cancelled.
    session.muted = muted


def settle_failed(bridge: Bridge, session: Session, cause: Cause) -> None:
    """R18: the agent did not end the cancelled turn in `cancel_settle`."""
    session.phase = Phase.WEDGED
    bridge.wedged.add(session.id)
    session.wedged_by = "settle"
    session.cancel_due = False
    session.turn = None
    for name in ("quiet", "marker", "cancel", "grace", "steer"):
        bridge.disarm(name, session)
    bridge.note("session_wedged", "warning", session=session.id, why="settle")
    wait_s = bridge.policy.cancel_settle_s
    for prompt in list(session.at_agent):
        text = (
            f"The agent did not end the cancelled turn in {wait_s:.0f} s (cancel_settle); "
            "it may still run. The next message recovers the session."
        )
        present.refuse(bridge, session, prompt, "wedged", text)
    release_steers(bridge, session)
    bridge.fire(session, Trigger.WANT)


# -- $/cancel_request -----------------------------------------------------------------------
def cancel_request(bridge: Bridge, frame: Frame) -> None:
    """The client takes back one request of its own (R20)."""
    id_ = named_in(frame)
    wire_ids = bridge.open_ids.get(id_)
    if not wire_ids:
        bridge.note("cancel_of_unknown_request", id=id_.decode(errors="replace"))
        return
    wire_id = wire_ids[0]
    found = _prompt_of(bridge, wire_id)
    if found is None:
        pending = bridge.pending.get(wire_id)
        if pending is not None:
            line = (
                frame.raw if wire_id == id_ else splice.with_value(frame.raw, REQUEST_ID, wire_id)
            )
            # Behind the request itself, where that waits out the gap around a cancel.
            send(bridge, bridge.sessions.get(pending.session), line)
        return
    session, prompt = found
    if prompt.stage is Stage.QUEUED:
        drop_queued(bridge, session, prompt)
        bridge.fire(session, Trigger.WANT)
    elif prompt.stage is Stage.STEERING or (prompt.stage is Stage.SENDING and prompt.redirect):
        answer_unsent(bridge, session, prompt)
        bridge.fire(session, Trigger.WANT)
    elif prompt.stage is Stage.WRITTEN and bridge.agent.honours_cancel_request:
        line = splice.with_value(frame.raw, REQUEST_ID, wire_id)
        _pass_to_prompt(bridge, session, prompt, line)
    else:
        session.cancel_line = _cancel_line(session)
        bridge.fire(session, Trigger.CANCEL)


def _pass_to_prompt(bridge: Bridge, session: Session, prompt: Prompt, line: bytes) -> None:
    """The agent honours it: its own answer ends the prompt, and the queue stays."""
    if session.phase is Phase.CANCELLING:
        return
    unsent_back(bridge, session)
    prompt.cancelled = True
    session.request_cancelled = True
    session.phase = Phase.CANCELLING
    session.muted = session.muted or bridge.client.hides_cancelled_work
    cancel_open_asks(bridge, session)
    session.cancel_unanswered = True
    bridge.arm("settle", session, bridge.policy.cancel_settle_s)
    send(bridge, session, line)


def _prompt_of(bridge: Bridge, wire_id: RpcId) -> tuple[Session, Prompt] | None:
    for session in bridge.sessions.values():
        for item in (*session.at_agent, *session.queue):
            if isinstance(item, Prompt) and item.wire_id == wire_id:
                return session, item
    return None


# -- close and delete -----------------------------------------------------------------------
def close_session(bridge: Bridge, session: Session, frame: Frame) -> None:
    """R20: session/close and session/delete are a cancel, then go through at once."""
    running = session.phase not in (Phase.IDLE, Phase.LOST, Phase.TRAILING)
    if running or session.queue or session.steer() is not None:
        cancel_session(bridge, session, None)
    # One whose load is open is about to be known again.
    no_agent_knows = session.phase is Phase.LOST and not (session.reviving or session.loading)
    if not no_agent_knows or frame.method == acp.SESSION_DELETE:
        forward(bridge, session, frame)
        return
    # A session that no live agent knows has nothing left to close there.
    openings.refuse_queue(bridge, session, "session-lost", "The session was closed")
    present.release_paced(bridge, session)
    wire_id = present.id_of(bridge, frame)
    present.respond(bridge, wire_id, codec.result(frame.id, {}))
    identity.forget(bridge, session)
