"""The disk of a world: it has one queue, takes its time, and fails where the mix says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acpbridge.core.effects import FindKey, Persist, Recover
from acpbridge.core.events import KeyFound, Persisted, PersistFailed, Recovered

if TYPE_CHECKING:
    from tests.sim.world import World


class Disk:
    """Nothing is known from before: the journal's own tests know more."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done_s = 0.0
        """When it has done what it was asked for so far."""

    def take(self, effect: Persist | Recover | FindKey) -> None:
        """The bridge asks it for something."""
        match effect:
            case Persist():
                self._persist(effect)
            case Recover(session=session):
                self.world.feed(Recovered(session))
            case FindKey(token=token):
                self.world.feed(KeyFound(token))

    def _persist(self, effect: Persist) -> None:
        world = self.world
        world.toward_agent.persist(effect)
        token = effect.token
        if not token:
            return
        clock, chance = world.clock, world.chance
        if world.mix.has("disk_fails") and not world.kind and chance.random() < 0.15:
            clock.later(chance.random() * 0.1, lambda: self._refused(token))
        elif world.mix.has("disk_late"):
            # In order: a disk has one queue.
            self.done_s = max(self.done_s, clock.now_s) + chance.random() * 0.1
            clock.later(self.done_s - clock.now_s, lambda: self._persisted(token))
        else:
            self._persisted(token)

    def _persisted(self, token: int) -> None:
        if self.world.exit_code is None:
            self.world.toward_agent.persisted(token)
            self.world.feed(Persisted(token))

    def _refused(self, token: int) -> None:
        if self.world.exit_code is None:
            self.world.toward_agent.refused_by_disk(token)
            self.world.feed(PersistFailed(token, "no space left"))
