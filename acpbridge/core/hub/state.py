"""What a hub knows: its clients, their open requests, and the log of what happened."""

from __future__ import annotations

from attrs import define, field

from acpbridge.core.effects import Effect
from acpbridge.core.model import Bridge
from acpbridge.core.ring import EventLog


@define(eq=False)
class Hub:
    """A bridge and all who stand before it."""

    bridge: Bridge
    log: EventLog
    is_shared: bool
    """Clients come and go (`serve`); else there is the one of `run`, number 0."""
    clients: dict[int, bool] = field(factory=dict)
    out: list[Effect] = field(factory=list)
