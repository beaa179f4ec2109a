"""Find where values stand in the bytes of a JSON text, without building them.

The rule of this module: it looks at bytes that a parser has accepted and returns offsets. Strings,
however long, are stepped over by one regular expression. On bytes that are no JSON, or that are
cut off, nothing raises: what is complete is reported and the walk ends there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from attrs import frozen

Span: TypeAlias = tuple[int, int]
"""Where a value stands: its first byte and the byte after its last."""

# Possessive repeats (`++`, `*+`) keep no way back: a string of a million escapes costs no memory.
_WS = rb"[ \t\n\r]*+"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SCALAR = rb"(?:" + _STRING + rb'|[^ \t\n\r"\\{}\[\],:]++)'

_BLANK = re.compile(_WS)
_MEMBER = re.compile(
    _WS + rb"(" + _STRING + rb")" + _WS + rb":" + _WS
    # Absent where the value is an array or object, or is cut off.
    + rb"(?:(" + _SCALAR + rb")" + _WS + rb"([,}]))?",
    re.DOTALL,
)  # fmt: skip
_ELEMENT = re.compile(rb"(" + _SCALAR + rb")" + _WS + rb"([,\]])", re.DOTALL)
_NEXT = re.compile(_WS + rb"([,}\]])")
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+[\[\]{}]", re.DOTALL)


@frozen
class Member:
    """One member of an object."""

    key: str
    """The name, decoded."""
    key_span: Span
    """The name's bytes, quotes included."""
    value_span: Span
    """The value's bytes."""


def decode_string(token: bytes) -> str:
    """Decode one JSON string token, quotes included; a lone surrogate stays one."""
    if b"\\" not in token:
        return token[1:-1].decode("utf-8", "replace")
    text = token.decode("utf-8", "replace")
    try:
        return str(json.loads(text))
    except ValueError:
        # Only bytes that no parser accepted come here (a cut-off line): equal to no real name.
        return text


def _bracket_end(raw: bytes, at: int) -> int:
    """Return the offset behind the bracket that closes the one at `at`, -1 if there is none."""
    depth = 0
    # Not finditer: on a cut text its last, failing search would start again at every byte.
    while found := _TO_BRACKET.match(raw, at):
        at = found.end()
        if raw[at - 1] in b"{[":
            depth += 1
        elif depth > 1:
            depth -= 1
        else:
            return at
    return -1


def _composite(raw: bytes, at: int) -> tuple[Span | None, int]:
    """Return the span of the array or object at `at` and the offset of the delimiter behind it.

    None where it or the delimiter is missing: nothing that a cut may have shortened is reported.
    """
    if raw[at : at + 1] in (b"{", b"["):
        end = _bracket_end(raw, at)
        follows = _NEXT.match(raw, end) if end > 0 else None
        if follows is not None:
            return (at, end), follows.start(1)
    return None, -1


def _start(raw: bytes, at: int) -> int:
    """Return the offset of the first byte at or behind `at` that is not blank."""
    blank = _BLANK.match(raw, at)
    return at if blank is None else blank.end()


def walk(raw: bytes, at: int) -> Iterator[tuple[str, Span, Span | None]]:
    """Yield (name, name's span, value's span) of the object at `at`, in order, doubles included.

    The last value span is None where the text is cut off inside or right behind that value.
    """
    at = _start(raw, at)
    goes_on = raw[at : at + 1] == b"{"
    while goes_on:
        found = _MEMBER.match(raw, at + 1)
        if found is None:
            return
        value: Span | None
        if found[2] is not None:
            value, at = found.span(2), found.start(3)
        else:
            value, at = _composite(raw, found.end())
        yield decode_string(found[1]), found.span(1), value
        goes_on = value is not None and raw[at : at + 1] == b","


def members(raw: bytes, at: int) -> Iterator[Member]:
    """Yield the members of the object at `at`, in order, doubles included; none if no object."""
    for key, key_span, value_span in walk(raw, at):
        if value_span is not None:
            yield Member(key, key_span, value_span)


def elements(raw: bytes, at: int) -> Iterator[Span]:
    """Yield the spans of the elements of the array at `at`, in order; none if it is no array."""
    at = _start(raw, at)
    goes_on = raw[at : at + 1] == b"["
    while goes_on:
        at = _start(raw, at + 1)
        found = _ELEMENT.match(raw, at)
        value: Span | None
        if found is not None:
            value, at = found.span(1), found.start(2)
        else:
            value, at = _composite(raw, at)
        if value is None:
            return
        yield value
        goes_on = raw[at : at + 1] == b","


def find(raw: bytes, *path: str | int) -> Span | None:
    """Return the span of the value at `path` (names and indices), None where there is none.

    Of a doubled name the last one counts, as it does for orjson, json and JavaScript.
    """
    at = _start(raw, 0)
    if not path:
        return at, len(raw.rstrip(b" \t\n\r"))
    span: Span | None = None
    for step in path:
        span = None
        if isinstance(step, str):
            for key, _, value in walk(raw, at):
                if key == step:
                    span = value
        else:
            span = next(islice(elements(raw, at), step, None), None)
        if span is None:
            return None
        at = span[0]
    return span


def value(raw: bytes, *path: str | int) -> bytes:
    """Return the bytes of the value at `path`, empty where there is none; else as `find`."""
    span = find(raw, *path)
    return raw[span[0] : span[1]] if span is not None else b""


def find_unique(raw: bytes, *path: str) -> Span | None:
    """Return the span of the value at `path` if no object on the way has a doubled name.

    So every reader agrees on it, whichever of two members it would take.
    """
    at = 0
    span: Span | None = None
    for step in path:
        inside = list(members(raw, at))
        by_name = {member.key: member.value_span for member in inside}
        span = by_name.get(step)
        if span is None or len(by_name) != len(inside):
            return None
        at = span[0]
    return span


def depth_exceeds(raw: bytes, limit: int) -> bool:
    """Whether arrays and objects are nested more than `limit` levels deep.

    Linear, and stops at the first bracket over the limit; brackets inside strings do not count.
    """
    if raw.count(b"{") + raw.count(b"[") <= limit:
        return False
    depth = at = 0
    while found := _TO_BRACKET.match(raw, at):
        at = found.end()
        if raw[at - 1] in b"]}":
            depth -= 1
        elif depth < limit:
            depth += 1
        else:
            return True
    return False
