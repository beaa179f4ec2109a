"""The journal against a dictionary: random lives of several bridges on one state directory.

Bridges open, move their prompts along legal and illegal edges, die, end, take over, tell and adopt;
after every step each live bridge must see exactly what the dictionary says.
"""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path

from attrs import define, evolve, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acpbridge.store.journal import IllegalTransition, Journal
from acpbridge.store.journal_states import STATES
from tests.store.journal.conftest import MEMORY
from tests.store.journal.made import LATE, LEGAL, TOLD, die, entry

SESSIONS = ("s-1", "s-2")
BRIDGES_MAX = 3
ENDED = ("answered", "cancelled", "refused")


@define
class Row:
    """A prompt as it should be."""

    session: str
    owner: str
    number: int
    state: str = "accepted"
    written: bool = False
    kept: bool = False
    told: bool = False
    steps: list[str] = field(factory=lambda: ["accepted"])

    def move(self, new: str) -> bool:
        """Go there as the rules say; False where they do not allow it."""
        if new == self.state or ((self.state, new) in TOLD and self.told):
            return True
        if (self.state, new) in LATE and self.written:
            self.steps.extend([new] if self.steps[-1] != new else [])
            return True
        if self.kept:
            return False
        if (self.state, new) in TOLD:
            self.told = True
            self.steps.append(new)
            return True
        if new == "accepted" and self.state in ENDED:
            if self.written:
                return False
            self.kept, self.told = True, False
        elif (self.state, new) not in LEGAL:
            return False
        elif new == "accepted" or (self.state, new) == ("unknown", "refused"):
            self.written = False
        self.written = self.written or new in ("written", "started", "settled", "unknown")
        self.told = self.told or new == "answered"
        self.state = new
        self.steps.append(new)
        return True

    def leave(self, taker: str) -> bool:
        """Its run is dead and another one takes over; whether there was anything to take."""
        if self.told or self.kept:
            return False
        self.owner, self.number = taker, 0
        if self.state in ("cancelled", "refused"):
            self.told = True
        else:
            self.kept = True
        if self.state in ("sending", "written", "started"):
            self.state, self.written = "unknown", True
        self.steps.append(self.state)
        return True


def copy(row: Row) -> Row:
    return evolve(row, steps=list(row.steps))


class Lives(RuleBasedStateMachine):
    """Some bridges, one directory, one dictionary."""

    def __init__(self) -> None:
        super().__init__()
        memory = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
        self.folder = tempfile.TemporaryDirectory(prefix="acpbridge-journal-", dir=memory)
        self.path = Path(self.folder.name)
        self.nonces = (f"b{number}" for number in count(1))
        self.bridges: dict[str, Journal] = {}
        self.numbers: dict[str, int] = {}
        self.rows: dict[int, Row] = {}

    def teardown(self) -> None:
        for journal in self.bridges.values():
            journal.close()
        self.folder.cleanup()

    def some_bridge(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.bridges)), label="bridge")

    @initialize()
    def begin(self) -> None:
        self.open()

    @rule()
    @precondition(lambda self: len(self.bridges) < BRIDGES_MAX)
    def open(self) -> None:
        nonce = next(self.nonces)
        self.bridges[nonce] = Journal.open(self.path / "state", nonce, 1)
        self.numbers[nonce] = 0

    @rule(data=st.data(), session=st.sampled_from(SESSIONS))
    def accept(self, data: st.DataObject, session: str) -> None:
        nonce = self.some_bridge(data)
        self.numbers[nonce] += 1
        number = self.numbers[nonce]
        self.bridges[nonce].record([entry(number, "accepted", session=session)])
        self.rows[max(self.rows, default=0) + 1] = Row(session, nonce, number)

    @rule(data=st.data(), length=st.integers(1, 4), is_lawful=st.booleans())
    def move(self, data: st.DataObject, length: int, *, is_lawful: bool) -> None:
        """One batch for one prompt: all of it, or nothing where one edge is not legal."""
        mine = [id_ for id_, row in self.rows.items() if row.owner in self.bridges and row.number]
        if not mine:
            return
        id_ = data.draw(st.sampled_from(mine), label="prompt")
        row = self.rows[id_]
        after = copy(row)
        states, is_legal = [], True
        for _ in range(length):
            ways = [state for state in STATES if copy(after).move(state)] if is_lawful else STATES
            states.append(data.draw(st.sampled_from(ways), label="state"))
            is_legal = after.move(states[-1]) and is_legal
        batch = [entry(row.number, state, session=row.session) for state in states]
        if is_legal:
            self.bridges[row.owner].record(batch)
            self.rows[id_] = after
            return
        try:
            self.bridges[row.owner].record(batch)
        except IllegalTransition:
            return
        raise AssertionError(f"{row} went along {states}")

    @rule(data=st.data(), is_orderly=st.booleans())
    def end(self, data: st.DataObject, *, is_orderly: bool) -> None:
        journal = self.bridges.pop(self.some_bridge(data))
        journal.close() if is_orderly else die(journal)
        if not self.bridges:
            self.open()

    @rule(data=st.data(), session=st.sampled_from((None, *SESSIONS)))
    def take_over(self, data: st.DataObject, session: str | None) -> None:
        nonce = self.some_bridge(data)
        taken = {row.id for row in self.bridges[nonce].take_over(2, session)}
        expected = {
            id_
            for id_, row in self.rows.items()
            if row.owner not in self.bridges and session in (None, row.session) and row.leave(nonce)
        }

        assert expected == taken

    @rule(data=st.data(), session=st.sampled_from(SESSIONS))
    def tell(self, data: st.DataObject, session: str) -> None:
        journal = self.bridges[self.some_bridge(data)]
        ids = [row.id for row in journal.untold(session)]
        due = [
            id_
            for id_, row in self.rows.items()
            if row.session == session and row.kept and not row.told
        ]

        assert due == ids
        assert tuple(due) == journal.tell(ids, 3)
        for id_ in due:
            self.rows[id_].told = True
            self.rows[id_].kept = self.rows[id_].state == "accepted"

    @rule(data=st.data())
    @precondition(lambda self: self.rows)
    def adopt(self, data: st.DataObject) -> None:
        nonce = self.some_bridge(data)
        id_ = data.draw(st.sampled_from(sorted(self.rows)), label="prompt")
        row = self.rows[id_]
        is_free = row.kept and row.state == "accepted"
        number = self.numbers[nonce] + 1

        assert is_free == self.bridges[nonce].adopt(id_, number, 4)
        if is_free:
            self.numbers[nonce] = number
            row.owner, row.number, row.kept, row.told = nonce, number, False, False
            row.steps.append("accepted")

    @invariant()
    def every_bridge_sees_the_same(self) -> None:
        for nonce, journal in self.bridges.items():
            seen = {row.id: row for row in journal.list_prompts()}

            assert self.rows.keys() == seen.keys()
            for id_, row in self.rows.items():
                found = seen[id_]
                assert (row.session, row.state, row.written, row.kept, row.told, row.owner) == (
                    found.session,
                    found.state,
                    found.is_written,
                    found.is_kept,
                    found.told_ms is not None,
                    found.nonce,
                )
                is_open = not row.kept and row.state not in (*ENDED, "unknown")
                assert (is_open and row.owner in self.bridges) == found.is_live
            self._holders_and_undelivered(nonce, journal)

    def _holders_and_undelivered(self, nonce: str, journal: Journal) -> None:
        for session in SESSIONS:
            here = {id_: row for id_, row in self.rows.items() if row.session == session}
            waiting = [i for i, row in here.items() if row.kept and row.state == "accepted"]
            holders = {
                row.owner
                for row in here.values()
                if row.owner in self.bridges and row.owner != nonce and not row.kept
                and not row.told
            }  # fmt: skip
            holder = journal.holder_of(session)

            assert waiting == [row.id for row in journal.undelivered(session)]
            assert bool(holders) == (holder is not None)
            assert holder is None or holder.nonce in holders

    @invariant()
    def histories_are_whole(self) -> None:
        for journal in list(self.bridges.values())[:1]:
            for id_, row in self.rows.items():
                found = journal.prompt(id_)
                assert found is not None
                assert row.steps == [step.state for step in found.history]


Lives.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLives = Lives.TestCase
