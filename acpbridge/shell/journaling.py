"""What the disk's thread does: effects in, events out, in order, with the journal in between.

Nothing here knows trio. A fault of the file fails what waits for the disk, in words, and hands
back what nobody waits for: it is written again before anything later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, evolve, field

from acpbridge.core.effects import Adopt, FindKey, Persist, PersistAlias, Recover, Tell
from acpbridge.core.events import (
    KeptPrompt,
    KeyFound,
    Persisted,
    PersistFailed,
    Recovered,
)
from acpbridge.errors import StateDirFault
from acpbridge.store.journal_states import ANSWERED, OPEN_STATES, SETTLED, UNDELIVERED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from acpbridge.store.journal import Alias, Entry, Journal, Kept, Keyed, Retention

DiskEffect: TypeAlias = Persist | PersistAlias | Recover | Tell | Adopt | FindKey
Timed: TypeAlias = tuple[int, DiskEffect]
"""An effect and when it was asked for: wall clock, milliseconds since 1970."""
DiskEvent: TypeAlias = Persisted | PersistFailed | Recovered | KeyFound
Said: TypeAlias = tuple[str, str, dict[str, Any]]
"""A note: its name, its level, its fields."""

_DAY_MS = 24 * 60 * 60 * 1000
LAST_MAX = 20
"""Prompts, the newest, in which a settled turn of a session is looked for."""
_ENDED = (SETTLED, ANSWERED)
_RESULTS = ("response", "shared", "drained", "marked", "inferred")
VOID_MAX = 1024
"""Numbers of prompts that are not this run's after all, the newest."""
END_WAIT_S = 1.0
"""How long a bridge that ends waits for another one's transaction."""
APART_FAULTS_MAX = 16
"""Prompts that are tried one by one in vain where a batch of them is too much for the disk."""
_RECORDED = (Persist, PersistAlias)


@define
class Outcome:
    """What came of one batch."""

    events: list[DiskEvent]
    said: list[Said]
    owed: list[Timed]
    """Not written for the fault; nobody waits for these, and they come first next time."""
    fault: str = ""
    """Why the file could not be used, for people; empty where it could."""


@define(eq=False)
class Journaling:
    """One run's use of its journal. All methods block; the shell calls them one at a time."""

    state_dir: Path
    nonce: str
    days_max: float
    """Retention: since the last transition of a prompt."""
    bytes_max: int
    """Retention: of the journal's file."""
    sends_undelivered: bool = True
    """What is only told of is not read: it may be all that the journal holds."""
    _journal: Journal | None = None
    _void: dict[int, str] = field(factory=dict)
    """Why entries of these prompts are not recorded any more."""

    def perform(self, effects: Sequence[Timed], at_ms: int) -> Outcome:
        """Do all of it, in order; transitions in a row are one transaction."""
        outcome = Outcome([], [], [])
        rest = list(effects)
        try:
            journal = self._opened(at_ms)
            while rest:
                count = _row_of_records(rest)
                if count:
                    self._record_row(journal, rest[:count], outcome)
                else:
                    self._ask(journal, rest[0][1], at_ms, outcome)
                del rest[: count or 1]
        except StateDirFault as fault:
            outcome.fault = fault.hint
            for timed in rest:
                self._fail(timed, fault.hint, outcome)
        if self._journal is not None:
            for aside in self._journal.take_news():
                name = "journal_set_aside"
                fields = {"path": aside.path, "reason": aside.reason}
                outcome.said.append((name, "error", fields))
        return outcome

    def prune(self, now_ms: int) -> bool:
        """One bounded step of retention; True when nothing is left to do."""
        if self._journal is None:
            return True
        try:
            return self._journal.prune(self._retention(), now_ms).is_done
        except StateDirFault:
            # What grows for a while does no harm; the next transition meets the fault and tells.
            return True

    def _retention(self) -> Retention:
        from acpbridge.store.journal import Retention  # noqa: PLC0415

        return Retention(int(self.days_max * _DAY_MS), self.bytes_max)

    def hurry(self) -> None:
        """The end is near, and whoever asked for it does not wait for a stopped bridge."""
        if self._journal is not None:
            self._journal.hurry(END_WAIT_S)

    def close(self) -> None:
        """An orderly end."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _opened(self, at_ms: int) -> Journal:
        if self._journal is None:
            from acpbridge.store.journal import Journal  # noqa: PLC0415 - sqlite3 is slow to import

            self._journal = Journal.open(self.state_dir, self.nonce, at_ms)
        return self._journal

    # -- transitions ------------------------------------------------------------------------
    def _record_row(self, journal: Journal, effects: list[Timed], outcome: Outcome) -> None:
        """Record what came in a row: all at once, else each prompt as far as there is room.

        A prompt too large for what is left of a disk must not take every later one with it.
        """
        from acpbridge.store.journal_fault import FULL, IO, JournalFault  # noqa: PLC0415

        owed = {_prompt_of(one) for _, one in outcome.owed} if outcome.fault else set()
        groups: dict[int, list[Timed]] = {}
        for timed in effects:
            groups.setdefault(_prompt_of(timed[1]), []).append(timed)
        if not owed & groups.keys():
            try:
                self._record(journal, effects, outcome)
            except JournalFault as fault:
                # A quota is no full disk to SQLite, but a failing write.
                if len(groups) == 1 or fault.kind not in (FULL, IO):
                    raise
                outcome.fault = fault.hint
            else:
                return
        faults = 0
        # Those that somebody waits for go first.
        for number, group in sorted(groups.items(), key=lambda one: not _is_awaited(one[1])):
            try:
                if number not in owed and faults < APART_FAULTS_MAX:
                    self._record(journal, group, outcome)
                    continue
            except JournalFault as fault:
                faults += 1
                outcome.fault = fault.hint
            for timed in group:
                self._fail(timed, outcome.fault, outcome)

    def _record(self, journal: Journal, effects: list[Timed], outcome: Outcome) -> None:
        from acpbridge.store.journal import (  # noqa: PLC0415
            IllegalTransition,
            KeyTaken,
        )

        left = list(effects)
        while True:
            left = [one for one in left if not self._is_void(one[1], outcome)]
            try:
                journal.record([_item(one, at_ms) for at_ms, one in left])
            except KeyTaken as taken:
                # Another bridge accepted the same message a moment ago: it must not run twice.
                self._void_number(taken.number, taken.hint)
            except IllegalTransition as fault:
                self._void_number(fault.number, str(fault))
                fields = {"prompt": fault.number, "old": fault.old, "new": fault.new}
                outcome.said.append(("journal_refused_transition", "error", fields))
            else:
                break
        tokens = [one.token for _, one in left if isinstance(one, Persist) and one.token]
        outcome.events.extend(Persisted(token) for token in tokens)

    def _is_void(self, effect: DiskEffect, outcome: Outcome) -> bool:
        """Whether the journal does not have this prompt under this number."""
        if not isinstance(effect, Persist) or effect.prompt not in self._void:
            return False
        if effect.token:
            outcome.events.append(PersistFailed(effect.token, self._void[effect.prompt]))
        return True

    def _void_number(self, number: int, reason: str) -> None:
        self._void[number] = reason
        if len(self._void) > VOID_MAX:
            del self._void[next(iter(self._void))]

    # -- questions --------------------------------------------------------------------------
    def _ask(self, journal: Journal, effect: DiskEffect, at_ms: int, outcome: Outcome) -> None:
        match effect:
            case Recover(session):
                taken = () if session else journal.take_over(at_ms)
                if taken:
                    outcome.said.append(("prompts_recovered", "warning", {"count": len(taken)}))
                outcome.events.append(self._recovered(journal, session, at_ms))
            case FindKey(token, session, key):
                keyed = journal.find_key(session, key)
                if keyed is not None and _is_left(keyed.prompt):
                    # Its bridge has died since this session was looked up.
                    outcome.events.append(self._recovered(journal, session, at_ms))
                    keyed = journal.find_key(session, key)
                found = None if keyed is None else _keyed(keyed)
                outcome.events.append(KeyFound(token, found))
            case Tell(kept):
                journal.tell(kept, at_ms)
            case Adopt(kept, number, session):
                if not journal.adopt(kept, number, at_ms, session):
                    self._void_number(number, "another bridge has taken it, or it was forgotten")

    def _recovered(self, journal: Journal, session: str, at_ms: int) -> Recovered:
        """Take over what dead runs left of the session, then say all that is to be told or sent."""
        journal.take_over(at_ms, session)
        untold = journal.untold(session)
        known = {kept.id for kept in untold}
        waiting = [kept for kept in journal.undelivered(session) if kept.id not in known]
        holder = journal.holder_of(session)
        generation, tip = journal.tip(session) or (0, "")
        last = journal.list_prompts(session=session, limit=LAST_MAX)
        kept = sorted((*untold, *waiting), key=lambda one: one.id)
        return Recovered(
            session,
            tuple(_kept(journal, one, self.sends_undelivered) for one in kept),
            0 if holder is None else holder.pid,
            any(one.state in _ENDED and one.completion in _RESULTS for one in last),
            generation,
            tip,
        )

    def _fail(self, timed: Timed, reason: str, outcome: Outcome) -> None:
        """The file cannot be used: nobody waits in vain, and nothing that must be kept is lost."""
        match timed[1]:
            case Persist(token=token) | FindKey(token=token) if token:
                outcome.events.append(PersistFailed(token, reason))
                # Its client is told so and has it still; its text must not be what the disk has
                # no room for the next time, nor fill the memory until then.
                prompt = _prompt_of(timed[1])
                outcome.owed[:] = [_without_text(one, prompt) for one in outcome.owed]
            case Recover(session):
                outcome.events.append(Recovered(session))
            case Adopt(prompt=number):
                self._void_number(number, reason)
            case _:
                outcome.owed.append(timed)


def _prompt_of(effect: DiskEffect) -> int:
    """The number of the prompt that a transition is about; 0 for what is about none."""
    return effect.prompt if isinstance(effect, Persist) else 0


def _is_awaited(effects: Sequence[Timed]) -> bool:
    return any(isinstance(one, Persist) and one.token for _, one in effects)


def _without_text(timed: Timed, prompt: int) -> Timed:
    at_ms, effect = timed
    if prompt and isinstance(effect, Persist) and effect.prompt == prompt and effect.line:
        return at_ms, evolve(effect, line=b"")
    return timed


def _row_of_records(effects: Sequence[Timed]) -> int:
    """How many of the first effects are transitions or aliases."""
    at = 0
    while at < len(effects) and isinstance(effects[at][1], _RECORDED):
        at += 1
    return at


def _item(effect: DiskEffect, at_ms: int) -> Entry | Alias:
    from acpbridge.store.journal import Alias, Entry, content_of  # noqa: PLC0415

    if isinstance(effect, PersistAlias):
        return Alias(effect.session, effect.generation, effect.agent_id, at_ms)
    assert isinstance(effect, Persist)
    return Entry(
        number=effect.prompt,
        state=effect.state,
        session=effect.session,
        at_ms=at_ms,
        content=content_of(effect.line) if effect.line else b"",
        reason=effect.reason,
        completion=effect.completion,
        turn=effect.turn,
        trace=effect.trace,
        key=effect.key,
        answer=effect.answer,
    )


def _is_left(kept: Kept) -> bool:
    """Whether it is a dead run's, and nobody has taken it over yet."""
    return not (kept.is_kept or kept.is_live) and kept.state in OPEN_STATES


def _kept(journal: Journal, kept: Kept, is_sent: bool) -> KeptPrompt:
    is_wanted = is_sent and kept.shown_state == UNDELIVERED
    return KeptPrompt(
        id=kept.id,
        state=kept.shown_state,
        words=kept.first_words,
        content=journal.content(kept.id) if is_wanted else b"",
        told=kept.told_ms is not None,
        was_cancelled=kept.completion == "cancelled",
        key=kept.key,
    )


def _keyed(keyed: Keyed) -> KeptPrompt:
    kept = keyed.prompt
    return KeptPrompt(
        id=kept.id,
        state=kept.shown_state,
        words=kept.first_words,
        answer=keyed.answer,
        pid=kept.pid if kept.is_live and not keyed.is_own and not kept.is_kept else 0,
    )
