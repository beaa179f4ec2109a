"""Acting on an agent's response to a prompt: believe it, hold it, bind it, take it back.

Handlers of the transition table, beside those of `turn.py`; the judgement itself is `answers.py`.
"""

from __future__ import annotations

from acpbridge.core import answers, cancel, present, prompts, queue, replies
from acpbridge.core.answers import Verdict
from acpbridge.core.model import Bridge, Cause, Phase, Prompt, Session, Stage, Trigger, Turn
from acpbridge.core.openings import refuse_queue
from acpbridge.core.outgoing import gate_over
from acpbridge.core.requests import release_steers
from acpbridge.core.turn import complete, remember_end
from acpbridge.core.work import owner_gone, watch_quiet
from acpbridge.wire import acp, splice
from acpbridge.wire.frame import Frame, Kind


# -- answers --------------------------------------------------------------------------------
def answered(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The agent's response to a prompt of ours: judge it and act on the verdict."""
    assert isinstance(cause, Prompt)
    if not cause.redirect:
        _act(bridge, session, cause)
        return
    cause.redirect = False
    session.gate_until_s = 0.0
    bridge.disarm("gate", session)
    _act(bridge, session, cause)
    # What waited for this answer goes now, and a cancel behind that (R14, R16).
    gate_over(bridge, session)
    cancel.try_cancel(bridge, session)


def _act(bridge: Bridge, session: Session, cause: Prompt) -> None:
    verdict = answers.judge(bridge, session, cause)
    if verdict is Verdict.BUSY:
        if queue.refused_as_busy(bridge, session, cause):
            prompts.settle_or_stay(bridge, session)
            return
        verdict = Verdict.REAL
    if verdict in (Verdict.WEDGED, Verdict.POISONED) and cause.taken_back:
        # R24: a second time it is answered with what the agent said.
        verdict = Verdict.WEDGE_ANSWERED if verdict is Verdict.WEDGED else Verdict.REAL
    if verdict is Verdict.WEDGE_ANSWERED:
        _wedge(bridge, session, "answered")
    _ACTIONS[verdict](bridge, session, cause)
    if session.phase is Phase.WEDGED:
        # Also where the answer itself went out: what waits behind it needs the recovery. One that
        # was doubted beside it is no receipt any more, for no turn is left that it could be of.
        grace_over(bridge, session, None)
        bridge.disarm("grace", session)
        _leave_turn(bridge, session)
        bridge.fire(session, Trigger.WANT)


def _believe(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """Its own completion: it goes out byte for byte, and what shared the turn ends with it."""
    frame = prompt.answer
    assert frame is not None
    result = frame.result if isinstance(frame.result, dict) else {}
    stop = result.get("stopReason")
    stop = stop if isinstance(stop, str) else ""
    if frame.kind is Kind.RESPONSE:
        _note_result(bridge, session, prompt, result, stop)
    line = frame.raw
    if prompt.wire_id != prompt.id:
        line = splice.with_id(line, prompt.id)
    if frame.kind is Kind.ERROR:
        present.fail(bridge, session, prompt, line, present.AGENT_ERROR, present.agent_words(frame))
    else:
        present.answer(bridge, session, prompt, line, stop)
    session.cancel_due = False
    if session.owner() is not None:
        prompts.settle_or_stay(bridge, session)
        return
    _share(bridge, session, frame, stop)
    remember_end(bridge, session)
    steer = session.steer()
    if steer is not None and steer.steered:
        # An owner that never worked was taken from the agent's queue: the turn that the steer has
        # joined is another one, and goes on.
        steer.turn_cancelled = stop == acp.CANCELLED and prompt.worked
    owner_gone(bridge, session)
    if session.phase is Phase.WEDGED:
        return
    if session.bound():
        session.phase = Phase.HELD
        session.turn = Turn(bridge.now, bridge.now)
        # The owner alone was cancelled, if it was; what goes on now the client wants to see.
        session.muted = False
        release_steers(bridge, session)
        queue.watch(bridge, session)
        return
    prompts.settle(bridge, session)


def _note_result(
    bridge: Bridge, session: Session, prompt: Prompt, result: dict[str, object], stop: str
) -> None:
    session.settled = True
    session.fresh = False
    if answers.carries_usage(result):
        bridge.usage_seen = True
    if session.phase is Phase.CANCELLING and session.cancel_unanswered:
        # The second cancel, for a ghost, may cross the end that the first one has brought (R19).
        session.crossed = stop != acp.CANCELLED or session.ghost_runs
    if not prompt.command:
        # Hermes answers a command beside its turns, in a wedged or poisoned session too.
        session.cancel_unanswered = False
    if stop == acp.CANCELLED and not prompt.cancelled:
        bridge.note("cancelled_without_cancel", "warning", session=session.id)


def _share(bridge: Bridge, session: Session, frame: Frame, stop: str) -> None:
    """R8.2: what the agent put into this turn, or drained inside it, ends with it."""
    for prompt in list(session.at_agent):
        if prompt.stage not in (Stage.JOINED, Stage.SEGMENT) or prompt.own_turn:
            continue
        if frame.kind is Kind.ERROR:
            text = "The turn that this message was put into ended with an error; it may have run."
            present.refuse(bridge, session, prompt, "delivery-unknown", text)
            continue
        tag = "drained" if prompt.stage is Stage.SEGMENT else "shared"
        said = {"delivery": "unproven"} if _is_unproven(prompt) else {}
        complete(bridge, session, prompt, tag, stop or acp.END_TURN, **said)


def _is_unproven(prompt: Prompt) -> bool:
    """Injected, and no work since: the agent has it, and nothing shows that it was read (R14)."""
    return prompt.steered and not prompt.worked_since_receipt


def _bind(bridge: Bridge, session: Session, prompt: Prompt, stage: Stage) -> None:
    """R10: a receipt binds the prompt to the turn that the agent is in."""
    bridge.note("receipt", session=session.id, prompt=prompt.number, kind=prompt.receipt)
    if prompt.cancelled:
        line = replies.completion(prompt.id, acp.CANCELLED, completion="inferred")
        if stage is Stage.KEPT:
            session.ghosts.append(prompt.text)
        present.answer(bridge, session, prompt, line, acp.CANCELLED)
        if session.at_agent:
            prompts.settle_or_stay(bridge, session)
            return
        assert session.turn is not None
        # The receipt names a turn that nobody owns: the cancel, sent or still to be sent, is its
        # cancel, and its marker or silence ends it (R18).
        session.turn.last_work_s = bridge.now
        cancel.try_cancel(bridge, session)
        watch_quiet(bridge, session)
        return
    if prompt.stage is Stage.WRITTEN:
        bridge.running -= 1
    prompt.stage = stage
    prompt.answer = None
    bridge.persist(prompt, session, "started", f"receipt: {prompt.receipt}")
    bridge.arm("silence", session, bridge.policy.silent_receipt_s)
    if session.turn is not None:
        session.turn.content = session.turn.marked = False
        session.turn.last_work_s = bridge.now
    if session.owner() is None and session.phase is Phase.RUNNING:
        session.phase = Phase.HELD
    watch_quiet(bridge, session)
    queue.watch(bridge, session)


def _bind_queued(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    _bind(bridge, session, prompt, Stage.KEPT)


def _bind_redirected(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    _bind(bridge, session, prompt, Stage.JOINED)


def _doubt_empty(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    bridge.note("empty_answer_held", session=session.id, prompt=prompt.number)
    _doubt(bridge, session, prompt, bridge.policy.empty_grace_s)


def _doubt_suspect(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    bridge.note("suspect_answer_held", "warning", session=session.id, prompt=prompt.number)
    _doubt(bridge, session, prompt, bridge.policy.suspect_grace_s)


def _doubt(bridge: Bridge, session: Session, prompt: Prompt, grace_s: float) -> None:
    bridge.running -= 1
    prompt.stage = Stage.DOUBTED
    bridge.arm("grace", session, grace_s)
    if session.owner() is None:
        session.phase = Phase.HELD


def late_receipt(bridge: Bridge, session: Session, kind: str) -> bool:
    """A receipt text behind the doubted answer that it belongs to: a receipt after all (R10).

    Whether there is such an answer; the text then was the agent's "I have your message".
    """
    prompt = next((one for one in session.at_agent if one.stage is Stage.DOUBTED), None)
    if prompt is None:
        return False
    prompt.receipt = kind
    bridge.disarm("grace", session)
    bridge.count("receipt_text_dropped")
    answered(bridge, session, prompt)
    return True


def grace_over(bridge: Bridge, session: Session, cause: Cause) -> None:
    """No work came: the doubted answers go out as they came (R11, R12)."""
    for prompt in [one for one in session.at_agent if one.stage is Stage.DOUBTED]:
        bridge.count("doubted_answer_passed")
        _believe(bridge, session, prompt)


def _wedge(bridge: Bridge, session: Session, why: str) -> None:
    session.phase = Phase.WEDGED
    bridge.wedged.add(session.id)
    session.wedged_by = why
    bridge.note("session_wedged", "warning", session=session.id, why=why)


def _wedged_by_cancel(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """R24: the agent's error for a cancelled prompt is `cancelled`, and the session is wedged."""
    line = replies.completion(prompt.id, acp.CANCELLED, completion="marked")
    present.answer(bridge, session, prompt, line, acp.CANCELLED)
    _wedge(bridge, session, "cancel")


def _wedged_unrun(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """R24: nothing of this prompt ran; it goes once more when the session is recovered."""
    prompt.taken_back += 1
    queue.take_back(bridge, session, prompt, "the session is wedged")
    _wedge(bridge, session, "receipt" if prompt.receipt else "error")


def _leave_turn(bridge: Bridge, session: Session) -> None:
    session.turn = None
    session.cancel_due = False
    cancel.unsent_back(bridge, session)
    for name in ("quiet", "marker", "settle", "cancel"):
        bridge.disarm(name, session)
    release_steers(bridge, session)


def _poisoned(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """R21: the cancel before it hit this prompt unasked; it is written once more."""
    prompt.taken_back += 1
    session.cancel_unanswered = False
    queue.take_back(bridge, session, prompt, "cancelled by a cancel before it")
    prompts.settle_or_stay(bridge, session)


def _lost(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """R25: the agent does not know the session; nothing may go into an empty one."""
    why = f"The agent does not know the session {session.id}"
    present.refuse(bridge, session, prompt, "session-lost", f"{why}; open a new one.")
    refuse_queue(bridge, session, "session-lost", why)
    session.known = False
    prompts.settle_or_stay(bridge, session)


_ACTIONS = {
    Verdict.REAL: _believe,
    Verdict.QUEUED: _bind_queued,
    Verdict.REDIRECTED: _bind_redirected,
    Verdict.EMPTY: _doubt_empty,
    Verdict.SUSPECT: _doubt_suspect,
    Verdict.WEDGE_CANCELLED: _wedged_by_cancel,
    Verdict.WEDGED: _wedged_unrun,
    Verdict.WEDGE_ANSWERED: _believe,
    Verdict.POISONED: _poisoned,
    Verdict.LOST: _lost,
}
