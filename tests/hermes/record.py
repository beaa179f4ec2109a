"""What passed between a client and its agent: frames with times, and their story in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from attrs import define, frozen

Body = dict[str, Any]

CHUNK_VERBS = {
    "agent_message_chunk": "says",
    "agent_thought_chunk": "thinks",
    "user_message_chunk": "user",
}


@frozen
class Seen:
    """One frame of the record; ``at_s`` is on trio's clock."""

    at_s: float
    sender: Literal["client", "agent"]
    body: Body

    @property
    def update(self) -> Body:
        """The update of a ``session/update``; empty for every other frame."""
        if self.body.get("method") != "session/update":
            return {}
        return cast("Body", self.body["params"]["update"])

    @property
    def kind(self) -> str:
        """The variant of a ``session/update``; empty for every other frame."""
        return str(self.update.get("sessionUpdate", ""))

    @property
    def is_notice(self) -> bool:
        """Whether the bridge said it in its own name."""
        return "acpbridge" in (self.update.get("_meta") or {})

    @property
    def session(self) -> str | None:
        """The session id of a request or notification."""
        params = self.body.get("params")
        return params.get("sessionId") if isinstance(params, dict) else None

    @property
    def text(self) -> str:
        """The text of a message, thought or user chunk; empty for every other frame."""
        content = self.update.get("content")
        return str(content.get("text", "")) if isinstance(content, dict) else ""


@define(eq=False)
class Sent:
    """A request that is out; `Peer.answer` waits for its response."""

    id: int
    method: str
    session: str | None
    label: str
    at_s: float = 0.0
    """When it was written, on trio's clock; 0 while it was not."""


def is_answer(seen: Seen, sent: Sent) -> bool:
    """Whether a frame is a response to this request."""
    return seen.sender == "agent" and "method" not in seen.body and seen.body.get("id") == sent.id


def outcome(body: Body) -> str:
    """A response in few words: the stop reason, or the error's code."""
    if "error" in body:
        return f"error {body['error']['code']}"
    return str((body["result"] or {}).get("stopReason"))


def story(frames: Iterable[Seen], sent: Mapping[int, Sent], session: str) -> list[str]:
    """What the client saw of a session, in order, in words.

    ``says …`` and ``thinks …`` (adjacent chunks joined), ``user …``, ``calls …``, ``asks …``
    and, for the prompts in ``sent``, ``answers <label>: <outcome>``. Usage, titles, commands
    and tool updates move nothing and are left out; so are the bridge's own notices, which
    come when a prompt has waited for some time and thus depend on the machine.
    """
    told: list[tuple[str, str]] = []
    for seen in frames:
        entry = _entry(seen, sent, session) if seen.sender == "agent" else None
        if entry is None:
            continue
        verb, words = entry
        if told and verb == told[-1][0] and verb in ("says", "thinks"):
            words = told.pop()[1] + words
        told.append((verb, words))
    return [f"{verb} {words}" for verb, words in told]


def _entry(seen: Seen, sent: Mapping[int, Sent], session: str) -> tuple[str, str] | None:
    if "method" not in seen.body:
        request = sent.get(seen.body.get("id", 0))
        if request is None or request.session != session or request.method != "session/prompt":
            return None
        return "answers", f"{request.label}: {outcome(seen.body)}"
    if seen.session != session:
        return None
    if "id" in seen.body:
        return "asks", str(seen.body["method"])
    if seen.is_notice:
        return None
    if seen.kind == "tool_call":
        return "calls", str(seen.update.get("title", ""))
    return (CHUNK_VERBS[seen.kind], seen.text) if seen.kind in CHUNK_VERBS else None
