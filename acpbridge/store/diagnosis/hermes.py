"""Turns in a log of Hermes: its `agent.log`, or what `hermes acp` writes to stderr.

Read from hermes-agent 0.19.0, and seen in its output. The lines that matter come from
`acp_adapter/server.py`, `agent/turn_context.py`, `agent/turn_finalizer.py`,
`agent/conversation_compression.py` and `agent/agent_runtime_helpers.py`; format
`%(asctime)s [%(levelname)s] %(name)s: %(message)s`, whole seconds, on stderr, and
`%(asctime)s %(levelname)s [session] %(name)s: …`, milliseconds, in the file. Hermes writes no line
when it queues a prompt or answers it with a receipt, and the run of a queued prompt looks like
that of any other, so a swallowed send as such cannot be seen here: only what it leaves behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import ClassVar

from attrs import define, field

from acpbridge.store.diagnosis.finding import Finding, Mark, span
from acpbridge.store.diagnosis.log import Line
from acpbridge.store.diagnosis.stamps import Stamp

SESSIONS_MAX = 16_384
"""Sessions that are remembered; past that the oldest is forgotten."""
WEDGE_S = 5
"""The error that wedges a session comes this soon after the interrupted turn's end."""

_NS = 1_000_000_000
_PROMPT = re.compile(rb"Prompt on session (\S+): ")
_TURN = re.compile(rb"conversation turn: session=(\S+) ")
_ENDED = re.compile(rb"Turn ended: reason=(.*?) model=.* session=(\S+)")
_CANCELLED = re.compile(rb"Cancelled session (\S+)")
_UNKNOWN = re.compile(rb"prompt: session (\S+) not found")
_COMPRESSION = re.compile(rb"context compression (started|done): session=(\S+)")


@define(eq=False)
class _Session:
    """One ACP session, under the id that its client knows."""

    id: str
    hermes: str = ""
    """Hermes' own id of it now; compression changes it. Empty until a turn has named it."""
    begun: Line | None = None
    """The prompt that runs."""
    cancelled: Mark | None = None
    interrupted: Line | None = None
    """The end of a turn that was cancelled, until the next prompt."""


@define(eq=False)
class Hermes:
    """Reads the lines of one or more log files of one Hermes, oldest first."""

    stuck_s: float
    turns: int = 0
    running: int = 0
    """Turns that were still young when the log ended."""
    _sessions: dict[str, _Session] = field(factory=dict)
    _by_hermes: dict[str, _Session] = field(factory=dict)
    _prompted: list[_Session] = field(factory=list)
    """Sessions whose turn has not told Hermes' own id yet."""
    _compressing: dict[str, Line] = field(factory=dict)
    _failed: Line | None = None
    """A failed request, until the traceback says how."""

    WORDS: ClassVar[tuple[bytes, ...]] = (
        b"Prompt on session ",
        b"conversation turn: session=",
        b"Turn ended: reason=",
        b"Cancelled session ",
        b"Background task failed",
        b"RequestError: Internal error",
        b"context compression ",
        b"Delivered /steer to agent after tool batch",
        b"prompt: session ",
    )

    def read(self, line: Line) -> Iterator[Finding]:
        """Take one line with one of `WORDS`."""
        return _READERS[line.word](self, line)

    def end(self, last: Stamp | None) -> Iterator[Finding]:
        """The log is over; `last` is its last time. Judge the turns that are still open."""
        for session in self._sessions.values():
            if session.begun is None:
                continue
            begun = session.begun.stamp
            age_s = None if begun is None or last is None else (last.ns - begun.ns) / _NS
            if age_s is not None and age_s < self.stuck_s:
                self.running += 1
                continue
            age = "" if age_s is None else f", {span(age_s)} later"
            says = f"the turn has no end by the end of the log{age}"
            yield Finding("stuck", _at(session.begun), session.id, says, (session.begun.mark,))

    def _prompt(self, line: Line) -> Iterator[Finding]:
        if (found := _PROMPT.match(line.said)) is not None:
            session = self._session(_text(found[1]))
            session.begun, session.interrupted = line, None
            self._prompted = [*(one for one in self._prompted if one is not session), session]
        yield from ()

    def _turn(self, line: Line) -> Iterator[Finding]:
        """A turn tells Hermes' own id; it follows the prompt's line, also where several run."""
        found = _TURN.match(line.said)
        if found is None:
            return
        own = _text(found[1])
        known = self._by_hermes.get(own)
        named = [one for one in self._prompted if one is known or one.id == own]
        if not named and known is None:
            named = self._prompted[:]
            if len(named) > 1:
                # Nobody can say whose turn it is, nor whose end will be an end.
                for session in named:
                    session.begun = None
                self._prompted.clear()
                return
        for session in named:
            self._prompted.remove(session)
            yield from self._named(session, own, line)

    def _ended(self, line: Line) -> Iterator[Finding]:
        found = _ENDED.match(line.said)
        own = _text(found[2]) if found is not None else ""
        session = self._by_hermes.get(own) or self._sessions.get(own)
        if found is not None and session is not None and session.begun is not None:
            self.turns += 1
            session.begun = None
            if session.cancelled is not None and found[1].startswith(b"interrupted"):
                session.interrupted = line
            else:
                session.cancelled = None
        yield from ()

    def _cancelled(self, line: Line) -> Iterator[Finding]:
        if (found := _CANCELLED.match(line.said)) is not None:
            self._session(_text(found[1])).cancelled = line.mark
        yield from ()

    def _failure(self, line: Line) -> Iterator[Finding]:
        self._failed = line
        yield from ()

    def _internal_error(self, _: Line) -> Iterator[Finding]:
        """hermes-agent#86798: the cancelled turn's end raises, and the session stays busy."""
        failed, self._failed = self._failed, None
        if failed is None:
            return
        for session in self._sessions.values():
            end = session.interrupted
            if end is None or session.cancelled is None or not _is_soon(end, failed):
                continue
            says = (
                "the cancelled turn ended in an internal error: every later prompt of this session "
                "is acknowledged and never run, until Hermes is started again or the session forked"
            )
            marks = (session.cancelled, end.mark, failed.mark)
            yield Finding("wedged", _at(end), session.id, says, marks)
            session.interrupted = session.cancelled = None
            return

    def _compression(self, line: Line) -> Iterator[Finding]:
        found = _COMPRESSION.match(line.said)
        if found is None:
            return
        own = _text(found[2])
        if found[1] == b"started":
            if len(self._compressing) >= SESSIONS_MAX:
                self._compressing.clear()
            self._compressing[own] = line
            return
        if self._compressing.pop(own, None) is not None or len(self._compressing) != 1:
            # It kept its id, or nobody can say which of several has which new one.
            return
        before, started = self._compressing.popitem()
        session = self._by_hermes.get(before)
        if session is not None:
            yield from self._named(session, own, line, started.mark)

    def _folded(self, line: Line) -> Iterator[Finding]:
        running = [one.id for one in self._sessions.values() if one.begun is not None]
        says = "Hermes put a send into the running turn; its own request was answered at once"
        session = running[0] if len(running) == 1 else ""
        yield Finding("folded", _at(line), session, says, (line.mark,))

    def _unknown(self, line: Line) -> Iterator[Finding]:
        if (found := _UNKNOWN.match(line.said)) is not None:
            says = "Hermes does not know the session: the send was refused and did not run"
            session = _text(found[1])
            facts = {"stop_reason": "refusal"}
            yield Finding("swallowed", _at(line), session, says, (line.mark,), facts)

    def _named(self, session: _Session, own: str, line: Line, *more: Mark) -> Iterator[Finding]:
        before, session.hermes = session.hermes, own
        self._by_hermes.pop(before, None)
        self._by_hermes[own] = session
        if before in {"", own}:
            return
        begun = (session.begun.mark,) if session.begun is not None else ()
        says = (
            f"Hermes' id of the session became {own} (it was {before}); the client keeps the old "
            "one, and a restarted Hermes knows the whole conversation only by the new one"
        )
        marks = (*begun, *more, line.mark)
        yield Finding("rotated", _at(line), session.id, says, marks, {"became": own})

    def _session(self, id_: str) -> _Session:
        session = self._sessions.get(id_)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                oldest = self._sessions.pop(next(iter(self._sessions)))
                self._by_hermes.pop(oldest.hermes, None)
            session = self._sessions[id_] = _Session(id_)
        return session


_READERS: dict[bytes, Callable[[Hermes, Line], Iterator[Finding]]] = dict(
    zip(
        Hermes.WORDS,
        (
            Hermes._prompt,  # noqa: SLF001
            Hermes._turn,  # noqa: SLF001
            Hermes._ended,  # noqa: SLF001
            Hermes._cancelled,  # noqa: SLF001
            Hermes._failure,  # noqa: SLF001
            Hermes._internal_error,  # noqa: SLF001
            Hermes._compression,  # noqa: SLF001
            Hermes._folded,  # noqa: SLF001
            Hermes._unknown,  # noqa: SLF001
        ),
        strict=True,
    )
)


def _text(id_: bytes) -> str:
    return id_.decode("utf-8", "replace")


def _at(line: Line) -> str:
    return line.stamp.text if line.stamp is not None else ""


def _is_soon(end: Line, failed: Line) -> bool:
    if end.stamp is None or failed.stamp is None:
        return False
    return 0 <= failed.stamp.ns - end.stamp.ns <= WEDGE_S * _NS
