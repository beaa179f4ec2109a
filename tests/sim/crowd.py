"""A world with a daemon's hub: one to four clients that come, leave in the middle and come back.

Agents, disk, clock and books are those of `world.py`; what the hub adds is checked in `scribe.py`
(the log), `view.py` (each client) and `page.py` (the one laid beside the other).
"""

from __future__ import annotations

import json
from random import Random

from acpbridge.core import hub as hubs
from acpbridge.core.effects import Effect, ToClients
from acpbridge.core.events import (
    ClientGarbled,
    ClientJoined,
    ClientLeft,
    ClientSent,
    HubEvent,
    TimerFired,
)
from acpbridge.wire.frame import Frame, peek
from tests.sim import leaks, verdicts
from tests.sim import mix as mixes
from tests.sim.clock import Restless
from tests.sim.guest import Guest, Memory
from tests.sim.page import KeptLog, Page
from tests.sim.scribe import Scribe, TowardAgentOfMany
from tests.sim.view import View
from tests.sim.violation import Violation, must
from tests.sim.world import BEGAN_S, World, over

GUESTS_MAX = 4
COMINGS_MAX = 8
GIVING_UP_MAX = 20
OF_HUB = ("routes", "asks", "late", "more", "strays")


class Crowd(World):
    """One life of a daemon."""

    name = "crowd: "

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        super().__init__(seed, verbose=verbose)
        self.hub = hubs.open_hub(self.bridge, is_shared=True)
        policy = self.bridge.policy
        self.scribe = self.toward_client = Scribe(self, self.ledger)
        self.toward_agent = TowardAgentOfMany(self, self.ledger)
        self.hub.log = KeptLog(
            self.bridge.nonce, events_max=policy.log_events_max, told=self.scribe.happened
        )
        self.is_lossy = policy.log_events_max < 100
        self.guests: dict[int, Guest] = {}
        self.views: dict[int, View] = {}
        self.pages: dict[str, Page] = {}
        self.touched: set[str] = set()
        """Sessions in which something has happened in the step of now."""
        self.replayed: set[bytes] = set()
        """Lines of history that agents have replayed."""
        self.holders: dict[int, int] = {}
        """Which client was asked for each file, by the number of the request."""
        self.comings = 0

    def draw(self) -> mixes.Mix:
        """Few deeds, and a client profile for all."""
        return mixes.crowded(self.chance)

    # -- a whole life -----------------------------------------------------------------------
    def run(self) -> None:
        """Play it; raises `Violation`."""
        try:
            self._perform(hubs.begin(self.hub, self.clock.now_s))
            self.comes(Memory())
            for _ in range(self.chance.randint(0, 2)):
                self.comes(Memory())
            self.clock.run(BEGAN_S + self.mix.span_s + 5.0, self._is_over)
            self.say("-- everybody is kind from here on")
            self.kind = True
            self._rest()
            names = self.ledger.alias
            self.comes(Memory([sid for sid in sorted(self.pages) if names.get(sid, sid) == sid]))
            self._rest()
            if not self._is_over():
                self.guests[self.comings].prompt_everywhere()
                self._rest()
            verdicts.each_ran_once(self.scribe)
            self._nothing_left()
        except Restless as fault:
            raise Violation("I10", str(fault)) from fault

    def _rest(self) -> None:
        for guest in self.guests.values():
            guest.be_kind()
        for _ in range(GIVING_UP_MAX):
            # Each gives up what it has sent itself; what others have behind it waits in its turn.
            super()._rest()
            if self._is_over() or not self.scribe.waits_visibly():
                break
        self.scribe.all_answered()

    def give_up(self, sid: str) -> None:
        """All who are there and may, cancel."""
        for guest in self.guests.values():
            if guest.is_ready and not guest.observes:
                guest.cancel(sid)

    def _nothing_left(self) -> None:
        if self._is_over():
            return
        leaks.look(self)
        left = [name for name in OF_HUB if getattr(self.hub, name)]
        left += [one.id for one in self.hub.conversations.values() if one.loads]
        must(not left and not self.bridge.unheard, "I10", f"left in the hub at rest: {left}")

    # -- who is there -----------------------------------------------------------------------
    def comes(self, memory: Memory) -> None:
        """A client connects, unless there are enough."""
        is_full = len(self.guests) >= GUESTS_MAX or self.comings >= COMINGS_MAX
        if self._is_over() or (is_full and not self.kind):
            return
        self.comings += 1
        number = self.comings
        guest = self.guests[number] = Guest(self, number, memory)
        self.views[number] = View(self, number)
        self.say(f"-- client {number} comes")
        self.feed_hub(ClientJoined(number))
        if self.kind:
            guest.observes, guest.seat.is_heard = False, True
            guest.be_kind()
        guest.begin()

    def leaves(self, guest: Guest) -> None:
        """A client closes its end: what it has written still comes."""
        guest.gone = True
        guest.seat.from_client.close(lambda: self._left_by(guest))

    def _left_by(self, guest: Guest) -> None:
        if self._is_over():
            return
        self.say(f"-- client {guest.number} has left")
        view = self.views.pop(guest.number)
        del self.guests[guest.number]
        for sid in view.at:
            self._unfollowed(view, sid)
        self.feed_hub(ClientLeft(guest.number, "it closed the connection"))

    def followers(self, sid: str) -> list[View]:
        """Who follows a session."""
        return [view for view in self.views.values() if sid in view.at]

    def leaves_session(self, view: View, sid: str) -> None:
        """A client follows a session no more."""
        if view.at.pop(sid, None) is not None:
            self._unfollowed(view, sid)

    def _unfollowed(self, view: View, sid: str) -> None:
        # What an observer has seen, nobody has seen who takes part.
        if not view.observes and self.is_last(view.reader.number, sid):
            self.page(sid).seen = self.page(sid).latest

    def is_last(self, number: int, sid: str) -> bool:
        """Whether no other client that may answer follows the session."""
        others = [view for view in self.followers(sid) if view.reader.number != number]
        return all(view.observes for view in others)

    def page(self, sid: str) -> Page:
        """What has happened in a session, by the id that clients have for it."""
        if sid not in self.pages:
            self.pages[sid] = Page(sid)
        return self.pages[sid]

    def is_forgotten(self, sid: str) -> bool:
        """Whether something of its events may be gone from the log."""
        return sid not in self.hub.conversations or self.hub.log.since(sid, "", 0).truncated

    # -- events and effects -----------------------------------------------------------------
    def feed_hub(self, event: HubEvent) -> None:
        """Feed what a bridge alone would not understand."""
        self.feed(event)  # type: ignore[arg-type]

    def take_in(self, event: HubEvent) -> None:
        """Step the hub; each client's part of it is looked at as a whole."""
        if isinstance(event, TimerFired):
            self._grace_over(event)
        effects = hubs.step(self.hub, self.clock.now_s, event)
        told = [one for one in effects if isinstance(one, ToClients)]
        for effect in told:
            for number in effect.clients:
                must(number in self.views, "I6", f"{number} is written to and has left")
                self.views[number].lines += effect.lines
                for line in effect.lines:
                    self._show(f"{number} <", line)
                    self.guests[number].to_client.write(line)
        for view in list(self.views.values()):
            view.step_over()
        for sid in list(self.pages):
            self._page_over(sid)
        self.touched.clear()
        rest: list[Effect] = [one for one in effects if not isinstance(one, ToClients)]
        self._perform(rest)

    def _grace_over(self, event: TimerFired) -> None:
        name, sid = event.key
        if name == "orphan" and self.bridge.policy.orphan == "cancel":
            # Also of a client that is there and has closed the session for itself.
            self.scribe.abandoned(sid)

    def _page_over(self, sid: str) -> None:
        page = self.pages[sid]
        page.before = page.latest
        if sid not in self.hub.conversations and self.followers(sid):
            # Closed at the agent: nobody follows it any more.
            for view in self.followers(sid):
                del view.at[sid]
            page.seen = page.latest

    def guest_read(self, guest: Guest, lines: list[bytes]) -> None:
        """The bridge reads what a client has written."""
        for line in lines:
            if self._is_over() or guest.number not in self.views:
                return
            self._show(f"{guest.number} >", line)
            self.ledger.seat = guest.seat
            self.ledger.client_fed(line)
            is_too_long = line in self.ledger.oversize
            frame = over(line) if is_too_long else peek(line, strict=True)
            news = ClientSent if isinstance(frame, Frame) else ClientGarbled
            self.feed(news(frame, guest.number))  # type: ignore[arg-type]

    def guest_hears(self, guest: Guest, line: bytes) -> None:
        """A line has arrived at a client."""
        guest.read(line, json.loads(line))


def is_crowded(seed: int) -> bool:
    """Whether a seed has a second life, with a crowd: one in five."""
    return Random(seed).random() < 1 / 5
