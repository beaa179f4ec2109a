"""The event log of one bridge: what a client that was away has missed.

The rule of this module: cursors are values. A client remembers `(epoch, seq)`, the log remembers
no client. Every event of a session gets the next seq, 1, 2, 3, …, and keeps it for the whole epoch.

Durable events (everything but text deltas) and text are bounded apart, so text never pushes out a
durable event. Adjacent deltas whose lines differ in nothing but their text are one entry: the text
in one piece, and where each delta's part of it ends. With a durable event goes all text before it,
which nobody who is not told `truncated` could need; text over its own limit goes alone.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate, islice

from attrs import define, field

from acpbridge.core import replies
from acpbridge.core.policy import MIB
from acpbridge.core.ring_entries import Logged, LogStats, Marks, Replay, SessionLog, TextEntry
from acpbridge.wire import acp
from acpbridge.wire.scan import find, find_unique
from acpbridge.wire.shapes import Chunks

DELTA_BYTES = 8
"""What a merged delta costs beside its text: the place where it ends."""

TEXT_ENTRY_BYTES = 512
"""What an entry of text costs beside its bytes: an object, two strings, two buffers."""

SHAPE_BYTES_MAX = 4_096
"""A line with more than this around its text is searched again for each entry that it begins."""

_EPOCH = re.compile(r"[0-9a-f]{8}")
_DELTAS = (acp.AGENT_MESSAGE_CHUNK, acp.AGENT_THOUGHT_CHUNK)
_CONTENT = ("params", "update", "content")
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""Bytes that stand within one JSON string, in a line that a parser has accepted."""


@define(eq=False)
class EventLog:
    """The last events of each session of one bridge (issue 6, point 4).

    All limits are at least 1; they hold when `append` returns.
    """

    epoch: str
    """8 hexadecimal digits, drawn anew whenever a log begins; given, since chance is not ours."""
    events_max: int = field(default=512, kw_only=True)
    """Durable events kept of a session; the oldest goes first."""
    event_bytes_max: int = field(default=2 * MIB, kw_only=True)
    """Bytes of durable lines kept of a session. One longer line is not kept, nor what is older."""
    text_entry_bytes_max: int = field(default=64 * 1024, kw_only=True)
    """Bytes of an entry of text, with what it costs: the next delta begins another one. So a
    replayed frame is not longer than this, unless one delta was. Text is dropped by entries."""
    text_bytes_max: int = field(default=1 * MIB, kw_only=True)
    """Bytes of all entries of text of a session; the oldest goes first."""
    sessions_max: int = field(default=64, kw_only=True)
    """Sessions kept. The one whose last event is the oldest is forgotten first."""
    bytes_max: int = field(default=64 * MIB, kw_only=True)
    """Bytes kept of all sessions; they are forgotten in the same order, the last one never."""
    forgotten_max: int = field(default=4_096, kw_only=True)
    """Forgotten sessions whose place is remembered, so that no cursor is ever misread."""

    _sessions: dict[str, SessionLog] = field(factory=dict, init=False)
    """By id; the one with the newest event is the last."""
    _newest_id: str | None = field(default=None, init=False)
    _newest: SessionLog = field(factory=SessionLog, init=False)
    """The session of `_newest_id`, if that is not None."""
    _forgotten: dict[str, Marks] = field(factory=dict, init=False)
    _floor: Marks = field(factory=Marks, init=False)
    """The highest marks of all sessions that are not even in `_forgotten`, 0 while there is none:
    where a session of which nothing is known begins."""
    _bytes: int = field(default=0, init=False)
    _entry_bytes_max: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        assert _EPOCH.fullmatch(self.epoch), self.epoch
        # So a delta that merges never takes the entry, and itself, over the session's limit.
        self._entry_bytes_max = min(self.text_entry_bytes_max, self.text_bytes_max)

    def append(self, session: str, line: bytes, trace_id: str, variant: str) -> int:
        """Log a session's next event and return its seq, 1 for the first.

        Args:
            session: The id by which clients know the session.
            line: A JSON-RPC line that a parser has accepted, without its end, as clients get it.
            trace_id: The trace id of its turn, 12 hexadecimal digits; empty outside of a turn.
            variant: `Frame.variant`. A text of the agent, by variant and content, is a delta;
                everything else is a durable event.

        A delta that merges costs about a microsecond, however many there are.
        """
        log = self._newest if session == self._newest_id else self._turn_to(session)
        text = log.open
        if text is not None and text.trace_id == trace_id:
            part = _between(line, text.head, text.tail)
            if part is not None:
                cost = len(part) + DELTA_BYTES
                if text.bytes + cost <= self._entry_bytes_max:
                    text.body += part
                    text.ends.append(len(text.body))
                    text.bytes += cost
                    log.text_bytes += cost
                    self._bytes += cost
                    log.latest_seq += 1
                    if log.text_bytes > self.text_bytes_max or self._bytes > self.bytes_max:
                        self._keep_limits(log)
                    return log.latest_seq
        return self._append_apart(log, line, trace_id, variant)

    def append_all(
        self, session: str, lines: Sequence[bytes], chunks: Chunks, trace_id: str
    ) -> int:
        """Log some lines of `chunks`, in their order, and return the seq of the last of them.

        As `append` for each, but what goes on with the text before it goes in one piece.
        """
        latest_seq, at = 0, 0
        while at < len(lines):
            log = self._newest if session == self._newest_id else self._turn_to(session)
            count = self._merge(log, lines[at:], chunks, trace_id)
            if count:
                latest_seq = log.latest_seq
            else:
                latest_seq = self.append(session, lines[at], trace_id, chunks.variant)
                count = 1
            at += count
        return latest_seq

    def _merge(self, log: SessionLog, lines: Sequence[bytes], chunks: Chunks, trace_id: str) -> int:
        """Put chunks into the open entry if they are of its shape, as many as fit; how many."""
        text = log.open
        if text is None or text.trace_id != trace_id:
            return 0
        if (text.head, text.tail) != (chunks.prefix, chunks.suffix):
            return 0
        begin, cut = len(chunks.prefix), len(chunks.suffix)
        parts = [line[begin : len(line) - cut] for line in lines]
        room = self._entry_bytes_max - text.bytes
        cost = _cost(parts)
        while parts and cost > room:
            del parts[len(parts) // 2 :]
            cost = _cost(parts)
        if not parts:
            return 0
        sizes = map(len, parts)
        text.ends.extend(islice(accumulate(sizes, initial=len(text.body)), 1, None))
        text.body += b"".join(parts)
        text.bytes += cost
        log.text_bytes += cost
        self._bytes += cost
        log.latest_seq += len(parts)
        if log.text_bytes > self.text_bytes_max or self._bytes > self.bytes_max:
            self._keep_limits(log)
        return len(parts)

    def since(self, session: str, epoch: str, seq: int) -> Replay:
        """What came behind the cursor `(epoch, seq)`; changes nothing.

        A client without a cursor gives an empty epoch. Of a session that was forgotten, or that
        never was, there are no frames; `latest_seq` and the three claims are true of it too.
        """
        log = self._sessions.get(session) or self._forgotten.get(session, self._floor)
        starts_over = epoch != self.epoch or seq > log.latest_seq
        begin = 0 if starts_over else max(seq, 0)
        return Replay(
            frames=tuple(log.after(begin)),
            latest_seq=log.latest_seq,
            truncated=begin < log.event_dropped_seq,
            epoch=self.epoch,
            text_dropped=begin < log.text_dropped_seq,
            starts_over=starts_over,
        )

    def latest_seq(self, session: str) -> int:
        """The seq of a session's last event, kept or not; 0 for none."""
        log = self._sessions.get(session) or self._forgotten.get(session, self._floor)
        return log.latest_seq

    def forget(self, session: str) -> None:
        """Drop what is kept of a session, if anything is; its next event gets the next seq."""
        log = self._sessions.pop(session, None)
        if log is None:
            return
        self._bytes -= log.event_bytes + log.text_bytes
        if session == self._newest_id:
            self._newest_id = None
        self._forgotten[session] = Marks(
            log.latest_seq,
            log.events[-1].seq if log.events else log.event_dropped_seq,
            log.texts[-1].last_seq if log.texts else log.text_dropped_seq,
        )
        if len(self._forgotten) > self.forgotten_max:
            marks = self._forgotten.pop(next(iter(self._forgotten)))
            floor = self._floor
            self._floor = Marks(
                max(floor.latest_seq, marks.latest_seq),
                max(floor.event_dropped_seq, marks.event_dropped_seq),
                max(floor.text_dropped_seq, marks.text_dropped_seq),
            )

    def stats(self) -> LogStats:
        """How full the log is; costs a step for each session."""
        logs = self._sessions.values()
        return LogStats(
            sessions=len(logs),
            events=sum(len(log.events) for log in logs),
            texts=sum(len(log.texts) for log in logs),
            bytes=self._bytes,
        )

    # -- how it is kept ---------------------------------------------------------------------
    def _turn_to(self, session: str) -> SessionLog:
        """The session, made the last to be forgotten; begun or begun again if need be."""
        log = self._sessions.pop(session, None)
        if log is None:
            marks = self._forgotten.pop(session, self._floor)
            log = SessionLog(marks.latest_seq, marks.event_dropped_seq, marks.text_dropped_seq)
        self._sessions[session] = self._newest = log
        self._newest_id = session
        return log

    def _append_apart(self, log: SessionLog, line: bytes, trace_id: str, variant: str) -> int:
        """Log what does not go on with the text before it."""
        log.latest_seq += 1
        cut = _cut(log, line, variant) if variant in _DELTAS else None
        if cut is None:
            log.open = None
            log.events.append(Logged(log.latest_seq, trace_id, line))
            log.event_bytes += len(line)
            self._bytes += len(line)
        else:
            head, part, tail = cut
            cost = TEXT_ENTRY_BYTES + len(line) + DELTA_BYTES
            ends = array("Q", (len(part),))
            text = TextEntry(head, tail, trace_id, log.latest_seq, cost, bytearray(part), ends)
            log.open = text if tail else None
            log.texts.append(text)
            log.text_bytes += cost
            self._bytes += cost
        self._keep_limits(log)
        return log.latest_seq

    def _keep_limits(self, log: SessionLog) -> None:
        """Drop what is over a limit, now that the last event stands in `log`."""
        while len(log.events) > self.events_max or log.event_bytes > self.event_bytes_max:
            event = log.events.popleft()
            log.event_bytes -= len(event.line)
            self._bytes -= len(event.line)
            log.event_dropped_seq = event.seq
            while log.texts and log.texts[0].first_seq < event.seq:
                self._drop_text(log)
        while log.text_bytes > self.text_bytes_max:
            self._drop_text(log)
        sessions = self._sessions
        while len(sessions) > self.sessions_max or (
            self._bytes > self.bytes_max and len(sessions) > 1
        ):
            self.forget(next(iter(sessions)))

    def _drop_text(self, log: SessionLog) -> None:
        text = log.texts.popleft()
        log.text_bytes -= text.bytes
        self._bytes -= text.bytes
        log.text_dropped_seq = text.last_seq
        if text is log.open:
            # One delta over the limit: it could merge with none, but would be held uncounted.
            log.open = None


def _cost(parts: list[bytes]) -> int:
    return sum(map(len, parts)) + DELTA_BYTES * len(parts)


def stamped(line: bytes, epoch: str, seq: int, trace_id: str) -> bytes:
    """Return a notification with its place in the log as `params._meta.acpbridge`.

    For clients that have asked for it; live and replayed frames are stamped alike. An empty trace
    id is left out, and a line whose params are no object is returned as it is.
    """
    place = {"seq": seq, "epoch": epoch} | ({"traceId": trace_id} if trace_id else {})
    return replies.marked(line, "params", place)


def _between(line: bytes, head: bytes, tail: bytes) -> bytes | None:
    """The line's text as it stands there, None where the line is not of this shape.

    A line that opens a string where `head` does, has nothing but that string up to `tail`, and
    then is `tail`, differs from the others of the shape in that text alone, in no name and no id.
    """
    if not (line.startswith(head) and line.endswith(tail)):
        return None
    begin, end = len(head), len(line) - len(tail)
    part = line[begin:end]
    if (b"\\" in part or b'"' in part) and not _IN_STRING.fullmatch(part):
        return None
    # Where the halves overlap they share the quote, and the string is another one.
    return part if begin <= end else None


def _cut(log: SessionLog, line: bytes, variant: str) -> tuple[bytes, bytes, bytes] | None:
    """The line of a chunk as head, text and tail; None where its content is no text."""
    shape = log.shapes.get(variant)
    part = _between(line, *shape) if shape is not None else None
    if shape is not None and part is not None:
        return shape[0], part, shape[1]
    kind, span = find(line, *_CONTENT, "type"), find(line, *_CONTENT, "text")
    if kind is None or span is None:
        return None
    begin, end = span[0] + 1, span[1] - 1
    if line[kind[0] : kind[1]] != b'"text"' or line[span[0] : begin] != b'"':
        return None
    if find_unique(line, *_CONTENT, "text") is None:
        # A doubled name: readers disagree on where the text is, so nothing is put into this line.
        return line, b"", b""
    head, tail = line[:begin], line[end:]
    if len(head) + len(tail) <= SHAPE_BYTES_MAX:
        log.shapes[variant] = (head, tail)
    return head, line[begin:end], tail
