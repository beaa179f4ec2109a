"""Dialogues with agents that steer: a prompt in the turn, and the ways in which it can go on."""

from __future__ import annotations

from typing import Any

from acpbridge.profiles import AgentProfile
from tests.core.reach import forget, turn
from tests.core.script import Json, Talk, answer, chunk, prompt, request

STEERING = "_session/steering"


def said(id_: Any, outcome: str, **more: Any) -> Json:
    """The agent's answer to a steer."""
    return answer(id_, {"outcome": outcome, **more})


def own_steer(id_: Any, text: str = "own", session: str = "s1", *, opts_in: bool = False) -> Json:
    """A `_session/steering` request of the client's own."""
    params: Json = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    if opts_in:
        params["_meta"] = {"steering": {"idleBehavior": "promptRequired"}}
    return request(id_, STEERING, params)


def steers(frames: list[Json]) -> list[str]:
    """The text of each steer among frames toward the agent."""
    asked = [frame for frame in frames if frame.get("method") == STEERING]
    return [frame["params"]["prompt"][0]["text"] for frame in asked]


def working(agent: str | AgentProfile = "generic", client: str = "generic", **policy: Any) -> Talk:
    """An agent that steers; prompt 1 is at work, and its answers carry usage."""
    talk = Talk(agent, client, **policy)
    begin(talk)
    return talk


def begin(talk: Talk) -> None:
    talk.open(steering=True)
    turn(talk, "before")
    talk.client(prompt(1, "one"))
    talk.agent(chunk("a"))
    talk.wait(1.0)
    forget(talk)


def steering(talk: Talk) -> None:
    """The disk does not have the intent to steer prompt 2 yet."""
    begin(talk)
    talk.disk = False
    talk.client(prompt(2, "two"))
    forget(talk)


def steered(talk: Talk) -> None:
    """Prompt 2 is at the agent as a steer, and that has said nothing of it."""
    begin(talk)
    talk.client(prompt(2, "two"))
    forget(talk)


def asked(agent: str | AgentProfile = "generic", client: str = "generic", **policy: Any) -> Talk:
    """The same, as a dialogue of its own."""
    talk = Talk(agent, client, **policy)
    steered(talk)
    return talk


def injected(agent: str = "generic", client: str = "generic", **policy: Any) -> Talk:
    """Prompt 2 is in the turn of prompt 1."""
    talk = asked(agent, client, **policy)
    talk.agent(said(2, "injected"))
    forget(talk)
    return talk


def told(frames: list[Json], id_: Any) -> Json:
    """What the bridge says in its own name about a prompt, from its one answer."""
    (line,) = [frame for frame in frames if "method" not in frame and frame["id"] == id_]
    if "error" in line:
        own: Json = line["error"]["data"]["acpbridge"]
    else:
        own = line["result"].get("_meta", {}).get("acpbridge", {})
    return own


def reasons(talk: Talk, number: int) -> list[tuple[str, str]]:
    """What the record says of a prompt since the last forgetting."""
    return [(one.state, one.reason) for one in talk.persists if one.prompt == number]
