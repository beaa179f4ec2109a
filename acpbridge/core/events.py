"""What has happened: the only way for the core to learn anything.

Events are named in the past tense and carry values, never handles. The shell turns bytes,
clocks, processes and disks into events and feeds them to `acpbridge.core.bridge.step`, together
with the monotonic time in seconds at which it learned of them.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from acpbridge.wire.frame import Frame, Malformed
from acpbridge.wire.lines import Oversize
from acpbridge.wire.shapes import Chunks

TimerKey: TypeAlias = tuple[str, str]
"""A timer's name: (what it is for, the session it belongs to or "")."""


@frozen
class ClientSent:
    """A client wrote one well-formed frame."""

    frame: Frame
    client: int = 0
    """Which one: its number in the daemon, 0 where there is only one."""


@frozen
class ClientGarbled:
    """A client wrote a line that is refused or too long (R26)."""

    fault: Malformed | Oversize
    client: int = 0


@frozen
class ClientClosed:
    """The client closed its end (stdin EOF); nothing can be written to it any more."""


@frozen
class ClientJoined:
    """A client has connected to the daemon; what it writes follows."""

    client: int
    """Its number, 1-based; no later client gets the same."""


@frozen
class ClientLeft:
    """A client of the daemon is gone, or was detached; nothing can be written to it any more."""

    client: int
    reason: str
    """For people: "it closed the connection", "it read too slowly (client_bytes_max)"."""


@frozen
class SessionAbandoned:
    """No client of this session came back in time (`grace_s`): nobody will answer its agent."""

    session: str
    cancels: bool
    """Its turn is to be stopped, and its queue with it (`orphan`)."""


@frozen
class AgentStarted:
    """The agent process of this run exists and its pipes are open."""

    run: int
    """1 for the first process of this bridge, 2 after the first restart, and so on."""


@frozen
class AgentSent:
    """The agent of this run wrote one frame."""

    run: int
    frame: Frame


@frozen
class AgentStreamed:
    """The agent of this run wrote several text chunks of one shape in a row."""

    run: int
    chunks: Chunks


@frozen
class AgentGarbled:
    """The agent wrote a line that is no frame (noise) or too long."""

    run: int
    fault: Malformed | Oversize


@frozen
class AgentLeft:
    """Nothing that is written to the agent of this run arrives; what it wrote may still come."""

    run: int


@frozen
class AgentExited:
    """The agent process is gone, and every line that it wrote has been fed before this."""

    run: int
    reason: str
    """For people: "exit status 3", "killed by SIGKILL", "cannot be started: no such file"."""
    started: bool = True
    """False when the process could not be started at all."""


@frozen
class Persisted:
    """The disk has what `Persist` asked for, under the same token."""

    token: int


@frozen
class PersistFailed:
    """The disk refused what `Persist` asked for."""

    token: int
    reason: str


@frozen
class KeptPrompt:
    """A prompt of an earlier run that nobody waits for any more, or that another run has."""

    id: int
    """Its id in the journal, for people too."""
    state: str
    """undelivered, unknown, settled, or any other state of the journal."""
    words: str
    """Its first words, for a notice."""
    content: bytes = b""
    """The JSON of its `params.prompt`, where it is undelivered."""
    answer: bytes = b""
    """The JSON of its result, where it has one."""
    was_cancelled: bool = False
    """Its client was told so, and left right behind (R20): it is told of, and never sent."""
    pid: int = 0
    """The live process of another bridge that has it; 0 for none."""
    told: bool = False
    """A client was told of it before."""
    key: str = ""
    """Its `promptKey`."""


@frozen
class Recovered:
    """What is known of a session from before this run."""

    session: str
    kept: tuple[KeptPrompt, ...] = ()
    """Untold or undelivered, oldest first."""
    pid: int = 0
    """The process of another live bridge that has prompts of this session; 0 for none."""
    settled: bool = False
    """A turn of it has ended with a result: an agent that loads it has something to replay."""
    generation: int = 0
    tip: str = ""
    """The id by which the agent knew it last; empty where that is its own."""


@frozen
class KeyFound:
    """The prompt that has the `promptKey` that `FindKey` asked for, None where there is none."""

    token: int
    prompt: KeptPrompt | None = None


@frozen
class TimerFired:
    """A timer that was armed and not disarmed since has run out."""

    key: TimerKey


@frozen
class StopAsked:
    """A signal or a person asked the bridge to end."""

    reason: str


SingleEvent: TypeAlias = (
    ClientSent
    | ClientGarbled
    | ClientClosed
    | SessionAbandoned
    | AgentStarted
    | AgentSent
    | AgentGarbled
    | AgentLeft
    | AgentExited
    | Persisted
    | PersistFailed
    | Recovered
    | KeyFound
    | TimerFired
    | StopAsked
)

Event: TypeAlias = SingleEvent | AgentStreamed

HubEvent: TypeAlias = Event | ClientJoined | ClientLeft
"""What a hub takes in: a bridge's events, and clients that come and go."""
