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
from acpbridge.wire.ids import RpcId


@frozen
class ToClient:
    """Write this line (no newline in it) to the client."""

    line: bytes


@frozen
class StreamToClient:
    """Write these lines to the client, in this order: the chunks that one read brought."""

    lines: Sequence[bytes]


@frozen
class ToClients:
    """Write these lines, in this order, to each of these clients of the daemon.

    One that has left meanwhile is passed over: its `ClientLeft` is on its way.
    """

    clients: tuple[int, ...]
    lines: Sequence[bytes]


@frozen
class PromptWritten:
    """A client's message is on its way to the agent: others may be shown it from here on.

    For the hub, which lets it go no further; only a bridge with `is_shared` says it.
    """

    session: str
    """The session id that the client knows."""
    id: RpcId
    """The request id under which the bridge's client sent it."""
    content: bytes
    """The JSON of its `params.prompt`; empty where it has none."""
    trace: str
    """The trace id of its turn."""


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
    completion: str = ""
    """How its end was known: response, shared, drained, marked, inferred, or an error's kind."""
    turn: int = 0
    """The number of its turn in this bridge, 1-based; 0 for none."""
    trace: str = ""
    """The turn's trace id, 12 hexadecimal digits."""
    key: str = ""
    """Its `promptKey`, with `accepted` only."""
    answer: bytes = b""
    """The JSON of its result, with `settled` only."""


@frozen
class PersistAlias:
    """Remember under which id the agent knows a session from now on (R25); nobody waits."""

    session: str
    generation: int
    agent_id: str


@frozen
class Recover:
    """Look what is known of a session from before this run; answered by `Recovered`.

    Prompts of runs that are proven dead become this run's to tell of, or to send.
    """

    session: str


@frozen
class Tell:
    """Remember that a client was told of these kept prompts; nobody waits."""

    kept: tuple[int, ...]
    """Ids of the journal."""


@frozen
class Adopt:
    """Make an undelivered prompt of an earlier run this run's own, under a number of this run.

    Nobody waits: where another bridge was faster, the intent to send it fails (`PersistFailed`).
    """

    kept: int
    """Its id in the journal."""
    prompt: int
    session: str


@frozen
class FindKey:
    """Look for a prompt with this `promptKey`; answered by `KeyFound`."""

    token: int
    session: str
    key: str


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
    | ToClients
    | PromptWritten
    | ToAgent
    | Persist
    | PersistAlias
    | Recover
    | Tell
    | Adopt
    | FindKey
    | ArmTimer
    | DisarmTimer
    | StartAgent
    | StopAgent
    | Finish
    | Note
)
