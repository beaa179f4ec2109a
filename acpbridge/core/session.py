"""One conversation: all that the bridge knows of a session."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from acpbridge.core.events import KeptPrompt
from acpbridge.core.phases import Phase, Stage
from acpbridge.core.records import NEVER, Kept, Prompt, Turn
from acpbridge.wire.frame import Frame, RpcId


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

    steering_off: bool = False
    """The agent started a turn for a steer, or knows no steering: none goes here any more (R14)."""
    steer_until_s: float = 0.0
    """Until then a steer that the client sent itself may be unanswered: nothing else goes."""
    steers_held: deque[Frame] = field(factory=deque)
    """The client's own steers that wait for the end of a cancelled turn (R16)."""

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
    paced: deque[tuple[RpcId, bytes, float]] = field(factory=deque)
    """Responses, by wire id and each with its time, that wait for the gap after the last update."""

    settled_before: bool = False
    """A turn of it ended with a result before this run; until its load has shown something."""
    looked_up: bool = False
    """The journal was asked what is known of it from before this run."""
    recovering: bool = False
    """It has not answered yet: nothing of the session goes to the agent."""
    untold: list[KeptPrompt] = field(factory=list)
    """Prompts of earlier runs that the next prompt's turn tells of."""
    told: set[tuple[int, str]] = field(factory=set)
    """Id and state of each one that was told of."""
    holder: int = 0
    """The process of another live bridge that had prompts of it at the last look; 0 for none."""
    held_by: int = 0
    """The process of another bridge that has prompts of it, until that was told; else 0."""
    is_abandoned: bool = False
    """No client is left that could answer what the agent asks in it."""
    paused: str = ""
    """Why its queue waits for the client: a setting that a restarted agent refused (R23)."""

    behind: deque[bytes] = field(factory=deque)
    """Lines toward the agent that came behind a prompt which is on its way to the disk."""

    def is_recording(self) -> bool:
        """Whether a prompt is on its way to the disk, and goes to the agent from there."""
        # Asked before every line to the agent, mostly with none there: a generator costs more.
        return bool(self.at_agent) and any(
            one.stage in (Stage.SENDING, Stage.STEERING) for one in self.at_agent
        )

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

    def steer(self) -> Prompt | None:
        """The steer whose fate is open: not written yet, or not answered (R14: one at a time)."""
        for prompt in self.at_agent:
            if prompt.stage in (Stage.STEERING, Stage.STEERED):
                return prompt
        return None

    def bound(self) -> list[Prompt]:
        """What the agent has and is not answered, but for a steer whose fate is open."""
        open_ = (Stage.STEERING, Stage.STEERED)
        return [prompt for prompt in self.at_agent if prompt.stage not in open_]

    def newest_open(self) -> Prompt | None:
        """The last written prompt whose own response is still to come."""
        for prompt in reversed(self.at_agent):
            if prompt.stage is Stage.WRITTEN:
                return prompt
        return None
