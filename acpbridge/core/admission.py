"""A prompt arrives: it is taken, refused with a reason, or shares another one's answer (R1, R2)."""

from __future__ import annotations

from acpbridge.core import identity, keeping, present, prompts, queue
from acpbridge.core.model import AgentState, Bridge, Phase, Prompt, Session, Trigger
from acpbridge.wire.frame import Frame


def admit(bridge: Bridge, frame: Frame) -> None:
    """Take a client's `session/prompt`: queue it, refuse it with a reason, or send it (R1)."""
    session = identity.session_of(bridge, frame.session)
    prompt = prompts.made(bridge, session, frame)
    prompt.wire_id = present.take_id(bridge, frame.id)
    if keeping.joins(bridge, session, prompt):
        return
    refused = _refusal(bridge, session, prompt)
    if refused is not None:
        present.refuse(bridge, session, prompt, *refused)
        return
    if prompt.key:
        keeping.look_up(bridge, session, prompt)
    else:
        bridge.persist(prompt, session, "accepted")
    bridge.note("prompt_accepted", "debug", session=session.id, prompt=prompt.number)
    prompt.may_join = session.phase is Phase.RUNNING and all(
        isinstance(item, Prompt) and item.may_join for item in session.queue
    )
    bridge.enqueue(session, prompt)
    present.flush_late(bridge, session)
    if not session.recovering:
        keeping.tell(bridge, session)
    # Whoever writes again has seen why the queue was paused.
    session.paused = ""
    bridge.fire(session, Trigger.WANT)
    queue.watch(bridge, session)


def _refusal(bridge: Bridge, session: Session, prompt: Prompt) -> tuple[str, str] | None:
    """Why a prompt cannot be taken: (kind, message), or None."""
    policy = bridge.policy
    size = len(prompt.frame.raw)
    if bridge.closing or (bridge.agent_state is AgentState.DEAD and not policy.restart):
        return "agent-exited", "The agent is not running; the message was not sent. Start it again."
    if prompt.midturn == "reject" and _is_busy(bridge, session):
        return "busy", (
            "The session is busy and the policy is to refuse (midturn = reject); "
            "wait for its turn to end, or cancel it."
        )
    waiting = sum(isinstance(item, Prompt) for item in session.queue)
    full = ""
    if waiting >= policy.queue_prompts_max:
        full = f"Messages waiting in this session: {waiting} (queue_prompts_max)"
    elif _is_busy(bridge, session) and session.queue_bytes + size > policy.queue_bytes_max:
        held = session.queue_bytes
        full = f"The messages waiting in this session hold {held} bytes (queue_bytes_max)"
    elif bridge.queue_bytes and bridge.queue_bytes + size > policy.queue_total_bytes_max:
        held = bridge.queue_bytes
        full = f"The messages waiting in all sessions hold {held} bytes (queue_total_bytes_max)"
    if full:
        return "queue-full", f"{full}; wait for one to be answered, or cancel."
    return None


def _is_busy(bridge: Bridge, session: Session) -> bool:
    """Whether a turn or other prompts are in the way: not so where a session is to be revived."""
    if session.phase in (Phase.TRAILING, Phase.OWNERLESS) and not bridge.fifo:
        return True
    waits = bool(session.queue) or session.steer() is not None
    return waits or session.phase in (Phase.RUNNING, Phase.HELD, Phase.CANCELLING)
