"""The cells of the transition table that a steer reaches, one small dialogue for each (R14)."""

from __future__ import annotations

from acpbridge.core.phases import Phase, Trigger
from tests.core.script import QUEUED, cancel, chunk, ended, tool, wedge
from tests.core.steer_talk import STEERING, said, steered, steering
from tests.core.table_cells import KEEPS, Cell, agent, client, disk_answers, then, unsaid, waits

P, T = Phase, Trigger

STEER_PLACES = {"steering": ("running", steering), "steered": ("running", steered)}
"""As `reach.PLACES`, with an agent that steers."""

OWNER_ENDS = agent(ended(1))
KEPT = agent(chunk(QUEUED), ended(1, usage=False))
"""The agent keeps the owner for later: what is left of ours waits (R10)."""
TRAILS = then(OWNER_ENDS, agent(chunk("tail")))
WORKS_ON = then(OWNER_ENDS, agent(tool()))
WEDGES = agent(wedge(1))

_STEER = [
    Cell(
        P.IDLE,
        T.STEER,
        "steering",
        then(OWNER_ENDS, unsaid, disk_answers),
        [],
        ["session/prompt"],
        P.RUNNING,
    ),
    Cell(P.RUNNING, T.STEER, "steering", disk_answers, [], [STEERING], P.RUNNING),
    Cell(P.HELD, T.STEER, "steering", then(KEPT, disk_answers), [], [], P.HELD),
    Cell(P.TRAILING, T.STEER, "steering", then(TRAILS, unsaid, disk_answers), [], [], P.TRAILING),
    Cell(
        P.OWNERLESS, T.STEER, "steering", then(WORKS_ON, unsaid, disk_answers), [], [], P.OWNERLESS
    ),
]

_REFUSED = agent(said(2, "promptRequired"))
_INJECTED = agent(said(2, "injected"))

_VERDICT = [
    Cell(
        P.IDLE,
        T.VERDICT,
        "steered",
        then(OWNER_ENDS, unsaid, _REFUSED),
        [],
        ["session/prompt"],
        P.RUNNING,
    ),
    Cell(P.RUNNING, T.VERDICT, "steered", _INJECTED, [], [], P.RUNNING),
    Cell(P.HELD, T.VERDICT, "steered", then(KEPT, _INJECTED), [], [], P.HELD),
    Cell(P.TRAILING, T.VERDICT, "steered", then(TRAILS, unsaid, _REFUSED), [], [], P.TRAILING),
    Cell(P.OWNERLESS, T.VERDICT, "steered", then(WORKS_ON, unsaid, _INJECTED), [], [], P.HELD),
    Cell(
        P.CANCELLING,
        T.VERDICT,
        "steered",
        then(waits(1.0), client(cancel()), _REFUSED),
        [(2, "cancelled")],
        ["session/cancel"],
        P.CANCELLING,
    ),
    Cell(
        P.WEDGED,
        T.VERDICT,
        "steered",
        then(WEDGES, unsaid, _INJECTED),
        [(2, "delivery-unknown")],
        [],
        P.WEDGED,
    ),
]

_NO_ANSWER = [(2, "delivery-unknown")]

_SILENT = [
    Cell(
        P.IDLE, T.SILENT, "steered", then(OWNER_ENDS, unsaid, waits(10.0)), _NO_ANSWER, [], P.IDLE
    ),
    Cell(P.RUNNING, T.SILENT, "steered", waits(10.0), _NO_ANSWER, [], P.RUNNING),
    Cell(P.HELD, T.SILENT, "steered", then(KEPT, waits(10.0)), [KEEPS, *_NO_ANSWER], [], P.HELD),
    Cell(
        P.TRAILING,
        T.SILENT,
        "steered",
        then(waits(9.9), TRAILS, unsaid, waits(0.15)),
        _NO_ANSWER,
        [],
        P.TRAILING,
    ),
    Cell(
        P.OWNERLESS,
        T.SILENT,
        "steered",
        then(WORKS_ON, unsaid, waits(10.0)),
        _NO_ANSWER,
        [],
        P.OWNERLESS,
    ),
    Cell(
        P.CANCELLING,
        T.SILENT,
        "steered",
        then(client(cancel()), waits(10.0)),
        [(2, "cancelled")],
        ["session/cancel"],
        P.CANCELLING,
    ),
    Cell(
        P.WEDGED,
        T.SILENT,
        "steered",
        then(WEDGES, unsaid, waits(10.0)),
        _NO_ANSWER,
        [],
        P.WEDGED,
    ),
]

STEER_CELLS = [*_STEER, *_VERDICT, *_SILENT]
