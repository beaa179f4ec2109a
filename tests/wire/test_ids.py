"""Ids are bytes; and what can still be known of a line that was not kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire.ids import NULL_ID, Kind, RpcId, is_stable, salvage, salvage_id
from acpbridge.wire.lines import LineDecoder, Oversize

PROMPT = b'"method":"session/prompt","params":{"sessionId":"s","prompt":["'


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":5,' + PROMPT, b"5"),
        (b' {"id" : "a-b" , ' + PROMPT, b'"a-b"'),
        (b'{"id":null,' + PROMPT, b"null"),
        (b'{"id":1.0,' + PROMPT, b"1.0"),
        (b'{"\\u0069d":9,' + PROMPT, b"9"),
        (b'{"params":{"id":4},"id":5,"method":"m","x":[', b"5"),
        (b'{"id":5,"params":{"id":4,"x":"', b"5"),
        # Not known, or not for sure.
        (b"{" + PROMPT, b"null"),
        (b'{"id":12', b"null"),
        (b'{"id":"ab', b"null"),
        (b'{"id":{"a":1},' + PROMPT, b"null"),
        (b'{"id":[1],' + PROMPT, b"null"),
        (b'{"id":5,"id":6,' + PROMPT, b"null"),
        (b'{"x":"{\\"id\\":5,","y":"', b"null"),
        (b'[{"id":5,' + PROMPT, b"null"),
        (b"not json", b"null"),
        (b"", b"null"),
    ],
)
def test_the_id_of_a_lost_line_is_read_from_its_head(head: bytes, expected: bytes) -> None:
    assert RpcId(expected) == salvage_id(head)


@pytest.mark.parametrize(
    "head", [b'{"jsonrpc":"2.0","id":5,"result":{"content":"', b'{"id":5,"error":{"code":1},"x":"']
)
def test_a_lost_response_is_not_answered_by_its_id(head: bytes) -> None:
    """Its id is the receiver's; the sender may have a request of its own with the same one."""
    assert NULL_ID == salvage_id(head)
    assert RpcId(b"5") == salvage(head).id


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        (b"{" + PROMPT, b'"]},"id":"0-1"}', b'"0-1"'),
        (b"{" + PROMPT, b'xx"]} , "id" : 17 } \r', b"17"),
        (b"{" + PROMPT, b'"]},"id":null}', b"null"),
        (b"{" + PROMPT, b'"]},"id":-1.5e3}', b"-1.5e3"),
        (b'{"id":5,' + PROMPT, b'"]},"id":6}', b"5"),
        # A text that only looks like the end of a message.
        (b"{" + PROMPT, b'\\"id\\":7}"]}}', b"null"),
        (b"{" + PROMPT, b',\\"id":7}', b"null"),
        (b"{" + PROMPT, b'"],"id":7}}', b"null"),
        (b"{" + PROMPT, b'"]},"id":{"a":1}}', b"null"),
        (b"{" + PROMPT, b'"]},"id":7},', b"null"),
        (b"{" + PROMPT, b'"]},"id":tr}', b"null"),
        (b"a log line", b'{"x":1,"id":7}', b"null"),
    ],
)
def test_an_id_at_the_very_end_is_read_from_the_tail(
    head: bytes, tail: bytes, expected: bytes
) -> None:
    """Codeg writes its id last, and an image in between may be over any limit."""
    assert RpcId(expected) == salvage_id(head, tail)


@pytest.mark.parametrize(
    ("head", "kind", "method"),
    [
        (b'{"id":5,"method":"session/prompt","params":"', Kind.REQUEST, "session/prompt"),
        (b'{"id":5,"method":"ab', Kind.REQUEST, ""),
        (b'{"id":5,"method":7,"params":"', Kind.REQUEST, ""),
        (b'{"method":"session/update","params":"', Kind.NOTIFICATION, "session/update"),
        (b'{"id":5,"method":null,"result":"', Kind.RESPONSE, ""),
        (b'{"id":5,"result":"', Kind.RESPONSE, ""),
        (b'{"id":5,"error":"', Kind.ERROR, ""),
        (b'{"id":5,"params":"', None, ""),
    ],
)
def test_the_kind_of_a_lost_line_is_read_from_its_head(
    head: bytes, kind: Kind | None, method: str
) -> None:
    known = salvage(head)

    assert (kind, method) == (known.kind, known.method)


IDS = st.integers(-(10**20), 10**20) | st.none() | st.text(st.characters(codec="utf-8"), max_size=9)


@given(IDS, st.permutations(["jsonrpc", "id", "method", "params"]), st.text(max_size=30))
def test_a_salvaged_id_is_right_wherever_the_id_stands(
    value: object, order: list[str], text: str
) -> None:
    members = {
        "jsonrpc": "2.0",
        "id": value,
        "method": "m",
        "params": {"id": 3, "t": text + "x" * 70_000 + text, "u": {"id": 4}},
    }
    line = json.dumps({name: members[name] for name in order}, separators=(",", ":")).encode()
    (lost,) = LineDecoder(1_000).feed(line + b"\n")
    assert isinstance(lost, Oversize)

    found = salvage_id(lost.head, lost.tail)

    expected: bytes = RpcId(json.dumps(value).encode())
    hidden = order.index("id") > order.index("params")
    assert found in ({expected, NULL_ID} if hidden else {expected})
    if order[-1] == "id" and b"\\" not in expected:
        assert expected == found


@pytest.mark.parametrize(
    "stable", [b"0", b"1", b"-17", b"999999999999999", b'"1"', b'"a-b_c.d:e f"', b'""', b"null"]
)
def test_ids_that_every_library_writes_alike_are_stable(stable: bytes) -> None:
    assert is_stable(RpcId(stable))


@pytest.mark.parametrize(
    "unstable",
    [
        *(b"1.0", b"-0", b"1e2", b"01", b"9007199254740993", b"true", b"", b'"'),
        *(b'"\\u0041"', b'"a/b"', b'"<"', b'"&"', b'"\'"', b'"+"', '"é"'.encode(), b'"\x7f"'),
    ],
)
def test_ids_that_may_come_back_changed_are_not_stable(unstable: bytes) -> None:
    assert not is_stable(RpcId(unstable))
