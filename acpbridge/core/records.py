"""One prompt, one turn, one kept frame store, one agent request: the small parts of the state."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from acpbridge.core.events import KeptPrompt
from acpbridge.core.phases import Stage
from acpbridge.wire.frame import Frame, RpcId

NO_ID = RpcId(b"")
NEVER = float("inf")


@define(eq=False)
class Prompt:
    """One `session/prompt` request of a client, from its arrival to its one response."""

    number: int
    """1-based in this bridge; the name under which the journal knows it."""
    frame: Frame
    id: RpcId
    """The client's request id."""
    line: bytes
    """What is written to the agent, but for the session id."""
    text: str
    """Its text blocks, joined with newlines and stripped: what an echo is compared with."""
    command: bool
    accepted_s: float
    client: int = 0
    """Whose it is: a client's number in the daemon, 0 where there is only one."""
    stage: Stage = Stage.QUEUED
    wire_id: RpcId = NO_ID
    """The id toward the agent; the client's own unless that one is taken."""
    token: int = 0
    written_s: float = NEVER
    key: str = ""
    """Its `_meta.acpbridge.promptKey`."""
    followers: list[RpcId] = field(factory=list)
    """Wire ids of requests of the same key, which share its answer."""
    looking: bool = False
    """The journal is asked whether its key has run."""
    recorded: bool = False
    """The journal has it under its number."""
    unasked: bool = False
    """Undelivered by an earlier run and sent now: no request waits for its answer."""
    left: KeptPrompt | None = None
    """What the journal said of it then."""
    attempts: int = 0
    taken_back: int = 0
    busy_since_s: float = NEVER
    busy_wait_s: float = 0.0
    busy_until_s: float = 0.0
    worked: bool = False
    """Work was seen since its write."""
    worked_since_receipt: bool = False
    usage: bool = False
    """A `usage_update` was seen since its write."""
    receipt: str = ""
    """The kind of receipt text seen since its write."""
    answer: Frame | None = None
    """The agent's response, while it is judged or held."""
    after_cancel: bool = False
    """Written after a cancel with no answered turn between (R24)."""
    after_crossing: bool = False
    """The first prompt after a cancel that crossed a turn's end (R21)."""
    cancelled: bool = False
    shown: bool = False
    """Something visible reached the client since this prompt arrived."""
    noticed: bool = False
    midturn: str = "auto"
    """What is to become of it where a turn runs: its own wish, else the policy's (R2)."""
    may_join: bool = False
    """It came while a turn ran, and waits for no more than a write or a steer before it (R1)."""
    behind: bool = False
    """It was sent while the agent still worked by itself: whose turn runs, nobody can tell."""
    steered: bool = False
    """Its bytes went as a steer."""
    redirect: bool = False
    """It goes beside its owner as a second prompt, and has no answer yet (R14)."""
    said_line: bytes = b""
    """What is written in place of `line`: the same behind a command."""
    turn_cancelled: bool = False
    """Its owner ended `cancelled` while this steer was unanswered: it shares that (R15)."""
    own_turn: bool = False
    """The steer started a turn of its own: the owner's response is not its end (R14)."""
    alone_s: float = NEVER
    """Since when this steer has no owner whose response could end it."""


@define(eq=False)
class Turn:
    """A stretch of agent work in one session."""

    started_s: float
    last_work_s: float
    number: int = 0
    """1-based in this bridge, once the journal was told of it; 0 before."""
    content: bool = False
    """Content came since the last end marker."""
    marked: bool = False
    """The end marker has been seen and no work since (R9)."""
    echo: str = ""
    """The text of the user_message_chunks that came in a row."""
    echoing: bool = False
    calls: set[str] = field(factory=set)
    """Every tool call opened in this turn."""
    tools: dict[str, float] = field(factory=dict)
    """Those still open: id to the time of the last sign of life."""
    watched: bool = False
    """Its quiet timer is armed."""
    requests: int = 0
    """Agent requests of this turn that are open at the client (R6)."""
    messages: set[str] = field(factory=set)
    """`messageId`s seen in it, bounded."""


@define(eq=False)
class Kept:
    """Frames that a client profile withholds: bounded, oldest first to go, and counted (I6)."""

    lines: deque[bytes] = field(factory=deque)
    size_bytes: int = 0
    dropped: int = 0

    def put(self, line: bytes, frames_max: int, bytes_max: int) -> None:
        """Keep one more frame; the oldest go where a limit is passed."""
        self.lines.append(line)
        self.size_bytes += len(line)
        while len(self.lines) > frames_max or self.size_bytes > bytes_max:
            self.size_bytes -= len(self.lines.popleft())
            self.dropped += 1

    def take(self) -> list[bytes]:
        """All that is kept, in order; afterwards nothing is."""
        lines = list(self.lines)
        self.lines.clear()
        self.size_bytes = 0
        return lines


@define(eq=False)
class AgentRequest:
    """A request of the agent that is open at the client."""

    agent_id: RpcId
    """The id as the agent wrote it."""
    method: str
    session: str
    settled: bool = False
    """Answered toward the agent already; the client's own answer will be dropped."""
    withdrawn: bool = False
    """The agent took it back; it no longer stops a clock."""
    turn: Turn | None = None
    """The turn whose quiet clocks it stops (R6)."""
