"""Is this the prompt's own completion? Judge an agent's response to a prompt (R7, R8, R10 to R12).

Pure judgement: nothing here changes anything, and text is never searched for meaning. A receipt
is recognised by the profile's whole texts, a refusal by its code or its data.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from acpbridge.core.model import Bridge, Phase, Prompt, Session
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame, Kind


class Verdict(Enum):
    """What an agent's response to a prompt is."""

    REAL = "real"
    """Its own completion, or an error that is its answer."""
    QUEUED = "queued"
    """A receipt: the agent keeps the message for later."""
    REDIRECTED = "redirected"
    """A receipt: the agent has put the message into its running turn."""
    EMPTY = "empty"
    """Bare and without work: disbelieved for `empty_grace` (R11)."""
    SUSPECT = "suspect"
    """Bare, at once, from an agent whose completions carry usage (R12)."""
    BUSY = "busy"
    """Refused before anything ran (R7)."""
    WEDGE_CANCELLED = "wedge_cancelled"
    """The wedging error on the cancelled prompt: cancelled, and the session is wedged (R24)."""
    WEDGED = "wedged"
    """The session is wedged and nothing of this prompt ran (R24)."""
    WEDGE_ANSWERED = "wedge_answered"
    """The wedging error after work, or a second time: its answer, and the session is wedged."""
    POISONED = "poisoned"
    """An unasked `cancelled` that a cancel before it caused (R21)."""
    LOST = "lost"
    """The agent does not know the session (R25)."""


def judge(bridge: Bridge, session: Session, prompt: Prompt) -> Verdict:
    """Judge `prompt.answer`."""
    frame = prompt.answer
    assert frame is not None
    if frame.kind is Kind.ERROR:
        return _judge_error(bridge, prompt, frame)
    result = frame.result
    stop = result.get("stopReason") if isinstance(result, dict) else None
    if stop == acp.REFUSAL and not prompt.worked and bridge.agent.refusal_means_lost:
        return Verdict.LOST
    if stop == acp.CANCELLED and _is_poisoned(bridge, prompt):
        return Verdict.POISONED
    if not is_bare(result):
        return Verdict.REAL
    if prompt.receipt:
        return _judge_receipt(bridge, session, prompt)
    if prompt.command or prompt.cancelled or session.phase in (Phase.CANCELLING, Phase.WEDGED):
        return Verdict.REAL
    if not prompt.worked:
        return Verdict.EMPTY
    if _is_suspect(bridge, prompt):
        return Verdict.SUSPECT
    return Verdict.REAL


def is_bare(result: Any) -> bool:
    """`end_turn` and no other member; a null `usage` counts as none."""
    if not isinstance(result, dict) or result.get("stopReason") != acp.END_TURN:
        return False
    return all(
        name == "stopReason" or (name == "usage" and value is None)
        for name, value in result.items()
    )


def carries_usage(result: dict[str, Any]) -> bool:
    """Whether a completion has real `usage`."""
    return result.get("usage") is not None


def says_wedged(bridge: Bridge, frame: Frame) -> bool:
    """Whether this is the error after which the session runs nothing any more (R24)."""
    code, said = frame.error.get("code"), f"{frame.error.get('message')} {frame.error.get('data')}"
    return any(code == listed and part in said for listed, part in bridge.agent.wedge_errors)


def _judge_error(bridge: Bridge, prompt: Prompt, frame: Frame) -> Verdict:
    data = frame.error.get("data")
    if says_wedged(bridge, frame):
        if prompt.cancelled:
            return Verdict.WEDGE_CANCELLED
        return Verdict.WEDGE_ANSWERED if prompt.worked else Verdict.WEDGED
    reason = data.get("reason") if isinstance(data, dict) else None
    if reason in bridge.agent.busy_reasons and not prompt.worked and not prompt.cancelled:
        return Verdict.BUSY
    return Verdict.REAL


def _judge_receipt(bridge: Bridge, session: Session, prompt: Prompt) -> Verdict:
    # A redirect has run, and a session that works is not wedged: neither must be sent again.
    unrun = prompt.receipt == "queued" and not prompt.worked
    alone = all(other is prompt for other in session.at_agent)
    if unrun and prompt.after_cancel and alone and bridge.agent.wedge_errors:
        return Verdict.WEDGE_CANCELLED if prompt.cancelled else Verdict.WEDGED
    return Verdict.QUEUED if prompt.receipt == "queued" else Verdict.REDIRECTED


def _is_poisoned(bridge: Bridge, prompt: Prompt) -> bool:
    return (
        bridge.agent.late_cancel_poisons
        and (prompt.after_crossing or prompt.after_cancel)
        and not prompt.worked
        and not prompt.cancelled
    )


def _is_suspect(bridge: Bridge, prompt: Prompt) -> bool:
    at_once = bridge.now - prompt.written_s <= bridge.policy.suspect_window_s
    expects_usage = bridge.agent.completions_carry_usage or bridge.usage_seen
    return at_once and expects_usage and not prompt.usage
