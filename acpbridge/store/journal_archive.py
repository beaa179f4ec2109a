"""The journal for people and other processes: it looks, and it forgets what it is told to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from acpbridge.store import journal_look as look
from acpbridge.store.journal_content import text_of
from acpbridge.store.journal_database import Database
from acpbridge.store.journal_fault import JournalFault
from acpbridge.store.journal_look import Full, Kept, Liveness

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

CHECKPOINT_WAIT_MS_MAX = 200
"""How long `forget` waits for other processes before it leaves old bytes to the next one."""


class Reader:
    """What a bridge and people can both look at."""

    def __init__(self, state_dir: Path, database: Database, own: str) -> None:
        self.state_dir = state_dir
        self._database = database
        self._own = own

    @property
    def path(self) -> Path:
        """The journal's file."""
        return self._database.path

    def list_prompts(
        self, *, state: str = "", session: str = "", limit: int = look.LIST_MAX
    ) -> tuple[Kept, ...]:
        """The newest prompts, newest first; `state` may be `undelivered` too."""
        return self._database.read(
            lambda connection: look.listed(connection, self._live(), state, session, limit)
        )

    def prompt(self, prompt_id: int) -> Full | None:
        """One prompt with its history, text and answer; None where it is not there."""
        return self._database.read(
            lambda connection: look.full(connection, self._live(), prompt_id)
        )

    def text(self, prompt_id: int) -> str | None:
        """Its text blocks, for another program; None where it is not there."""
        found = self.prompt(prompt_id)
        return None if found is None else text_of(found.content)

    def _live(self) -> Liveness:
        return Liveness(self.state_dir, self._own)


class Archive(Reader):
    """The journal for people: works while bridges write, and needs none."""

    @classmethod
    def open(cls, state_dir: Path) -> Archive | None:
        """Open it; None where nothing has been recorded in this directory.

        Raises:
            JournalFault: It cannot be read. A damaged one is left as it is.
        """
        if not any(state_dir.glob("journal-*.db")):
            return None
        return cls(state_dir, Database(state_dir, renews=False), "")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def forget(self, prompt_id: int) -> str:
        """Delete a prompt and its text: `forgotten`, `absent`, or `open` (a live run has it)."""
        live = self._live()

        def work(connection: sqlite3.Connection) -> str:
            found = look.rows(connection, live, "prompt.id = ?", (prompt_id,))
            if not found:
                return "absent"
            if found[0].is_live:
                return "open"
            connection.execute("DELETE FROM prompt WHERE id = ?", (prompt_id,))
            return "forgotten"

        # Deleted bytes are overwritten, and the -wal, which has older pages, is emptied.
        self._database.read(lambda one: one.execute("PRAGMA secure_delete = ON").fetchall())
        done = self._database.write(work)
        if done == "forgotten":
            with suppress(JournalFault):
                self._database.read(_empty_wal)
        return done


def _empty_wal(connection: sqlite3.Connection) -> None:
    usual_ms = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS_MAX}")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {usual_ms}")
