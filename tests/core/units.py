"""A Hermes tape, sorted by cause: which frames of the agent belong to which request.

A recorded Hermes was asked things in an order that a bridge does not ask them in. So its frames are
taken apart: each belongs to the request that caused it, with its delay. The rules, all by the tape:

- a response belongs to its request; what a load or resume replays, to that; the first commands and
  usage behind an opening, to the opening;
- other frames of a session belong to the prompt whose turn runs in it, else to the one before;
- between a prompt into a running turn and its immediate answer they belong to that prompt;
- the text and the bare answer of a receipt belong to nobody: they came because a turn was running;
- the segment that was drained behind the echo of a prompt with a receipt is that prompt's own turn,
  from the echo on, ended by a usage update of the chain and a completion shaped like the outer one;
  the outer turn's own end is where the first echo came;
- what came after a cancel, or after the answer to a request of the agent, came because of it.
"""

from __future__ import annotations

import copy
from typing import Any

from attrs import define, field

from tests.core.script import Json
from tests.core.tapes import CONTENT, Answered, Line, Tape, answered

OPENINGS = ("session/new", "session/fork", "session/load", "session/resume")
LOADS = ("session/load", "session/resume")


@define(eq=False)
class Step:
    """One frame of the agent: when on the tape, and what else must have happened before it."""

    t: float
    frame: Json
    after: str = ""
    """"", "cancel", or the id of a request of the agent that must have been answered."""
    after_t: float = 0.0
    """When that happened on the tape."""


@define(eq=False)
class Unit:
    """Everything that the agent says because of one request."""

    request: Line
    t: float
    """When on the tape its cause was: the request, or the echo of a prompt that was drained."""
    steps: list[Step] = field(factory=list)
    prompt: Answered | None = None
    segments: list[Unit] = field(factory=list)
    """Turns that were drained inside this one, in order."""
    echoes: list[float] = field(factory=list)
    """When each of those began."""
    is_recorded: bool = True
    """False for a prompt of whose turn the tape has nothing: it was lost, or refused as wedged."""
    after: str = ""
    after_t: float = 0.0

    def add(self, t: float, frame: Json) -> None:
        self.steps.append(Step(t, frame, self.after, self.after_t))


@define
class _Sorter:
    process: Tape
    units: dict[str, Unit] = field(factory=dict)
    prompts: dict[str, Answered] = field(factory=dict)
    running: dict[str, Unit] = field(factory=dict)
    """By session: the unit that its turn's frames belong to now."""
    outer: dict[str, Unit] = field(factory=dict)
    """By session: the prompt whose response ends all of it."""
    passing: dict[str, Unit] = field(factory=dict)
    """By session: a prompt into a running turn that is not answered yet."""
    loading: dict[str, Unit] = field(factory=dict)
    opened: dict[str, tuple[Unit, set[str]]] = field(factory=dict)
    """By session: its opening, and the updates that still belong to that."""
    last: Unit | None = None
    tails: dict[str, Unit] = field(factory=dict)

    def client(self, line: Line) -> None:
        if line.is_response:
            for unit in self.running.values():
                if any(step.frame.get("id") == line.frame["id"] for step in unit.steps):
                    unit.after, unit.after_t = line.id, line.t
        elif line.method == "session/cancel" and line.session in self.running:
            unit = self.running[line.session]
            unit.after, unit.after_t = "cancel", line.t
        elif line.id:
            self.asked(line)

    def asked(self, line: Line) -> None:
        unit = self.units[line.id] = Unit(line, line.t)
        if line.method in LOADS:
            self.loading[line.session] = unit
        if line.method != "session/prompt":
            return
        unit.prompt = self.prompts[line.id]
        unit.is_recorded = unit.prompt.kind in {"real", "unknown"} or (
            unit.prompt.kind == "none" and line.session not in self.running
        )
        if line.session in self.running or unit.prompt.kind == "receipt":
            self.passing[line.session] = unit
        else:
            self.running[line.session] = self.outer[line.session] = unit
            self.tails[line.session] = unit

    def agent(self, line: Line) -> None:
        if line.is_response:
            self.responded(line, self.units[line.id])
        elif line.variant == "user_message_chunk" and line.session not in self.loading:
            self.echoed(line)
        else:
            unit = self.owner_of(line)
            if unit is not None:
                unit.add(line.t, line.frame)

    def owner_of(self, line: Line) -> Unit | None:
        """The unit of an update or a request of the agent; None for what belongs to nobody."""
        session, variant = line.session, line.variant
        if session in self.loading and variant in (*CONTENT, "tool_call_update"):
            return self.loading[session]
        opening, due = self.opened.get(session, (None, set()))
        if variant in due:
            due.discard(variant)
            return opening
        if variant in CONTENT:
            due.clear()
        passing = self.passing.get(session)
        if passing is not None and passing.prompt is not None:
            is_its_own = variant == "usage_update" or line in passing.prompt.said
            if passing.prompt.kind == "receipt" and is_its_own:
                return None
            if passing.prompt.kind == "real":
                return passing
        return self.running.get(session) or self.tails.get(session) or self.last

    def echoed(self, line: Line) -> None:
        outer = self.outer[line.session]
        for unit in self.units.values():
            prompt = unit.prompt
            if prompt is None or prompt.kind != "receipt" or unit in outer.segments:
                continue
            if echo_of(unit.request) == line.text:
                unit.t, unit.is_recorded = line.t, True
                outer.segments.append(unit)
                outer.echoes.append(line.t)
                self.running[line.session] = unit
                return
        raise AssertionError(line)

    def responded(self, line: Line, unit: Unit) -> None:
        session = line.frame.get("result") or {}
        session = (
            session.get("sessionId", unit.request.session) if isinstance(session, dict) else ""
        )
        if unit.request.method in OPENINGS:
            due = {"available_commands_update", "usage_update"}
            self.opened[session] = (
                unit,
                due - ({"usage_update"} if "fork" in unit.request.method else set()),
            )
            self.last = unit
        if unit.request.method in LOADS:
            self.loading.pop(unit.request.session)
        if unit.prompt is not None:
            self.passing.pop(unit.request.session, None)
            if unit.prompt.kind == "receipt":
                return
            if unit.prompt.kind == "wedge":
                # Without a cancel in its own turn it was an earlier one that did this.
                unit.is_recorded = bool(unit.after)
        if unit is self.outer.get(unit.request.session):
            del self.outer[unit.request.session], self.running[unit.request.session]
            if unit.segments:
                _divide(unit, line)
                return
        unit.add(line.t, line.frame)


def _divide(outer: Unit, response: Line) -> None:
    """Give each turn of a chain its own end: a usage update, and a completion."""
    chain = [outer, *outer.segments]
    last = chain[-1].steps
    at = max(
        at
        for at, step in enumerate(last)
        if step.frame["params"]["update"]["sessionUpdate"] in CONTENT
    )
    usages = [
        step
        for step in last[at:]
        if step.frame["params"]["update"]["sessionUpdate"] == "usage_update"
    ]
    assert len(chain) == len(usages)
    for step in usages:
        last.remove(step)
    ends = [*outer.echoes, response.t]
    for unit, usage, t in zip(chain, usages, ends, strict=True):
        unit.add(t, usage.frame)
        is_cancelled = unit.after == "cancel"
        unit.add(
            t, response.frame if unit is outer else completion(unit.request, response, is_cancelled)
        )


def completion(request: Line, like: Line | None = None, is_cancelled: bool = False) -> Json:
    """A completion of a prompt with usage, shaped like Hermes' own."""
    names = ("inputTokens", "outputTokens", "totalTokens", "thoughtTokens", "cachedReadTokens")
    result: Json = {"stopReason": "cancelled" if is_cancelled else "end_turn"}
    result["usage"] = dict.fromkeys(names, 0)
    if like is not None and not is_cancelled:
        result["usage"] = copy.deepcopy(like.frame["result"]["usage"])
    return {"jsonrpc": "2.0", "id": request.frame["id"], "result": result}


def text_of(request: Line) -> str:
    """A prompt's text blocks, joined and stripped, as Hermes reads them."""
    blocks: list[Any] = request.params.get("prompt", [])
    return "\n".join(block["text"] for block in blocks if "text" in block).strip()


def echo_of(request: Line) -> str:
    """What Hermes echoes when it drains this prompt from its queue."""
    text = text_of(request).removeprefix("/queue ")
    return text or "[Image attachment]"


def sorted_by_cause(process: Tape) -> dict[str, Unit]:
    """The units of one agent process, by the JSON text of their request's id."""
    sorter = _Sorter(process, prompts={prompt.id: prompt for prompt in answered(process)})
    for line in process.lines:
        if line.side == "client":
            sorter.client(line)
        else:
            sorter.agent(line)
    return sorter.units
