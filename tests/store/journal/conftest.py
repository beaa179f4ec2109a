from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.journal import Journal
from tests.store.journal.made import open_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: what is tested is order, not the disk's patience."""
    folder = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="acpbridge-journal-", dir=folder) as made:
        yield Path(made)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Journal]]:
    """Open journals of one state directory under nonces of choice; closed at the end."""
    journals = []

    def one(nonce: str = "one") -> Journal:
        journals.append(open_journal(tmp_path, nonce))
        return journals[-1]

    yield one
    for journal in journals:
        # One that has died in its test is closed already, and closing it again does nothing.
        journal.close()


@pytest.fixture
def journal(opened: Callable[..., Journal]) -> Journal:
    return opened()
