"""The whole state of the bridge, and the few verbs that every part of the core shares.

The state is plain data that `step` changes in place and deterministically: it can be printed,
compared and copied, but it is not rebuilt for each of the million frames of a long turn. Effects
are collected in `Bridge.out` and handed out by `step`; nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from attrs import define, field

from acpbridge.core.effects import (
    ArmTimer,
    DisarmTimer,
    Effect,
    Note,
    Persist,
    PromptWritten,
    ToAgent,
    ToClient,
)
from acpbridge.core.phases import Phase, Stage, Trigger
from acpbridge.core.policy import Policy
from acpbridge.core.records import NEVER, NO_ID, AgentRequest, Kept, Prompt, Turn
from acpbridge.core.session import Session
from acpbridge.profiles import AgentProfile, ClientProfile
from acpbridge.wire import scan
from acpbridge.wire.frame import Frame, RpcId

__all__ = [
    "NEVER",
    "NO_ID",
    "AgentRequest",
    "AgentState",
    "Bridge",
    "Cause",
    "Ended",
    "Handler",
    "Kept",
    "Pending",
    "Phase",
    "Prompt",
    "Session",
    "Stage",
    "Trigger",
    "Turn",
]


@define(eq=False)
class Pending:
    """A request that the bridge has written to the agent and that is not answered yet."""

    method: str
    id: RpcId
    """The id to answer under: the client's, or b"" for a request of the bridge's own."""
    session: str = ""
    prompt: Prompt | None = None
    frame: Frame | None = None
    """The client's frame, or None for a request of the bridge's own."""
    own: Callable[[Bridge, Frame | None], None] | None = None
    """What to do with the answer to a request of the bridge's own; None when it never came."""


@define(eq=False)
class Ended:
    """A prompt whose response is on its way to the client."""

    session: Session
    prompt: Prompt
    completion: str
    """How its end was known (R8)."""
    ids: tuple[RpcId, ...]
    """The wire ids of all requests that get this response."""


class AgentState(Enum):
    """Where the agent process stands."""

    STARTING = "starting"
    FRESH = "fresh"
    """Running; the client has not initialized it yet."""
    INITIALIZING = "initializing"
    """Restarted; our own initialize is open."""
    READY = "ready"
    LEAVING = "leaving"
    """It takes nothing any more, by its own doing; its last lines and its end are to come."""
    STOPPING = "stopping"
    """Being ended for a restart or for the bridge's own end."""
    DEAD = "dead"


@define(eq=False)
class Bridge:
    """Everything that the bridge knows."""

    policy: Policy
    agent: AgentProfile
    client: ClientProfile
    agent_chosen: bool
    """The agent profile was chosen by option, so `agentInfo` does not change it."""
    client_chosen: bool
    nonce: str
    """Random text of this run, given by the shell; the bridge's own ids begin with it."""
    table: dict[Phase, dict[Trigger, Handler]] = field(factory=dict, repr=False)

    is_shared: bool = False
    """A hub stands before it: its client is told what is written to the agent, and when."""
    now: float = 0.0
    speaker: int = 0
    """Whose frame is taken in now: a client's number in the daemon, 0 where there is only one."""
    unheard: set[RpcId] = field(factory=set)
    """Open requests, by wire id, whose clients have left the daemon: nobody reads the answers."""
    out: list[Effect] = field(factory=list)
    run: int = 1
    resting: bool = False
    """A dead agent is started again when its rest is over."""
    away_since_s: float = NEVER
    """Since when the agent is being started again; NEVER where it is there or not wanted."""
    agent_state: AgentState = AgentState.STARTING
    deaths: deque[float] = field(factory=deque)
    initialize: Frame | None = None
    """The client's initialize request, for a restart."""
    initialized: bool = False
    agent_version: str = ""
    capabilities: dict[str, Any] = field(factory=dict)
    steering: bool = False
    """`_meta.steering.supported === true` in the initialize result."""
    usage_seen: bool = False
    """A completion of this process carried `usage` (R12)."""
    fifo: bool = False
    fast: dict[str, Session] = field(factory=dict)
    """Sessions, by agent id, in which a plain chunk needs no thought; any other event ends it."""

    sessions: dict[str, Session] = field(factory=dict)
    by_agent_id: dict[str, Session] = field(factory=dict)
    """Sessions whose id at the agent is not, or was once not, the client's."""
    opening: int = 0
    """Open new and fork requests: until one is answered its session has no name."""
    pending: dict[RpcId, Pending] = field(factory=dict)
    """Toward the agent, by wire id."""
    open_ids: dict[RpcId, deque[RpcId]] = field(factory=dict)
    """The client's open request ids, each with the wire ids that it stands for, oldest first:
    more than one only where the client reuses an id that is still open (R26)."""
    client_ids: dict[RpcId, RpcId] = field(factory=dict)
    """The client's id of each open wire id."""
    ended: dict[RpcId, Ended] = field(factory=dict)
    """Prompts, by wire id, whose response is on its way to the client."""
    turns: int = 0
    """Turns that the journal was told of."""
    early: dict[RpcId, bytes] = field(factory=dict)
    """Answers, by wire id, that wait for an older request of the same client id."""
    reserved: dict[Frame, RpcId] = field(factory=dict)
    """The wire ids of the client's requests that wait and are not written yet."""
    requests: dict[RpcId, AgentRequest] = field(factory=dict)
    """Agent requests open at the client, by the id that the client sees."""
    waiting: deque[Frame] = field(factory=deque)
    """Client frames without a session that wait for a restarted agent."""
    starved: deque[str] = field(factory=deque)
    """Sessions that wait for one of the agent's turns (`turns_max`)."""
    wedged: set[str] = field(factory=set)
    """Sessions in Wedged."""
    settled: bool = False
    """A turn has ended in this step: what waits for that may be tried again."""
    running: int = 0
    """Prompts of ours that are open at the agent or on their way to it."""
    queue_bytes: int = 0
    counters: dict[str, int] = field(factory=dict)
    prompts: int = 0
    behind: list[Session] = field(factory=list)
    """Sessions in which lines wait behind a prompt that is on its way to the disk."""
    tokens: dict[int, tuple[Session, Prompt]] = field(factory=dict)
    lookups: dict[int, tuple[Session, Prompt]] = field(factory=dict)
    """Prompts whose key is looked up in the journal, by token."""
    last_token: int = 0
    last_own_id: int = 0
    closing: str = ""
    """Why the bridge is ending; nothing is started, recovered or sent any more."""
    client_gone: bool = False
    exit_code: int | None = None
    """Given to the shell: the bridge has ended."""

    # -- verbs ------------------------------------------------------------------------------
    def to_client(self, line: bytes) -> None:
        """Write a line to the client; one that is gone does not read it."""
        self.out.append(ToClient(line))

    def to_agent(self, line: bytes) -> None:
        """Write a line to the agent."""
        self.out.append(ToAgent(line))

    def arm(self, name: str, session: Session | None, delay_s: float, jitter: float = 0.0) -> None:
        """Arm a timer of a session, or of the bridge."""
        key = (name, session.id if session else "")
        self.out.append(ArmTimer(key, max(delay_s, 0.0), jitter))

    def disarm(self, name: str, session: Session | None) -> None:
        """Disarm a timer; one that is not armed is no matter."""
        self.out.append(DisarmTimer((name, session.id if session else "")))

    def note(self, name: str, level: str = "info", **fields: Any) -> None:
        """Say one thing to the log and count it."""
        self.counters[name] = self.counters.get(name, 0) + 1
        self.out.append(Note(name, fields, level))

    def count(self, name: str) -> None:
        """Count without a line in the log: for what may happen a million times."""
        self.counters[name] = self.counters.get(name, 0) + 1

    def persist(
        self,
        prompt: Prompt,
        session: Session,
        state: str,
        reason: str = "",
        *,
        completion: str = "",
        answer: bytes = b"",
    ) -> None:
        """Record a transition that nobody waits for."""
        is_new = state == "accepted"
        if prompt.unasked and not prompt.recorded:
            return
        if not prompt.recorded and not is_new and state != "refused":
            # The journal never had it: its key has run before, or its disk could not tell.
            return
        prompt.recorded = True
        turn = session.turn if prompt in session.at_agent else None
        trace = self.trace(turn) if turn is not None else ""
        self.out.append(
            Persist(
                token=0,
                prompt=prompt.number,
                state=state,
                session=session.id,
                line=prompt.frame.raw if is_new else b"",
                reason=reason,
                completion=completion,
                turn=turn.number if turn is not None else 0,
                trace=trace,
                key=prompt.key if is_new else "",
                answer=answer,
            )
        )

    def trace(self, turn: Turn) -> str:
        """The trace id of a turn, 12 hexadecimal digits; the first to ask numbers it."""
        if not turn.number:
            self.turns += 1
            turn.number = self.turns
        return f"{self.nonce}{turn.number & 0xFFFF:04x}"

    def tell_written(self, session: Session, prompt: Prompt) -> None:
        """Say that a client's message goes to the agent, the first time that it does."""
        if not self.is_shared or prompt.attempts:
            return
        content = scan.value(prompt.frame.raw, "params", "prompt")
        trace = self.trace(session.turn) if session.turn is not None else ""
        self.out.append(PromptWritten(session.id, prompt.id, content, trace))

    def next_token(self, prompt: Prompt) -> int:
        """A token under which the disk answers about this prompt, and under no older one."""
        self.last_token += 1
        prompt.token = self.last_token
        return prompt.token

    def persist_sending(self, prompt: Prompt, session: Session) -> None:
        """Record the intent to send, and wait for the disk to have it (I8)."""
        self.tokens[self.next_token(prompt)] = (session, prompt)
        self.out.append(Persist(prompt.token, prompt.number, "sending", session.id))

    def enqueue(self, session: Session, prompt: Prompt, at: int | None = None) -> None:
        """Let a prompt wait in its session: at the end, or before the item at this place."""
        session.queue.insert(len(session.queue) if at is None else at, prompt)
        session.queue_bytes += len(prompt.frame.raw)
        self.queue_bytes += len(prompt.frame.raw)

    def unqueue(self, session: Session, prompt: Prompt) -> None:
        """Take a prompt out of the queue, wherever it stands: it goes, or it ends."""
        session.queue.remove(prompt)
        session.queue_bytes -= len(prompt.frame.raw)
        self.queue_bytes -= len(prompt.frame.raw)

    def own_id(self) -> RpcId:
        """A request id of the bridge's own, which no client can have chosen by accident."""
        self.last_own_id += 1
        return RpcId(f'"acpbridge-{self.nonce}-{self.last_own_id}"'.encode())

    def fire(self, session: Session, trigger: Trigger, cause: Cause = None) -> None:
        """Let the transition table decide what this means where the session stands."""
        self.table[session.phase][trigger](self, session, cause)


Cause: TypeAlias = Frame | Prompt | None
"""What a trigger is about: a frame of the agent, a prompt of ours, or nothing."""

Handler: TypeAlias = Callable[[Bridge, Session, Cause], None]
