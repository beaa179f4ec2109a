"""The fast path says exactly what the parser says, and is taken where it should be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire.frame import Frame, Kind, Malformed, peek
from acpbridge.wire.lines import Oversize
from acpbridge.wire.shapes import LEARN_REST_LINES, SHAPES_MAX, Chunks, Shapes

HERMES = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%(sid)b","update":'
    b'{"content":{"text":"%(text)b","type":"text"},"sessionUpdate":"agent_message_chunk"}}}'
)
CLAUDE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%(sid)b","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%(text)b"},'
    b'"messageId":"m1"}}}'
)
CODEX = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%(sid)b","update":'
    b'{"sessionUpdate":"agent_thought_chunk","messageId":"m1","content":'
    b'{"type":"text","text":"%(text)b"}}}}'
)
SPACED = (
    b' { "jsonrpc" : "2.0", "params": {"update": {"sessionUpdate":"agent_message_chunk",'
    b'"content": {"type":"text", "text" : "%(text)b" }}, "sessionId" : "s-%(sid)b"}, '
    b'"method":"session/update"} '
)
META = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%(sid)b","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%(text)b",'
    b'"_meta":{"text":"","content":{"text":"x"}}}}}}'
)
TEMPLATES = [HERMES, CLAUDE, CODEX, SPACED, META]


def chunk(template: bytes, session: bytes, text: bytes) -> bytes:
    return template % {b"sid": session, b"text": text}


def outcome(got: Frame | Malformed) -> tuple[Any, ...]:
    """All that a reader is told, without how it was found out."""
    if isinstance(got, Malformed):
        return (got.code, got.message, got.id, got.raw)
    return (got.kind, got.method, got.id, got.session, got.variant, got.text, got.body)


def is_plain(got: Frame | Malformed) -> bool:
    return isinstance(got, Frame) and got.plain


def check(shapes: Shapes, line: bytes) -> Frame | Malformed:
    """Assert that the line is told as the parser tells it."""
    got = shapes.peek(line)
    assert outcome(peek(line, strict=False)) == outcome(got)
    if isinstance(got, Frame):
        assert got.raw is line
        if got.plain:
            text = json.loads(line.decode())["params"]["update"]["content"]["text"]
            assert text
            assert text == got.known_text
        else:
            assert not got.known_text
    return got


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_second_chunk_of_a_shape_needs_no_parser(template: bytes) -> None:
    shapes = Shapes()
    assert not is_plain(check(shapes, chunk(template, b"1", b"1")))

    got = shapes.peek(chunk(template, b"1", b"1"))

    assert isinstance(got, Frame)
    assert got.plain
    assert (Kind.NOTIFICATION, "session/update", b"", "s-1") == (
        got.kind,
        got.method,
        got.id,
        got.session,
    )
    assert "1" == got.text
    assert got._body is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"Hello ", True),
        ("grüße 😀".encode(), True),
        (b"a, {b}: [c]\x7f", True),
        (b"", False),
        (b"a\\nb", True),
        (b"\\\\", True),
        (b'\\"', True),
        (b"\\ud83d\\ude00", True),
        (b"\\ud83d", False),
        (b'a"b', False),
        (b"a\tb", False),
        (b"\x00", False),
        (b"\xff\xfe", False),
        (b"\xc3", False),
        (b"\xed\xa0\xbd", False),
        (b'","text":"x', False),
        (b'"},"content":{"type":"text","text":"x', False),
    ],
)
@pytest.mark.parametrize("template", TEMPLATES)
def test_only_a_string_takes_the_fast_path(template: bytes, text: bytes, expected: object) -> None:
    shapes = Shapes()
    shapes.peek(chunk(template, b"1", b"1"))
    line = chunk(template, b"1", text)

    assert expected is is_plain(check(shapes, line))


TEXTS = (
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=4)
    | st.sampled_from(
        [b'"', b"\\", b'","text":"x', b'\\"', b'"}}}}', b'a","type":"text"},"sessionUpdate":"b']
    )
)


@given(
    st.lists(st.tuples(st.sampled_from(TEMPLATES), st.sampled_from([b"1", b"2"]), TEXTS)),
    st.data(),
)
def test_whatever_comes_is_told_as_the_parser_tells_it(
    parts: list[tuple[bytes, bytes, bytes]], data: st.DataObject
) -> None:
    """One byte changed, dropped or doubled anywhere must never slip through as plain."""
    shapes = Shapes()
    for template in data.draw(st.permutations(TEMPLATES)):
        check(shapes, chunk(template, b"1", b"1"))
    for template, session, text in parts:
        line = chunk(template, session, text)
        check(shapes, line)
        at = data.draw(st.integers(0, len(line)))
        size = data.draw(st.integers(0, 3))
        check(shapes, line[:at] + data.draw(TEXTS) + line[at + size :])


@pytest.mark.parametrize(
    "line",
    [
        chunk(HERMES, b"1", b"hi").replace(b"agent_message_chunk", b"user_message_chunk"),
        chunk(HERMES, b"1", b"hi").replace(b'"type":"text"', b'"type":"image"'),
        chunk(HERMES, b"1", b"hi").replace(b'"text":"hi"', b'"text":["hi"]'),
        chunk(HERMES, b"1", b"hi").replace(b'"text":"hi",', b""),
        chunk(HERMES, b"1", b"hi").replace(b'{"text":"hi","type":"text"}', b'"hi"'),
        chunk(HERMES, b"1", b"hi").replace(b'"jsonrpc"', b'"id":1,"jsonrpc"'),
        chunk(HERMES, b"1", b"hi").replace(b'"content"', b'"content":{"text":"hi"},"content"'),
        chunk(HERMES, b"1", b"hi").replace(b'"type":"text"', b'"type":"text","text":"hi"'),
        chunk(HERMES, b"1", b"hi").replace(b'"type":"text"', b'"type":"text","t\\u0065xt":"hi"'),
        chunk(HERMES, b"1", b""),
        chunk(HERMES, b"1", b"a\\nb"),
        chunk(HERMES, b"1", b"\\u0041").replace(b'"jsonrpc"', b'"_meta":"A","jsonrpc"'),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_learned(line: bytes) -> None:
    shapes = Shapes()
    check(shapes, line)

    assert [] == shapes._shapes
    assert not is_plain(check(shapes, line))


def test_a_search_in_vain_is_not_repeated_at_once() -> None:
    """An agent that doubles a name in every chunk must not cost a search for each."""
    doubled = chunk(HERMES, b"1", b"hi").replace(b'"content"', b'"content":1,"content"')
    shapes = Shapes()
    check(shapes, doubled)
    for _ in range(LEARN_REST_LINES):
        assert not is_plain(shapes.peek(chunk(HERMES, b"1", b"hi")))

    assert not is_plain(shapes.peek(chunk(HERMES, b"1", b"hi")))
    assert is_plain(shapes.peek(chunk(HERMES, b"1", b"hi")))


def test_the_least_recently_used_shape_gives_way() -> None:
    shapes = Shapes()
    lines = [chunk(HERMES, b"%d" % number, b"hi") for number in range(SHAPES_MAX + 1)]
    for line in lines[:SHAPES_MAX]:
        shapes.peek(line)
    assert is_plain(shapes.peek(lines[0]))
    for _ in range(LEARN_REST_LINES + 1):
        assert not is_plain(shapes.peek(lines[SHAPES_MAX]))

    assert is_plain(shapes.peek(lines[SHAPES_MAX]))
    assert is_plain(shapes.peek(lines[0]))
    assert not is_plain(shapes.peek(lines[1]))
    assert SHAPES_MAX == len(shapes._shapes)


def test_a_shape_whose_end_is_the_end_of_another_keeps_it_apart() -> None:
    """The halves of the first fit the second line, whose text ends earlier."""
    short = chunk(CODEX, b"1", b"hi")
    long = short.replace(b'"hi"}}}}', b'"hi"},"_meta":{"b":"c"}}}}')
    assert long.endswith(b'"}}}}')
    shapes = Shapes()
    check(shapes, short)
    check(shapes, long)

    assert is_plain(check(shapes, short))
    assert is_plain(check(shapes, long))
    assert 2 == len(shapes._shapes)


def test_halves_that_overlap_are_no_line() -> None:
    line = chunk(HERMES, b"1", b"hi")
    shapes = Shapes()
    shapes.peek(line)
    at = line.index(b'hi"')

    assert isinstance(check(shapes, line[:at] + line[at + 3 :]), Malformed)


def test_a_learned_shape_keeps_a_session_id_that_orjson_refuses() -> None:
    shapes = Shapes()
    line = chunk(HERMES, b"\\ud83d", b"hi")
    check(shapes, line)

    got = check(shapes, line)

    assert is_plain(got)
    assert isinstance(got, Frame)
    assert "s-\ud83d" == got.session


# -- chunks in a row ----------------------------------------------------------------------------
def looked_at(shapes: Shapes, items: Sequence[bytes | Oversize]) -> list[tuple[Any, ...]]:
    """What a reader is told of each line of a read, runs taken apart."""
    told: list[tuple[Any, ...]] = []
    for look in shapes.look(items):
        if isinstance(look, Chunks):
            told += (outcome(look.frame(at)) for at in range(len(look.lines)))
        else:
            told.append((look,) if isinstance(look, Oversize) else outcome(look))
    return told


def test_chunks_in_a_row_come_as_one() -> None:
    shapes = Shapes()
    shapes.peek(chunk(HERMES, b"1", b"hi"))
    lines = [chunk(HERMES, b"1", text) for text in (b"a", "ü".encode(), b"\\n", b'\\"')]

    (got,) = shapes.look(lines)

    assert isinstance(got, Chunks)
    assert (lines, ["a", "ü", "\n", '"']) == (got.lines, got.texts)
    assert ("s-1", "agent_message_chunk") == (got.session, got.variant)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([b"a", b""], id="an empty one"),
        pytest.param([b"a", b"\\ud83d"], id="half a character"),
        pytest.param([b'a","b', b"c"], id="two strings"),
        pytest.param([b'a",["b', b"c", b'd"],"e'], id="an array over lines"),
        pytest.param([b'a",{"b":"c', b'd":1},"e'], id="an object over lines"),
        pytest.param([b"a", b"\\"], id="an open string"),
    ],
)
def test_a_row_with_a_line_that_is_no_string_is_told_line_by_line(texts: list[bytes]) -> None:
    """One line must not lend another what makes it look whole."""
    lines = [chunk(HERMES, b"1", text) for text in (b"x", *texts, b"y")]

    assert [outcome(peek(line, strict=False)) for line in lines] == looked_at(Shapes(), lines)


def test_a_row_ends_where_something_else_stands() -> None:
    shapes = Shapes()
    shapes.peek(chunk(HERMES, b"1", b"hi"))
    too_long = Oversize(b"{", 1 << 30)
    lines = [chunk(HERMES, b"1", b"a"), chunk(HERMES, b"1", b"b")]

    first, middle, last = shapes.look([*lines, too_long, *lines])

    assert isinstance(first, Chunks)
    assert isinstance(last, Chunks)
    assert too_long is middle


@given(
    st.lists(st.tuples(st.sampled_from(TEMPLATES[:3]), st.sampled_from([b"1", b"2"]), TEXTS)),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_whatever_comes_in_a_row_is_told_as_the_parser_tells_it(
    parts: list[tuple[bytes, bytes, bytes]], doubled: list[int]
) -> None:
    shapes = Shapes()
    for template in TEMPLATES[:3]:
        shapes.peek(chunk(template, b"1", b"1"))
    lines = [chunk(*part) for part in parts]
    for at in doubled:
        lines[at:at] = lines[at : at + 1] * 3

    assert [outcome(peek(line, strict=False)) for line in lines] == looked_at(shapes, lines)
