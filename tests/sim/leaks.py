"""What must be empty when the world is at rest: the bridge's own dicts and queues (I9, I10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acpbridge.core.phases import Phase
from tests.sim.violation import must

if TYPE_CHECKING:
    from tests.sim.world import World

AT_REST = (Phase.IDLE, Phase.LOST, Phase.WEDGED)
OF_BRIDGE = ("pending", "open_ids", "client_ids", "early", "reserved", "tokens", "starved")
NUMBERS = ("opening", "running", "queue_bytes")
OF_SESSION = ("queue", "at_agent", "hold", "gated", "waiting", "paced", "loading", "queue_bytes")
SETTLED_MAX = 256


def look(world: World) -> None:
    """Nothing is left of what has been answered; looked at only where the bridge lives on."""
    if world.exit_code is not None or world.toward_agent.closing:
        return
    bridge = world.bridge
    left = [name for name in (*OF_BRIDGE, "waiting", *NUMBERS) if getattr(bridge, name)]
    owed = [one.session for one in bridge.pending.values() if one.method == "_session/steering"]
    is_silence = len(owed) == len(bridge.pending) == len(set(owed))
    if is_silence and "pending" in left:
        # What an agent never said of a steer; the session is not steered again until it does.
        left.remove("pending")
    if any(not one.settled and not one.withdrawn for one in bridge.requests.values()):
        left.append("requests")
    must(len(bridge.requests) <= SETTLED_MAX, "I9", f"{len(bridge.requests)} settled requests")
    for session in bridge.sessions.values():
        left += [f"{session.id}.{name}" for name in OF_SESSION if getattr(session, name)]
        if session.reviving or session.cancel_due:
            left.append(f"{session.id} is not at rest")
        if session.phase not in AT_REST:
            left.append(f"{session.id} is {session.phase.value}")
    must(not left, "I10", f"left over at rest: {left}")
