"""Clients that have not asked for events see what any ACP client knows, and nothing of ours."""

from __future__ import annotations

from tests.core.hub.crowd import EVENTS, Crowd, load, methods
from tests.core.script import chunk, ended


def test_a_load_replays_no_end_of_a_turn_to_them() -> None:
    """It is an event of the log, and only those who read the event plane know it."""
    crowd = Crowd()
    crowd.greet(1)
    crowd.start(1)
    wire = crowd.prompted(1, "p1")
    crowd.agent(chunk("done"), ended(wire))
    crowd.wait(1.0)

    crowd.greet(2)
    crowd.say(2, load("l"))
    assert methods(crowd.hears(2)) == ["user_message_chunk", "agent_message_chunk", "=l"]

    crowd.greet(3, EVENTS)
    crowd.say(3, load("l"))
    shown = ["user_message_chunk", "agent_message_chunk", "_acpbridge/turn_ended", "=l"]
    assert methods(crowd.hears(3)) == shown
