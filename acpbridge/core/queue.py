"""A prompt waits and goes: the queue, the write, the refusals. It arrives in `admission`.

Only the head of a session's queue may go, so nothing overtakes (I5); its intent to go is durable
before its first byte (I8); it comes back to the head only where nothing can have run (I3).
"""

from __future__ import annotations

from acpbridge.core import present, prompts, work
from acpbridge.core.model import (
    NEVER,
    Bridge,
    Cause,
    Phase,
    Prompt,
    Session,
    Stage,
    Trigger,
    Turn,
)
from acpbridge.core.outgoing import send
from acpbridge.core.requests import agent_is_up, forward_load
from acpbridge.wire import acp, splice
from acpbridge.wire.frame import Frame


# -- it waits -------------------------------------------------------------------------------
def wait(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT where the session cannot take it: the queue keeps it, and says so in time."""
    watch(bridge, session)


def watch(bridge: Bridge, session: Session) -> None:
    """See to it that the prompt that waits longest says what it waits for (I10)."""
    prompt = waiting_prompt(session)
    if prompt is None or prompt.noticed or not bridge.policy.wait_notice:
        return
    bridge.arm("notice", session, prompt.accepted_s + bridge.policy.notice_after_s - bridge.now)


def waiting_prompt(session: Session) -> Prompt | None:
    """The prompt that is next and for which nothing visible runs in this session."""
    for prompt in session.at_agent:
        if prompt.cancelled:
            continue
        waits = prompt.stage in (Stage.KEPT, Stage.JOINED) and not prompt.worked_since_receipt
        return prompt if waits else None
    # While a response waits for its gap, the next prompt is as good as on its way.
    return None if session.paced else session.first_prompt()


def notice(bridge: Bridge, session: Session) -> None:
    """The notice's timer fired: one thought chunk, if the prompt still waits."""
    prompt = waiting_prompt(session)
    if prompt is None or prompt.noticed or bridge.closing:
        return
    prompt.noticed = True
    reason = prompts.why_waiting(bridge, session, prompt)
    bridge.note("prompt_waits", session=session.id, prompt=prompt.number, reason=reason)
    present.say(bridge, session, reason, acp.AGENT_THOUGHT_CHUNK)


# -- it goes --------------------------------------------------------------------------------
def send_next(bridge: Bridge, session: Session, cause: Cause = None) -> None:
    """WANT in a session that can take a prompt: send the head of the queue (R5)."""
    if session.steer() is not None:
        # The agent may be about to say that it runs: the session is not Idle (R14).
        watch(bridge, session)
        return
    while session.queue and isinstance(session.queue[0], Frame):
        if session.loading or session.recovering or bridge.closing or not agent_is_up(bridge):
            return
        waiting = session.queue.popleft()
        assert isinstance(waiting, Frame)
        forward_load(bridge, session, waiting)
    head = session.head()
    if head is None or not _may_go(bridge, session, head):
        watch(bridge, session)
        return
    bridge.unqueue(session, head)
    head.stage = Stage.SENDING
    head.behind = session.phase in (Phase.OWNERLESS, Phase.TRAILING)
    session.at_agent.append(head)
    bridge.running += 1
    if session.turn is None:
        session.turn = Turn(bridge.now, bridge.now)
    session.phase = Phase.RUNNING
    for name in ("trail", "wait_max", "quiet", "marker"):
        bridge.disarm(name, session)
    session.turn.watched = False
    bridge.persist_sending(head, session)


def _may_go(bridge: Bridge, session: Session, head: Prompt) -> bool:
    if bridge.closing or not agent_is_up(bridge):
        return False
    if session.loading or session.paced or head.busy_until_s > bridge.now:
        return False
    if session.recovering or session.paused or head.looking:
        return False
    if session.steer_until_s > bridge.now:
        work.watch_steers(bridge, session)
        return False
    if session.gate_until_s > bridge.now:
        bridge.arm("gate", session, session.gate_until_s - bridge.now)
        return False
    return _has_turn(bridge, session)


def _has_turn(bridge: Bridge, session: Session) -> bool:
    """Whether one of the agent's turns is free for this session: those that waited go first."""
    if not bridge.agent.turns_max:
        return True
    if session.id not in bridge.starved:
        bridge.starved.append(session.id)
    if bridge.agent.turns_max - bridge.running <= bridge.starved.index(session.id):
        return False
    bridge.starved.remove(session.id)
    return True


def persisted(bridge: Bridge, token: int) -> None:
    """The disk has the intent to send: the bytes may go, unless the prompt was cancelled."""
    session, prompt = bridge.tokens.pop(token, (None, None))
    if session is None or prompt is None or not _is_meant(prompt, token):
        return
    is_steer = prompt.stage is Stage.STEERING
    if bridge.closing:
        # R23: after the end was asked for nothing is sent; it never was at the agent.
        take_back(bridge, session, prompt, "undelivered: the bridge is ending")
        _without(bridge, session, is_steer=is_steer)
        return
    if not agent_is_up(bridge):
        # It took its leave meanwhile: the prompt returns to the queue with its end (R22).
        return
    bridge.fire(session, Trigger.STEER if is_steer else Trigger.READY, prompt)


def _is_meant(prompt: Prompt, token: int) -> bool:
    """Whether the disk's answer is about the intent that this prompt waits for now."""
    return prompt.token == token and prompt.stage in (Stage.SENDING, Stage.STEERING)


def _without(bridge: Bridge, session: Session, *, is_steer: bool) -> None:
    """A prompt that was about to go does not: what stands behind it may."""
    if is_steer:
        # The turn that it was meant for goes on, or has ended by itself.
        bridge.settled = True
        bridge.fire(session, Trigger.WANT)
    else:
        prompts.settle_or_stay(bridge, session)


def persist_failed(bridge: Bridge, token: int, reason: str) -> None:
    """The disk refused: the prompt is refused, and the session is free again."""
    session, prompt = bridge.tokens.pop(token, (None, None))
    if session is None or prompt is None or not _is_meant(prompt, token):
        return
    is_steer = prompt.stage is Stage.STEERING
    text = f"It could not be recorded, so it was not sent: {reason}. Mend that and send it again."
    present.refuse(bridge, session, prompt, "not-durable", text)
    _without(bridge, session, is_steer=is_steer)


def write(bridge: Bridge, session: Session, cause: Cause) -> None:
    """READY: put the prompt's bytes on the wire, once."""
    prompt = cause
    assert isinstance(prompt, Prompt)
    line = prompt.said_line or prompt.line
    if prompt.wire_id != prompt.id:
        line = splice.with_id(line, prompt.wire_id)
    if session.agent_id != session.id:
        line = splice.with_session(line, session.agent_id)
    session.prompted = True
    bridge.tell_written(session, prompt)
    prompt.stage = Stage.WRITTEN
    prompt.written_s = bridge.now
    prompt.attempts += 1
    prompt.worked = prompt.worked_since_receipt = prompt.usage = False
    prompt.receipt = ""
    prompt.answer = None
    prompt.after_cancel = session.cancel_unanswered
    prompt.after_crossing = session.crossed
    if not prompt.command:
        # A command runs no turn, so it does not take what the cancel has left behind (R21).
        session.crossed = False
    session.inferred = False
    session.load_until_s = 0.0
    session.muted = session.ghost_runs = False
    prompts.expect_answer(bridge, session, prompt)
    send(bridge, session, line)
    if prompt.redirect:
        # Hermes: one frame, then its receipt, before any other of this session; cancel included.
        session.gate_until_s = bridge.now + bridge.policy.steer_answer_s
    bridge.persist(prompt, session, "written")
    bridge.note("prompt_sent", "debug", session=session.id, prompt=prompt.number)
    if session.queue:
        # What came before these bytes were written may be put into the turn now (R1).
        bridge.fire(session, Trigger.WANT)


def feed_starved(bridge: Bridge) -> None:
    """Where some of the agent's turns are free, the sessions that waited longest may go."""
    for session_id in list(bridge.starved):
        if 0 < bridge.agent.turns_max <= bridge.running:
            return
        session = bridge.sessions.get(session_id)
        if session is not None:
            bridge.fire(session, Trigger.WANT)
        if session_id in bridge.starved:
            # It has nothing to send any more, or waits for something else by now.
            bridge.starved.remove(session_id)


# -- it comes back --------------------------------------------------------------------------
def take_back(bridge: Bridge, session: Session, prompt: Prompt, reason: str) -> None:
    """Nothing of it has run: the prompt returns to the head of the queue, durably (I3).

    Behind older ones that have returned before it (I5).
    """
    if prompt.stage in (Stage.WRITTEN, Stage.SENDING):
        bridge.running -= 1
    session.at_agent.remove(prompt)
    prompt.stage = Stage.QUEUED
    prompt.answer = None
    prompt.may_join = prompt.redirect = False
    prompt.said_line = b""
    at = 0
    while at < len(session.queue) and _is_older(session.queue[at], prompt):
        at += 1
    bridge.enqueue(session, prompt, at)
    bridge.persist(prompt, session, "accepted", reason)
    bridge.note("prompt_taken_back", session=session.id, prompt=prompt.number, reason=reason)


def _is_older(item: Prompt | Frame, prompt: Prompt) -> bool:
    return isinstance(item, Prompt) and item.number < prompt.number


def keep(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """The agent has it under its receipt after all: it waits for its echo again (R10)."""
    bridge.unqueue(session, prompt)
    prompt.taken_back -= 1
    prompt.stage = Stage.KEPT
    session.at_agent.append(prompt)
    bridge.persist(prompt, session, "started", "receipt: queued")


def refused_as_busy(bridge: Bridge, session: Session, prompt: Prompt) -> bool:
    """R7: wait and try again; False when all attempts are used up and the error is its answer."""
    policy = bridge.policy
    if prompt.busy_since_s == NEVER:
        prompt.busy_since_s = bridge.now
    if bridge.now - prompt.busy_since_s >= policy.busy_max_s:
        return False
    prompt.busy_wait_s = min(prompt.busy_wait_s * 2 or policy.busy_first_s, policy.busy_cap_s)
    take_back(bridge, session, prompt, "refused as busy")
    prompt.busy_until_s = NEVER
    bridge.arm("busy", session, prompt.busy_wait_s, policy.busy_jitter)
    return True


def busy_over(bridge: Bridge, session: Session) -> None:
    """The wait after a refusal is over: one more attempt."""
    head = session.head()
    if head is not None:
        head.busy_until_s = 0.0
    bridge.fire(session, Trigger.WANT)
