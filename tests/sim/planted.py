"""How a planted bug is put in the place of what is right, and taken away again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def instead(owner: Any, name: str, other: Callable[..., Any]) -> Iterator[None]:
    """`other` under that name of a module or a class, as long as the context lasts."""
    original = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, original)
