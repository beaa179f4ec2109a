"""A scripted Hermes for `acpbridge demo`: no model, no key, and Hermes' way with a second prompt.

    python -m acpbridge.shell.scripted_hermes

Its frames and their order are those of Hermes 0.19.0 on the tapes (simple-turn, mid-turn-prompt,
cancel-mid-turn): a prompt into a running turn is answered at once with a receipt and a bare
`end_turn`; it runs later inside the open request of the first prompt, behind an echo of its text;
one response ends all of it. What it says is fixed: "Count to 9" counts, "6 times 7" multiplies,
anything else is repeated. Standard library only, so that it starts at once.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import select
import sys
import time
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Body = dict[str, Any]

FIRST_CHUNK_S = 0.3
"""From a prompt to its first chunk."""
CHUNK_S = 0.2
"""From one chunk to the next."""
TITLE_S = 0.35
"""From the end of a session's first segment to its title."""
COUNT_MAX = 99
_READ_BYTES = 65536
_COMMANDS = [{"description": "List available commands", "name": "help"}]
_MODES = [{"description": "Ask before edits.", "id": "default", "name": "Default"}]
_MODELS = [{"description": "Fixed answers", "modelId": "scripted", "name": "scripted"}]
_CAPABILITIES = {
    "loadSession": False,
    "promptCapabilities": {"image": False},
    "sessionCapabilities": {},
}
"""Less than the real one has: the script loads and forks nothing."""


class Session:
    """One conversation, and the turn that runs in it."""

    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self.owner: Any = None
        """The id of the open prompt that ends the turn; None while nothing runs."""
        self.chunks: deque[str] = deque()
        self.queued: deque[str] = deque()
        """Texts that were acknowledged and run inside the open prompt."""
        self.segments = 0
        self.reason = "end_turn"
        self.has_title = False


class Hermes:
    """The agent: a heap of what is due, and the handlers of what comes in."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._out = b""
        self._handlers: dict[str, Callable[[Any, Body], None]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/list": lambda request, _: self._answer(request, {"sessions": []}),
        }

    def serve(self) -> None:
        """Run until stdin ends."""
        rest = b""
        while True:
            now_s = time.monotonic()
            while self._due and self._due[0][0] <= now_s:
                heapq.heappop(self._due)[2]()
            self._flush()
            pause_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            if not select.select([0], [], [], pause_s)[0]:
                continue
            data = os.read(0, _READ_BYTES)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            body = json.loads(line)
        except ValueError:
            return  # Hermes logs it and sends no error (tape bad-input).
        method = body.get("method") if isinstance(body, dict) else None
        if not isinstance(method, str):
            return
        request, handler = body.get("id"), self._handlers.get(method)
        if handler is not None:
            handler(request, body.get("params") or {})
        elif method.startswith("_"):
            self._answer(request, None)
        elif request is not None:
            error = {"code": -32601, "message": "Method not found", "data": {"method": method}}
            self._send({"id": request, "error": error})

    # --- requests ---

    def _initialize(self, request: Any, _: Body) -> None:
        info = {"name": "hermes-agent", "version": "0.19.0"}
        result = {"agentCapabilities": _CAPABILITIES, "agentInfo": info, "authMethods": []}
        self._answer(request, {**result, "protocolVersion": 1})

    def _new(self, request: Any, _: Body) -> None:
        session = Session()
        self._sessions[session.id] = session
        result: Body = {"_meta": _provenance(session)}
        result["models"] = {"availableModels": _MODELS, "currentModelId": "scripted"}
        result["modes"] = {"availableModes": _MODES, "currentModeId": "default"}
        self._answer(request, {**result, "sessionId": session.id})
        commands = {"availableCommands": _COMMANDS, "sessionUpdate": "available_commands_update"}
        self._update(session, commands)
        self._use(session)

    def _prompt(self, request: Any, params: Body) -> None:
        session = self._sessions.get(params.get("sessionId", ""))
        if session is None:
            self._answer(request, {"stopReason": "refusal"})
            return
        blocks = params.get("prompt") or []
        text = "\n".join(str(block.get("text", "")) for block in blocks).strip()
        if session.owner is not None:
            session.queued.append(text)
            self._say(session, f"Queued for the next turn. ({len(session.queued)} queued)")
            self._answer(request, {"stopReason": "end_turn"})
            return
        session.owner, session.segments, session.reason = request, 0, "end_turn"
        self._begin(session, text)

    def _cancel(self, _: Any, params: Body) -> None:
        """Stop the segment that runs; what is queued still runs (tape cancel-with-queued)."""
        session = self._sessions.get(params.get("sessionId", ""))
        if session is None or session.owner is None:
            return
        session.chunks.clear()
        if not session.segments:
            session.reason = "cancelled"

    # --- turns ---

    def _begin(self, session: Session, text: str) -> None:
        session.chunks = deque(reply(text))
        self._later(FIRST_CHUNK_S, lambda: self._go_on(session))

    def _go_on(self, session: Session) -> None:
        if session.chunks:
            self._say(session, session.chunks.popleft())
            self._later(CHUNK_S, lambda: self._go_on(session))
            return
        session.segments += 1
        if not session.has_title:
            session.has_title = True
            self._later(TITLE_S, lambda: self._title(session))
        if session.queued:
            text = session.queued.popleft()
            self._say(session, text, kind="user_message_chunk")
            self._begin(session, text)
            return
        for _ in range(session.segments):
            self._use(session)
        owner, session.owner = session.owner, None
        count = 0 if session.reason == "cancelled" else 10
        names = ("inputTokens", "outputTokens", "totalTokens", "thoughtTokens", "cachedReadTokens")
        usage = dict(zip(names, (count, count, 2 * count, 0, 0), strict=True))
        self._answer(owner, {"stopReason": session.reason, "usage": usage})

    def _title(self, session: Session) -> None:
        title = {"title": "Scripted title", "updatedAt": "2026-01-01T00:00:00+00:00"}
        update = {"_meta": _provenance(session), **title}
        self._update(session, {**update, "sessionUpdate": "session_info_update"})

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (time.monotonic() + delay_s, self._count, act))

    # --- frames ---

    def _say(self, session: Session, text: str, kind: str = "agent_message_chunk") -> None:
        content = {"text": text, "type": "text"}
        self._update(session, {"content": content, "sessionUpdate": kind})

    def _use(self, session: Session) -> None:
        self._update(session, {"size": 200000, "used": 8858, "sessionUpdate": "usage_update"})

    def _update(self, session: Session, update: Body) -> None:
        params = {"sessionId": session.id, "update": update}
        self._send({"method": "session/update", "params": params})

    def _answer(self, request: Any, result: Body | None) -> None:
        if request is not None:
            self._send({"id": request, "result": result})

    def _send(self, body: Body) -> None:
        self._out += json.dumps({"jsonrpc": "2.0", **body}, separators=(",", ":")).encode() + b"\n"

    def _flush(self) -> None:
        while self._out:
            self._out = self._out[os.write(1, self._out) :]


def reply(text: str) -> list[str]:
    """What the script says to a prompt, in chunks."""
    counted = re.search(r"count\b\D*?(?:\d+\s+)?to (\d+)", text, re.IGNORECASE)
    if counted:
        return [f"{number} " for number in range(1, min(int(counted[1]), COUNT_MAX) + 1)]
    product = re.search(r"(\d{1,9}) times (\d{1,9})", text)
    if product:
        one, two = int(product[1]), int(product[2])
        return [f"{one} times ", f"{two} is ", f"{one * two}."]
    return [f"{word} " for word in f"You said: {text}".split()]


def _provenance(session: Session) -> Body:
    names = ("acpSessionId", "currentHermesSessionId", "rootHermesSessionId")
    meta: Body = dict.fromkeys(names, session.id)
    rest = {"parentHermesSessionId": None, "sessionKind": "root", "compressionDepth": 0}
    return {"hermes": {"sessionProvenance": {**meta, **rest}}}


if __name__ == "__main__":
    try:
        Hermes().serve()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
