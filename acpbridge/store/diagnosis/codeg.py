"""Turns in a log of Codeg (desktop or server), paired by session.

Read from its source (xintaofei/codeg b263b6ce and newer, `src-tauri/src/acp/session_state.rs`):
`[ACP] status_changed session=Some("ID") Connected -> Prompting` when a prompt is sent, and
`[ACP] turn_complete session=Some("ID") stop_reason=R background_outstanding=N` when Codeg takes
the turn for ended, which sets the status without a line of its own. stderr has them as text, with
or without colours; the daily file has them as JSON. The first half second of a turn can tell
nothing else apart, so only its length is judged.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import ClassVar

from attrs import define, field, frozen

from acpbridge.store.diagnosis.bursts import Bursts
from acpbridge.store.diagnosis.finding import SWALLOWED_MS, Finding, Mark, span
from acpbridge.store.diagnosis.log import Line
from acpbridge.store.diagnosis.stamps import Stamp

OPEN_MAX = 16_384
"""Turns that may be open at once; past that the oldest is forgotten."""
ORPHANS_MAX = 1_024
"""Ends without a beginning that are remembered."""

_STATUS = re.compile(rb"status_changed session=(\S+) (\w+)\S* -> (\w+)")
_COMPLETE = re.compile(rb"turn_complete session=(\S+) stop_reason=(\w*)")
_SOME = re.compile(r'Some\(\\*"(.*?)\\*"\)')


@frozen
class _Point:
    """One end of a turn."""

    session: str
    mark: Mark
    stamp: Stamp | None


@define(eq=False)
class Codeg:
    """Reads the lines of one or more log files of one Codeg, oldest first."""

    stuck_s: float
    turns: int = 0
    """Turns with a beginning and an end."""
    longest_s: float = 0.0
    coarse: int = 0
    """Turns that are too coarse or have no time to say how long they took."""
    running: int = 0
    """Turns that were still young when the log ended."""
    _open: dict[str, _Point] = field(factory=dict)
    _orphans: deque[_Point] = field(factory=lambda: deque(maxlen=ORPHANS_MAX))
    _bursts: Bursts = field(factory=Bursts)

    WORDS: ClassVar[tuple[bytes, ...]] = (
        b"status_changed session=",
        b"turn_complete session=",
        b"codeg-server v",
        b"in-turn Prompt DROPPED",
    )

    def read(self, line: Line) -> Iterator[Finding]:
        """Take one line with one of `WORDS`."""
        return _READERS[line.word](self, line)

    def end(self, last: Stamp | None) -> Iterator[Finding]:
        """The log is over; `last` is its last time. Judge the turns that are still open."""
        for begun in list(self._open.values()):
            age_s = _seconds(begun.stamp, last)
            if (rotated := self._rotation(begun)) is not None:
                yield rotated
            elif age_s is None or age_s >= self.stuck_s:
                age = "" if age_s is None else f", {span(age_s)} later"
                yield _stuck(begun, f"the turn has no end by the end of the log{age}")
            else:
                self.running += 1
        self._open.clear()
        yield from self._bursts.end()

    def _status(self, line: Line) -> Iterator[Finding]:
        found = _STATUS.match(line.said)
        if found is None:
            return
        session, before, after = _session(found[1]), found[2], found[3]
        if after == b"Prompting":
            if before != b"Prompting":
                yield from self._begin(_Point(session, line.mark, line.stamp))
            return
        begun = self._open.pop(session, None) if before == b"Prompting" else None
        # Disconnected is what closing a tab does; the turn's end is then nobody's business.
        if begun is not None and after == b"Error":
            yield _stuck(begun, "the connection failed before the turn ended", line.mark)

    def _begin(self, begun: _Point) -> Iterator[Finding]:
        before = self._open.pop(begun.session, None)
        if before is not None:
            says = "the turn has no end; the next prompt of the session was sent all the same"
            yield _stuck(before, says, begun.mark)
        if len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[begun.session] = begun

    def _complete(self, line: Line) -> Iterator[Finding]:
        found = _COMPLETE.match(line.said)
        if found is None:
            return
        ended = _Point(_session(found[1]), line.mark, line.stamp)
        begun = self._open.pop(ended.session, None)
        if begun is None:
            self._orphans.append(ended)
            return
        self.turns += 1
        length_s = _seconds(begun.stamp, ended.stamp)
        if length_s is None:
            self.coarse += 1
            return
        self.longest_s = max(self.longest_s, length_s)
        if length_s * 1000 >= SWALLOWED_MS or length_s < 0:
            return
        assert begun.stamp is not None, "it has a length"
        if not (begun.stamp.is_fine and ended.stamp is not None and ended.stamp.is_fine):
            self.coarse += 1
            return
        reason = found[2].decode("ascii", "replace")
        yield _swallowed(begun, ended, length_s, reason)
        marks = (begun.mark, ended.mark)
        yield from self._bursts.add(begun.session, begun.stamp.ns, begun.stamp.text, marks)

    def _started(self, line: Line) -> Iterator[Finding]:
        """A server that starts has no turns: those that are open died with the one before."""
        for begun in self._open.values():
            says = "the turn has no end; the server was started again"
            yield self._rotation(begun) or _stuck(begun, says, line.mark)
        self._open.clear()
        self._orphans.clear()

    def _dropped(self, line: Line) -> Iterator[Finding]:
        at = line.stamp.text if line.stamp is not None else ""
        says = "Codeg dropped a send that met a running turn"
        yield Finding("dropped", at, "", says, (line.mark,))

    def _rotation(self, begun: _Point) -> Finding | None:
        """The one end without a beginning behind it: the session has another id by then."""
        ends = [end for end in self._orphans if (_seconds(begun.stamp, end.stamp) or -1.0) >= 0]
        if len(ends) != 1:
            return None
        self._orphans.remove(ends[0])
        length_s = _seconds(begun.stamp, ends[0].stamp)
        assert length_s is not None, "it is behind it"
        return Finding(
            "rotated",
            begun.stamp.text if begun.stamp is not None else "",
            begun.session,
            "the turn has no end under this id; the one end without a beginning came "
            f"{span(length_s)} later, under {ends[0].session}",
            (begun.mark, ends[0].mark),
            {"duration_ms": round(length_s * 1000, 3), "became": ends[0].session},
        )


_READERS: dict[bytes, Callable[[Codeg, Line], Iterator[Finding]]] = dict(
    zip(
        Codeg.WORDS,
        (Codeg._status, Codeg._complete, Codeg._started, Codeg._dropped),  # noqa: SLF001
        strict=True,
    )
)


def _swallowed(begun: _Point, ended: _Point, length_s: float, reason: str) -> Finding:
    assert begun.stamp is not None, "it has a length"
    return Finding(
        "swallowed",
        begun.stamp.text,
        begun.session,
        f"the turn was over {span(length_s)} after the send (stop_reason={reason})",
        (begun.mark, ended.mark),
        {"duration_ms": round(length_s * 1000, 6), "stop_reason": reason},
    )


def _stuck(begun: _Point, says: str, *more: Mark) -> Finding:
    at = begun.stamp.text if begun.stamp is not None else ""
    return Finding("stuck", at, begun.session, says, (begun.mark, *more))


def _session(text: bytes) -> str:
    """The id out of Rust's `Some("ID")`, however often its quotes are escaped."""
    shown = text.decode("utf-8", "replace")
    found = _SOME.match(shown)
    return found[1] if found is not None else shown.replace("None", "")


def _seconds(begun: Stamp | None, ended: Stamp | None) -> float | None:
    if begun is None or ended is None:
        return None
    return (ended.ns - begun.ns) / 1_000_000_000
