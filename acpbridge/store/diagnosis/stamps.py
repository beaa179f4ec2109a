"""The time that stands in a log line, whoever wrote it. Pure.

tracing-subscriber writes `2026-08-28T00:01:41.494228Z`, Python's logging `2026-11-29 19:36:44,793`
or without a fraction. Collectors put their own time in front, so the last one before the message
counts.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from attrs import frozen

_STAMP = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Stamp:
    """A point in time, to the nanosecond."""

    ns: int
    """Since 1970; in UTC where the line says its zone, else in whatever zone it was written."""
    text: str
    """As it stands in the line."""
    is_fine: bool
    """Whether it has a fraction of a second: without one nothing below a second can be said."""


def last_stamp(line: bytes, end: int) -> Stamp | None:
    """The last time that stands in `line[:end]`; None where there is none that exists."""
    found = None
    for found in _STAMP.finditer(line, 0, end):  # noqa: B007 - the last one is wanted
        pass
    return None if found is None else _read(found)


def _read(found: re.Match[bytes]) -> Stamp | None:
    numbers = [int(found[group]) for group in range(1, 7)]
    try:
        day = datetime(*numbers, tzinfo=UTC) - _zone(found[8])  # type: ignore[misc, arg-type]
    except (ValueError, OverflowError):
        return None
    since = day - _EPOCH
    fraction = (found[7] or b"").ljust(9, b"0")
    ns = (since.days * 86_400 + since.seconds) * 1_000_000_000 + int(fraction)
    return Stamp(ns, found[0].decode("ascii"), found[7] is not None)


def _zone(text: bytes | None) -> timedelta:
    if not text or text == b"Z":
        return timedelta(0)
    away = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return -away if text.startswith(b"-") else away
