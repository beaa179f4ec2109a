"""A client that has come back to a session of which the journal knows something."""

from __future__ import annotations

from typing import Any

from acpbridge.core.events import KeptPrompt, Recovered
from tests.core.reach import forget
from tests.core.script import Json, Talk, answer, new_result, prompt, request

CONTENT = b'[{"type":"text","text":"left behind"}]'
LEFT = KeptPrompt(7, "undelivered", "left behind", CONTENT)
MAYBE = KeptPrompt(8, "unknown", "maybe")
DONE = KeptPrompt(9, "settled", "done")


def load(id_: Any, session: str = "s1", method: str = "session/load") -> Json:
    params: Json = {"sessionId": session, "cwd": "/w", "mcpServers": []}
    return request(id_, method, params)


def loads(*kept: KeptPrompt, policy: str = "keep", **known: Any) -> Talk:
    """A client that has come back loads its session; the journal knows something of it."""
    talk = Talk("generic", "codeg", undelivered=policy)
    talk.initialize()
    talk.known["s1"] = Recovered("s1", kept, **known)
    talk.client(load("l"))
    forget(talk)
    return talk


def loaded(talk: Talk) -> None:
    talk.agent(answer("l", new_result("s1")))
    talk.wait(1.0)
    talk.seen()


def thoughts(talk: Talk) -> list[str]:
    updates = [one["params"]["update"] for one in talk.seen() if "params" in one]
    return [
        one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_thought_chunk"
    ]


def keyed(id_: Any, text: str, key: Any = "k") -> Json:
    return prompt(id_, text, _meta={"acpbridge": {"promptKey": key}})


def opened(client: str = "generic") -> Talk:
    talk = Talk("generic", client)
    talk.open()
    return talk
