"""Tapes of real agents as values: read, made whole again, cut into processes.

A tape says what was recorded and nothing else (fixtures/README.md). What is derived from one here
is derived by rules over the tape alone, never by asking the core, so that the two can disagree.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from tests.core.script import Json, dumps

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

RECEIPT_TEXTS = (
    r"Queued for the next turn\. \(\d+ queued\)",
    r"No active turn — queued for the next turn\. \(\d+ queued\)",
    r"Redirected the active turn with your correction\.",
    r"⏩ Steer queued for the active turn: .*",
)
"""What Hermes says in place of an answer (knowledge of its source; said again here on purpose:
a mistake in a profile must not hide itself)."""

CONTENT = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "plan", "user_message_chunk")
"""Updates that belong to a turn. The update of a call is left out: it can come late."""

WEDGE_WORDS = "'NoneType' object has no attribute 'startswith'"

_ELIDED = re.compile(r"\.\.\.<elided (\d+) chars>\Z")
_HEAD_CHARS = 200
_LONG_CHARS = 1549
"""The longest text that stands whole on a tape (compact)."""
_TAILS = {
    "agent": '", "type": "text"}, "sessionUpdate": "agent_message_chunk"}}}',
    "client": ' @@[[\\"say\\", \\"got it\\"]]"}]}}',
}
"""How the two whole frames of big-frames that were cut end; their heads are on the tape."""


@frozen(eq=False)
class Line:
    """One frame of a tape: when it was seen, who wrote it, and its bytes made whole."""

    t: float
    side: str
    """client or agent."""
    frame: Json
    raw: bytes

    @property
    def id(self) -> str:
        """The id's own JSON text; empty where there is none."""
        return json.dumps(self.frame["id"]) if "id" in self.frame else ""

    @property
    def method(self) -> str:
        return str(self.frame.get("method", ""))

    @property
    def params(self) -> Json:
        params = self.frame.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def session(self) -> str:
        return str(self.params.get("sessionId", ""))

    @property
    def update(self) -> Json:
        return self.params["update"] if self.method == "session/update" else {}

    @property
    def variant(self) -> str:
        return str(self.update.get("sessionUpdate", ""))

    @property
    def text(self) -> str:
        content = self.update.get("content")
        return str(content.get("text", "")) if isinstance(content, dict) else ""

    @property
    def is_response(self) -> bool:
        return "method" not in self.frame


@frozen(eq=False)
class Tape:
    """One recording, or the part of one that belongs to one agent process."""

    agent: str
    """The folder's name: agent and version."""
    scenario: str
    lines: tuple[Line, ...]
    process: int = 1
    """Which of the recording's processes, from 1; see `processes`."""

    @property
    def name(self) -> str:
        part = f"#{self.process}" if self.process > 1 else ""
        return f"{self.agent.split('-')[0]}/{self.scenario}{part}"


# -- reading -----------------------------------------------------------------------------------
@cache
def tapes() -> tuple[Tape, ...]:
    """Every tape of the project, in the order of agent and name."""
    found = sorted(FIXTURES.glob("*-*/*.jsonl"))
    return tuple(read(path) for path in found)


def read(path: Path) -> Tape:
    """One tape, with every text that was cut made whole again."""
    rows = [json.loads(row) for row in path.read_text("utf-8").splitlines()]
    header, *rest = rows
    assert (1, path.stem) == (header["tape"], header["scenario"])
    lines = tuple(_line(row) for row in rest)
    return Tape(path.parent.name, path.stem, lines)


def _line(row: Json) -> Line:
    frame = row["frame"]
    if "__elided__" in frame:
        raw = _whole_frame(frame["head"], _TAILS[row["from"]], int(frame["__elided__"].split()[0]))
        return Line(row["t"], row["from"], json.loads(raw), raw)
    frame = _whole(frame)
    return Line(row["t"], row["from"], frame, dumps(frame))


def _whole_frame(head: str, tail: str, size: int) -> bytes:
    """A cut frame, with the last character of its head repeated as often as its size asks for."""
    return (head + head[-1] * (size - len(head) - len(tail)) + tail).encode()


def _whole(value: Any) -> Any:
    """The same value with each cut text generated from its head, at its recorded length."""
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    cut = _ELIDED.search(value) if isinstance(value, str) else None
    if cut is None:
        return value
    head = value[: cut.start()]
    length = len(head) + int(cut[1])
    return (head * (length // len(head) + 1))[:length]


def elided(value: Any) -> Any:
    """The opposite: a value with its long texts cut as the tapes cut theirs, for files and eyes."""
    if isinstance(value, dict):
        return {name: elided(member) for name, member in value.items()}
    if isinstance(value, list):
        return [elided(member) for member in value]
    if isinstance(value, str) and len(value) > _LONG_CHARS:
        return f"{value[:_HEAD_CHARS]}...<elided {len(value) - _HEAD_CHARS} chars>"
    return value


@cache
def processes(tape: Tape) -> tuple[Tape, ...]:
    """The tape, cut where its client begins anew with a second agent process."""
    parts: list[list[Line]] = []
    for line in tape.lines:
        if line.side == "client" and line.method == "initialize":
            parts.append([])
        parts[-1].append(line)
    return tuple(evolve(tape, lines=tuple(part), process=at + 1) for at, part in enumerate(parts))


# -- what the tape itself says about its prompts ------------------------------------------------
@frozen(eq=False)
class Answered:
    """A prompt of a tape and the response that the agent gave to it on the tape, if any."""

    prompt: Line
    response: Line | None
    kind: str
    """real, receipt, wedge, unknown (the session is), or none."""
    said: tuple[Line, ...] = ()
    """Chunks of the session between the prompt and its response that read like a receipt."""
    work: int = 0
    """Content frames of the session between the prompt and its response."""

    @property
    def id(self) -> str:
        return self.prompt.id


def is_bare(result: Any) -> bool:
    """`end_turn` and nothing else, as the design defines it."""
    if not isinstance(result, dict):
        return False
    said = {name: value for name, value in result.items() if (name, value) != ("usage", None)}
    return said == {"stopReason": "end_turn"}


def reads_like_receipt(text: str) -> bool:
    """Whether a whole chunk text is one of the listed ones."""
    return any(re.fullmatch(pattern, text, re.DOTALL) for pattern in RECEIPT_TEXTS)


def answered(process: Tape) -> list[Answered]:
    """Every prompt of one agent process, with its response and what that is, by the tape alone."""
    found = []
    for at, line in enumerate(process.lines):
        if line.side == "client" and line.method == "session/prompt":
            found.append(_answered(line, process.lines[at + 1 :]))
    return found


def _answered(prompt: Line, later: tuple[Line, ...]) -> Answered:
    said: list[Line] = []
    work = 0
    for line in later:
        if line.side != "agent":
            continue
        if line.is_response and line.id == prompt.id:
            return Answered(prompt, line, _kind(line, said, work), tuple(said), work)
        if line.session == prompt.session and line.text:
            work += 1
            if line.variant == "agent_message_chunk" and reads_like_receipt(line.text):
                said.append(line)
    return Answered(prompt, None, "none", tuple(said), work)


def _kind(response: Line, said: list[Line], work: int) -> str:
    result, error = response.frame.get("result"), response.frame.get("error")
    if is_bare(result) and said:
        return "receipt"
    if isinstance(error, dict) and WEDGE_WORDS in str(error):
        return "wedge"
    if isinstance(result, dict) and result.get("stopReason") == "refusal" and not work:
        return "unknown"
    return "real"


def ownerless_stretches(process: Tape) -> int:
    """How often content begins in a session for which no prompt is open, outside a load.

    A stretch ends where the client writes the next prompt; end markers are not asked.
    """
    open_ids: dict[str, set[str]] = {}
    loads: dict[str, str] = {}
    running: set[str] = set()
    count = 0
    for line in process.lines:
        if line.method == "session/prompt":
            open_ids.setdefault(line.session, set()).add(line.id)
            running.discard(line.session)
        elif line.method in {"session/load", "session/resume"}:
            loads[line.id] = line.session
        elif line.side == "agent" and line.is_response:
            loads.pop(line.id, None)
            for ids in open_ids.values():
                ids.discard(line.id)
        elif line.side == "agent" and line.variant in CONTENT:
            busy = {*running, *loads.values()} | {name for name, ids in open_ids.items() if ids}
            if line.session not in busy:
                running.add(line.session)
                count += 1
    return count
