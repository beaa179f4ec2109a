"""Journals, entries and deaths for the tests of the journal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from acpbridge.store.journal import Entry, Journal

if TYPE_CHECKING:
    from pathlib import Path

S = "s-1"
CONTENT = b'[{"type":"text","text":"say hello"}]'

PATHS = {
    "accepted": ("accepted",),
    "sending": ("accepted", "sending"),
    "written": ("accepted", "sending", "written"),
    "started": ("accepted", "sending", "written", "started"),
    "settled": ("accepted", "sending", "written", "started", "settled"),
    "answered": ("accepted", "sending", "written", "started", "settled", "answered"),
    "cancelled": ("accepted", "cancelled"),
    "refused": ("accepted", "refused"),
    "unknown": ("accepted", "sending", "written", "unknown"),
}
"""The usual way to each state."""


LEGAL = {
    ("accepted", "sending"), ("accepted", "started"), ("accepted", "answered"),
    ("accepted", "cancelled"), ("accepted", "refused"),
    ("sending", "accepted"), ("sending", "written"), ("sending", "answered"),
    ("sending", "cancelled"), ("sending", "refused"), ("sending", "unknown"),
    ("written", "accepted"), ("written", "started"), ("written", "settled"),
    ("written", "answered"), ("written", "cancelled"), ("written", "refused"),
    ("written", "unknown"),
    ("started", "accepted"), ("started", "settled"), ("started", "answered"),
    ("started", "cancelled"), ("started", "refused"), ("started", "unknown"),
    ("settled", "answered"),
    ("cancelled", "accepted"), ("refused", "accepted"), ("unknown", "refused"),
}  # fmt: skip
"""Written down a second time, as the core's callers of `persist` were read."""

TOLD = {("cancelled", "answered"), ("refused", "answered"), ("unknown", "answered")}
"""These say that the client was told; the end stays what it was."""

LATE = {
    *(("settled", late) for late in ("started", "refused", "unknown")),
    *(("answered", late) for late in ("started", "refused", "unknown")),
    ("unknown", "started"),
}
"""A late verdict of a steer (R14): told in the history, and the end stays what it was."""


def entry(number: int, state: str, **more: object) -> Entry:
    """An entry as the shell would make it; `more` changes its fields."""
    fields: dict[str, object] = {"session": S, "at_ms": 1_000}
    if state == "accepted":
        fields["content"] = CONTENT
    if state in ("settled", "answered"):
        fields["completion"] = "response"
    if state == "settled":
        fields["answer"] = b'{"stopReason":"end_turn"}'
    return Entry(number, state, **{**fields, **more})  # type: ignore[arg-type]


def go(journal: Journal, number: int, *states: str, **more: object) -> None:
    """Record these states of one prompt, each in a transaction of its own."""
    for state in states:
        journal.record([entry(number, state, **more)])


def bring(journal: Journal, number: int, state: str, **more: object) -> int:
    """Bring a new prompt into this state; its id."""
    journal.record([entry(number, one, **more) for one in PATHS[state]])
    return journal.list_prompts(limit=1)[0].id


def open_journal(folder: Path, nonce: str = "one") -> Journal:
    return Journal.open(folder / "state", nonce, 1_000)


def die(journal: Journal) -> None:
    """What the kernel does at a kill -9: descriptors and locks go, files stay."""
    journal._database.close()
    os.close(journal._lock.fd)
    journal._lock.fd = -1


def names(folder: Path) -> list[str]:
    """The names in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())
