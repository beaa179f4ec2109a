"""Offsets found in the bytes are those of the values that a parser sees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire import scan
from acpbridge.wire.scan import (
    Member,
    decode_string,
    depth_exceeds,
    elements,
    find,
    find_unique,
    members,
    walk,
)
from tests.wire.texts import OBJECTS, Pairs, pairs_of, paths, texts


def cut(raw: bytes, span: tuple[int, int]) -> bytes:
    return raw[span[0] : span[1]]


def depth_of(value: Any) -> int:
    if isinstance(value, Pairs):
        return 1 + max((depth_of(of) for _, of in value.items), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def test_members_tell_names_decoded_and_both_spans() -> None:
    raw = rb' { "\u0069d" : 1.0 ,"x":[1,{"y":"]"}]}'

    assert [Member("id", (3, 12), (15, 18)), Member("x", (20, 23), (24, 37))] == list(
        members(raw, 0)
    )
    assert b'[1,{"y":"]"}]' == cut(raw, (24, 37))


@given(texts(OBJECTS))
def test_members_are_those_of_the_parser(raw: bytes) -> None:
    expected = pairs_of(raw)

    found = list(members(raw, 0))

    assert [name for name, _ in expected.items] == [member.key for member in found]
    assert [of for _, of in expected.items] == [pairs_of(cut(raw, m.value_span)) for m in found]
    assert [name for name, _ in expected.items] == [
        json.loads(cut(raw, m.key_span).decode()) for m in found
    ]


@given(texts())
def test_every_path_is_found_and_holds_the_parsed_value(raw: bytes) -> None:
    for path, value in paths(pairs_of(raw)):
        span = find(raw, *path)

        assert span is not None
        assert value == pairs_of(cut(raw, span))


@given(texts(OBJECTS), st.data())
def test_a_cut_text_shows_only_what_is_whole(raw: bytes, data: st.DataObject) -> None:
    """A number at the cut may have lost digits: an id of 12 must not be read as 1."""
    whole = list(members(raw, 0))
    head = raw[: data.draw(st.integers(0, len(raw)))]

    found = list(members(head, 0))

    assert whole[: len(found)] == found
    shown = [(key, key_span) for key, key_span, _ in walk(head, 0)]
    assert [(m.key, m.key_span) for m in whole][: len(shown)] == shown
    assert len(shown) - len(found) in {0, 1}


@given(st.binary(max_size=60) | st.text('{}[]":,\\u1 e', max_size=40).map(str.encode))
def test_nothing_raises_on_bytes_that_are_no_json(raw: bytes) -> None:
    list(members(raw, 0))
    list(elements(raw, 0))
    find(raw, "a", 0, "b")
    find_unique(raw, "a", "b")
    depth_exceeds(raw, 1)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"a":1}', ("b",)),
        (b'{"a":1}', ("a", "b")),
        (b'{"a":1}', (0,)),
        (b"[1]", (1,)),
        (b"[1]", ("a",)),
        (b"[1", (0,)),
        (b"[1,", (1,)),
        (b"[[1]", (0,)),
        (b'[[1],"', (1,)),
        (b"[]", (0,)),
        (b"17", ("a",)),
        (b"", ("a",)),
        (b'{"a":{"b":1', ("a",)),
        (b'{"a":}', ("a",)),
        (b'{"a":]}', ("a",)),
    ],
)
def test_what_is_not_there_is_not_found(raw: bytes, path: tuple[str | int, ...]) -> None:
    assert find(raw, *path) is None


def test_the_empty_path_is_the_whole_value_without_blanks() -> None:
    assert (2, 8) == find(b' \t{"a":1}'[:8] + b" \r\n")


def test_of_a_doubled_name_the_last_counts() -> None:
    raw = rb'{"id":5,"\u0069d":6}'

    span = find(raw, "id")

    assert span is not None
    assert b"6" == cut(raw, span)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a":{"b":1,"c":2}}', b"1"),
        (b'{"a":{"b":1},"a":{"b":1}}', None),
        (b'{"a":{"b":1,"c":2,"c":3}}', None),
        (b'{"a":{"c":1}}', None),
        (b'{"a":[1]}', None),
    ],
)
def test_a_unique_value_is_one_that_no_reader_could_miss(raw: bytes, expected: object) -> None:
    span = find_unique(raw, "a", "b")

    assert expected == (None if span is None else cut(raw, span))


@given(texts(), st.integers(0, 6))
def test_depth_is_that_of_the_parsed_value(raw: bytes, limit: int) -> None:
    assert (depth_of(pairs_of(raw)) > limit) is depth_exceeds(raw, limit)


@pytest.mark.parametrize(
    ("raw", "is_over"),
    [
        (b"[" * 1000 + b"]" * 1000, False),
        (b"[" * 1001 + b"]" * 1001, True),
        (b'{"a":' * 1001, True),
        (b'["' + b"[" * 2000 + b'"]', False),
        (b"[]," * 2000, False),
    ],
)
def test_the_depth_limit_is_exact(raw: bytes, is_over: object) -> None:
    assert is_over is depth_exceeds(raw, 1000)


def test_long_strings_and_flat_arrays_are_stepped_over_in_one_piece() -> None:
    """Bounded work: megabytes of escapes or brackets cost no recursion and no memory."""
    escapes = b"\\n" * (1 << 20)
    raw = (
        b'{"a":"' + escapes + b'","b":["' + escapes + b'"],"c":[' + b"[]," * 100_000 + b'1],"d":7}'
    )

    span = find(raw, "d")

    assert span is not None
    assert b"7" == cut(raw, span)


def test_a_cut_string_is_not_tried_again_from_every_byte() -> None:
    """A head of 64 KiB that ends inside a string: quadratic work would take minutes."""
    assert [] == list(members(b'{"a":["' + b"x" * (1 << 22), 0))


def test_a_token_that_no_parser_accepts_decodes_to_itself() -> None:
    assert '"\\x"' == decode_string(rb'"\x"')


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("a",), b'[1, {"b" : 1.50}]'),
        (("a", 1, "b"), b"1.50"),
        (("x",), b""),
        (("a", 7), b""),
        (("n",), b"null"),
    ],
)
def test_a_value_is_its_own_bytes(path: tuple[str | int, ...], found: bytes) -> None:
    assert found == scan.value(b'{"a": [1, {"b" : 1.50}] , "n":null}', *path)
