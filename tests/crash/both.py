"""A journal that is kept twice, in memory and in a real file, and must say the same both times.

It is what makes the schedules over `MemoryJournal` worth something. Some 20 times slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from acpbridge.store.journal import Journal, Kept
from tests.crash.memory import MemoryJournal, Shelf
from tests.crash.world import World
from tests.store.journal.made import die

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITES = ("record", "take_over", "tell", "adopt")
QUESTIONS = (
    "undelivered", "untold", "list_prompts", "tip", "find_key", "content", "result_of",
)  # fmt: skip


class Both:
    """One run's."""

    def __init__(self, shelf: Shelf, folder: Path, nonce: str, boundary: Callable[[], None]):
        self.memory = MemoryJournal(shelf, nonce, lambda: None)
        self.real = Journal.open(folder, nonce, 1)
        self.boundary = boundary
        for name in WRITES:
            setattr(self, name, self._write(name))
        for name in QUESTIONS:
            setattr(self, name, self._question(name))

    def _write(self, name: str) -> Callable[..., Any]:
        ask = self._question(name)

        def write(*args: Any) -> Any:
            self.boundary()
            said = ask(*args)
            self.boundary()
            return said

        return write

    def _question(self, name: str) -> Callable[..., Any]:
        def ask(*args: Any, **named: Any) -> Any:
            said = [_said(getattr(of, name), args, named) for of in (self.memory, self.real)]
            assert said[0][0] == said[1][0], (name, args, said)
            if isinstance(said[1][1], Exception):
                raise said[1][1]
            return said[1][1]

        return ask

    def holder_of(self, session: str) -> object:
        """The runs of a schedule are all of this process, so the pid says nothing."""
        holders = self.memory.holder_of(session), self.real.holder_of(session)
        assert (holders[0] is None) == (holders[1] is None), holders
        return holders[1]

    def take_news(self) -> tuple[object, ...]:
        """The real file's."""
        return self.real.take_news()

    def close(self) -> None:
        """An orderly end."""
        self.boundary()
        self.memory.close()
        self.real.close()


def _said(method: Callable[..., Any], args: Any, named: Any) -> tuple[Any, Any]:
    """What it said in a form to compare, and what it said."""
    try:
        said = method(*args, **named)
    except Exception as error:  # noqa: BLE001 - it is compared, and raised again
        return (type(error), str(error)), error
    return comparable(said), said


def comparable(said: Any) -> Any:
    """Without what only a real file knows."""
    if isinstance(said, tuple):
        return tuple(comparable(one) for one in said)
    if isinstance(said, Kept):
        is_told, number = said.told_ms is not None, said.number if said.is_live else 0
        seen = evolve(said, told_ms=is_told, number=number, pid=0, changed_ms=0)
        return evolve(seen, reason="", turn=0, trace="", nonce="")
    if hasattr(said, "prompt"):
        return evolve(said, prompt=comparable(said.prompt))
    return said


class RealWorld(World):
    """A schedule on both journals at once."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        self.folder = folder
        self.journals: dict[str, Both] = {}

    def journal(self, nonce: str, boundary: Callable[[], None]) -> Any:
        """What a life opens."""
        self.journals[nonce] = Both(self.shelf, self.folder, nonce, boundary)
        return self.journals[nonce]

    def kill_run(self, nonce: str) -> None:
        """The kernel takes its lock and its file."""
        super().kill_run(nonce)
        die(self.journals[nonce].real)
