"""What the event log keeps of a session: durable events, and text in entries that grow."""

from __future__ import annotations

from array import array
from collections import deque

from attrs import define, field, frozen

from acpbridge.wire import splice


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
class Marks:
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
class TextEntry:
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
        """Nothing of the session came between its deltas, so their seqs have no hole."""
        return self.first_seq + len(self.ends) - 1

    def after(self, seq: int) -> Logged:
        """The deltas behind `seq`, as one frame; there is at least one."""
        seen = seq - self.first_seq + 1
        begin = self.ends[seen - 1] if seen > 0 else 0
        at = len(self.head)
        line = splice.replace(self.head + self.tail, (at, at), bytes(self.body[begin:]))
        return Logged(self.last_seq, self.trace_id, line)


@define(eq=False)
class SessionLog(Marks):
    """What is kept of a session, oldest first."""

    events: deque[Logged] = field(factory=deque)
    event_bytes: int = 0
    texts: deque[TextEntry] = field(factory=deque)
    text_bytes: int = 0
    open: TextEntry | None = None
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
