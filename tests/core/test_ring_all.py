"""Chunks in a row go into the log in one piece, as they would one by one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.core.ring import TEXT_ENTRY_BYTES, EventLog
from acpbridge.core.ring_entries import Replay
from acpbridge.wire.shapes import Chunks, Shapes
from tests.core.logged import (
    CODEX,
    EPOCH,
    HERMES,
    OTHER_TRACE,
    TRACE,
    behind,
    chunk,
    filled,
    put,
    tool,
)


def row(texts: list[str], template: bytes = HERMES) -> Chunks:
    """These texts as one read brings them, of a shape that is known."""
    shapes = Shapes()
    shapes.peek(chunk("first", template))
    (found,) = shapes.look([chunk(text, template) for text in texts])
    assert isinstance(found, Chunks)
    return found


def put_all(log: EventLog, chunks: Chunks, trace_id: str = TRACE, session: str = "s") -> int:
    return log.append_all(session, chunks.lines, chunks, trace_id)


def test_chunks_know_what_stands_around_their_text() -> None:
    chunks = row(["a", "b\\", "é"])
    for line, text in zip(chunks.lines, ("a", "b\\", "é"), strict=True):
        assert line.startswith(chunks.prefix)
        assert line.endswith(chunks.suffix)
        between = line[len(chunks.prefix) : len(line) - len(chunks.suffix)]
        assert chunk(text)[len(chunks.prefix) - 1 :].startswith(b'"' + between + b'"')


def test_a_row_goes_on_with_the_text_before_it() -> None:
    log = filled(chunk("a"))
    assert put_all(log, row(["b", "c", "d"])) == 4
    assert log.stats().texts == 1
    assert log.latest_seq("s") == 4
    assert [behind(log, seq) for seq in range(5)] == [
        [(4, chunk(text))] for text in ("abcd", "bcd", "cd", "d")
    ] + [[]]


@pytest.mark.parametrize(
    "log",
    [filled(), filled(tool("t")), filled(chunk("x", CODEX)), filled(chunk("x"), tool("t"))],
)
def test_a_row_begins_an_entry_where_it_goes_on_with_nothing(log: EventLog) -> None:
    before, texts = log.latest_seq("s"), log.stats().texts
    assert put_all(log, row(["b", "c", "d"])) == before + 3
    assert log.stats().texts == texts + 1
    assert behind(log, before) == [(before + 3, chunk("bcd"))]


def test_a_row_of_another_turn_begins_an_entry() -> None:
    log = filled(chunk("a"))
    assert put_all(log, row(["b", "c"]), OTHER_TRACE) == 3
    assert log.stats().texts == 2
    assert [frame.trace_id for frame in log.since("s", EPOCH, 0).frames] == [TRACE, OTHER_TRACE]


def test_a_row_of_another_session_is_that_one_s() -> None:
    log = filled(chunk("a"))
    assert put_all(log, row(["b", "c"]), session="other") == 2
    assert put_all(log, row(["d", "e"])) == 3
    assert behind(log, 1) == [(3, chunk("de"))]


def test_no_row_is_no_event() -> None:
    log = filled(chunk("a"))
    chunks = row(["b", "c"])
    assert log.append_all("s", [], chunks, TRACE) == 0
    assert log.latest_seq("s") == 1


def test_a_row_is_cut_where_the_entry_is_full() -> None:
    log = filled(text_entry_bytes_max=TEXT_ENTRY_BYTES + 400)
    assert put_all(log, row(["x" * 40] * 20)) == 20
    assert log.stats().texts > 1
    replay = log.since("s", EPOCH, 0)
    assert not replay.text_dropped
    assert all(len(frame.line) <= TEXT_ENTRY_BYTES + 400 for frame in replay.frames)


def test_a_row_keeps_the_limit_of_its_session() -> None:
    log = filled(text_bytes_max=4 * TEXT_ENTRY_BYTES, text_entry_bytes_max=1_000)
    put_all(log, row(["x" * 200] * 50))
    assert log.since("s", EPOCH, 0).text_dropped
    assert log.since("s", EPOCH, 49).frames[-1].seq == 50


def test_a_row_keeps_the_limit_of_all() -> None:
    log = filled(chunk("a"), bytes_max=2_000)
    put_all(log, row(["b", "c"]), session="other")
    put_all(log, row(["x" * 300] * 5), session="other")
    assert log.stats().sessions == 1
    assert behind(log, 0) == []


TEXTS = st.lists(st.sampled_from(["a", "bb", '"', "\\", "é", "x" * 90]), min_size=2, max_size=40)


@given(
    rows=st.lists(st.tuples(TEXTS, st.sampled_from([HERMES, CODEX])), max_size=6),
    entry_max=st.sampled_from([700, 900, 5_000]),
    text_max=st.sampled_from([1_500, 5_000, 1 << 20]),
)
def test_a_row_is_what_its_chunks_are_one_by_one(
    rows: list[tuple[list[str], bytes]], entry_max: int, text_max: int
) -> None:
    """The seqs, what is kept, and what every cursor gets."""
    limits = {"text_entry_bytes_max": entry_max, "text_bytes_max": text_max}
    whole, single = EventLog(EPOCH, **limits), EventLog(EPOCH, **limits)
    for texts, template in rows:
        chunks = row(texts, template)
        last = put_all(whole, chunks)
        assert last == [put(single, line) for line in chunks.lines][-1]
    for seq in range(whole.latest_seq("s") + 1):
        replays = [log.since("s", EPOCH, seq) for log in (whole, single)]
        if not any(replay.text_dropped for replay in replays):
            first, second = (said(replay) for replay in replays)
            assert first == second


def said(replay: Replay) -> str:
    """The words of a replay, joined."""
    frames = [json.loads(frame.line) for frame in replay.frames]
    return "".join(frame["params"]["update"]["content"]["text"] for frame in frames)
