"""What has happened in each session, as the hub's log was told, and how to read it in order.

The log's own limits, cursors and merging have tests of their own; here every event is kept, so
that what a client was given can be laid beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from acpbridge.core.ring import EventLog
from acpbridge.wire.shapes import Chunks
from tests.sim.frames import Json
from tests.sim.violation import must

TURN_ENDED = "_acpbridge/turn_ended"
_DELTAS = ("agent_message_chunk", "agent_thought_chunk")


@define(eq=False)
class KeptLog(EventLog):
    """The log that says what it is given."""

    told: Callable[[str, int, bytes, str], None] = field(kw_only=True)
    in_row: bool = field(default=False, init=False)

    def append(self, session: str, line: bytes, trace_id: str, variant: str) -> int:
        """One event."""
        seq = EventLog.append(self, session, line, trace_id, variant)
        if not self.in_row:
            self.told(session, seq, line, trace_id)
        return seq

    def append_all(
        self, session: str, lines: Sequence[bytes], chunks: Chunks, trace_id: str
    ) -> int:
        """Some in a row."""
        self.in_row = True
        last = EventLog.append_all(self, session, lines, chunks, trace_id)
        self.in_row = False
        for seq, line in enumerate(lines, last - len(lines) + 1):
            self.told(session, seq, line, trace_id)
        return last


@frozen(eq=False)
class Happened:
    """One event of a session."""

    line: bytes
    frame: Json
    trace: str
    text: str
    """The words of a delta, which may come merged with its neighbours; else empty."""
    of: frozenset[int]
    """Clients that know of it by themselves: it is theirs."""
    serial: int
    """Of the agent's frame; 0 where it is none."""

    @property
    def is_end(self) -> bool:
        """Whether only clients with events are told of it."""
        return bool(self.frame["method"] == TURN_ENDED)


def words_of(frame: Json) -> str:
    """The text of a chunk."""
    update = frame.get("params", {}).get("update", {})
    content = update.get("content") if update.get("sessionUpdate") in _DELTAS else None
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else ""


def bare(frame: Json) -> tuple[Json, Json]:
    """A frame without what the bridge has put into its params, and that."""
    meta = dict(frame["params"].get("_meta") or {})
    said = meta.pop("acpbridge", {})
    params = {name: value for name, value in frame["params"].items() if name != "_meta"}
    if meta:
        params["_meta"] = meta
    return {**frame, "params": params}, said


def _without_text(frame: Json) -> Json:
    update = frame["params"]["update"]
    content = {**update["content"], "text": ""}
    return {**frame, "params": {**frame["params"], "update": {**update, "content": content}}}


@define(eq=False)
class Page:
    """The events of one session, by seq."""

    sid: str
    events: dict[int, Happened] = field(factory=dict)
    latest: int = 0
    before: int = 0
    """The latest before the step of now."""
    seen: int = 0
    """Where it stood when the last of its followers left."""
    load_seq: int = 0
    """Where it stood when a load of it went to the agent."""

    def add(self, seq: int, happened: Happened) -> None:
        """The log was given the next event."""
        must(seq == self.latest + 1, "seq", f"{self.sid}: {seq} comes after {self.latest}")
        self.events[seq] = happened
        self.latest = seq

    def holes(self, at: int, reader: Reader) -> list[int]:
        """What stands behind `at` and should have been given to this reader."""
        rest = range(at + 1, self.latest + 1)
        return [seq for seq in rest if not reader.knows(self.events[seq])]

    def read(self, line: bytes, at: int, reader: Reader, *, may_begin_later: bool = False) -> int:
        """Take a line that a reader got behind `at` for the next event, or events; the new place.

        Only what the reader knows by itself may be left out between.
        """
        frame = json.loads(line)
        said: Json = {}
        if reader.has_events:
            frame, said = bare(frame)
            must(said.get("seq", 0) > at, "seq", f"{reader.number} is behind {at}: {line!r}")
        seq = at + 1
        target = self.events.get(said.get("seq", 0))
        if target is not None and not target.text:
            # It says itself which one it is.
            seq = int(said["seq"])
            gone = [one for one in range(at + 1, seq) if not reader.knows(self.events[one])]
            must(not gone or may_begin_later, "I6", f"{reader.number} gets {seq} and not {gone}")
        while seq <= self.latest and not self._fits(seq, line, frame, reader):
            left_out = may_begin_later or reader.knows(self.events[seq])
            must(left_out, "I6", f"{reader.number} gets {line!r} and not {seq} of {self.sid}")
            seq += 1
        must(seq <= self.latest, "I6", f"{reader.number} gets what is not next: {line!r}")
        last = self._last(seq, frame)
        if reader.has_events:
            place = (said.get("seq"), said.get("traceId", ""))
            must(place == (last, self.events[seq].trace), "seq", f"{line!r} is {last}")
        return last

    def _fits(self, seq: int, line: bytes, frame: Json, reader: Reader) -> bool:
        event = self.events[seq]
        if event.line == line or (reader.has_events and frame == event.frame):
            return True
        text = words_of(frame)
        is_more = event.text and text != event.text and text.startswith(event.text)
        return bool(is_more) and _without_text(frame) == _without_text(event.frame)

    def _last(self, seq: int, frame: Json) -> int:
        """The last of the events that are merged in this frame."""
        rest = words_of(frame)
        if not self.events[seq].text:
            return seq
        while rest:
            text = self.events[seq].text if seq <= self.latest else ""
            must(bool(text) and rest.startswith(text), "I6", f"merged text has a hole at {seq}")
            rest = rest[len(text) :]
            seq += 1
        return seq - 1


@define(eq=False)
class Reader:
    """Who reads: what is shown to it, and how."""

    number: int
    has_events: bool = False

    def knows(self, event: Happened) -> bool:
        """Whether it is not told: it is its own, or only for those with events."""
        return self.number in event.of or (event.is_end and not self.has_events)
