"""The journal: what became of every accepted prompt, shared by all bridges of a state directory.

`Journal` is a bridge's own: it records transitions, takes over what dead runs left, keeps alias
chains. `Archive` is for people and other processes: it looks, and forgets. Both block: call them
from a thread, one call at a time. Every fault of the file is a `JournalFault`, and then nothing
of what was asked for has been done; `news` says where a damaged file was set aside.

Importing this module imports sqlite3 (some 5 ms): import it where the journal is opened.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

from acpbridge.store import journal_look as look
from acpbridge.store import journal_prune, journal_takeover
from acpbridge.store.journal_archive import Archive, Reader
from acpbridge.store.journal_content import content_of, text_of
from acpbridge.store.journal_database import Database, SetAside
from acpbridge.store.journal_fault import JournalFault, KeyTaken
from acpbridge.store.journal_look import Full, Holder, Kept, Step
from acpbridge.store.journal_prune import Pruned, Retention
from acpbridge.store.journal_record import apply
from acpbridge.store.journal_run import hold, live_pids, run_id
from acpbridge.store.journal_states import Alias, Entry, IllegalTransition, Numbers, sql_text
from acpbridge.store.state_dir import prepare_state_dir

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = [
    "Alias",
    "Archive",
    "Entry",
    "Full",
    "Holder",
    "IllegalTransition",
    "Journal",
    "JournalFault",
    "Kept",
    "KeyTaken",
    "Keyed",
    "Pruned",
    "Retention",
    "SetAside",
    "Step",
    "content_of",
    "text_of",
]


@frozen
class Keyed:
    """The prompt that has a `promptKey`."""

    prompt: Kept
    is_own: bool
    """It is of this run: `prompt.number` is its number here."""
    answer: bytes
    """The JSON of its result; b"" where there is none (yet)."""


class Journal(Reader):
    """The journal of one run; open it once, in the thread that will use it or any other."""

    @classmethod
    def open(cls, state_dir: Path, nonce: str, at_ms: int) -> Journal:
        """Prepare the directory, hold this run's lock, open the file or begin one.

        Args:
            state_dir: Created for its owner alone where it is missing.
            nonce: Random text of this run, up to 64 letters, digits, - and _.
            at_ms: Now, by the wall clock.

        Raises:
            StateDirFault: The directory cannot be used.
            JournalFault: The file cannot; a damaged one was set aside, see `news`.
        """
        return cls(prepare_state_dir(state_dir), nonce, at_ms)

    def __init__(self, state_dir: Path, nonce: str, at_ms: int) -> None:
        self._run = run_id(nonce)
        self._lock = hold(state_dir, self._run)
        self._opened_ms = at_ms
        self._row: int | None = None
        """Of this run; written with its first prompt, so that opening writes nothing."""
        self._row_renewals = 0
        self._numbers = Numbers()
        try:
            database = Database(state_dir, renews=True)
        except BaseException:
            self._lock.release()
            raise
        super().__init__(state_dir, database, nonce)

    @property
    def renewals(self) -> int:
        """How often this run has gone over to a new journal; its own rows begin anew there."""
        return self._database.renewals

    def take_news(self) -> tuple[SetAside, ...]:
        """What happened to the file since the last call, oldest first."""
        news = tuple(self._database.news)
        self._database.news.clear()
        return news

    def others(self) -> list[int]:
        """The pids of the other live bridges of this directory."""
        return live_pids(self.state_dir, self._own)

    def hurry(self, wait_s: float) -> None:
        """The end is near: from now on wait no longer than this for other processes."""
        self._database.hurry(wait_s)

    def close(self) -> None:
        """An orderly end: the run is marked as ended, its lock and file are let go."""
        row = None if self._lock.fd < 0 else self._own_row()
        try:
            if row is not None:
                with suppress(JournalFault):
                    # Whoever comes next need not ask whether we live; the lock says so as well.
                    self._database.write(
                        lambda one: one.execute(
                            "UPDATE run SET is_ended = 1 WHERE nonce = ?", (self._own,)
                        )
                    )
        finally:
            self._database.close()
            self._lock.release()

    # -- transitions ------------------------------------------------------------------------
    def record(self, items: Sequence[Entry | Alias]) -> None:
        """Make transitions and aliases durable, in this order, in one transaction.

        When it returns, all of them survive a power cut; when it raises, none was written, and
        the caller gives them again before later ones. A transition that repeats is no second one.

        Raises:
            JournalFault: The file cannot take them now.
            KeyTaken: An entry's key is another prompt's; leave it out and give the rest again.
            IllegalTransition: The core has taken an edge that is not in the table (a bug).
        """
        if not items:
            return

        def work(connection: sqlite3.Connection) -> tuple[int, Numbers]:
            row, numbers = self._run_row(connection), self._numbers.copy()
            is_renewed = bool(self.renewals)
            for item in items:
                number = item.number if isinstance(item, Entry) else 0
                is_new = numbers.is_new(number)
                apply(connection, row, item, is_new=is_new, is_renewed=is_renewed)
                if is_new:
                    numbers.add(number)
            return row, numbers

        row, self._numbers = self._database.write(work)
        self._note_row(row)

    def adopt(self, prompt_id: int, number: int, at_ms: int, session: str = "") -> bool:
        """Make an undelivered prompt this run's own, as `number`; False where it is not there.

        Of two bridges that want the same one, one gets it. It goes on from `accepted`; with
        `session`, where the client reaches the conversation under another id by now.
        """

        def work(connection: sqlite3.Connection) -> tuple[int, bool]:
            row = self._run_row(connection)
            done = connection.execute(
                "UPDATE prompt SET run = ?, number = ?, is_kept = 0, told_ms = NULL, "
                "changed_ms = ?, reason = 'adopted', session = CASE ?4 WHEN '' THEN session "
                "ELSE ?4 END WHERE id = ?5 AND state = 'accepted' AND is_kept = 1",
                (row, number, at_ms, sql_text(session), prompt_id),
            )
            if done.rowcount:
                connection.execute(
                    "INSERT INTO history SELECT ?1, coalesce(max(step), 0) + 1, 'accepted', ?2, "
                    "'adopted', '', 0, '' FROM history WHERE prompt = ?1",
                    (prompt_id, at_ms),
                )
            return row, bool(done.rowcount)

        row, is_done = self._database.write(work)
        self._note_row(row)
        if is_done:
            self._numbers.add(number)
        return is_done

    def _own_row(self) -> int | None:
        return self._row if self._row_renewals == self._database.renewals else None

    def _run_row(self, connection: sqlite3.Connection) -> int:
        """This run's row, inside a transaction; noted only once that is committed."""
        row = self._own_row()
        if row is not None:
            return row
        run = self._run
        if not self._lock.is_there():
            # The directory was removed under us, and our lock with it.
            gone, self._lock = self._lock, hold(self.state_dir, run)
            os.close(gone.fd)
        done = connection.execute(
            "INSERT INTO run (nonce, pid, started, at_ms) VALUES (?, ?, ?, ?)",
            (run.nonce, run.pid, run.started, self._opened_ms),
        )
        assert done.lastrowid is not None
        return done.lastrowid

    def _note_row(self, row: int) -> None:
        self._row, self._row_renewals = row, self._database.renewals

    # -- recovery ---------------------------------------------------------------------------
    def take_over(self, at_ms: int, session: str | None = None) -> tuple[Kept, ...]:
        """Take what runs that are proven dead have left; of one session, or of all.

        Returns what was taken now, oldest first: `accepted` is undelivered, `unknown` may have
        run, `settled` has a result that nobody got. Looks without a write where nothing is left.
        """
        own, state_dir = self._own, self.state_dir
        # Before their prompts: a run that dies in between keeps its lock file, and so its proof.
        locks = journal_takeover.locks_to_sweep(state_dir, own) if session is None else []
        dead = self._database.read(
            lambda one: journal_takeover.dead_runs(one, state_dir, own, session)
        )
        taken: tuple[Kept, ...] = ()
        if dead:
            taken = self._take([row for row, _ in dead], session, at_ms)
        if locks:
            self._database.read(lambda one: journal_takeover.sweep(one, state_dir, locks))
        return taken

    def _take(self, dead: list[int], session: str | None, at_ms: int) -> tuple[Kept, ...]:
        renewals = self.renewals

        def work(connection: sqlite3.Connection) -> tuple[int, list[int]]:
            row = self._run_row(connection)
            # Rows of another file mean nothing in this one.
            is_same = renewals == self._database.renewals
            found = dead if is_same else []
            return row, journal_takeover.take(connection, row, found, session, at_ms)

        row, ids = self._database.write(work)
        self._note_row(row)
        return self._database.read(lambda one: look.of_ids(one, self._live(), ids))

    def undelivered(self, session: str) -> tuple[Kept, ...]:
        """The session's accepted prompts that no run will send by itself, oldest first."""
        return self._database.read(
            lambda one: look.kept_of(one, self._live(), session, "prompt.state = 'accepted'")
        )

    def untold(self, session: str) -> tuple[Kept, ...]:
        """What was kept of the session and no client was told of, oldest first."""
        return self._database.read(
            lambda one: look.kept_of(one, self._live(), session, "prompt.told_ms IS NULL")
        )

    def tell(self, prompt_ids: Iterable[int], at_ms: int) -> tuple[int, ...]:
        """Mark kept prompts as told; those that nobody else has marked, in order.

        An undelivered prompt stays one; what is unknown, or a result, is then over. Also one that
        this run has sent for nobody, and that became unknown.
        """
        ids = tuple(prompt_ids)

        def work(connection: sqlite3.Connection) -> tuple[int, ...]:
            return tuple(
                id_
                for id_ in ids
                if connection.execute(
                    "UPDATE prompt SET told_ms = ?, is_kept = (state = 'accepted') "
                    "WHERE id = ? AND (is_kept = 1 OR state = 'unknown') AND told_ms IS NULL",
                    (at_ms, id_),
                ).rowcount
            )

        return self._database.write(work) if ids else ()

    def holder_of(self, session: str) -> Holder | None:
        """The live other run that has prompts of this session, if there is one."""
        return self._database.read(lambda one: look.holder(one, self._live(), session, self._own))

    def find_key(self, session: str, key: str) -> Keyed | None:
        """The prompt that has this key in this session, with its result if it has one.

        Where it is undelivered, adopt it; where it is live, join it; where it has an answer, give
        that; where it is unknown, say so. One that ended without having been written is none.
        """

        def work(connection: sqlite3.Connection) -> Keyed | None:
            where = (
                "prompt.session = ? AND prompt.key = ? AND (prompt.is_written = 1 "
                "OR prompt.state IN ('accepted', 'sending'))"
            )
            found = look.rows(connection, self._live(), where, (sql_text(session), sql_text(key)))
            if not found:
                return None
            answer = look.body(connection, found[0].id, "answer")
            return Keyed(found[0], found[0].nonce == self._own and found[0].number > 0, answer)

        return self._database.read(work)

    def result_of(self, prompt_id: int) -> bytes:
        """The JSON of its result; b"" where there is none."""
        return self._database.read(lambda one: look.body(one, prompt_id, "answer"))

    def content(self, prompt_id: int) -> bytes:
        """The JSON of its `params.prompt`; b"" where it was not kept."""
        return self._database.read(lambda one: look.body(one, prompt_id, "prompt"))

    # -- identity ---------------------------------------------------------------------------
    def aliases(self, session: str) -> tuple[tuple[int, str], ...]:
        """(generation, agent id) of the session's chain, oldest first."""
        return self._database.read(lambda one: look.alias_chain(one, session))

    def tip(self, session: str) -> tuple[int, str] | None:
        """The last of the chain: the id to load after a restart (R25); None: its own."""
        chain = self.aliases(session)
        return chain[-1] if chain else None

    # -- retention --------------------------------------------------------------------------
    def prune(self, limits: Retention, now_ms: int) -> Pruned:
        """One bounded step of retention; ask again, when idle, until it says that it is done."""
        gone, is_empty = self._database.write(
            lambda one: journal_prune.prune_rows(one, limits, now_ms)
        )
        pages, is_given = self._database.read(journal_prune.give_back)
        return Pruned(gone, pages, is_empty and is_given)
