"""Parse a line to look at it: orjson first, the standard library where orjson is too strict.

The rule of this module: what it returns is for reading only. A JSON encoder is not transparent,
so nothing that was parsed here is ever encoded again (acp.md section 1.4, field cases 102, 107).
"""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

from acpbridge.wire.acp import INVALID_REQUEST, PARSE_ERROR
from acpbridge.wire.scan import depth_exceeds

NESTING_MAX = 1_000
"""Levels of arrays and objects that a line may have (R26; orjson itself ends at 1,024)."""

FALLBACK_NESTING_MAX = 500
"""Levels where orjson refused the line: the standard library recurses on the caller's stack."""

_INT_DIGITS_MAX = 4_000
"""CPython refuses to convert more than 4,300 digits; such a number is looked at as infinity."""


class Unreadable(ValueError):
    """The line is no JSON that we look at; `code` is the JSON-RPC error code for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _look_int(digits: str) -> int | float:
    if len(digits) <= _INT_DIGITS_MAX:
        return int(digits)
    return -math.inf if digits.startswith("-") else math.inf


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_LENIENT = json.JSONDecoder(parse_int=_look_int, parse_constant=_refuse_constant)


def look(raw: bytes) -> Any:
    """Return the parsed line. Raises `Unreadable`, and nothing else.

    Lone surrogate escapes and numbers out of range are read; NaN, control bytes in strings,
    bytes that are no UTF-8 and a byte order mark are not.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _look_again(raw)


def _look_again(raw: bytes) -> Any:
    if depth_exceeds(raw, NESTING_MAX):
        raise Unreadable(INVALID_REQUEST, too_deep(NESTING_MAX))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise Unreadable(
            PARSE_ERROR,
            f"the line is not UTF-8 (byte {fault.start}): send each message as UTF-8 JSON",
        ) from fault
    if depth_exceeds(raw, FALLBACK_NESTING_MAX):
        # Either no JSON, or JSON with numbers or escapes that need the recursive parser.
        raise Unreadable(
            INVALID_REQUEST,
            f"{too_deep(FALLBACK_NESTING_MAX)}, or one without lone surrogates and huge numbers",
        )
    try:
        return _LENIENT.decode(text)
    except (ValueError, RecursionError) as fault:
        raise Unreadable(
            PARSE_ERROR, "the line is not JSON: send one JSON object on each line"
        ) from fault


def member(holder: Any, *path: str) -> Any:
    """Return the value at `path` of something parsed, None where an object or a name is missing."""
    for name in path:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder


def too_deep(limit: int) -> str:
    """Return the message for a line that is nested over `limit` levels."""
    return f"the line is nested over {limit} levels: send a flatter message"
