"""Change one value in a JSON text and keep every other byte.

The rule of this module: cut and join at spans, never encode what was received (design, "Bytes").
All functions take bytes that a parser has accepted and return new bytes.
"""

from __future__ import annotations

from collections.abc import Collection

from acpbridge.wire.codec import encode
from acpbridge.wire.ids import RpcId
from acpbridge.wire.scan import Member, Span, find, members


def replace(raw: bytes, span: Span, new: bytes) -> bytes:
    """Return `raw` with the bytes of `span` replaced."""
    return b"".join((raw[: span[0]], new, raw[span[1] :]))


def with_id(raw: bytes, new_id: RpcId) -> bytes:
    """Return `raw` with another top-level id. Raises KeyError where it has none."""
    return with_value(raw, ("id",), new_id)


def with_session(raw: bytes, session: str) -> bytes:
    """Return `raw` with another session id; unchanged where it names none.

    The session id is `params.sessionId`, or without that `result.sessionId`, where it is a string.
    """
    for path in (("params", "sessionId"), ("result", "sessionId")):
        span = find(raw, *path)
        if span is not None and raw[span[0] : span[0] + 1] == b'"':
            return replace(raw, span, encode(session))
    return raw


def with_value(raw: bytes, path: tuple[str | int, ...], new: bytes) -> bytes:
    """Return `raw` with another value at `path`. Raises KeyError where there is none."""
    span = find(raw, *path)
    if span is None:
        raise KeyError(path)
    return replace(raw, span, new)


def without_members(raw: bytes, path: tuple[str | int, ...], names: Collection[str]) -> bytes:
    """Return `raw` without the named members of the object at `path`, doubles included.

    Names that are not there are ignored. Raises KeyError where no object stands at `path`.
    """
    inside = list(members(raw, _object_at(raw, path)))
    kept = [index for index, member in enumerate(inside) if member.key not in names]
    last_kept = kept[-1] if kept else -1
    pieces: list[bytes] = []
    copied = 0
    for index, member in enumerate(inside):
        if member.key not in names:
            continue
        if index < last_kept:
            # Up to the next name: the comma behind the member goes with it.
            begin, end = member.key_span[0], inside[index + 1].key_span[0]
        else:
            # Nothing stays behind it: the comma before the member goes with it.
            begin = inside[index - 1].value_span[1] if index else member.key_span[0]
            end = member.value_span[1]
        pieces.append(raw[copied:begin])
        copied = end
    pieces.append(raw[copied:])
    return b"".join(pieces)


def with_member(raw: bytes, path: tuple[str | int, ...], name: str, value: bytes) -> bytes:
    """Return `raw` with the member `name` of the object at `path` set, or added as its last.

    Raises KeyError where no object stands at `path`.
    """
    at = _object_at(raw, path)
    last: Member | None = None
    named: Member | None = None
    for last in members(raw, at):
        if last.key == name:
            named = last
    if named is not None:
        return replace(raw, named.value_span, value)
    member = encode(name) + b":" + value
    if last is None:
        return replace(raw, (at + 1, at + 1), member)
    end = last.value_span[1]
    return replace(raw, (end, end), b"," + member)


def _object_at(raw: bytes, path: tuple[str | int, ...]) -> int:
    """Return the offset of the opening brace of the object at `path`."""
    span = find(raw, *path)
    if span is None or raw[span[0] : span[0] + 1] != b"{":
        raise KeyError(path)
    return span[0]
