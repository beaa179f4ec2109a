"""What an agent does in one turn: a plan drawn from the seed, played step by step."""

from __future__ import annotations

from collections import deque
from random import Random

from attrs import define, field

from tests.sim.clock import Plan
from tests.sim.frames import Posed, Said, Work
from tests.sim.mix import Mix

FOREVER_S = 1e9
"""A step that is never taken, unless the agent becomes kind."""

Step = tuple[float, str]
"""(seconds to wait first, what to do)."""


@define(eq=False)
class Turn:
    """A stretch of work in one session of an agent."""

    sid: str
    owner: str
    """The JSON text of the request that it will answer, or "" for none."""
    works: list[Work]
    """The prompts whose work is the running segment."""
    plan: deque[Step]
    entry: Plan | None = None
    worked: bool = False
    tool: str = ""
    posed: Posed | None = None
    over: bool = False
    doomed: bool = False
    stop: str = "end_turn"
    segments: int = 1
    message: str = ""
    begun: bool = False
    first_cancelled: bool = False
    asked_s: float = 0.0


@define(eq=False)
class Record:
    """A conversation as the agent's disk has it: it outlives the process."""

    sid: str
    cwd: str
    texts: list[str] = field(factory=list)
    tip: str = ""
    """The id under which the whole of it is found after a restart."""
    root: str = ""
    told: Said | None = None
    """The update that names the newest tip."""


@define(eq=False)
class Chat:
    """A session in one process."""

    sid: str
    record: Record
    turn: Turn | None = None
    waiting: deque[tuple[str, Work]] = field(factory=deque)
    """Prompts that wait for their turn in an agent that serialises: (request id, work)."""
    queue: list[Work] = field(factory=list)
    """Prompts under a *queued* receipt."""
    running: bool = False
    wedged: bool = False
    poisoned: bool = False
    closed: bool = False
    read_s: float = -1.0
    """When the last prompt or cancel of it was read while a turn ran."""


def plan(chance: Random, mix: Mix, *, owned: bool = True) -> deque[Step]:
    """Draw what a turn does; an ownerless one shows at least one chunk."""
    if owned and mix.has("empty") and chance.random() < 0.25:
        return deque()
    scale_s = chance.choice((0.002, 0.02, 0.3))
    if mix.has("glacial") and chance.random() < 0.3:
        scale_s = chance.choice((8.0, 40.0))
    steps: deque[Step] = deque()
    first_s = chance.random() * scale_s
    if mix.has("late") and chance.random() < 0.4:
        first_s = chance.choice((0.6, 3.0, 70.0))
    if chance.random() < 0.2:
        first_s = 0.0
    steps.append((first_s, chance.choice(("chunk", "chunk", "thought", "open", "plan"))))
    for _ in range(chance.choice((0, 1, 2, 4, 7))):
        steps.append((chance.expovariate(1 / scale_s), _kind(chance, mix)))
    if mix.has("silent") and chance.random() < 0.2:
        steps.insert(chance.randint(0, len(steps)), (FOREVER_S, "chunk"))
    return steps


def _kind(chance: Random, mix: Mix) -> str:
    kinds = ["chunk", "chunk", "chunk", "thought", "open", "close", "touch", "plan", "keepalive"]
    if mix.has("asks"):
        kinds += ["ask", "ask"]
    if mix.has("noise"):
        kinds.append("noise")
    if mix.has("bursts"):
        kinds.append("burst")
    if mix.has("usage_outside") and mix.profile == "generic":
        kinds.append("usage")
    if mix.has("slow_tools"):
        kinds += ["slow_tool"]
    return chance.choice(kinds)
