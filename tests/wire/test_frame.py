"""R26: what a client's line must be, what an agent's line may be, and that bytes stay bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire.frame import MALFORMED_BYTES_MAX, Frame, Kind, Malformed, RpcId, peek
from acpbridge.wire.look import FALLBACK_NESTING_MAX, NESTING_MAX
from tests.wire.texts import NUMBERS, OBJECTS, STRINGS, Pairs, Spelled, texts

CALL = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}'
CHUNK = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}'
)


def seen(line: bytes, *, strict: bool) -> Frame:
    frame = peek(line, strict=strict)
    assert isinstance(frame, Frame)
    assert frame.raw is line
    return frame


def refused(line: bytes, *, strict: bool) -> Malformed:
    fault = peek(line, strict=strict)
    assert isinstance(fault, Malformed)
    assert line[:MALFORMED_BYTES_MAX] == fault.raw
    return fault


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("line", "kind", "method", "id_", "session", "variant"),
    [
        (CALL, Kind.REQUEST, "session/prompt", b"1", "s", ""),
        (CHUNK, Kind.NOTIFICATION, "session/update", b"", "s", "agent_message_chunk"),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', Kind.REQUEST, "m", b"null", "", ""),
        (b'{"jsonrpc":"2.0","method":"m","params":[1]}', Kind.NOTIFICATION, "m", b"", "", ""),
        (
            b'{"jsonrpc":"2.0","method":"m","params":{"sessionId":7,"update":{"sessionUpdate":"x"}}}',
            Kind.NOTIFICATION,
            "m",
            b"",
            "",
            "",
        ),
        (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":1}}}',
            Kind.NOTIFICATION,
            "session/update",
            b"",
            "",
            "",
        ),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', Kind.RESPONSE, "", b"1", "", ""),
        (
            b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}',
            Kind.RESPONSE,
            "",
            b"1",
            "",
            "",
        ),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1}}', Kind.ERROR, "", b"1", "", ""),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-1}}', Kind.ERROR, "", b"null", "", ""),
        # Libraries that write every member of one record.
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Kind.RESPONSE, "", b"1", "", ""),
        (b'{"jsonrpc":"2.0","id":1,"result":null,"error":{}}', Kind.ERROR, "", b"1", "", ""),
        (b'{"jsonrpc":"2.0","id":1,"result":null,"error":null}', Kind.RESPONSE, "", b"1", "", ""),
        (b'{"jsonrpc":"2.0","id":1,"error":null}', Kind.ERROR, "", b"1", "", ""),
        (b'{"jsonrpc":"2.0","id":1,"method":null,"result":1}', Kind.RESPONSE, "", b"1", "", ""),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","result":null,"error":null}',
            Kind.REQUEST,
            "m",
            b"1",
            "",
            "",
        ),
    ],
)
def test_a_message_is_known_by_its_members(
    line: bytes, kind: Kind, method: str, id_: bytes, session: str, variant: str, *, strict: bool
) -> None:
    frame = seen(line, strict=strict)

    assert (kind, method, id_) == (frame.kind, frame.method, frame.id)
    assert (session, variant, False, "") == (
        frame.session,
        frame.variant,
        frame.plain,
        frame.known_text,
    )


@pytest.mark.parametrize(
    "id_",
    [
        *(b"0", b"-0", b"1", b"-1", b"1.0", b"1e2", b"9007199254740993", b"7" * 400),
        *(b'""', b'"1"', b'"\\u0031"', b'"\xc3\xa9"', b'"a:b"', b"null", b"true"),
    ],
)
@pytest.mark.parametrize("beside", [b"no", b"\\n", b"\\u0069d"])
@pytest.mark.parametrize("strict", [True, False])
def test_an_id_is_its_own_bytes(id_: bytes, beside: bytes, *, strict: bool) -> None:
    """As dictionary keys 1 == 1.0 == True; as bytes they are three ids (field case 107)."""
    line = b'{"params":{"id":"%b"},"id": %b ,"jsonrpc":"2.0","method":"m"}' % (beside, id_)

    assert RpcId(id_) == seen(line, strict=strict).id


@pytest.mark.parametrize(
    ("line", "code", "words", "id_"),
    [
        (b"not json", -32700, "not JSON", b"null"),
        (b"{bad", -32700, "not JSON", b"null"),
        (b"", -32700, "not JSON", b"null"),
        (b"\x00", -32700, "not JSON", b"null"),
        (b"\xff\xfe", -32700, "not UTF-8", b"null"),
        (b'{"id":1,"method":"\xed\xa0\xbd"}', -32700, "not UTF-8", b"null"),
        (b'{"id":1,"method":"m","params":NaN}', -32700, "not JSON", b"null"),
        (b'{"id":1,"method":"m","params":-Infinity}', -32700, "not JSON", b"null"),
        (b'{"id":1,"method":"a\x01b"}', -32700, "not JSON", b"null"),
        (b'{"id":1,"method":"m"}{"id":2,"method":"m"}', -32700, "not JSON", b"null"),
        (b'\xef\xbb\xbf{"id":1,"method":"m"}', -32700, "not JSON", b"null"),
        (b"[]", -32600, "batches are not supported", b"null"),
        (b"[%b]" % CALL, -32600, "batches are not supported", b"null"),
        (b"42", -32600, "no object", b"null"),
        (b'"s"', -32600, "no object", b"null"),
        (b"null", -32600, "no object", b"null"),
        (b"{}", -32600, "no method", b"null"),
        (b'{"id":3}', -32600, "no method", b"3"),
        (b'{"id":3,"method":null}', -32600, "no method", b"3"),
        (b'{"result":{}}', -32600, "no method", b"null"),
        (b'{"id":3,"method":["m"]}', -32600, "method is no string", b"3"),
        (b'{"id":{"a":1},"method":"m"}', -32600, "id is an object", b"null"),
        (b'{"id":[1],"method":"m"}', -32600, "id is an object", b"null"),
        (b'{"id":5,"id":6,"method":"m"}', -32600, 'two "id" members', b"null"),
        (b'{"id":5,"method":"m","\\u0069d":5}', -32600, 'two "id" members', b"null"),
        (b'{"id":5,"method":"m","method":"n"}', -32600, 'two "method" members', b"5"),
        (b'{"id":5,"method":"m","m\\u0065thod":"n"}', -32600, 'two "method" members', b"5"),
        (
            b'{"id":5,"method":"m","params":{"sessionId":"a","sessionI\\u0064":"b"}}',
            -32600,
            'two "sessionId" members',
            b"5",
        ),
        (
            b'{"id":5,"method":"m","params":{"sessionId":"a"},"params":{"sessionId":"b"}}',
            -32600,
            'two "sessionId" members',
            b"5",
        ),
        (b'{"id":5,"method":"m","result":{}}', -32600, "more than one of", b"5"),
        # An error with this id would be taken for the answer to a request of the client's own.
        (b'{"id":5,"result":{},"error":{}}', -32600, "more than one of", b"null"),
        (b'{"id":5,"id":5,"result":{}}', -32600, 'two "id" members', b"null"),
    ],
)
def test_a_line_of_a_client_is_refused_in_words(
    line: bytes, code: int, words: str, id_: bytes
) -> None:
    fault = refused(line, strict=True)

    assert (code, RpcId(id_)) == (fault.code, fault.id)
    assert words in fault.message


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"m"}',
        b'{"id":1,"method":"m","params":{"id":1,"a":{"id":1,"id":2},"method":1,"sessionId":"a"}}',
        b'{"id":1,"method":"m","params":{"x":1,"x":2}}',
        b'{"id":1,"method":"m","params":{"a":1},"params":{"sessionId":"b"}}',
        b'{"id":1,"method":"m","params":["sessionId","sessionId"]}',
        b'{"id":1,"jsonrpc":"1.0","result":1}',
        b'{"id":1,"method":"m","unknown":{"sessionId":1,"sessionId":2}}',
    ],
)
def test_everything_else_of_a_client_passes(line: bytes) -> None:
    seen(line, strict=True)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}', b"null"),
        (b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}', b""),
    ],
)
def test_a_client_may_report_an_error_without_an_id(line: bytes, id_: bytes) -> None:
    """Codeg does, for a line that it cannot parse and for a notification without session."""
    frame = seen(line, strict=True)

    assert (Kind.ERROR, RpcId(id_)) == (frame.kind, frame.id)


@pytest.mark.parametrize(
    "line",
    [
        b"[log] hi",
        b"\x1b[31mred\x1b[0m",
        "┊ $ ls".encode(),
        b"\xff\xfe",
        b"\x00",
        b"42",
        b'"s"',
        b"[1]",
        b"[%b]" % CHUNK,
        b"null",
        b'{"level":"info","id":3}',
        b'{"jsonrpc":"2.0","level":"info","id":3}',
        b'{"level":"info","method":"GET","id":3}',
        b'{"jsonrpc":"1.0","id":3,"result":{}}',
        b'{"jsonrpc":2.0,"id":3,"result":{}}',
        b'{"id":3,"result":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":3,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":3,"method":"m","result":{}}',
        b'{"jsonrpc":"2.0","id":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":3,"method":7}',
        b"{bad",
    ],
)
def test_noise_of_an_agent_is_no_frame(line: bytes) -> None:
    """Field case 104: a log object with an id is not the response to a pending request."""
    fault = refused(line, strict=False)

    assert fault.code in {-32700, -32600}
    assert RpcId(b"null") == fault.id


def test_of_a_doubled_id_of_an_agent_the_last_counts_as_for_its_readers() -> None:
    frame = seen(b'{"jsonrpc":"2.0","id":5,"id":6,"result":{}}', strict=False)

    assert RpcId(b"6") == frame.id


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "payload",
    [
        b'"\\ud83d"',
        b'["\\u0000",{"x":"\\udc00\\ud800"}]',
        b'{"n":1915883588174806058,"f":1e400,"d":0.1000}',
        b"9" * 5_000,
        b"-" + b"9" * 5_000,
        b"1e99999",
    ],
)
def test_what_orjson_refuses_is_looked_at_all_the_same(payload: bytes, *, strict: bool) -> None:
    """Field cases 102 and 107: valid JSON is no noise because one parser is too strict."""
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"sessionId":"s","p":%b}}' % payload

    frame = seen(line, strict=strict)

    assert ("s", RpcId(b"1")) == (frame.session, frame.id)


def nested(levels: int, payload: bytes = b"") -> bytes:
    """A request that is `levels` deep: two of them are the object and its params."""
    inner = b"[" * (levels - 2) + payload + b"]" * (levels - 2)
    return b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":%b}}' % inner


def test_nesting_is_refused_one_past_the_limit() -> None:
    seen(nested(NESTING_MAX), strict=True)

    fault = refused(nested(NESTING_MAX + 1), strict=True)

    assert (-32600, RpcId(b"7")) == (fault.code, fault.id)
    assert "nested over 1000 levels" in fault.message


@pytest.mark.parametrize("strict", [True, False])
def test_very_deep_nesting_is_refused_and_nothing_raises(*, strict: bool) -> None:
    fault = refused(nested(10_000), strict=strict)

    assert -32600 == fault.code
    assert -32600 == refused(b"[" * 10_000, strict=strict).code


def test_nesting_has_a_lower_limit_where_the_recursive_parser_is_needed() -> None:
    seen(nested(FALLBACK_NESTING_MAX, b"1e400"), strict=True)

    fault = refused(nested(FALLBACK_NESTING_MAX + 1, b"1e400"), strict=True)

    assert -32600 == fault.code
    assert "nested over 500 levels" in fault.message


def test_a_malformed_line_is_kept_bounded() -> None:
    fault = refused(b"x" * 1_000_000, strict=True)

    assert MALFORMED_BYTES_MAX == len(fault.raw)
    assert len(repr(fault)) < 500


def test_a_frame_shows_a_bounded_line() -> None:
    frame = seen(b'{"method":"m","params":"%b"}' % (b"x" * 1_000_000), strict=True)

    assert len(repr(frame)) < 500
    assert "…" not in repr(seen(b'{"method":"m"}', strict=True))


def test_the_body_is_parsed_once_and_read_by_name() -> None:
    frame = seen(CHUNK, strict=False)

    assert frame.body is frame.body
    assert {"sessionId", "update"} == set(frame.params)
    assert "agent_message_chunk" == frame.update["sessionUpdate"]
    assert "hi" == frame.text
    assert {} == frame.error
    assert frame.result is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"error":7}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/update","params":[{"update":{}}]}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/update","params":{"update":[]}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"content":"text"}}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"content":{"text":1}}}}',
    ],
)
def test_members_of_another_type_read_as_empty(line: bytes) -> None:
    frame = seen(line, strict=False)

    assert ({}, "") == (frame.error, frame.text)
    assert frame.update in ({}, {"content": "text"}, {"content": {"text": 1}})


def test_results_and_errors_are_read() -> None:
    assert [1] == seen(b'{"jsonrpc":"2.0","id":1,"result":[1]}', strict=False).result
    assert {"code": 1} == seen(b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', strict=False).error


@pytest.mark.parametrize("raw", [b"[1]", b"no"])
def test_a_frame_of_foreign_bytes_has_an_empty_body(raw: bytes) -> None:
    """A frame that something else than `peek` built, as a test or a journal may."""
    frame = Frame(raw, Kind.NOTIFICATION, "m", RpcId(b""), "", "", plain=False, known_text="")

    assert {} == frame.body


@given(st.binary(max_size=80) | texts() | texts(OBJECTS), st.booleans())
def test_peek_never_raises_and_keeps_the_line(line: bytes, strict: bool) -> None:
    got = peek(line, strict=strict)

    if isinstance(got, Frame):
        assert got.raw is line


PARAMS: st.SearchStrategy[Any] = STRINGS.map(lambda session: Pairs((("sessionId", session),)))
ENVELOPE: dict[str, st.SearchStrategy[Any]] = {
    "id": STRINGS | NUMBERS.map(Spelled) | st.none(),
    "method": STRINGS | st.none(),
    "params": PARAMS | st.just(Pairs(())),
    "result": STRINGS | st.none(),
    "error": st.none() | st.just(Pairs((("code", Spelled("-1")),))),
}
ENVELOPES = (
    st.fixed_dictionaries({"jsonrpc": st.just("2.0")}, optional=ENVELOPE)
    .flatmap(lambda got: st.permutations(list(got.items())))
    .map(lambda items: Pairs(tuple(items)))
)


@given(texts(ENVELOPES), st.booleans())
def test_what_is_seen_is_what_a_parser_sees(line: bytes, strict: bool) -> None:
    got = peek(line, strict=strict)

    body = json.loads(line.decode())
    spoken = [name for name in ("method", "result", "error") if body.get(name) is not None]
    if not spoken:
        spoken = [name for name in ("result", "error") if name in body][:1]
    is_message = len(spoken) == 1 and (
        spoken == ["method"] or "id" in body or (strict and spoken == ["error"])
    )
    assert is_message is isinstance(got, Frame)
    if isinstance(got, Malformed):
        return
    assert (body.get("method") or "") == got.method
    assert ("id" in body) is bool(got.id)
    assert body.get("id") == json.loads(got.id.decode() or "null")
    session = body.get("params", {}).get("sessionId", "") if spoken == ["method"] else ""
    assert session == got.session
