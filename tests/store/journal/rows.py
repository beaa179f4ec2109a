"""A recorded prompt as a value: what the journal makes of each transition, without a file.

Written down a second time, from the table of edges and the rules around it. The simulators hold
every sequence of `Persist` effects against it, and the crash schedules keep whole journals in it;
`tests/crash/both.py` compares it with the real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from acpbridge.core.effects import Adopt, Persist
from acpbridge.store.journal import Entry, IllegalTransition
from acpbridge.store.journal_states import EDGES, ENDS, LATE_WORDS, STARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from acpbridge.core.effects import Effect

RUNS_AT_AGENT = ("written", "started", "settled", "unknown")
"""States that say that the bytes of a prompt have left the bridge."""


@define(eq=False)
class Row:
    """One prompt."""

    number: int
    """In its run; 0 where no run has it."""
    session: str
    state: str
    id: int = 0
    run: str = ""
    is_written: bool = False
    is_kept: bool = False
    told_ms: int | None = None
    completion: str = ""
    reason: str = ""
    key: str = ""
    content: bytes = b""
    answer: bytes = b""
    accepted_ms: int = 0
    history: list[str] = field(factory=list)

    def move(self, entry: Entry) -> None:
        """Go where the entry says.

        Raises:
            IllegalTransition: Nothing leads there, and it is neither a repeat nor a late word.
        """
        new, old = entry.state, self.state
        if self.is_kept or new not in EDGES[old]:
            self._stay(entry)
        elif new == "accepted" and old in (*ENDS, "answered"):
            if self.is_written:
                raise IllegalTransition(self.number, old, new)
            self._go(entry)
            self.is_kept, self.told_ms = True, None
        elif new == "answered" and old in ENDS:
            if self.told_ms is None:
                self.told_ms = entry.at_ms
                self.completion = entry.completion or self.completion
                self.history.append(new)
        else:
            self._go(entry)

    def _go(self, entry: Entry) -> None:
        new = entry.state
        if new == "accepted" or (self.state, new) == ("unknown", "refused"):
            self.is_written = False
        if new in RUNS_AT_AGENT:
            self.is_written = True
        self.state, self.reason = new, entry.reason
        self.completion = entry.completion or self.completion
        self.answer = self.answer or entry.answer
        self.content = self.content or entry.content
        if new == "answered":
            self.told_ms = entry.at_ms
        if new == "answered" and not self.completion:
            raise IllegalTransition(self.number, "where it is (no completion)", new)
        self.history.append(new)

    def _stay(self, entry: Entry) -> None:
        new, old = entry.state, self.state
        if new == "answered" and old in ENDS and self.told_ms is not None:
            return
        late = self.is_written and new in LATE_WORDS.get(old, ())
        if not late and new != old:
            raise IllegalTransition(self.number, old, new)
        self.reason = entry.reason or self.reason


def begun(entry: Entry) -> Row:
    """A prompt's first transition.

    Raises:
        IllegalTransition: No prompt begins so.
    """
    if entry.state not in STARTS:
        raise IllegalTransition(entry.number, "nothing", entry.state)
    is_answered = entry.state == "answered"
    return Row(
        number=entry.number,
        session=entry.session,
        state=entry.state,
        told_ms=entry.at_ms if is_answered else None,
        completion=entry.completion,
        reason=entry.reason,
        key=entry.key if entry.state == "accepted" else "",
        content=entry.content,
        answer=entry.answer,
        accepted_ms=entry.at_ms,
        history=[entry.state],
    )


class Edges:
    """Holds what one bridge has its disk write against the table."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}

    def see(self, effects: Iterable[Effect]) -> None:
        """Take in effects in their order; those that are no transitions are no matter.

        Raises:
            IllegalTransition: The journal would refuse one.
        """
        for effect in effects:
            if isinstance(effect, Adopt):
                self.rows[effect.prompt] = Row(effect.prompt, effect.session, "accepted")
            elif isinstance(effect, Persist):
                self._transition(effect)

    def _transition(self, effect: Persist) -> None:
        entry = Entry(
            effect.prompt,
            effect.state,
            effect.session,
            at_ms=0,
            reason=effect.reason,
            completion=effect.completion,
        )
        row = self.rows.get(effect.prompt)
        if row is None:
            self.rows[effect.prompt] = begun(entry)
        else:
            row.move(entry)
