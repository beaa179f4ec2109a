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
    ToAgent,
    ToClient,
)
from acpbridge.core.phases import Phase, Stage, Trigger
from acpbridge.core.policy import Policy
from acpbridge.core.records import NEVER, NO_ID, AgentRequest, Kept, Prompt, Turn
from acpbridge.profiles import AgentProfile, ClientProfile
from acpbridge.wire.frame import Frame, RpcId

__all__ = [
    "NEVER",
    "NO_ID",
    "AgentRequest",
    "AgentState",
    "Bridge",
    "Cause",
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
class Session:
    """One conversation, under the id that the client knows."""

    id: str
    agent_id: str
    """The id that the agent knows now: the tip of the alias chain (R25)."""
    generation: int = 0
    phase: Phase = Phase.IDLE
    turn: Turn | None = None
    queue: deque[Prompt | Frame] = field(factory=deque)
    """Prompts, and loads or resumes that wait among them, in the order of arrival."""
    queue_bytes: int = 0
    at_agent: list[Prompt] = field(factory=list)
    """Prompts of ours that the agent has and that are not answered, in the order of writing."""
    ghosts: list[str] = field(factory=list)
    """Texts of cancelled prompts that the agent may still run (R19)."""
    ghost_runs: bool = False
    """What runs is a cancelled prompt: nothing of it is shown (R19)."""

    loading: int = 0
    """Open load and resume requests of this session."""
    resuming: int = 0
    """How many of those are resumes, which must not replay."""
    opened_until_s: float = 0.0
    """Until then a `usage_update` may be the opening's own, whatever was written since (R9)."""
    load_until_s: float = 0.0
    """End of the load window; NEVER while a request is open."""
    hold: list[Frame] = field(factory=list)
    """Frames held behind a chunk that reads like a receipt (R10)."""
    answered_s: float = -NEVER
    """When the last prompt was answered by the agent."""
    trailing_s: float = NEVER
    answered_messages: set[str] = field(factory=set)
    inferred: bool = False
    """The last answer was inferred and no prompt has been written since (R9)."""
    quiet_factor: int = 1

    cancel_due: bool = False
    """A cancel waits for its moment (R16)."""
    cancel_line: bytes = b""
    request_cancelled: bool = False
    """The agent was asked by `$/cancel_request` alone to end the running prompt (R20)."""
    cancel_sent_s: float = -NEVER
    cancel_unanswered: bool = False
    """A cancel was sent and no turn has been answered with a result since (R24)."""
    crossed: bool = False
    """The last cancel crossed its turn's end (R21)."""
    dropped: list[tuple[float, Prompt]] = field(factory=list)
    """Queued prompts that a cancel ended, with the time, until `cancel_eof` (R20)."""
    last_sent_s: float = -NEVER
    gate_until_s: float = 0.0
    gated: deque[bytes] = field(factory=deque)
    """Lines toward the agent that wait for the gap around a cancel."""

    params: bytes = b""
    """The params of the request that opened it, kept for a revival; memory only."""
    known: bool = False
    """Opened by a new, load, resume or fork that this bridge saw succeed."""
    prompted: bool = False
    """A prompt was written in it."""
    fresh: bool = False
    """Opened by new or fork and no turn of it was answered with a result (R23)."""
    tip: str = ""
    """The id to load after a restart, where the agent has told of a rotation (R25)."""
    wedged_by: str = ""
    settled: bool = False
    """At least one turn was answered with a result, or a load has replayed content."""
    settings: dict[str, Frame] = field(factory=dict)
    """The last acknowledged mode, model and config requests (R23)."""
    commands: frozenset[str] = frozenset()
    left_ids: set[str] = field(factory=set)
    """Ids at the agent that a recovery fork has left behind: what still comes is old (R24)."""
    load_failed: bool = False
    """The client's last load or resume found no session (R4, R25)."""
    reviving: str = ""
    """The step of a revival that is open: "", "load", "resume", "new", "fork", "settings"."""
    revive_until_s: float = NEVER
    """When what waits for the revival is told that it takes too long; NEVER while nothing waits."""
    settings_open: int = 0
    replayed: int = 0
    """Content frames hidden inside a revival's load."""
    waiting: deque[Frame] = field(factory=deque)
    """Client frames that wait for the revival."""

    muted: bool = False
    """The client cancelled the last turn and its profile wants no more of it, late or not."""
    late: Kept = field(factory=Kept)
    """Content outside an open prompt, for the next one's stream."""
    withheld: Kept = field(factory=Kept)
    """Work that the client's profile never wants to see, kept for those who ask."""
    shown_s: float = -NEVER
    """When the last update of this session went to the client."""
    paced: deque[tuple[RpcId, bytes]] = field(factory=deque)
    """Responses, by wire id, that wait for the gap after the last update."""
    paced_since_s: float = NEVER

    def head(self) -> Prompt | None:
        """The prompt at the head of the queue, unless a load or resume stands there."""
        first = self.queue[0] if self.queue else None
        return first if isinstance(first, Prompt) else None

    def first_prompt(self) -> Prompt | None:
        """The first prompt of the queue, whatever stands before it."""
        return next((item for item in self.queue if isinstance(item, Prompt)), None)

    def owner(self) -> Prompt | None:
        """The first prompt of ours that is open at the agent, written or about to be."""
        for prompt in self.at_agent:
            if prompt.stage in (Stage.WRITTEN, Stage.SENDING):
                return prompt
        return None

    def newest_open(self) -> Prompt | None:
        """The last written prompt whose own response is still to come."""
        for prompt in reversed(self.at_agent):
            if prompt.stage is Stage.WRITTEN:
                return prompt
        return None


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

    now: float = 0.0
    out: list[Effect] = field(factory=list)
    run: int = 1
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
    tokens: dict[int, tuple[Session, Prompt]] = field(factory=dict)
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

    def persist(self, prompt: Prompt, session: Session, state: str, reason: str = "") -> None:
        """Record a transition that nobody waits for."""
        line = prompt.frame.raw if state == "accepted" else b""
        self.out.append(Persist(0, prompt.number, state, session.id, line, reason))

    def persist_sending(self, prompt: Prompt, session: Session) -> None:
        """Record the intent to send, and wait for the disk to have it (I8)."""
        self.last_token += 1
        prompt.token = self.last_token
        self.tokens[prompt.token] = (session, prompt)
        self.out.append(Persist(prompt.token, prompt.number, "sending", session.id))

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
