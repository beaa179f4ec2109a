"""The event log against a naive list: after every move, cursors are asked for their rest."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from acpbridge.core.ring import EventLog
from acpbridge.core.ring_entries import Replay
from tests.core.logged import EPOCH, OTHER_TRACE, TEMPLATES, TRACE, put, tool


@define(eq=False)
class Told:
    """One event as it was appended."""

    seq: int
    line: bytes
    trace_id: str
    text: str
    """The text of a delta, which here is never empty; empty for a durable event."""
    bare: Any
    """The parsed line of a delta without its text, else None."""

    @property
    def is_text(self) -> bool:
        return self.text != ""


@define(eq=False)
class Naive:
    """All events of one session, and whether its beginning is still known."""

    told: list[Told] = field(factory=list)
    is_exact: bool = True
    kept_from: int = 0
    """Events up to this seq are gone, because the session was forgotten."""


EVENTS_MAX, EVENT_BYTES_MAX = 3, 600
TEXT_BYTES_MAX, ENTRY_BYTES_MAX = 3_000, 900
SESSIONS_MAX, FORGOTTEN_MAX = 2, 1


def joined(text: str) -> str:
    """The text as JavaScript has it: two halves of a pair that meet are one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def apart(line: bytes) -> tuple[str, Any]:
    """The text of a delta, and the parsed line without it."""
    body = json.loads(line)
    text = body["params"]["update"]["content"].pop("text")
    return joined(text), body


class LogModel(RuleBasedStateMachine):
    """Four sessions, of which the log keeps two and remembers a third."""

    def __init__(self) -> None:
        super().__init__()
        self.log = EventLog(
            EPOCH,
            events_max=EVENTS_MAX,
            event_bytes_max=EVENT_BYTES_MAX,
            text_bytes_max=TEXT_BYTES_MAX,
            text_entry_bytes_max=ENTRY_BYTES_MAX,
            sessions_max=SESSIONS_MAX,
            forgotten_max=FORGOTTEN_MAX,
        )
        self.naive = {name: Naive() for name in "abcd"}
        self.live: list[str] = []
        self.forgotten: list[str] = []
        self.lost: set[str] = set()
        self.count = 0
        self.touched = ""

    @rule(
        name=st.sampled_from("abcd"),
        template=st.sampled_from(TEMPLATES),
        trace_id=st.sampled_from((TRACE, OTHER_TRACE)),
        texts=st.lists(st.text(st.characters(), max_size=150), min_size=1, max_size=5),
        is_ascii=st.booleans(),
    )
    def deltas(
        self, name: str, template: bytes, trace_id: str, texts: list[str], is_ascii: bool
    ) -> None:
        for text in texts:
            self.count += 1
            token = json.dumps(f"{self.count}:{text}", ensure_ascii=is_ascii)
            self._append(name, template % token.encode("utf-8", "replace"), trace_id, is_text=True)

    @rule(name=st.sampled_from("abcd"), word=st.text(max_size=120))
    def event(self, name: str, word: str) -> None:
        self._append(name, tool(word), TRACE, is_text=False)

    @rule(name=st.sampled_from("abcd"))
    def forget(self, name: str) -> None:
        self.log.forget(name)
        if name in self.live:
            self._forgets(name)

    def _append(self, name: str, line: bytes, trace_id: str, *, is_text: bool) -> None:
        self.touched = name
        naive = self.naive[name]
        seq = put(self.log, line, trace_id, name)
        last_seq = naive.told[-1].seq if naive.told else 0
        if self.lost and name not in self.live and name not in self.forgotten:
            naive.is_exact = False
            assert seq > last_seq
        else:
            assert seq == last_seq + 1
        text, bare = apart(line) if is_text else ("", None)
        naive.told.append(Told(seq, line, trace_id, text, bare))
        self.forgotten = [other for other in self.forgotten if other != name]
        self.live = [*(other for other in self.live if other != name), name]
        if len(self.live) > SESSIONS_MAX:
            self._forgets(self.live[0])

    def _forgets(self, name: str) -> None:
        self.live.remove(name)
        self.naive[name].kept_from = self.naive[name].told[-1].seq
        self.forgotten.append(name)
        if len(self.forgotten) > FORGOTTEN_MAX:
            self.lost.add(self.forgotten.pop(0))

    def _durable_kept(self, naive: Naive) -> list[Told]:
        """The longest end of the durable events that is within the limits."""
        kept: list[Told] = []
        room = EVENT_BYTES_MAX
        for told in reversed([told for told in naive.told if not told.is_text]):
            room -= len(told.line)
            if room < 0 or len(kept) == EVENTS_MAX or told.seq <= naive.kept_from:
                break
            kept.append(told)
        return kept[::-1]

    @invariant()
    def every_cursor_gets_the_rest(self) -> None:
        for name, naive in self.naive.items():
            last_seq = naive.told[-1].seq if naive.told else 0
            # All of what may be kept of the session that was touched, and one of each other.
            near = naive.told[-12:] if name == self.touched else naive.told[-1:]
            for cursor in (0, *(told.seq for told in near)):
                replay = self.log.since(name, EPOCH, cursor)
                if naive.is_exact and (name in self.live or name in self.forgotten):
                    assert (last_seq, False) == (replay.latest_seq, replay.starts_over)
                self._check(naive, replay, cursor)

    def _check(self, naive: Naive, replay: Replay, cursor: int) -> None:
        rest = [told for told in naive.told if told.seq > cursor]
        by_seq = {told.seq: told for told in rest}
        shown: set[int] = set()
        for frame in replay.frames:
            told = by_seq[frame.seq]
            run = [told]
            if told.is_text:
                run = self._run(rest, told, frame.line)
            else:
                assert told.line == frame.line
            assert all(one.trace_id == frame.trace_id for one in run)
            assert not shown or max(shown) < run[0].seq
            shown |= {one.seq for one in run}
        missing = [told for told in rest if told.seq not in shown]
        durable = [told.seq for told in self._durable_kept(naive) if told.seq > cursor]
        assert durable == [seq for seq in sorted(shown) if not by_seq[seq].is_text]
        has_lost = any(not told.is_text for told in missing)
        has_lost_text = any(told.is_text for told in missing)
        assert replay.truncated or not has_lost
        assert replay.text_dropped or not has_lost_text
        if naive.is_exact and not self.lost:
            assert (has_lost, has_lost_text) == (replay.truncated, replay.text_dropped)

    def _run(self, rest: list[Told], last: Told, line: bytes) -> list[Told]:
        """The deltas whose texts make up the frame; none is empty, so no two runs are equal."""
        place = rest.index(last)
        shown, bare = apart(line)
        for begin in range(place, -1, -1):
            run = rest[begin : place + 1]
            assert all(told.is_text for told in run)
            if joined("".join(told.text for told in run)) == shown:
                assert all(told.bare == bare for told in run)
                return run
        raise AssertionError((line, rest))

    @invariant()
    def limits_hold(self) -> None:
        stats = self.log.stats()

        assert stats.sessions == len(self.live)
        assert stats.events == sum(len(self._durable_kept(n)) for n in self.naive.values())
        assert stats.bytes <= SESSIONS_MAX * (EVENT_BYTES_MAX + TEXT_BYTES_MAX)


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=20)
