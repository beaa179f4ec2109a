"""A session from before this run, loaded through the agent by one of a crowd."""

from __future__ import annotations

from typing import Any

from tests.core.hub.crowd import EVENTS, Crowd, load
from tests.core.script import Json, answer, ended, update

COMMANDS = update("available_commands_update", availableCommands=[])
LOADED: Json = {"modes": {"currentModeId": "a", "availableModes": []}}


def replayed(frames: list[Json]) -> str:
    """What the last answer says of how much was replayed."""
    return str(frames[-1]["result"]["_meta"]["acpbridge"]["replay"])


def greeted(*metas: Json | None, **policy: Any) -> Crowd:
    """Clients 1, 2, … have initialized, each with its own `_meta`."""
    crowd = Crowd(**policy)
    for number, meta in enumerate(metas, 1):
        crowd.greet(number, meta)
    return crowd


def loaded(number: int = 1, *history: Json, **policy: Any) -> Crowd:
    """A session from before this run, loaded by client 1 through the agent."""
    crowd = greeted(None, None, EVENTS, **policy)
    crowd.say(number, load("l"))
    crowd.agent(*history, answer(crowd.took("session/load")["id"], LOADED))
    crowd.wait(1.0)
    crowd.hears(number)
    return crowd


def turn(crowd: Crowd, number: int, *said: Json, text: str = "hello") -> None:
    """A client has a whole turn of which nobody remembers what it saw."""
    wire = crowd.prompted(number, "p", text)
    crowd.agent(*said, ended(wire))
    crowd.wait(1.0)
    for one in crowd.hub.clients:
        crowd.hears(one)
