"""What a tape of Hermes cannot know, made up by few rules, and recognisable.

The recorded agent lost some prompts for ever (wedged, deadlocked, poisoned by a cancel). In front
of it the bridge does what makes it answer, and the answer must come from somewhere:

- a turn says what its prompt's script lets the model say (`@@[["say",TEXT],["stream",N,S,PREFIX]]`,
  fixtures/README.md), or "echo: " and the prompt, as the scripted model does; then usage, then a
  completion with usage;
- a request of the bridge's own that opens a session is answered like the tape's first one, under an
  id that begins with `made-`; a load replays what was heard and said before.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from attrs import define, evolve, field

from tests.core.script import Json, chunk, dumps, update
from tests.core.tapes import Tape
from tests.core.units import Step, Unit, completion, text_of

TOKEN_S = 0.06
"""From a prompt's write to the first token (measured, later turns)."""
END_S = 0.005
"""From the last chunk to the end of the turn (measured)."""
NEW_S = 0.07
"""A session/new or session/load after the first (measured)."""
ENDED = frozenset({"agent-killed-mid-turn", "agent-term-mid-turn", "stdin-eof-mid-turn"})
"""Tapes whose turn had no end because its process had one: nothing is added to those."""


@define
class Memory:
    """What the agent has heard and said, by its session id: the history that a load replays."""

    history: dict[str, list[tuple[str, str]]] = field(factory=dict)
    opened: int = 0

    def heard(self, session: str, text: str) -> None:
        self.history.setdefault(session, []).append(("user_message_chunk", text))

    def said(self, session: str, frame: Json) -> None:
        content = frame.get("params", {}).get("update", {})
        if content.get("sessionUpdate") == "agent_message_chunk":
            text = content["content"].get("text", "")
            self.history.setdefault(session, []).append(("agent_message_chunk", text))


def turn(unit: Unit, tape: Tape, *, keep: bool) -> Unit:
    """A turn for a prompt of which the tape has none, or the rest of one that stood still.

    With `keep` it begins with what the tape has of it.
    """
    if tape.scenario in ENDED:
        return unit
    if unit.prompt is None:
        # A session/list that a deadlocked agent never answered.
        answer = {"jsonrpc": "2.0", "id": unit.request.frame["id"], "result": {"sessions": []}}
        return evolve(unit, steps=[Step(unit.t + END_S, answer)])
    session = unit.request.session
    words = script_of(text_of(unit.request))
    steps = list(unit.steps) if keep else []
    said = [step for step in steps if "content" in step.frame.get("params", {}).get("update", {})]
    t = said[-1].t if said else unit.t + TOKEN_S
    for wait_s, text in words[len(said) :]:
        t += wait_s
        steps.append(Step(t, chunk(text, session)))
    t += END_S
    steps.append(Step(t, update("usage_update", session, size=200000, used=10000)))
    like = next((line for line in tape.lines if "usage" in (line.frame.get("result") or {})), None)
    steps.append(Step(t, completion(unit.request, like)))
    return evolve(unit, steps=steps)


def cancelled(unit: Unit, t: float) -> list[Step]:
    """The end of a cancelled turn, where the tape knows of no cancel."""
    usage = update("usage_update", unit.request.session, size=200000, used=10000)
    return [Step(t, usage), Step(t, completion(unit.request, is_cancelled=True))]


def script_of(text: str) -> list[tuple[float, str]]:
    """(wait in seconds, text) of what the scripted model says to this prompt."""
    found = re.search(r"@@(\[.*\])", text, re.DOTALL)
    if found is None:
        return [(0.0, f"echo: {text.removeprefix('/steer ')}")]
    words: list[tuple[float, str]] = []
    steps: list[Any] = json.loads(found[1])
    for name, *rest in steps:
        if name == "say":
            words.append((0.0, rest[0]))
        elif name == "stream":
            count, wait_s, prefix = rest
            words += [(wait_s if at else 0.0, f"{prefix}{at} ") for at in range(count)]
    return words


def opening(frame: Json, units: dict[str, Unit], memory: Memory) -> Unit:
    """The answer to a session/new, load or fork of the bridge's own."""
    like = next(one for one in units.values() if one.request.method == "session/new")
    asked = frame["params"].get("sessionId", "")
    old = like.steps[0].frame["result"]["sessionId"]
    new = asked
    if frame["method"] != "session/load":
        memory.opened += 1
        new = f"made-{memory.opened}"
        memory.history[new] = list(memory.history.get(asked, []))
    steps = []
    if frame["method"] == "session/load":
        replayed = memory.history.get(asked, [])
        steps = [
            Step(NEW_S, update(kind, asked, content={"type": "text", "text": text}))
            for kind, text in replayed
        ]
    for step in like.steps:
        said = renamed(step.frame, old, new)
        if frame["method"] == "session/load" and "result" in said:
            del said["result"]["sessionId"]
        steps.append(Step(NEW_S, said))
    return Unit(like.request, 0.0, steps)


def renamed(value: Any, old: str, new: str) -> Any:
    """The same value with one session id for another, but for the root of a chain."""
    if isinstance(value, dict):
        return {
            name: member if name == "rootHermesSessionId" else renamed(member, old, new)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [renamed(member, old, new) for member in value]
    return new if value == old else copy.copy(value)


def addressed(frame: Json, unit: Unit, id_: str, session: str) -> bytes:
    """A frame as bytes: a response under the id that was asked with, ids of sessions likewise."""
    said = frame
    if unit.request.session and session and unit.request.session != session:
        said = renamed(said, unit.request.session, session)
    if "id" in said and "method" not in said:
        said = {**said, "id": json.loads(id_)}
    return dumps(said)
