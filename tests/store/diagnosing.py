"""What the tests of the diagnosis share: texts made into sources, and findings in short."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from acpbridge.store.diagnosis import STUCK_S, Diagnosis, Finding, Source

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
INCIDENT = FIXTURES / "incident" / "codeg-server.log"
A = "8c41e6d0-2b7f-4d35-a0c9-e7130a64b295"
B = "3f9a7c52-6f0e-4a7b-9d1c-52b0c4e81d77"


class Pieces:
    """A text that gives its bytes in the pieces that it was made of."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)

    def read1(self, _: int, /) -> bytes:
        return next(self._pieces, b"")

    def tell(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


def source(pieces: Iterable[bytes], name: str = "log") -> Source:
    """An open source with these bytes."""
    text = Pieces(pieces)
    return Source(name, None, text, text)


def diagnosed(*texts: str, stuck_s: float = STUCK_S) -> list[Finding]:
    """All findings in files with these texts; they are called log1, log2 and so on."""
    diagnosis = Diagnosis(stuck_s=stuck_s)
    found: list[Finding] = []
    for number, text in enumerate(texts, start=1):
        found += diagnosis.look(source([text.encode()], f"log{number}"))
    return [*found, *diagnosis.end()]


def look_at(*paths: Path) -> list[Finding]:
    """All findings in these files."""
    diagnosis = Diagnosis()
    found: list[Finding] = []
    for path in paths:
        with Source.open(str(path)) as opened:
            found += diagnosis.look(opened)
    return [*found, *diagnosis.end()]


def kinds(findings: Iterable[Finding]) -> list[str]:
    """What was found, in order."""
    return [finding.kind for finding in findings]


def marks(finding: Finding) -> list[int]:
    """The line numbers that a finding names."""
    return [mark.line for mark in finding.marks]
