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
from collections import deque

from attrs import define, field, frozen

from acpbridge.core.policy import MIB
from acpbridge.wire import acp, codec, splice
from acpbridge.wire.scan import find, find_unique

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


@frozen(eq=False)
class Logged:
    """One frame of a replay."""

    seq: int
    """Its seq; of merged deltas that of the last one. A client that has it has all up to here."""
    trace_id: str
    """The trace id of its turn, as it was given to `append`."""
    line: bytes
    """A JSON-RPC line without its end: as received, or with the rest of the text put in."""


@frozen(eq=False)
class Replay:
    """What the log has behind a cursor."""

    frames: tuple[Logged, ...]
    """In order of their seq."""
    latest_seq: int
    """The seq of the session's last event, kept or not, 0 for none: the client's next cursor."""
    truncated: bool
    """Whether a durable event behind the cursor is no longer there."""
    epoch: str
    """The log's epoch, 8 hexadecimal digits."""
    text_dropped: bool
    """Whether text behind the cursor is no longer there. Alone, it is no reason to load again."""
    starts_over: bool
    """Whether the cursor was none of this log's (another epoch, or a seq that is still to come):
    then this is all that there is, and what the client has is to be replaced by it."""


@frozen
class LogStats:
    """How full the log is."""

    sessions: int
    events: int
    """Durable events kept."""
    texts: int
    """Entries of text kept; each has one delta or more."""
    bytes: int
    """Bytes kept, as the limits count them."""


@define(eq=False)
class _Marks:
    """What is remembered of a session even when nothing of it is kept."""

    latest_seq: int = 0
    event_dropped_seq: int = 0
    """The highest seq of a durable event that was dropped."""
    text_dropped_seq: int = 0
    """The highest seq of a delta that was dropped."""

    def after(self, _: int) -> list[Logged]:
        """What is kept behind a seq: here, nothing."""
        return []


@define(eq=False)
class _Text:
    """Deltas in a row whose lines differ in their text alone."""

    head: bytes
    """Their line up to and including the opening quote of the text."""
    tail: bytes
    """From the closing quote on. Empty where the line merges with none: `head` is all of it."""
    trace_id: str
    first_seq: int
    bytes: int
    """What it costs, by the limits."""
    body: bytearray = field(factory=bytearray)
    """The texts one behind the other, in JSON's escapes as received."""
    ends: array[int] = field(factory=lambda: array("Q"))
    """Where in `body` each delta's text ends."""

    @property
    def last_seq(self) -> int:
        # Nothing of the session came between its deltas, so their seqs have no hole.
        return self.first_seq + len(self.ends) - 1

    def after(self, seq: int) -> Logged:
        """The deltas behind `seq`, as one frame; there is at least one."""
        seen = seq - self.first_seq + 1
        begin = self.ends[seen - 1] if seen > 0 else 0
        at = len(self.head)
        line = splice.replace(self.head + self.tail, (at, at), bytes(self.body[begin:]))
        return Logged(self.last_seq, self.trace_id, line)


@define(eq=False)
class _Session(_Marks):
    """What is kept of a session, oldest first."""

    events: deque[Logged] = field(factory=deque)
    event_bytes: int = 0
    texts: deque[_Text] = field(factory=deque)
    text_bytes: int = 0
    open: _Text | None = None
    """The last of `texts` while its last delta is the session's last event."""
    shapes: dict[str, tuple[bytes, bytes]] = field(factory=dict)
    """By variant, the head and tail of the last entry: the search for them costs 20 µs and more."""

    def after(self, seq: int) -> list[Logged]:
        """What is kept behind `seq`: costs as much as it returns, not as much as there is."""
        found: list[Logged] = []
        for event in reversed(self.events):
            if event.seq <= seq:
                break
            found.append(event)
        for text in reversed(self.texts):
            if text.last_seq <= seq:
                break
            found.append(text.after(seq))
        # No event stands between the deltas of one entry: their last seq is their place.
        found.sort(key=lambda logged: logged.seq)
        return found


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

    _sessions: dict[str, _Session] = field(factory=dict, init=False)
    """By id; the one with the newest event is the last."""
    _newest_id: str | None = field(default=None, init=False)
    _newest: _Session = field(factory=_Session, init=False)
    """The session of `_newest_id`, if that is not None."""
    _forgotten: dict[str, _Marks] = field(factory=dict, init=False)
    _floor: _Marks = field(factory=_Marks, init=False)
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

    def forget(self, session: str) -> None:
        """Drop what is kept of a session, if anything is; its next event gets the next seq."""
        log = self._sessions.pop(session, None)
        if log is None:
            return
        self._bytes -= log.event_bytes + log.text_bytes
        if session == self._newest_id:
            self._newest_id = None
        self._forgotten[session] = _Marks(
            log.latest_seq,
            log.events[-1].seq if log.events else log.event_dropped_seq,
            log.texts[-1].last_seq if log.texts else log.text_dropped_seq,
        )
        if len(self._forgotten) > self.forgotten_max:
            marks = self._forgotten.pop(next(iter(self._forgotten)))
            floor = self._floor
            self._floor = _Marks(
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
    def _turn_to(self, session: str) -> _Session:
        """The session, made the last to be forgotten; begun or begun again if need be."""
        log = self._sessions.pop(session, None)
        if log is None:
            marks = self._forgotten.pop(session, self._floor)
            log = _Session(marks.latest_seq, marks.event_dropped_seq, marks.text_dropped_seq)
        self._sessions[session] = self._newest = log
        self._newest_id = session
        return log

    def _append_apart(self, log: _Session, line: bytes, trace_id: str, variant: str) -> int:
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
            text = _Text(head, tail, trace_id, log.latest_seq, cost, bytearray(part), ends)
            log.open = text if tail else None
            log.texts.append(text)
            log.text_bytes += cost
            self._bytes += cost
        self._keep_limits(log)
        return log.latest_seq

    def _keep_limits(self, log: _Session) -> None:
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

    def _drop_text(self, log: _Session) -> None:
        text = log.texts.popleft()
        log.text_bytes -= text.bytes
        self._bytes -= text.bytes
        log.text_dropped_seq = text.last_seq
        if text is log.open:
            # One delta over the limit: it could merge with none, but would be held uncounted.
            log.open = None


def stamped(line: bytes, epoch: str, seq: int, trace_id: str) -> bytes:
    """Return a notification with its place in the log as `params._meta.acpbridge`.

    For clients that have asked for it; live and replayed frames are stamped alike. An empty trace
    id is left out, and a line whose params are no object is returned as it is.
    """
    place = {"seq": seq, "epoch": epoch} | ({"traceId": trace_id} if trace_id else {})
    if b'"_meta"' in line or b"\\u00" in line:
        # The name may stand in the params, in letters or in escapes; elsewhere it counts for none.
        meta = find(line, "params", "_meta")
        if meta is not None and line[meta[0] : meta[0] + 1] == b"{":
            return splice.with_member(line, ("params", "_meta"), "acpbridge", codec.encode(place))
    try:
        # ACP lets `_meta` be null, which says no more than none.
        return splice.with_member(line, ("params",), "_meta", codec.encode({"acpbridge": place}))
    except KeyError:
        return line


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


def _cut(log: _Session, line: bytes, variant: str) -> tuple[bytes, bytes, bytes] | None:
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
