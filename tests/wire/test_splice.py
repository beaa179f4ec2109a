"""A splice changes the value it names and no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire.codec import encode
from acpbridge.wire.ids import RpcId
from acpbridge.wire.scan import find
from acpbridge.wire.splice import (
    replace,
    with_id,
    with_member,
    with_session,
    with_value,
    without_members,
)
from tests.wire.texts import NAMES, OBJECTS, STRINGS, Pairs, pairs_of, paths, texts

NEW = st.sampled_from([b"7", b'"x"', b"null", b'{"n":[1,2]}', b"1.50"])


def parsed(raw: bytes) -> Any:
    return json.loads(raw.decode())


def edited(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """Return the parsed value with `new` at `path`; of a double the last is changed."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, Pairs):
        names = [name for name, _ in value.items]
        last = len(names) - 1 - names[::-1].index(str(step))
        return Pairs(
            tuple(
                (name, edited(of, rest, new) if index == last else of)
                for index, (name, of) in enumerate(value.items)
            )
        )
    return [edited(of, rest, new) if index == step else of for index, of in enumerate(value)]


@given(texts(OBJECTS), NEW, st.data())
def test_with_value_edits_one_place(raw: bytes, new: bytes, data: st.DataObject) -> None:
    before = pairs_of(raw)
    path = data.draw(st.sampled_from([path for path, _ in paths(before)]))

    after = with_value(raw, path, new)

    span = find(raw, *path)
    assert span is not None
    assert raw[: span[0]] == after[: span[0]]
    assert raw[span[1] :] == after[span[0] + len(new) :]
    assert edited(before, path, pairs_of(new)) == pairs_of(after)


@given(texts(OBJECTS), NAMES, NEW, st.data())
def test_with_member_sets_or_adds_one_member(
    raw: bytes, name: str, new: bytes, data: st.DataObject
) -> None:
    before = pairs_of(raw)
    path, at = data.draw(
        st.sampled_from([(path, of) for path, of in paths(before) if isinstance(of, Pairs)])
    )

    after = with_member(raw, path, name, new)

    if name in dict(at.items):
        assert edited(before, (*path, name), pairs_of(new)) == pairs_of(after)
    else:
        expected = Pairs((*at.items, (name, pairs_of(new))))
        assert edited(before, path, expected) == pairs_of(after)
        added = len(after) - len(raw)
        assert any(
            after[:at_byte] + after[at_byte + added :] == raw for at_byte in range(len(raw) + 1)
        )


@given(texts(OBJECTS), st.sets(NAMES, max_size=4), st.data())
def test_without_members_drops_them_and_their_commas(
    raw: bytes, names: set[str], data: st.DataObject
) -> None:
    before = pairs_of(raw)
    path, at = data.draw(
        st.sampled_from([(path, of) for path, of in paths(before) if isinstance(of, Pairs)])
    )
    kept = tuple((name, of) for name, of in at.items if name not in names)

    after = without_members(raw, path, names)

    assert edited(before, path, Pairs(kept)) == pairs_of(after)
    span = find(raw, *path)
    assert span is not None
    assert after.startswith(raw[: span[0] + 1])
    assert after.endswith(raw[span[1] - 1 :])
    if len(kept) == len(at.items):
        assert raw == after


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a",), b'{ "b" : 2 , "c" : 3 }'),
        (("b",), b'{ "a" : 1 , "c" : 3 }'),
        (("c",), b'{ "a" : 1 , "b" : 2 }'),
        (("b", "c"), b'{ "a" : 1 }'),
        (("a", "c"), b'{ "b" : 2 }'),
        (("a", "b", "c"), b"{  }"),
        ((), b'{ "a" : 1 , "b" : 2 , "c" : 3 }'),
    ],
)
def test_the_commas_are_right(names: tuple[str, ...], expected: bytes) -> None:
    assert expected == without_members(b'{ "a" : 1 , "b" : 2 , "c" : 3 }', (), names)


@given(texts(OBJECTS), STRINGS)
def test_any_text_can_become_the_session_id(raw: bytes, session: str) -> None:
    """A lone surrogate in a peer's session id must not raise (field case 102)."""
    frame = b'{"jsonrpc":"2.0","method":"m","params":{"sessionId":"old","x":%b}}' % raw

    after = with_session(frame, session)

    assert session == parsed(after)["params"]["sessionId"]
    assert frame == with_session(after, "old")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            b'{"id":1,"method":"m","params":{"x":[1E2],"sessionId":"a"}}',
            b'{"id":1,"method":"m","params":{"x":[1E2],"sessionId":"new"}}',
        ),
        (
            b'{"id":1,"result":{"sessionId":"a","modes":null}}',
            b'{"id":1,"result":{"sessionId":"new","modes":null}}',
        ),
        (
            b'{"params":{"sessionId":"a"},"result":{"sessionId":"b"}}',
            b'{"params":{"sessionId":"new"},"result":{"sessionId":"b"}}',
        ),
        (b'{"id":1,"result":null}', b'{"id":1,"result":null}'),
        (b'{"method":"m","params":{"sessionId":null}}',) * 2,
        (b'{"method":"m","params":[{"sessionId":"a"}]}',) * 2,
        (b'{"sessionId":"a"}',) * 2,
    ],
)
def test_the_session_id_is_changed_where_it_is_one(raw: bytes, expected: bytes) -> None:
    assert expected == with_session(raw, "new")


@pytest.mark.parametrize("old", [b"1", b"9007199254740993", b'"\\u0041"', b"null", b"1.5"])
def test_an_id_is_changed_by_its_bytes(old: bytes) -> None:
    """Field case 107: payload numbers beside the id keep their digits."""
    payload = b'"result":{"n":1915883588174806058,"f":1e400,"d":0.1000,"id":3}'

    changed = with_id(b'{"id": %b ,%b}' % (old, payload), RpcId(b'"b.1"'))

    assert b'{"id": "b.1" ,%b}' % payload == changed


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: with_id(b'{"method":"m"}', RpcId(b"1")),
        lambda: with_value(b'{"a":[1]}', ("a", 1), b"2"),
        lambda: without_members(b'{"a":[1]}', ("a",), ["x"]),
        lambda: with_member(b'{"a":[1]}', ("b",), "x", b"1"),
    ],
)
def test_a_path_that_is_not_there_is_a_key_error(wrong: Any) -> None:
    with pytest.raises(KeyError):
        wrong()


def test_replace_takes_an_empty_span_as_an_insertion() -> None:
    assert b"abXc" == replace(b"abc", (2, 2), b"X")


def test_steering_meta_is_merged_and_not_replaced() -> None:
    raw = b'{"id":1,"params":{"_meta":{"traceparent":"00-1"},"prompt":[]}}'

    after = with_member(raw, ("params", "_meta"), "steering", encode({"idleBehavior": "x"}))

    assert (
        b'{"id":1,"params":{"_meta":{"traceparent":"00-1","steering":{"idleBehavior":"x"}},'
        b'"prompt":[]}}'
    ) == after
