"""The words of the turn machine: where a session stands, what can happen to it, where a prompt is.

They are the rows and columns of the transition table (`table.py`) and draw its diagram.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where a session stands at the agent (design, "States")."""

    IDLE = "idle"
    """No turn runs, as far as anything on the wire says."""
    RUNNING = "running"
    """A prompt of ours is open at the agent."""
    HELD = "held"
    """The agent has answered every prompt of ours, and we do not believe it yet."""
    TRAILING = "trailing"
    """Chunks still come within a moment of an answer."""
    OWNERLESS = "ownerless"
    """The agent works and no prompt of ours is open for it."""
    CANCELLING = "cancelling"
    """A cancel went out and the turn has not ended."""
    WEDGED = "wedged"
    """The session can run nothing until it is recovered (R24)."""
    LOST = "lost"
    """The agent that knew the session is gone, or the session is being revived."""


class Trigger(Enum):
    """What can happen to a session; the columns of the transition table."""

    WANT = "want"
    """A prompt stands at the head of the queue and wants to go."""
    READY = "ready"
    """The intent to send a prompt is durable: its bytes may go."""
    CHUNK = "chunk"
    """A non-empty agent message or thought chunk."""
    WORK = "work"
    """Other work: a new tool call or its update, a plan, an agent request."""
    ECHO = "echo"
    """A `user_message_chunk`."""
    MARKER = "marker"
    """What the profile says ends a turn that no request owns."""
    ANSWER = "answer"
    """The agent's response to a prompt of ours (`Prompt.answer`)."""
    CANCEL = "cancel"
    """The client cancels the session's turn."""
    QUIET = "quiet"
    """No work for the quiet time that holds here."""
    MARKED = "marked"
    """The marker has been followed by enough silence."""
    GRACE = "grace"
    """A disbelieved answer's time is over."""
    TRAIL = "trail"
    """The trailing time is over."""
    WAIT_MAX = "wait_max"
    """A prompt has waited long enough for an ownerless turn."""
    SETTLE = "settle"
    """A cancelled turn did not end in time."""
    GONE = "gone"
    """The agent process has ended."""
    REVIVED = "revived"
    """A lost or wedged session is known to a live agent again."""
    UNREVIVED = "unrevived"
    """A lost or wedged session cannot be brought back."""
    STEER = "steer"
    """The intent to put a prompt into the running turn is durable: its bytes may go."""
    VERDICT = "verdict"
    """The agent says what it did with a steer: one of ours, or one that the client sent itself."""
    SILENT = "silent"
    """The agent has said nothing of a steer for long enough, or shown nothing of it."""


SESSION_TIMERS = (
    "quiet", "marker", "grace", "trail", "wait_max", "settle", "revive", "busy", "notice",
    "cancel", "gate", "hold", "gap", "steer", "silence",
)  # fmt: skip
"""The names of a session's timers; each fires at most one trigger (`bridge.py`)."""


class Stage(Enum):
    """Where one prompt stands."""

    QUEUED = "queued"
    SENDING = "sending"
    """Its intent to be sent is on the way to the disk."""
    WRITTEN = "written"
    """Open at the agent: its own response is still to come."""
    DOUBTED = "doubted"
    """Answered, and the answer is held (R11, R12)."""
    KEPT = "kept"
    """Under a *queued* receipt: waits for its own echo (R10)."""
    JOINED = "joined"
    """Under a *redirected* receipt, or injected: waits for that turn's end (R10, R14)."""
    STEERING = "steering"
    """Its intent to be put into the running turn is on the way to the disk (R14)."""
    STEERED = "steered"
    """At the agent as a steer: what the agent did with it is still to come (R14)."""
    SEGMENT = "segment"
    """Its echo has opened the segment that runs now (R9)."""
    ENDED = "ended"
    """Answered to the client, once and for all."""
