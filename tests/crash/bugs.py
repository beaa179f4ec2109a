"""Planted bugs: schedules that cannot find them would prove nothing.

Each is a context manager that puts another function in the place of one of ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import evolve

from acpbridge.core import keeping
from acpbridge.core.effects import Persist, Tell
from acpbridge.core.events import Persisted, Recovered
from acpbridge.core.model import Bridge, Prompt, Session
from tests.crash.life import Life
from tests.crash.memory import MemoryJournal
from tests.sim.planted import instead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def sending_is_not_awaited() -> Iterator[None]:
    """The bytes go while the intent is still on its way to the disk (I8)."""

    def persist_and_go(bridge: Bridge, prompt: Prompt, session: Session) -> None:
        bridge.last_token += 1
        prompt.token = bridge.last_token
        bridge.tokens[prompt.token] = (session, prompt)
        bridge.out.append(Persist(0, prompt.number, "sending", session.id))
        keeping.disk_said(bridge, Persisted(prompt.token))

    with instead(Bridge, "persist_sending", persist_and_go):
        yield


@contextmanager
def the_disk_answers_before_it_writes() -> Iterator[None]:
    """The same, and the core is in good faith."""
    init = Life.__init__

    def early(self: Life, *args: Any) -> None:
        init(self, *args)
        self.is_early = True

    with instead(Life, "__init__", early):
        yield


@contextmanager
def unknown_is_sent_again() -> Iterator[None]:
    """What was on its way when a run died is taken for undelivered (I3)."""
    take_over = MemoryJournal.take_over

    def as_undelivered(self: MemoryJournal, at_ms: int, session: str | None = None) -> object:
        for row in self._shelf.rows:
            if row.run in self._shelf.dead and row.state == "sending":
                row.state = "accepted"
        return take_over(self, at_ms, session)

    with instead(MemoryJournal, "take_over", as_undelivered):
        yield


@contextmanager
def nobody_is_told() -> Iterator[None]:
    """What was kept is called told, and not a word is said."""

    def mark(bridge: Bridge, session: Session) -> None:
        kept, session.untold = session.untold, []
        if kept:
            bridge.out.append(Tell(tuple(one.id for one in kept)))

    with instead(keeping, "tell", mark):
        yield


@contextmanager
def what_is_kept_is_forgotten() -> Iterator[None]:
    """The last one of those that were kept is lost on the way."""
    recovered = keeping._recovered

    def without_the_last(bridge: Bridge, event: Recovered) -> None:
        recovered(bridge, evolve(event, kept=event.kept[:-1]))

    with instead(keeping, "_recovered", without_the_last):
        yield


@contextmanager
def an_end_is_recorded_before_it_is_given() -> Iterator[None]:
    """A client's answer counts as given while it still waits for its gap."""
    persist = Bridge.persist

    def answered_too(self: Bridge, prompt: Prompt, session: Session, state: str, *a: Any, **k: Any):  # type: ignore[no-untyped-def]
        persist(self, prompt, session, state, *a, **k)
        if state == "settled":
            persist(self, prompt, session, "answered", completion=k.get("completion", "response"))

    with instead(Bridge, "persist", answered_too):
        yield


BUGS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "sending is not awaited": (sending_is_not_awaited, ("I8",)),
    "the disk answers before it writes": (the_disk_answers_before_it_writes, ("I8",)),
    "unknown is sent again": (unknown_is_sent_again, ("I3",)),
    "nobody is told": (nobody_is_told, ("R20",)),
    "what is kept is forgotten": (what_is_kept_is_forgotten, ("R20",)),
    "an end is recorded before it is given": (an_end_is_recorded_before_it_is_given, ("I1",)),
}
"""Each bug with the invariants of which one must name it."""
