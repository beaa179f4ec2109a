"""The transition table is total, and every cell in which something is done does what it says."""

from __future__ import annotations

import pytest

from acpbridge.core.model import Bridge, Cause, Handler, Session
from acpbridge.core.phases import Phase, Trigger
from acpbridge.core.table import TABLE, ignore, never
from tests.core.as_written import AS_WRITTEN
from tests.core.reach import PLACES, forget, kinds
from tests.core.script import Talk
from tests.core.steer_cells import STEER_CELLS, STEER_PLACES
from tests.core.table_cells import CELLS, Cell

ALL_CELLS = [*CELLS, *STEER_CELLS]
ALL_PLACES = {**PLACES, **STEER_PLACES}

Fired = list[tuple[Phase, Trigger]]


def recording(table: dict[Phase, dict[Trigger, Handler]], fired: Fired) -> None:
    """Put a recorder before each handler of `table`."""

    def recorded(phase: Phase, trigger: Trigger, handler: Handler) -> Handler:
        def record(bridge: Bridge, session: Session, cause: Cause) -> None:
            fired.append((phase, trigger))
            handler(bridge, session, cause)

        return record

    for phase, row in table.items():
        for trigger, handler in row.items():
            row[trigger] = recorded(phase, trigger, handler)


def test_every_phase_has_a_handler_for_every_trigger() -> None:
    """A missing cell would be a crash in the middle of somebody's turn (design 5)."""
    assert set(Phase) == set(TABLE)
    for phase, row in TABLE.items():
        assert set(Trigger) == set(row), phase


def test_every_cell_in_which_something_is_done_has_a_dialogue() -> None:
    """A cell that no dialogue reaches is a promise that nobody keeps, and a row twice is none."""
    acting = {
        (phase, trigger)
        for phase, row in TABLE.items()
        for trigger, handler in row.items()
        if handler not in (ignore, never)
    }

    assert sorted(map(str, acting)) == sorted(str((cell.phase, cell.trigger)) for cell in ALL_CELLS)


@pytest.mark.parametrize("cell", ALL_CELLS, ids=str)
def test_the_cell_is_reached_and_does_what_it_says(cell: Cell) -> None:
    """Seen by the client, got by the agent, and the phase after: the effect of each cell."""
    talk = Talk("hermes", **cell.policy)
    ALL_PLACES[cell.place][1](talk)
    forget(talk)
    fired: Fired = []
    base = AS_WRITTEN if cell.as_written else TABLE
    talk.bridge.table = {phase: dict(row) for phase, row in base.items()}
    recording(talk.bridge.table, fired)
    cell.act(talk)

    assert (cell.phase, cell.trigger) in fired, talk.show()
    assert cell.seen == kinds(talk.seen()), talk.show()
    assert cell.got == kinds(talk.got()), talk.show()
    assert cell.then is talk.bridge.sessions["s1"].phase
    assert 0 == talk.count("unexpected_event")


@pytest.mark.parametrize("place", ALL_PLACES)
def test_each_place_is_where_it_says(place: str) -> None:
    """The dialogues of many tests begin there: they must not test another phase than they say."""
    phase, reach = ALL_PLACES[place]
    talk = Talk("hermes")
    reach(talk)

    assert phase == talk.bridge.sessions["s1"].phase.value


def test_what_cannot_happen_is_reported_and_breaks_nothing() -> None:
    """`never` is a report, not a crash: a session goes on after it."""
    talk = Talk("hermes")
    PLACES["idle"][1](talk)
    session = talk.bridge.sessions["s1"]
    talk.bridge.fire(session, Trigger.ANSWER)

    assert 1 == talk.count("unexpected_event")
    assert Phase.IDLE is session.phase


@pytest.mark.parametrize(
    ("phase", "trigger"),
    [
        (phase, trigger)
        for phase, row in TABLE.items()
        for trigger, handler in row.items()
        if handler is ignore
    ],
    ids=str,
)
def test_what_is_ignored_changes_nothing(phase: Phase, trigger: Trigger) -> None:
    """A timer that is out of date, or late news: no effect and no other state."""
    place = next(name for name, (value, _) in PLACES.items() if value == phase.value)
    talk = Talk("hermes")
    PLACES[place][1](talk)
    session = talk.bridge.sessions["s1"]
    before = (session.phase, session.turn, list(session.at_agent), list(session.queue))
    talk.bridge.fire(session, trigger)

    assert before == (session.phase, session.turn, list(session.at_agent), list(session.queue))
    assert [] == talk.bridge.out
