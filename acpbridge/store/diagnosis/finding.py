"""What a diagnosis finds: one value for each fact, with the lines that show it. Pure.

The rule of this module: a finding names a time as its source writes it, a session, and lines as
(file, number); it never holds the text of a prompt.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from attrs import field, frozen

Kind = Literal[
    "swallowed",
    "burst",
    "late",
    "unstreamed",
    "stuck",
    "rotated",
    "wedged",
    "folded",
    "dropped",
]

KINDS: tuple[str, ...] = get_args(Kind)

MEANINGS: dict[str, str] = {
    "swallowed": "a send was answered before any turn could run it",
    "burst": "several swallowed sends of one session within 8 s",
    "late": "a send was answered without output, and the output came afterwards",
    "unstreamed": "a send was answered without output, and none came afterwards",
    "stuck": "a turn began and has no end",
    "rotated": "the agent's session id changed while a prompt was open",
    "wedged": "the agent holds a session as busy for ever: it acknowledges prompts and runs none",
    "folded": "a send was put into the running turn; its own request was answered at once",
    "dropped": "the client dropped a send before it reached the agent",
}
"""Each kind in a sentence, for people."""

SWALLOWED_MS = 20.0
"""No model answers this fast: a turn that ends sooner has not run (measured: 0.2 to 1.9 ms)."""

BURST_S = 8.0
"""Swallowed sends of one session this close to each other are one burst."""

STUCK_S = 600.0
"""A turn that has no end by the end of its log is called stuck when it is older than this."""

MARKS_MAX = 100
"""Lines that one finding names; a burst of more says how many it is."""


@frozen
class Mark:
    """One line of one file, both as an editor opens them."""

    file: str
    line: int
    """1-based."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@frozen
class Finding:
    """One fact. `str(mark)` of each of `marks` is where to look."""

    kind: Kind
    at: str
    """When it began, as the file writes it: a date and time, or seconds of a tape ("1.8058 s")."""
    session: str
    """Empty where the lines do not say."""
    says: str
    """One sentence for people."""
    marks: tuple[Mark, ...]
    facts: dict[str, Any] = field(factory=dict)
    """For programs: numbers with their unit in the name, and words as the file has them."""

    def as_json(self) -> dict[str, Any]:
        """The same as one flat JSON object."""
        lines = [str(mark) for mark in self.marks]
        head = {"kind": self.kind, "at": self.at, "session": self.session, "says": self.says}
        return {**head, **self.facts, "lines": lines}


def span(seconds: float) -> str:
    """A length of time as people say it: "1.9 ms", "4.2 s", "3 min 37 s", "2 h 05 min"."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
