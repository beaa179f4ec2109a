"""The one exception of the simulator: something that a client must not meet."""

from __future__ import annotations


class Violation(Exception):
    """An invariant (I1 to I10) or a rule (R1 to R26) that did not hold, and how."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def must(truth: bool, invariant: str, text: str) -> None:
    """Raise `Violation` unless this is true."""
    if not truth:
        raise Violation(invariant, text)
