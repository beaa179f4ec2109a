"""R26: a line in which two readers could see two things is refused, however it is spelled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acpbridge.wire.frame import Malformed, peek
from tests.wire.texts import OBJECTS, STRINGS, Pairs, pairs_of, texts

DOUBLED = st.lists(
    st.tuples(st.just("id"), STRINGS)
    | st.tuples(st.just("method"), STRINGS)
    | st.tuples(st.just("params"), OBJECTS | st.none()),
    min_size=1,
    max_size=4,
).map(lambda items: Pairs((("method", "m"), *items)))


@given(texts(DOUBLED))
def test_no_doubled_name_that_counts_passes(line: bytes) -> None:
    """Whatever else the line holds, and however its names are spelled."""
    got = peek(line, strict=True)

    items = pairs_of(line).items
    outer = [name for name, _ in items]
    inner = [name for key, value in items if key == "params" and value for name, _ in value.items]
    is_twofold = max(outer.count("id"), outer.count("method"), inner.count("sessionId")) > 1
    assert is_twofold is isinstance(got, Malformed)
