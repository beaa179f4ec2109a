"""A prompt goes into the running turn: the steer, its answer, and what comes of it (R14, R15).

Only the head of the queue may go, one at a time a session, and its intent is durable before its
first byte (I8). Whatever the agent says or does not say of it, its text is written as a steer once;
only an answer that proves that nothing was consumed makes it a prompt again (I3).
"""

from __future__ import annotations

from collections.abc import Callable

from acpbridge.core import cancel, present, prompts, queue, replies, turn, work
from acpbridge.core.model import (
    Bridge,
    Cause,
    Pending,
    Phase,
    Prompt,
    Session,
    Stage,
    Trigger,
    Turn,
)
from acpbridge.core.outgoing import send
from acpbridge.core.requests import agent_is_up
from acpbridge.core.steer_answers import (
    Outcome,
    ends_steering,
    in_words,
    judge,
    judge_status,
)
from acpbridge.profiles import reaches
from acpbridge.wire import acp, codec, scan, splice
from acpbridge.wire.frame import Frame

ALLOWING = ("auto", "steer")
"""Values of `midturn` under which a prompt may be put into a running turn (R2)."""

BESIDE = ("prompt", "command")
"""Ways by which a second prompt goes to the agent beside the first (I4)."""

PLAIN_BLOCKS = ("text", "resource_link")
"""Content blocks that every agent takes (ACP v1, prompt capabilities)."""
BLOCK_CAPABILITIES = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""What an agent must have said of itself for the other kinds of blocks."""

OPT_IN = b'{"idleBehavior":"promptRequired"}'


# -- may it go ------------------------------------------------------------------------------
def want(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT beside a prompt that is at the agent: put it into the turn, or let it wait (R1)."""
    head = session.head()
    owner = session.owner()
    if head is None or not head.may_join or owner is None:
        stay_queued(session)
    elif owner.stage is Stage.WRITTEN and not head.looking and not _is_open(bridge, session):
        if _fits(bridge, session, owner, head):
            _begin(bridge, session, head)
            return
        stay_queued(session)
    queue.watch(bridge, session)


def stay_queued(session: Session) -> None:
    """Something that is not steered stands before these: they wait for the turn's end (R1)."""
    for item in session.queue:
        if isinstance(item, Prompt):
            item.may_join = False


def _is_open(bridge: Bridge, session: Session) -> bool:
    """Whether the agent owes this session an answer to a steer, ours or the client's own (R14)."""
    if session.steer() is not None or any(prompt.redirect for prompt in session.at_agent):
        return True
    return any(
        pending.method == acp.STEERING and pending.session == session.id
        for pending in bridge.pending.values()
    )


def _fits(bridge: Bridge, session: Session, owner: Prompt, prompt: Prompt) -> bool:
    """R1, R3: whether this prompt may go into this owner's turn."""
    way = _way(bridge, prompt)
    can = way != "" and reaches(bridge.agent_version, bridge.agent.steer_since)
    # Two prompts without a receipt could not be told apart by one: the owner must be at work.
    can = can and (way not in BESIDE or owner.worked)
    may = not session.steering_off and not bridge.closing and agent_is_up(bridge)
    # Behind a turn without an owner the agent would put it into that one: whose end is not ours.
    may = may and not owner.behind
    is_command = prompts.is_slashed(owner) or prompts.is_slashed(prompt)
    return (
        can
        and may
        and not is_command
        and prompt.midturn in ALLOWING
        and _blocks_allowed(bridge, way, prompt.frame.params.get("prompt"))
    )


def _way(bridge: Bridge, prompt: Prompt) -> str:
    """How it may get into the turn: "steering" where advertised, else as configured, or ""."""
    if bridge.steering:
        return "steering"
    by = bridge.agent.steer_by if prompt.midturn == "steer" else ""
    return "" if by == "method" and not bridge.agent.steer_method else by


def _blocks_allowed(bridge: Bridge, way: str, blocks: object) -> bool:
    if way in BESIDE:
        # Hermes loses what is no text there.
        are_texts = isinstance(blocks, list) and all(
            isinstance(one, dict) and isinstance(one.get("text"), str) for one in blocks
        )
        return are_texts and bool(blocks)
    told = bridge.capabilities.get("promptCapabilities")
    capabilities = told if isinstance(told, dict) else {}
    if not isinstance(blocks, list) or not blocks:
        return False
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            return False
        if kind in PLAIN_BLOCKS:
            continue
        if capabilities.get(BLOCK_CAPABILITIES.get(kind)) is not True:
            return False
    return True


# -- it goes --------------------------------------------------------------------------------
def _begin(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    bridge.unqueue(session, prompt)
    session.at_agent.append(prompt)
    way = _way(bridge, prompt)
    if way in BESIDE:
        prompt.stage = Stage.SENDING
        prompt.redirect = True
        bridge.running += 1
    else:
        prompt.stage = Stage.STEERING
    if way == "command":
        place = ("params", "prompt", 0, "text")
        text = f"{bridge.agent.steer_command} {prompt.frame.params['prompt'][0]['text']}"
        prompt.said_line = splice.with_value(prompt.line, place, codec.encode(text))
    bridge.persist_sending(prompt, session)


def write(bridge: Bridge, session: Session, cause: Cause) -> None:
    """STEER in the running turn: its bytes go, once."""
    prompt = cause
    assert isinstance(prompt, Prompt)
    bridge.tell_written(session, prompt)
    prompt.stage = Stage.STEERED
    prompt.steered = True
    prompt.written_s = bridge.now
    prompt.attempts += 1
    bridge.pending[prompt.wire_id] = Pending(
        method=acp.STEERING, id=prompt.id, session=session.id, prompt=prompt
    )
    work.watch_steers(bridge, session)
    params = codec.verbatim(_params(bridge, session, prompt))
    method = acp.STEERING if bridge.steering else bridge.agent.steer_method
    send(bridge, session, codec.request(prompt.wire_id, method, params))
    bridge.persist(prompt, session, "written", "steer")
    bridge.note("prompt_steered", "debug", session=session.id, prompt=prompt.number)


def _params(bridge: Bridge, session: Session, prompt: Prompt) -> bytes:
    """The session, the client's own content blocks, and its `_meta` with the opt-in in it."""
    blocks = scan.value(prompt.line, "params", "prompt")
    assert blocks
    said = b'{"sessionId":%b,"prompt":%b}' % (codec.encode(session.agent_id), blocks)
    meta = scan.value(prompt.line, "params", "_meta")
    if bridge.steering and reaches(bridge.agent_version, bridge.agent.steer_opt_in_since):
        meta = _opting_in(meta)
    return splice.with_member(said, (), "_meta", meta) if meta else said


def _opting_in(meta: bytes) -> bytes:
    if not meta.startswith(b"{"):
        return b'{"steering":%b}' % OPT_IN
    steering = scan.find(meta, "steering")
    if steering is None or meta[steering[0] : steering[0] + 1] != b"{":
        return splice.with_member(meta, (), "steering", OPT_IN)
    return splice.with_member(meta, ("steering",), "idleBehavior", b'"promptRequired"')


def unwritten(bridge: Bridge, session: Session, cause: Cause) -> None:
    """STEER where the turn has ended or is being stopped: it waits like any other prompt."""
    assert isinstance(cause, Prompt)
    queue.take_back(bridge, session, cause, "the turn ended before it was steered")
    bridge.fire(session, Trigger.WANT)


# -- the agent answers ----------------------------------------------------------------------
def answered(bridge: Bridge, session: Session, cause: Cause) -> None:
    """VERDICT: the agent says what it did with a steer."""
    if isinstance(cause, Frame):
        _own_answered(bridge, session, cause)
        return
    assert cause is not None
    frame, cause.answer = cause.answer, None
    assert frame is not None
    outcome = (judge if bridge.steering else judge_status)(bridge.agent, frame)
    said = in_words(frame)
    bridge.note("steer_answered", session=session.id, prompt=cause.number, outcome=said)
    if outcome is Outcome.STARTED or ends_steering(frame):
        session.steering_off = True
    if cause.stage is Stage.ENDED:
        _late(bridge, session, cause, outcome, said)
    elif outcome is not Outcome.REFUSED and _is_homeless(session) and not cause.cancelled:
        _unknown(bridge, session, cause, said)
    else:
        _ACTIONS[outcome](bridge, session, cause, said)
    work.watch_steers(bridge, session)
    _go_on(bridge, session)


def _go_on(bridge: Bridge, session: Session) -> None:
    """What waited for the steer's answer alone goes through R1 again, in order."""
    bridge.settled = True
    bridge.fire(session, Trigger.WANT)
    if session.phase is not Phase.RUNNING:
        stay_queued(session)


def _late(bridge: Bridge, session: Session, prompt: Prompt, outcome: Outcome, said: str) -> None:
    """It has been answered already: a late verdict corrects the record, and nothing else."""
    bridge.note("late_steer_verdict", "warning", session=session.id, outcome=said)
    state = _LATE_STATES[outcome]
    bridge.persist(prompt, session, state, f"late verdict: {said}")


def _is_owned(session: Session) -> bool:
    """Whether a response of the turn's owner is still to come, or is only doubted."""
    owning = (Stage.WRITTEN, Stage.SENDING, Stage.DOUBTED)
    return any(prompt.stage in owning for prompt in session.at_agent)


def _is_homeless(session: Session) -> bool:
    """Whether what the agent took has no turn of which we could learn the end."""
    return session.phase in (Phase.WEDGED, Phase.CANCELLING) and not _is_owned(session)


def _injected(bridge: Bridge, session: Session, prompt: Prompt, said: str) -> None:
    if (prompt.cancelled or prompt.turn_cancelled) and not _is_owned(session):
        # R15: it was written before the cancel, and the turn that it joined is over.
        turn.complete(bridge, session, prompt, "shared", acp.CANCELLED)
        return
    prompt.stage = Stage.JOINED
    bridge.persist(prompt, session, "started", f"steer: {said}")
    if _is_owned(session):
        prompt.worked_since_receipt = False
        return
    _own_turn(bridge, session)


def _started(bridge: Bridge, session: Session, prompt: Prompt, said: str) -> None:
    if prompt.cancelled:
        line = replies.completion(prompt.id, acp.CANCELLED, completion="inferred")
        present.answer(bridge, session, prompt, line, acp.CANCELLED)
        if not _is_homeless(session) and not _is_owned(session):
            _ensure_turn(bridge, session)
            cancel.stop_ghost(bridge, session)
        return
    prompt.stage = Stage.JOINED
    prompt.own_turn = True
    bridge.persist(prompt, session, "started", f"steer: {said}")
    if not _is_owned(session):
        _own_turn(bridge, session)


def _ensure_turn(bridge: Bridge, session: Session) -> Turn:
    session.turn = session.turn or Turn(bridge.now, bridge.now)
    return session.turn


def _own_turn(bridge: Bridge, session: Session) -> None:
    """The owner has been answered: what runs now is a turn of the steered prompt alone."""
    _ensure_turn(bridge, session).watched = False
    session.phase = Phase.HELD
    # The client may have cancelled the owner alone; this turn it wants to see.
    session.muted = session.ghost_runs = False
    for name in ("trail", "wait_max"):
        bridge.disarm(name, session)
    for prompt in session.at_agent:
        if prompt.steered:
            # Work that has come since the owner's response counts (R13 has kept the trail out).
            prompt.alone_s = bridge.now
    work.watch_quiet(bridge, session)
    queue.watch(bridge, session)


def _refused(bridge: Bridge, session: Session, prompt: Prompt, said: str) -> None:
    """Not consumed: it is still ours, unless the client has cancelled it meanwhile."""
    if prompt.cancelled:
        # The record too must say that nothing of it has run: it may be undelivered yet (R20).
        bridge.persist(prompt, session, "accepted", f"not taken into the turn: {said}")
        prompt.stage = Stage.STEERING
        cancel.answer_unsent(bridge, session, prompt)
        return
    queue.take_back(bridge, session, prompt, f"not taken into the turn: {said}")


def _unknown(bridge: Bridge, session: Session, prompt: Prompt, said: str) -> None:
    """Whether it runs nobody can say: it is never sent again (R14)."""
    if prompt.cancelled:
        # The session was told to stop after it: R15, and a cancel is never answered by an error.
        line = replies.completion(
            prompt.id, acp.CANCELLED, completion="shared", delivery="unproven"
        )
        present.answer(bridge, session, prompt, line, acp.CANCELLED)
        return
    text = (
        f"This message was given to the agent for its running turn, and what became of it is "
        f"unknown ({said}). It may have run, so the bridge does not repeat it: look at the "
        "conversation, and send it once more if it is not there."
    )
    present.refuse(bridge, session, prompt, "delivery-unknown", text)


_ACTIONS: dict[Outcome, Callable[[Bridge, Session, Prompt, str], None]] = {
    Outcome.INJECTED: _injected,
    Outcome.STARTED: _started,
    Outcome.REFUSED: _refused,
    Outcome.UNKNOWN: _unknown,
}

_LATE_STATES = {
    Outcome.INJECTED: "started",
    Outcome.STARTED: "started",
    Outcome.REFUSED: "refused",
    Outcome.UNKNOWN: "unknown",
}


# -- the agent says nothing -------------------------------------------------------------------
def silent(bridge: Bridge, session: Session, cause: Cause) -> None:
    """SILENT: no answer in `steer_answer`, or no sign of an injected one in `answer_quiet`."""
    answer_s = bridge.policy.steer_answer_s
    sign_s = bridge.policy.answer_quiet_s * session.quiet_factor
    for prompt in list(session.at_agent):
        unanswered = prompt.stage is Stage.STEERED and prompt.written_s + answer_s <= bridge.now
        if unanswered:
            _unknown(bridge, session, prompt, f"no answer in {answer_s:g} s")
        elif work.lacks_sign(prompt) and prompt.alone_s + sign_s <= bridge.now:
            _unknown(bridge, session, prompt, f"taken, and no sign of it in {sign_s:g} s")
    work.watch_steers(bridge, session)
    if session.phase is Phase.HELD and not session.bound():
        prompts.settle(bridge, session)
    _go_on(bridge, session)


# -- a steer of the client's own ----------------------------------------------------------------
def _own_answered(bridge: Bridge, session: Session, frame: Frame) -> None:
    """The client's own steer is answered: where no turn was known, one runs now (R13)."""
    outcome = judge(bridge.agent, frame)
    runs = outcome in (Outcome.INJECTED, Outcome.STARTED) and not session.loading
    if runs and session.phase in (Phase.IDLE, Phase.TRAILING):
        turn.begin_ownerless(bridge, session)
        work.watch_quiet(bridge, session)
    if not _is_open(bridge, session):
        session.steer_until_s = 0.0
        work.watch_steers(bridge, session)
    _go_on(bridge, session)
