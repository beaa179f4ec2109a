"""The event log: what a cursor gets back, what is dropped first, and how that is said."""

from __future__ import annotations

import json

import pytest

from acpbridge.core.ring import DELTA_BYTES, SHAPE_BYTES_MAX, TEXT_ENTRY_BYTES, EventLog, stamped
from tests.core.logged import (
    CODEX,
    CODEX_NEXT,
    DOUBLED,
    EPOCH,
    HERMES,
    MESSAGE,
    OTHER_EPOCH,
    OTHER_TRACE,
    SPACED,
    TOOL,
    TRACE,
    behind,
    chunk,
    claims,
    filled,
    held_bytes,
    put,
    tool,
)

ONE, TWO, SIX = chunk("one "), chunk("two "), chunk('s"i\\x\n')
CALL, PLAN = tool("t1"), tool("t2")


# -- what a cursor gets ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lines", "seq", "frames"),
    [
        ((), 0, []),
        ((CALL, PLAN), 0, [(1, CALL), (2, PLAN)]),
        ((CALL, PLAN), -7, [(1, CALL), (2, PLAN)]),
        ((CALL, PLAN), 1, [(2, PLAN)]),
        ((CALL, PLAN), 2, []),
        ((ONE,), 0, [(1, ONE)]),
        ((ONE, TWO, SIX), 0, [(3, chunk('one two s"i\\x\n'))]),
        ((ONE, TWO, SIX), 1, [(3, chunk('two s"i\\x\n'))]),
        ((ONE, TWO, SIX), 2, [(3, SIX)]),
        ((ONE, TWO, SIX), 3, []),
        ((ONE, chunk(""), chunk("")), 1, [(3, chunk(""))]),
        ((ONE, TWO, CALL, ONE, TWO), 1, [(2, TWO), (3, CALL), (5, chunk("one two "))]),
        ((CALL, ONE, PLAN, TWO), 0, [(1, CALL), (2, ONE), (3, PLAN), (4, TWO)]),
    ],
)
def test_a_cursor_gets_the_rest_and_nothing_else(
    lines: tuple[bytes, ...], seq: int, frames: list[tuple[int, bytes]]
) -> None:
    replay = filled(*lines).since("s", EPOCH, seq)

    assert frames == [(frame.seq, frame.line) for frame in replay.frames]
    assert (len(lines), False, False, False) == claims(replay)
    assert {TRACE} >= {frame.trace_id for frame in replay.frames}


@pytest.mark.parametrize("template", [HERMES, CODEX, SPACED])
def test_a_line_keeps_every_byte_around_its_text(template: bytes) -> None:
    """An encoder would write 1.0, spaces and escapes its own way (field cases 102, 107)."""
    log = filled(template % rb'"\u0041\/"', template % rb'""', template % '"é"'.encode())

    assert [(3, template % rb'"\u0041\/%b"' % "é".encode())] == behind(log, 0)
    assert [(3, template % '"é"'.encode())] == behind(log, 1)


TYPED = HERMES.replace(b'"type":"text"', b'"type":"resource_link"')
TWO_TEXTS = HERMES.replace(b'"type":"text"', b'"type":"text","note":"x"')


@pytest.mark.parametrize(
    "lines",
    [
        (chunk("a", CODEX), chunk("b", CODEX_NEXT)),
        (chunk("a"), chunk("b", CODEX)),
        (chunk("a", DOUBLED), chunk("b", DOUBLED)),
        (chunk("a", DOUBLED),) * 2,
        (chunk("a", TYPED), chunk("b", TYPED)),
        (chunk("a"), chunk("b", TWO_TEXTS)),
        # The halves of the first fit all three; the text between them is more than one string.
        (chunk("a", TWO_TEXTS), TWO_TEXTS % rb'"b","type":"text","x":"c"'),
        (HERMES % rb'"a"', HERMES % rb'"b\\","type":"text","x":"c"'),
        (HERMES % b'"a"', HERMES % b"7", HERMES % b"null"),
        (HERMES.replace(b'"text":%b,', b""), HERMES.replace(b',"type":"text"', b"") % b'"a"'),
        (TOOL.replace(b"tool_call_update", b"user_message_chunk") % b"1",) * 2,
    ],
)
def test_other_lines_stay_as_they_are(lines: tuple[bytes, ...]) -> None:
    assert list(enumerate(lines, start=1)) == behind(filled(*lines), 0)


def test_halves_that_overlap_make_no_text() -> None:
    """`"` may both open and close: here the line has the head and the tail, but not both."""
    head = b'{"method":"session/update","params":{"update":{"content":{"type":"text","text":"'
    tail = b'","b":{"text":"'
    rest = b'"}}}}}'
    log = EventLog(EPOCH)
    log.append("s", head + tail + rest, TRACE, MESSAGE)
    overlap = head + tail[1:] + rest

    assert 2 == log.append("s", overlap, TRACE, MESSAGE)
    assert overlap == behind(log, 1)[0][1]


def test_text_of_two_turns_is_not_one() -> None:
    log = EventLog(EPOCH)
    put(log, ONE, TRACE)
    put(log, TWO, OTHER_TRACE)
    frames = log.since("s", EPOCH, 0).frames

    assert [(1, TRACE, ONE), (2, OTHER_TRACE, TWO)] == [(f.seq, f.trace_id, f.line) for f in frames]


def test_sessions_count_and_merge_for_themselves() -> None:
    log = EventLog(EPOCH)
    seqs = [put(log, line, session=name) for line in (ONE, TWO) for name in ("a", "b")]

    assert [1, 1, 2, 2] == seqs
    assert [(2, chunk("one two "))] == behind(log, 0, "a") == behind(log, 0, "b")


@pytest.mark.parametrize(("epoch", "seq"), [(OTHER_EPOCH, 1), ("", 0), (EPOCH, 4)])
def test_a_cursor_of_another_log_starts_over(epoch: str, seq: int) -> None:
    replay = filled(ONE, TWO, CALL).since("s", epoch, seq)

    assert [(2, chunk("one two ")), (3, CALL)] == [(f.seq, f.line) for f in replay.frames]
    assert (3, False, False, True) == claims(replay)
    assert EPOCH == replay.epoch


def test_nothing_is_kept_of_a_client() -> None:
    log = filled(ONE, CALL, TWO)
    first = [log.since("s", EPOCH, seq) for seq in range(4)]
    again = [log.since("s", EPOCH, seq) for seq in range(4)]

    assert [claims(replay) for replay in first] == [claims(replay) for replay in again]
    assert [[f.line for f in r.frames] for r in first] == [
        [f.line for f in r.frames] for r in again
    ]


# -- limits ---------------------------------------------------------------------------------
def test_the_oldest_durable_event_goes_first_and_the_text_before_it() -> None:
    """Text from before a dropped event would be shown with a hole behind it."""
    log = filled(ONE, CALL, TWO, PLAN, events_max=2)

    assert 4 == len(behind(log, 0))

    assert 5 == put(log, CALL)
    assert [(3, TWO), (4, PLAN), (5, CALL)] == behind(log, 0)
    assert (5, True, True, False) == claims(log.since("s", EPOCH, 0))
    assert (5, True, False, False) == claims(log.since("s", EPOCH, 1))
    assert (5, False, False, False) == claims(log.since("s", EPOCH, 2))
    assert (5, True, True, True) == claims(log.since("s", OTHER_EPOCH, 2))


def test_the_bytes_of_durable_events_are_bounded() -> None:
    size = len(CALL)
    log = filled(CALL, PLAN, event_bytes_max=2 * size)

    assert not log.since("s", EPOCH, 0).truncated

    put(log, tool("tt3"))
    assert [3] == [seq for seq, _ in behind(log, 0)]
    assert log.since("s", EPOCH, 1).truncated
    assert not log.since("s", EPOCH, 2).truncated

    put(log, tool("x" * 2 * size))
    assert [] == behind(log, 0)
    assert (4, True, False, False) == claims(log.since("s", EPOCH, 3))
    assert (4, False, False, False) == claims(log.since("s", EPOCH, 4))
    assert 0 == log.stats().bytes


def test_text_pushes_out_no_durable_event() -> None:
    log = filled(CALL, events_max=1, text_bytes_max=20_000, text_entry_bytes_max=2_000)
    for _ in range(5_000):
        put(log, ONE)
    replay = log.since("s", EPOCH, 0)

    assert (1, CALL) == (replay.frames[0].seq, replay.frames[0].line)
    assert (5_001, False, True, False) == claims(replay)
    assert log.stats().bytes <= 20_000 + len(CALL)


def test_text_is_dropped_by_entries_the_oldest_first() -> None:
    part = 40
    entry = TEXT_ENTRY_BYTES + len(chunk("")) + 2 * (part + DELTA_BYTES)
    texts = [chunk(letter * part) for letter in "abcde"]
    log = filled(*texts[:4], text_entry_bytes_max=entry, text_bytes_max=2 * entry)

    assert [(2, chunk("a" * part + "b" * part)), (4, chunk("c" * part + "d" * part))] == behind(
        log, 0
    )

    put(log, texts[4])
    assert [(4, chunk("d" * part)), (5, texts[4])] == behind(log, 3)
    assert (5, False, True, False) == claims(log.since("s", EPOCH, 1))
    assert (5, False, False, False) == claims(log.since("s", EPOCH, 2))


@pytest.mark.parametrize("over", [0, 1])
def test_an_entry_takes_what_is_within_its_limit(over: int) -> None:
    full = TEXT_ENTRY_BYTES + len(ONE) + len("two ") + 2 * DELTA_BYTES

    assert 1 + over == len(behind(filled(ONE, TWO, text_entry_bytes_max=full - over), 0))


@pytest.mark.parametrize("over", [0, 1])
def test_a_delta_over_the_limit_is_not_kept(over: int) -> None:
    line = chunk("x" * 100)
    limit = TEXT_ENTRY_BYTES + len(line) + DELTA_BYTES
    log = filled(line, text_bytes_max=limit - over)

    assert [1][over:] == [seq for seq, _ in behind(log, 0)]
    assert bool(over) == log.since("s", EPOCH, 0).text_dropped
    assert bool(over) == (log._sessions["s"].open is None), "held without being counted"
    assert 2 == put(log, chunk("y"))
    assert [(2, chunk("y"))] == behind(log, 1)


@pytest.mark.parametrize("over", [0, 1])
def test_a_merging_delta_pushes_out_the_oldest_text(over: int) -> None:
    lone, merged = TEXT_ENTRY_BYTES + len(ONE) + DELTA_BYTES, len("two ") + DELTA_BYTES
    log = filled(ONE, CALL, ONE, TWO, text_bytes_max=2 * lone + merged - over)

    assert [1, 2, 4][over:] == [seq for seq, _ in behind(log, 0)]
    assert (4, False, bool(over), False) == claims(log.since("s", EPOCH, 0))
    assert (4, False, False, False) == claims(log.since("s", EPOCH, 1))


def test_a_long_shape_is_searched_again_and_kept_nowhere_else() -> None:
    wide = HERMES.replace(b'{"content"', b'{"pad":"%b","content"' % (b"x" * SHAPE_BYTES_MAX))
    lines = [chunk("a", wide), chunk("b", wide), CALL, chunk("c", wide)]
    log = filled(*lines)

    assert [(2, chunk("ab", wide)), (3, CALL), (4, lines[3])] == behind(log, 0)
    assert {} == log._sessions["s"].shapes
    assert [MESSAGE] == list(filled(ONE)._sessions["s"].shapes)


# -- sessions -------------------------------------------------------------------------------
def test_the_session_that_was_quiet_longest_is_forgotten_first() -> None:
    log = EventLog(EPOCH, sessions_max=2)
    for name in ("a", "b", "a", "c"):
        put(log, CALL, session=name)

    assert (2, 3) == (log.stats().sessions, log.stats().events)
    assert [2, 0, 1] == [len(behind(log, 0, name)) for name in ("a", "b", "c")]
    assert (1, True, False, False) == claims(log.since("b", EPOCH, 0))
    assert (1, False, False, False) == claims(log.since("b", EPOCH, 1))


@pytest.mark.parametrize("over", [0, 1])
def test_the_bytes_of_all_sessions_are_bounded_but_the_last_one_stays(over: int) -> None:
    log = EventLog(EPOCH, bytes_max=2 * len(CALL) - over)
    for name in ("a", "b"):
        put(log, CALL, session=name)

    assert 2 - over == log.stats().sessions

    for _ in range(3):
        put(log, CALL, session="c")
    assert [0, 0, 3] == [len(behind(log, 0, name)) for name in ("a", "b", "c")]
    assert 3 * len(CALL) == log.stats().bytes


def test_a_merging_delta_can_push_out_another_session() -> None:
    entry = TEXT_ENTRY_BYTES + len(ONE) + DELTA_BYTES
    log = EventLog(EPOCH, bytes_max=2 * entry)
    put(log, ONE, session="a")
    put(log, ONE, session="b")

    assert 2 == log.stats().sessions

    put(log, TWO, session="b")
    assert 1 == log.stats().sessions
    assert (1, False, True, False) == claims(log.since("a", EPOCH, 0))


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ((ONE, CALL), (2, True, True, False)),
        ((CALL, ONE), (2, True, True, False)),
        ((ONE, TWO), (2, False, True, False)),
        ((CALL, PLAN), (2, True, False, False)),
    ],
)
def test_a_forgotten_session_goes_on_where_it_was(
    lines: tuple[bytes, ...], after: tuple[int, bool, bool, bool]
) -> None:
    """A seq given twice in one epoch would let an old cursor skip what is new."""
    log = filled(*lines)
    log.forget("s")
    log.forget("s")

    assert after == claims(log.since("s", EPOCH, 0))
    assert (2, False, False, False) == claims(log.since("s", EPOCH, 2))
    assert ([], 0) == (behind(log, 0), log.stats().bytes)
    assert 3 == put(log, PLAN)
    assert [(3, PLAN)] == behind(log, 2)
    assert (3, *after[1:]) == claims(log.since("s", EPOCH, 0))


def test_a_session_that_nobody_remembers_begins_behind_all_of_them() -> None:
    log = EventLog(EPOCH, forgotten_max=1)
    for name, lines in (("a", (CALL, ONE, PLAN)), ("b", (TWO,))):
        for line in lines:
            put(log, line, session=name)
        assert 0 == log.since("new", EPOCH, 0).latest_seq
        log.forget(name)

    assert (3, True, True, False) == claims(log.since("new", EPOCH, 0))
    assert (3, True, True, False) == claims(log.since("a", EPOCH, 1))
    assert (3, False, False, False) == claims(log.since("a", EPOCH, 3))
    assert (1, False, True, False) == claims(log.since("b", EPOCH, 0))
    assert 4 == put(log, CALL, session="a")
    assert [(4, CALL)] == behind(log, 3, "a")


def test_an_unknown_session_is_empty() -> None:
    log = filled(CALL)

    assert ((), (0, False, False, False)) == (
        log.since("x", EPOCH, 0).frames,
        claims(log.since("x", EPOCH, 0)),
    )
    assert (0, False, False, True) == claims(log.since("x", EPOCH, 5))
    assert 1 == log.stats().sessions


@pytest.mark.parametrize("epoch", ["", "0123ABCD", "0123abcd0", "0123abcd\n"])
def test_an_epoch_is_eight_hex_digits(epoch: str) -> None:
    with pytest.raises(AssertionError):
        EventLog(epoch)


# -- memory ---------------------------------------------------------------------------------
def test_a_million_deltas_take_the_memory_of_the_limits() -> None:
    """The longest turns send that many, most of them a few bytes long."""
    log = EventLog(EPOCH)
    append = log.append
    line = chunk("ab ")
    for _ in range(1_000_000):
        append("s", line, TRACE, MESSAGE)

    assert held_bytes(log) <= 1.2 * log.text_bytes_max
    assert log.stats().bytes <= log.text_bytes_max
    assert 1_000_000 == log.since("s", EPOCH, 0).latest_seq
    assert [(1_000_000, line)] == behind(log, 999_999)
    assert all(len(text) <= log.text_entry_bytes_max for _, text in behind(log, 0))


def test_deltas_that_never_merge_take_the_memory_of_the_limits_too() -> None:
    log = EventLog(EPOCH, text_bytes_max=100_000)
    for number in range(5_000):
        put(log, chunk("ab", (CODEX, CODEX_NEXT)[number % 2]))

    assert 50 < log.stats().texts
    assert held_bytes(log) <= 100_000


# -- stamps ---------------------------------------------------------------------------------
STAMP = b'{"acpbridge":{"seq":7,"epoch":"0123abcd","traceId":"0123456789ab"}}'


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (b'{"n":1.0 }', b'{"n":1.0,"_meta":' + STAMP + b" }"),
        (b"{}", b'{"_meta":' + STAMP + b"}"),
        (b'{"_meta":null}', b'{"_meta":' + STAMP + b"}"),
        (b'{"_meta":{}}', b'{"_meta":' + STAMP + b"}"),
        (b'{"_meta":{"x":1e2}}', b'{"_meta":{"x":1e2,' + STAMP[1:-1] + b"}}"),
        (rb'{"\u005fmeta":{"x":1}}', rb'{"\u005fmeta":{"x":1,' + STAMP[1:-1] + b"}}"),
        (b'{"u":{"_meta":{}}}', b'{"u":{"_meta":{}},"_meta":' + STAMP + b"}"),
        (b"[]", b"[]"),
    ],
)
def test_a_stamp_is_put_into_the_params(params: bytes, expected: bytes) -> None:
    line = b'{"jsonrpc":"2.0","method":"m","params":%b}'

    assert line % expected == stamped(line % params, EPOCH, 7, TRACE)


def test_a_stamp_outside_of_a_turn_names_none() -> None:
    place = json.loads(stamped(CALL, EPOCH, 1, ""))["params"]["_meta"]["acpbridge"]

    assert {"seq": 1, "epoch": EPOCH} == place
