"""Brings a `Talk` to each place where a session can stand, by the wire alone.

What both sides saw on the way is forgotten, so that a test reads what comes after. Every reach
leaves the session `s1` behind and, where one is open, the client's prompt 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.core.script import (
    CAPABILITIES,
    INFOS,
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    new_result,
    prompt,
    request,
    wedge,
)


def forget(talk: Talk) -> None:
    """What was said so far is of no interest."""
    talk.seen()
    talk.got()
    talk.persists.clear()
    talk.notes.clear()


def turn(talk: Talk, id_: Any, text: str = "hello", session: str = "s1") -> None:
    """One whole turn: prompt, a word, its completion with usage; and the silence after it."""
    talk.client(prompt(id_, text, session))
    talk.agent(chunk("done", session), ended(id_))
    talk.wait(1.0)
    forget(talk)


def idle(talk: Talk) -> None:
    talk.open()
    turn(talk, "before")


def sending(talk: Talk) -> None:
    idle(talk)
    talk.disk = False
    talk.client(prompt(1, "one"))
    forget(talk)


def running(talk: Talk) -> None:
    idle(talk)
    talk.client(prompt(1, "one"))
    forget(talk)


def working(talk: Talk) -> None:
    running(talk)
    talk.agent(chunk("a"))
    talk.wait(1.0)
    forget(talk)


def doubted(talk: Talk) -> None:
    running(talk)
    talk.agent(ended(1, usage=False))
    forget(talk)


def kept(talk: Talk) -> None:
    running(talk)
    talk.agent(chunk(QUEUED), ended(1, usage=False))
    forget(talk)


def joined(talk: Talk) -> None:
    running(talk)
    talk.agent(chunk(REDIRECTED), ended(1, usage=False))
    forget(talk)


def segment(talk: Talk) -> None:
    kept(talk)
    talk.agent(echo("one"), chunk("b"))
    forget(talk)


def trailing(talk: Talk) -> None:
    working(talk)
    talk.agent(ended(1), chunk("tail"))
    talk.wait(0.15)
    forget(talk)


def ownerless(talk: Talk) -> None:
    idle(talk)
    talk.agent(chunk("by itself"))
    forget(talk)


def cancelling(talk: Talk) -> None:
    working(talk)
    talk.client(cancel())
    talk.wait(0.5)
    forget(talk)


def wedged(talk: Talk) -> None:
    cancelling(talk)
    talk.agent(wedge(1))
    talk.wait(0.5)
    forget(talk)


def called_wedged(talk: Talk) -> None:
    """From `ownerless`: only a receipt behind a cancel speaks for a wedge; the agent is stopped."""
    talk.client(cancel())
    talk.wait(6.0)
    talk.client(prompt(1, "one"))
    talk.agent(chunk(QUEUED), ended(1, usage=False))
    forget(talk)


def lost(talk: Talk) -> None:
    idle(talk)
    talk.die()
    forget(talk)


def reviving(talk: Talk) -> None:
    """The agent is back and its session/load is open; prompt 1 waits for that."""
    lost(talk)
    talk.client(prompt(1, "one"))
    initialized(talk)
    talk.seen()


PLACES: dict[str, tuple[str, Callable[[Talk], None]]] = {
    "idle": ("idle", idle),
    "sending": ("running", sending),
    "running": ("running", running),
    "working": ("running", working),
    "doubted": ("held", doubted),
    "kept": ("held", kept),
    "joined": ("held", joined),
    "segment": ("held", segment),
    "trailing": ("trailing", trailing),
    "ownerless": ("ownerless", ownerless),
    "cancelling": ("cancelling", cancelling),
    "wedged": ("wedged", wedged),
    "lost": ("lost", lost),
    "reviving": ("lost", reviving),
}
"""Name: (the phase in which the session is then, how to get there). For the Hermes profile."""


def busy(agent: str = "generic", **policy: Any) -> Talk:
    """Prompt 1 works, 2 and 3 wait."""
    talk = Talk(agent, **policy)
    working(talk)
    talk.client(prompt(2, "two"), prompt(3, "three"))
    forget(talk)
    return talk


def in_session(id_: Any, method: str, session: str = "s1") -> Json:
    """A request that names a session and no more than every session request has."""
    return request(id_, method, {"sessionId": session, "cwd": "/w"})


def at(place: str, agent: str = "hermes", **policy: Any) -> Talk:
    """A dialogue that has come to a place, of which nothing has been said yet."""
    talk = Talk(agent, **policy)
    PLACES[place][1](talk)
    forget(talk)
    return talk


# -- a restarted agent ------------------------------------------------------------------------
def owed(talk: Talk, method: str) -> Json:
    """The one request of this method among what the agent got; the rest stays to be read."""
    lines = talk.got()
    found = [line for line in lines if line.get("method") == method and "id" in line]
    assert len(found) == 1, (method, lines)
    return found[0]


def initialized(talk: Talk, *, without: tuple[str, ...] = ()) -> None:
    """The restarted agent answers the bridge's own initialize; `without` names capabilities."""
    asked = owed(talk, "initialize")
    capabilities = {key: value for key, value in CAPABILITIES.items() if key not in without}
    sessions = {
        key: value
        for key, value in capabilities.get("sessionCapabilities", {}).items()
        if key not in without
    }
    result = {
        "protocolVersion": 1,
        "agentInfo": INFOS[talk.agent_name],
        "agentCapabilities": {**capabilities, "sessionCapabilities": sessions},
    }
    talk.agent(answer(asked["id"], result))


def loaded(talk: Talk, *history: Json) -> Json:
    """The restarted agent replays `history` and answers the load; returns the load request."""
    asked = owed(talk, "session/load")
    session = asked["params"]["sessionId"]
    replay = history or (echo("old", session), chunk("old answer", session))
    talk.agent(*replay, answer(asked["id"], new_result(session)))
    return asked


def set_mode(id_: Any, mode: str = "m", session: str = "s1") -> Json:
    return request(id_, "session/set_mode", {"sessionId": session, "modeId": mode})


def tags(frames: list[Json]) -> list[str]:
    """By what each completion among the frames goes (R8): its tag, or "response" for none."""
    return [
        (frame["result"].get("_meta") or {}).get("acpbridge", {}).get("completion", "response")
        for frame in frames
        if isinstance(frame.get("result"), dict) and "stopReason" in frame["result"]
    ]


def kinds(frames: list[Json]) -> list[Any]:
    """Frames in short: a response as (id, what), an update as its text, a call as its method."""
    return [_kind(frame) for frame in frames]


def _kind(frame: Json) -> Any:
    if "error" in frame:
        data = frame["error"].get("data") or {}
        own = data.get("acpbridge", {}) if isinstance(data, dict) else {}
        return (frame["id"], own.get("kind", frame["error"]["code"]))
    if "result" in frame:
        result = frame["result"]
        return (frame["id"], result.get("stopReason", "ok") if isinstance(result, dict) else result)
    if frame["method"] == "session/update":
        update = frame["params"]["update"]
        content = update.get("content")
        return content["text"] if isinstance(content, dict) else update["sessionUpdate"]
    return frame["method"]


def revival(agent: str = "generic", client: str = "generic", **policy: Any) -> Talk:
    """The agent is back, prompt 1 waits, and the bridge's session/load is open."""
    talk = Talk(agent, client, **policy)
    reviving(talk)
    return talk


EMPTY_LOADS: list[tuple[str, list[Json], Any]] = [
    ("refused", [], error(0, -32002, "Resource not found")),
    ("refused after a replay", [chunk("x")], error(0, -32603)),
    ("nothing replayed", [], answer(0, {})),
]
"""What a load that loads nothing comes to: (what, the replay before it, the reply)."""


# -- an obedient agent ------------------------------------------------------------------------
def obey(talk: Talk) -> list[Json]:
    """Answer everything that the agent is asked except prompts, and end when it is told to.

    Returns the prompts and notifications that were written, in order. Each session/new opens
    `new-N`, each session/fork `fork-N`, where N counts the agent's runs.
    """
    written: list[Json] = []
    ended_runs = len(talk.starts) - 1
    while True:
        lines = talk.got()
        if len(talk.stops) > ended_runs and talk.exit_code is None:
            ended_runs += 1
            talk.die("stopped")
            continue
        if not lines:
            return written
        for line in lines:
            reply = _obeyed(talk, line)
            if reply is None:
                written.append(line)
            else:
                talk.agent(*reply)


def _obeyed(talk: Talk, line: Json) -> tuple[Json, ...] | None:
    method, id_ = line.get("method"), line.get("id")
    session = line.get("params", {}).get("sessionId", "")
    run = talk.bridge.run
    if id_ is None or method in (None, "session/prompt"):
        return None
    if method == "initialize":
        result = {"agentInfo": INFOS[talk.agent_name], "agentCapabilities": CAPABILITIES}
        return (answer(id_, {"protocolVersion": 1, **result}),)
    if method == "session/load":
        return (chunk("old answer", session), answer(id_, new_result(session)))
    if method in ("session/new", "session/fork"):
        name = "new" if method == "session/new" else "fork"
        return (answer(id_, new_result(f"{name}-{run}")),)
    return (answer(id_, {}),)


def texts(frames: list[Json]) -> list[str]:
    """The text of each prompt among frames toward the agent."""
    prompts = [frame for frame in frames if frame.get("method") == "session/prompt"]
    return [frame["params"]["prompt"][0]["text"] for frame in prompts]
