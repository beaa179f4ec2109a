"""Find swallowed sends in logs and tapes."""

from __future__ import annotations

from acpbridge.store.diagnosis.diagnosis import Diagnosis, Looked
from acpbridge.store.diagnosis.finding import (
    BURST_S,
    KINDS,
    MEANINGS,
    STUCK_S,
    SWALLOWED_MS,
    Finding,
    Mark,
    span,
)
from acpbridge.store.diagnosis.source import Source

__all__ = [
    "BURST_S",
    "KINDS",
    "MEANINGS",
    "STUCK_S",
    "SWALLOWED_MS",
    "Diagnosis",
    "Finding",
    "Looked",
    "Mark",
    "Source",
    "span",
]
