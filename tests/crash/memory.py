"""A journal in memory that survives its bridges, with the methods that `Journaling` uses.

`Shelf` is the file, `MemoryJournal` what one run has open of it. A transaction is whole or absent:
`boundary` is called before and after each one, and may end the bridge there.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from attrs import define, field

from acpbridge.store.journal import Alias, Entry, Holder, Journal, Kept, Keyed, KeyTaken, Pruned
from acpbridge.store.journal_content import first_words
from acpbridge.store.journal_states import ENDS, Numbers
from tests.store.journal.rows import Row, begun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PID = 1


def is_open(row: Row) -> bool:
    """Whether it runs, waits, or is still to be told."""
    return row.told_ms is None or row.is_kept


@define(eq=False)
class Shelf:
    """What is durable."""

    rows: list[Row] = field(factory=list)
    aliases: dict[str, list[tuple[int, str]]] = field(factory=dict)
    dead: set[str] = field(factory=set)
    """Runs that are proven dead."""
    ids: int = 0

    def of_key(self, session: str, key: str) -> Row | None:
        """The prompt that has this key."""
        of = (row for row in self.rows if row.session == session and row.key == key)
        return next(of, None)


class MemoryJournal(Journal):
    """One run's."""

    def __init__(self, shelf: Shelf, nonce: str, boundary: Callable[[], None]) -> None:
        self._shelf = shelf
        self._nonce = nonce
        self._boundary = boundary
        self._numbers = Numbers()

    def _mine(self, number: int) -> Row | None:
        rows = self._shelf.rows
        of = (one for one in rows if one.run == self._nonce and one.number == number)
        return next(of, None)

    # -- writes -----------------------------------------------------------------------------
    def record(self, items: Sequence[Entry | Alias]) -> None:
        """All of it, or nothing and an exception."""
        self._boundary()
        shelf = self._shelf
        before = [copy(row) for row in shelf.rows], self._numbers.copy(), shelf.ids
        aliases = {session: list(chain) for session, chain in shelf.aliases.items()}
        try:
            for item in items:
                self._apply(item)
        except BaseException:
            (shelf.rows, self._numbers, shelf.ids), shelf.aliases = before, aliases
            raise
        self._boundary()

    def _apply(self, item: Entry | Alias) -> None:
        if isinstance(item, Alias):
            chain = self._shelf.aliases.setdefault(item.session, [])
            last, tip = chain[-1] if chain else (0, "")
            if tip != item.agent_id:
                chain.append((max(item.generation, last + 1), item.agent_id))
            return
        row = self._mine(item.number)
        if self._numbers.is_new(item.number):
            self._begin(item)
        elif row is not None:
            row.move(item)
        else:
            assert item.state != "sending", "I8: nothing can be sent on the word of no row"

    def _begin(self, entry: Entry) -> None:
        shelf = self._shelf
        row = begun(entry)
        held = shelf.of_key(row.session, row.key) if row.key else None
        if held is not None and not held.is_written and held.state in (*ENDS, "answered"):
            held.key = ""
        elif held is not None:
            raise KeyTaken(entry.number, held.id)
        shelf.ids += 1
        row.id, row.run = shelf.ids, self._nonce
        shelf.rows.append(row)
        self._numbers.add(entry.number)

    def take_over(self, at_ms: int, session: str | None = None) -> tuple[Kept, ...]:
        """Every open prompt of a dead run that nobody keeps yet."""
        taken = [
            row
            for row in self._shelf.rows
            if row.run in self._shelf.dead - {self._nonce}
            and (session is None or row.session == session)
            and not row.is_kept
            and is_open(row)
        ]
        if taken:
            self._boundary()
        for row in taken:
            ended = row.state in ("cancelled", "refused")
            row.run, row.number, row.is_kept = self._nonce, 0, not ended
            row.told_ms = at_ms if ended else None
            if row.state in ("sending", "written", "started"):
                row.state, row.is_written = "unknown", True
            row.history.append(row.state)
        if taken:
            self._boundary()
        return tuple(self._seen(row) for row in taken)

    def tell(self, prompt_ids: Iterable[int], at_ms: int) -> tuple[int, ...]:
        """Mark as told."""
        self._boundary()
        by_id = {row.id: row for row in self._shelf.rows}
        told = [by_id[id_] for id_ in prompt_ids if id_ in by_id]
        told = [row for row in told if row.is_kept or row.state == "unknown"]
        told = [row for row in told if row.told_ms is None]
        for row in told:
            row.told_ms, row.is_kept = at_ms, row.state == "accepted"
        self._boundary()
        return tuple(row.id for row in told)

    def adopt(self, prompt_id: int, number: int, at_ms: int, session: str = "") -> bool:
        """Make an undelivered prompt this run's own."""
        self._boundary()
        row = next((one for one in self._shelf.rows if one.id == prompt_id), None)
        if row is None or row.state != "accepted" or not row.is_kept:
            return False
        row.run, row.number, row.is_kept, row.told_ms = self._nonce, number, False, None
        row.session = session or row.session
        row.history.append("adopted")
        self._numbers.add(number)
        self._boundary()
        return True

    # -- questions --------------------------------------------------------------------------
    def _seen(self, row: Row) -> Kept:
        is_open_here = not row.is_kept and row.state not in ("answered", *ENDS)
        return Kept(
            id=row.id,
            session=row.session,
            state=row.state,
            is_kept=row.is_kept,
            is_written=row.is_written,
            is_live=is_open_here and row.run not in self._shelf.dead,
            number=row.number,
            nonce=row.run,
            pid=PID,
            accepted_ms=row.accepted_ms,
            changed_ms=0,
            told_ms=row.told_ms,
            completion=row.completion,
            reason=row.reason,
            turn=0,
            trace="",
            key=row.key,
            first_words=first_words(row.content) if row.content else "",
        )

    def _kept(self, session: str) -> list[Row]:
        rows = self._shelf.rows
        return [row for row in rows if row.session == session and row.is_kept and is_open(row)]

    def undelivered(self, session: str) -> tuple[Kept, ...]:
        """Oldest first."""
        found = [row for row in self._kept(session) if row.state == "accepted"]
        return tuple(self._seen(row) for row in found)

    def untold(self, session: str) -> tuple[Kept, ...]:
        """Oldest first."""
        found = [row for row in self._kept(session) if row.told_ms is None]
        return tuple(self._seen(row) for row in found)

    def list_prompts(
        self, *, state: str = "", session: str = "", limit: int = 1_000
    ) -> tuple[Kept, ...]:
        """Newest first."""
        assert not state
        found = [row for row in self._shelf.rows if session in ("", row.session)]
        return tuple(self._seen(row) for row in reversed(found))[:limit]

    def holder_of(self, session: str) -> Holder | None:
        """Another live run that has prompts of this session."""
        others = self._shelf.dead | {self._nonce}
        for row in self._shelf.rows:
            is_held = row.session == session and is_open(row) and not row.is_kept
            if is_held and row.run not in others:
                return Holder(row.run, PID, 1)
        return None

    def tip(self, session: str) -> tuple[int, str] | None:
        """The last alias."""
        chain = self._shelf.aliases.get(session)
        return chain[-1] if chain else None

    def find_key(self, session: str, key: str) -> Keyed | None:
        """The prompt that has this key, unless it ended without having been written."""
        row = self._shelf.of_key(session, key)
        if row is None or not (row.is_written or row.state in ("accepted", "sending")):
            return None
        return Keyed(self._seen(row), row.run == self._nonce and row.number > 0, row.answer)

    def content(self, prompt_id: int) -> bytes:
        """Its blocks."""
        return next((row.content for row in self._shelf.rows if row.id == prompt_id), b"")

    def result_of(self, prompt_id: int) -> bytes:
        """Its result."""
        return next((row.answer for row in self._shelf.rows if row.id == prompt_id), b"")

    # -- the rest ---------------------------------------------------------------------------
    def prune(self, *_: object) -> Pruned:
        """Nothing is old here."""
        return Pruned(0, 0, is_done=True)

    def take_news(self) -> tuple[()]:
        """Nothing happens to this file."""
        return ()

    def close(self) -> None:
        """An orderly end."""
        self._boundary()
        self._shelf.dead.add(self._nonce)
