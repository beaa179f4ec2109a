"""What is to be done: the only way out of the core.

Effects are named in the imperative. None of them returns a value: the disk answers with
`Persisted`, a timer with `TimerFired`, a process with `AgentStarted`. The shell performs them
in the order in which they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from acpbridge.core.events import TimerKey


@frozen
class ToClient:
    """Write this line (no newline in it) to the client."""

    line: bytes


@frozen
class StreamToClient:
    """Write these lines to the client, in this order: the chunks that one read brought."""

    lines: Sequence[bytes]


@frozen
class ToAgent:
    """Write this line (no newline in it) to the agent."""

    line: bytes


@frozen
class Persist:
    """Make a prompt's transition durable, then answer `Persisted(token)` or `PersistFailed`.

    A token of 0 asks for no answer: the transition may share a later commit.
    """

    token: int
    prompt: int
    """The prompt's number in this bridge, 1-based."""
    state: str
    """accepted, sending, written, started, settled, answered, cancelled, refused, unknown."""
    session: str
    """The session id that the client knows."""
    line: bytes = b""
    """The prompt frame as the client sent it, with `accepted` only."""
    reason: str = ""


@frozen
class ArmTimer:
    """Feed `TimerFired(key)` after `delay_s`; a timer of the same key is replaced."""

    key: TimerKey
    delay_s: float
    jitter: float = 0.0
    """The shell adds a random part of up to this fraction of the delay (R7)."""


@frozen
class DisarmTimer:
    """Forget the timer of this key, if there is one."""

    key: TimerKey


@frozen
class StartAgent:
    """Start the agent command; answered by `AgentStarted` or `AgentExited(started=False)`."""

    run: int


@frozen
class StopAgent:
    """End the agent of this run: close its stdin, wait, SIGTERM, SIGKILL to its group.

    Answered by `AgentExited`. With `now` the waits are skipped and the group is killed at once.
    """

    run: int
    now: bool = False


@frozen
class Finish:
    """End the bridge with this exit code once everything written before has gone out."""

    code: int


@frozen
class Note:
    """Say one thing to the log and the counters; never prompt text, never a secret."""

    name: str
    """A stable snake_case event name; the README lists those that people meet."""
    fields: dict[str, Any] = field(factory=dict)
    level: str = "info"
    """debug, info, warning or error."""


Effect: TypeAlias = (
    ToClient
    | StreamToClient
    | ToAgent
    | Persist
    | ArmTimer
    | DisarmTimer
    | StartAgent
    | StopAgent
    | Finish
    | Note
)
