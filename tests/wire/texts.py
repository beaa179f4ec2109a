"""JSON texts as peers may write them: blanks, escapes, spellings of numbers, doubled names."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

BLANKS = ("", "", "", " ", "\t", "\r", "  ")


@frozen
class Pairs:
    """An object with its members in order, doubles included."""

    items: tuple[tuple[str, Any], ...]


@frozen
class Spelled:
    """A number in the spelling that goes on the wire."""

    text: str


NAMES = st.sampled_from(["id", "a", "b", "ä", "method", "sessionId", 'q"', "\\", ""])
STRINGS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "\\", '\\"', "[{", "}]", "\ud83d", "😀", "\x00", "a,b:c"]
)
NUMBERS = st.sampled_from(["0", "-0", "1", "1.0", "1E2", "0.1000", "1915883588174806058", "1e400"])
SCALARS = st.none() | st.booleans() | STRINGS | NUMBERS.map(Spelled)


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(NAMES, values), max_size=4).map(lambda got: Pairs(tuple(got)))


VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | objects(inner), max_leaves=12
)
OBJECTS = objects(VALUES)


def write(value: Any, whim: Random) -> str:
    """Return a JSON text of `value`; `whim` chooses blanks and escapes."""
    if isinstance(value, Spelled):
        return value.text
    if isinstance(value, str):
        return _string(value, whim)
    if isinstance(value, Pairs):
        inner = [
            f"{_blank(whim)}{_string(name, whim)}{_blank(whim)}:{_blank(whim)}"
            f"{write(of, whim)}{_blank(whim)}"
            for name, of in value.items
        ]
        return "{" + (",".join(inner) or _blank(whim)) + "}"
    if isinstance(value, list):
        inner = [f"{_blank(whim)}{write(of, whim)}{_blank(whim)}" for of in value]
        return "[" + (",".join(inner) or _blank(whim)) + "]"
    return json.dumps(value)


def _blank(whim: Random) -> str:
    return whim.choice(BLANKS)


def _string(text: str, whim: Random) -> str:
    return '"' + "".join(_character(one, whim) for one in text) + '"'


def _character(one: str, whim: Random) -> str:
    if whim.random() < 0.2:
        units = one.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    is_surrogate = 0xD800 <= ord(one) <= 0xDFFF
    return json.dumps(one, ensure_ascii=is_surrogate)[1:-1]


@st.composite
def texts(draw: st.DrawFn, values: st.SearchStrategy[Any] = VALUES) -> bytes:
    """Valid JSON texts of these values."""
    whim = Random(draw(st.integers(0, 2**32)))
    return (_blank(whim) + write(draw(values), whim) + _blank(whim)).encode()


def pairs_of(raw: bytes) -> Any:
    """Parse with the standard library; objects become `Pairs`, so doubles stay in sight."""
    return json.loads(raw.decode(), object_pairs_hook=lambda items: Pairs(tuple(items)))


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    """Every path of a value parsed with `pairs_of`, with what stands there; last double wins."""
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, Pairs):
        inside = list(dict(value.items).items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    found = [(path, value)]
    for step, of in inside:
        found += paths(of, (*path, step))
    return found
