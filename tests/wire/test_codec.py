"""Frames of our own are exactly these bytes, and no text of a peer can make them fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire import acp, codec
from acpbridge.wire.frame import Frame, Kind, RpcId, peek
from tests.wire.texts import STRINGS


def test_frames_are_written_in_the_usual_order() -> None:
    id_ = RpcId(b"1.0")

    assert (
        b'{"jsonrpc":"2.0","id":1.0,"method":"session/cancel","params":{"sessionId":"s"}}'
    ) == codec.request(id_, acp.SESSION_CANCEL, {"sessionId": "s"})
    assert b'{"jsonrpc":"2.0","method":"m","params":{}}' == codec.notification("m", {})
    assert (b'{"jsonrpc":"2.0","id":1.0,"result":{"stopReason":"cancelled"}}') == codec.result(
        id_, {"stopReason": acp.CANCELLED}
    )
    assert b'{"jsonrpc":"2.0","id":1.0,"result":null}' == codec.result(id_, None)
    assert (b'{"jsonrpc":"2.0","id":1.0,"error":{"code":-32600,"message":"no"}}') == codec.error(
        id_, acp.INVALID_REQUEST, "no"
    )
    assert (
        b'{"jsonrpc":"2.0","id":1.0,"error":{"code":-32050,"message":"no","data":{"a":1}}}'
    ) == codec.error(id_, -32050, "no", {"a": 1})


@pytest.mark.parametrize(
    ("value", "expected"), [(1, b"1"), ("1", b'"1"'), ("b.1", b'"b.1"'), ('"', b'"\\""')]
)
def test_an_id_of_ours_is_its_json_text(value: str | int, expected: bytes) -> None:
    assert RpcId(expected) == codec.rpc_id(value)


def test_bytes_of_a_peer_go_in_as_they_are() -> None:
    prompt = b'[ {"text":"\\ud83d","n":1E2} ]'

    assert (
        b'{"jsonrpc":"2.0","id":1,"method":"_session/steering","params":{"sessionId":"\\ud83d",'
        b'"prompt":[ {"text":"\\ud83d","n":1E2} ]}}'
    ) == codec.request(
        RpcId(b"1"),
        acp.STEERING,
        {"sessionId": "\ud83d", "prompt": codec.verbatim(prompt)},
    )


@pytest.mark.parametrize(
    "value",
    ["\ud83d", {"\ud83d": 1}, [1, {"a": ("\udc00",)}], 10**30, {"n": [-(10**30), "é"]}],
)
def test_what_orjson_refuses_is_written_as_escapes_and_digits(value: Any) -> None:
    written = codec.encode(value)

    assert json.loads(json.dumps(value)) == json.loads(written.decode())


def test_a_value_of_no_json_type_is_our_own_mistake() -> None:
    with pytest.raises(TypeError):
        codec.encode({"a": object()})


PARAMS = st.recursive(
    st.none() | st.booleans() | st.integers() | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=8,
)


@given(STRINGS | st.integers(), STRINGS, st.dictionaries(STRINGS, PARAMS, max_size=3))
def test_what_is_written_is_read_back(id_: str | int, method: str, params: dict[str, Any]) -> None:
    line = codec.request(codec.rpc_id(id_), method, params)

    frame = peek(line, strict=False)

    assert isinstance(frame, Frame)
    assert (Kind.REQUEST, method) == (frame.kind, frame.method)
    assert id_ == json.loads(frame.id.decode())
    assert json.loads(json.dumps(params)) == json.loads(line.decode())["params"]
