"""What did the agent do with a steer? Judge its answer by outcome and code, never by text (R14).

The question is whether the content was consumed. Only what says so in a word or a code that we
know is believed; everything else is unknown, and unknown is never sent again (I3).
"""

from __future__ import annotations

from enum import Enum

from acpbridge.profiles import AgentProfile
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame, Kind


class Outcome(Enum):
    """What became of a steer."""

    INJECTED = "injected"
    """In the turn that runs."""
    STARTED = "startedNewTurn"
    """In a turn of its own, which no response will end."""
    REFUSED = "promptRequired"
    """Not consumed: it is still ours."""
    UNKNOWN = "unknown"
    """The answer does not say."""


_OUTCOMES = {one.value: one for one in Outcome if one is not Outcome.UNKNOWN}

_NEVER_CONSUMED = (acp.METHOD_NOT_FOUND, acp.INVALID_PARAMS, acp.RESOURCE_NOT_FOUND)
"""Errors that come before anything is read of the content, from every agent."""


_STATUSES = {
    **dict.fromkeys(("started", "accepted", "in_flight", "ok"), Outcome.INJECTED),
    "missed": Outcome.REFUSED,
}
"""A vendor's acknowledgement. None of them is a completion: that is the owner's answer. `timeout`,
`error` and words that nobody knows say nothing of the content."""


def judge_status(agent: AgentProfile, frame: Frame) -> Outcome:
    """Judge the response to a steer by a vendor's own method (`steer_method`)."""
    if frame.kind is Kind.ERROR:
        return judge(agent, frame)
    said = frame.result.get("status") if isinstance(frame.result, dict) else None
    if said is None:
        # An acknowledgement without a word: the agent has it, and no more is known.
        return Outcome.INJECTED
    if not isinstance(said, str):
        return Outcome.UNKNOWN
    if said in agent.steer_refused_outcomes:
        return Outcome.REFUSED
    return _STATUSES.get(said, Outcome.UNKNOWN)


def judge(agent: AgentProfile, frame: Frame) -> Outcome:
    """Judge the agent's response to a `_session/steering` request."""
    if frame.kind is Kind.ERROR:
        code = frame.error.get("code")
        refused = code in _NEVER_CONSUMED or code in agent.steer_refusals
        return Outcome.REFUSED if refused else Outcome.UNKNOWN
    said = frame.result.get("outcome") if isinstance(frame.result, dict) else None
    if not isinstance(said, str):
        return Outcome.UNKNOWN
    if said in agent.steer_refused_outcomes:
        return Outcome.REFUSED
    return _OUTCOMES.get(said, Outcome.UNKNOWN)


def in_words(frame: Frame) -> str:
    """The outcome or the code of a steer's answer, bounded, for the record."""
    if frame.kind is Kind.ERROR:
        return f"error {frame.error.get('code')}"[:60]
    result = frame.result if isinstance(frame.result, dict) else {}
    return str(result.get("outcome", result.get("status")))[:60]


def ends_steering(frame: Frame) -> bool:
    """Whether the agent has no such method: it is not asked again in this session."""
    return frame.kind is Kind.ERROR and frame.error.get("code") == acp.METHOD_NOT_FOUND
