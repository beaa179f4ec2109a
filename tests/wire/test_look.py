"""`member`: one step after the other, and nothing where a step leads nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from acpbridge.wire.look import member

HOLDER = {"a": {"b": {"c": 1, "none": None}, "list": [{"c": 2}]}}


@pytest.mark.parametrize(
    ("holder", "path", "value"),
    [
        (HOLDER, (), HOLDER),
        (HOLDER, ("a", "b", "c"), 1),
        (HOLDER, ("a", "b", "none"), None),
        (HOLDER, ("a", "x"), None),
        (HOLDER, ("x", "b", "c"), None),
        (HOLDER, ("a", "list", "c"), None),
        (HOLDER, ("a", "b", "c", "d"), None),
        (None, ("a",), None),
        ("text", ("a",), None),
    ],
)
def test_a_path_leads_to_its_value_or_nowhere(
    holder: Any, path: tuple[str, ...], value: Any
) -> None:
    assert member(holder, *path) == value
