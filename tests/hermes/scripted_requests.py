"""What the scripted agent does with each request and notification. Standard library only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.hermes.script import MARK
from tests.hermes.scripted_turns import Body, Session, chunk, wedge_error

if TYPE_CHECKING:
    from tests.hermes.scripted import Agent

VERSION = "0.20.5"
REDIRECTED = "Redirected the active turn with your correction."
QUEUED = "Queued for the next turn. ({count} queued)"
STEER_PENDING = "⏩ Steer queued for the active turn: {text}"

MODES = {
    "availableModes": [
        {"id": "default", "name": "Default", "description": "Ask before edits."},
        {"id": "dont_ask", "name": "Don't Ask", "description": "Auto-allow file edits."},
    ],
    "currentModeId": "default",
}
MODELS = {
    "availableModels": [{"modelId": "custom:scripted-model", "name": "scripted-model"}],
    "currentModelId": "custom:scripted-model",
}
COMMANDS = [
    {"name": "context", "description": "Show conversation message counts by role"},
    {"name": "steer", "description": "Add to the active turn"},
    {"name": "queue", "description": "Run after the active turn"},
]
CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True},
    "sessionCapabilities": {"fork": {}, "list": {}, "resume": {}},
}


class Requests:
    """Handlers by method. Unknown ids "succeed" as they do in Hermes."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._slips: dict[str, Body] = {}
        self._handlers: dict[str, Callable[[Any, Body], None]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "_test/release": self._release,
            "_test/background": self._background,
            "_test/receipt": self._receipt_slips,
            "_test/emit": lambda _, params: self.agent.send(params["frame"]),
            "_test/rotate": lambda _, params: self.agent.rotate(self._session(params)),
            "_test/mute": lambda _, params: _sleep_for_ever(),
            "_test/die": lambda _, params: os._exit(params.get("code", 1)),
            "_test/process": self._process_notice,
        }

    def handle(self, body: Body) -> None:
        """Handle one request or notification."""
        method, request = body["method"], body.get("id")
        handler = self._handlers.get(method)
        if handler is not None:
            handler(request, body.get("params") or {})
        elif request is None:
            return
        elif method.startswith("_") and not self.agent.is_bare:
            self.agent.answer(request, None)  # Looks like success; it is none.
        elif method in ("authenticate", "session/set_mode", "session/set_model", "session/close"):
            self.agent.answer(request, {})
        else:
            error = {"code": -32601, "message": "Method not found", "data": {"method": method}}
            self.agent.send({"id": request, "error": error})

    def say(self, session: Session, text: str, kind: str = "agent_message") -> None:
        """Send a text chunk that belongs to no step of a turn."""
        self.agent.update(session, chunk(kind, text))

    def usage(self, reason: str) -> Body:
        """Token counts as Hermes sends them: all zero for a cancelled turn."""
        count = 0 if reason == "cancelled" else 10
        return {
            "cachedReadTokens": 0,
            "inputTokens": count,
            "outputTokens": count,
            "thoughtTokens": 0,
            "totalTokens": 2 * count,
        }

    # --- sessions ---

    def _initialize(self, request: Any, params: Body) -> None:
        info = {"name": "hermes-agent", "version": VERSION}
        if self.agent.is_bare:
            info = {"name": "scripted-agent", "version": "1"}
        result = {"agentCapabilities": CAPABILITIES, "agentInfo": info, "authMethods": []}
        self.agent.answer(request, {**result, "protocolVersion": 1})

    def _new(self, request: Any, params: Body) -> None:
        session = self._open(_new_id(), params)
        self._opened(request, session, {"sessionId": session.id})

    def _load(self, request: Any, params: Body) -> None:
        acp_id = params["sessionId"]
        if acp_id not in self.agent.store.records:
            self.agent.answer(request, {})
            return
        session = self.agent.sessions.setdefault(acp_id, Session(acp_id, acp_id))
        for role, text in self.agent.store.records[session.tip]["history"]:
            self.say(session, text, f"{role}_message")
        self._opened(request, session, {})

    def _resume(self, request: Any, params: Body) -> None:
        if params["sessionId"] in self.agent.store.records:
            self._load(request, params)
        else:
            self._opened(request, self._open(_new_id(), params), {})

    def _fork(self, request: Any, params: Body) -> None:
        source = self.agent.sessions.get(params["sessionId"])
        if source is None:
            self.agent.answer(request, {"sessionId": ""})
            return
        session = self._open(_new_id(), params, copy_of=source.tip)
        self._opened(request, session, {"sessionId": session.id})

    def _open(self, acp_id: str, params: Body, copy_of: str = "") -> Session:
        session = self.agent.sessions[acp_id] = Session(acp_id, acp_id)
        self.agent.store.add(params.get("cwd", ""), acp_id, copy_of=copy_of)
        return session

    def _opened(self, request: Any, session: Session, result: Body) -> None:
        """Answer new, load, resume or fork; commands and usage come after the answer."""
        if self.agent.is_bare:
            self.agent.answer(request, result)
            return
        meta = self.agent.store.provenance(session.id, session.tip)
        self.agent.answer(request, {"_meta": meta, "models": MODELS, "modes": MODES, **result})
        commands = {"availableCommands": COMMANDS, "sessionUpdate": "available_commands_update"}
        self.agent.update(session, commands)
        usage = {"size": 200000, "used": 8858, "sessionUpdate": "usage_update"}
        self.agent.update(session, usage)

    def _list(self, request: Any, params: Body) -> None:
        tips = self.agent.store.tips().items()
        listed = [{"cwd": record["cwd"], "sessionId": record_id} for record_id, record in tips]
        self.agent.answer(request, {"sessions": listed})

    def _session(self, params: Body) -> Session:
        return self.agent.sessions[params["sessionId"]]

    # --- prompts ---

    def _prompt(self, request: Any, params: Body) -> None:
        session = self.agent.sessions.get(params["sessionId"])
        if session is None:
            self.agent.answer(request, {"stopReason": "refusal"})
            return
        blocks = params["prompt"]
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text").strip()
        if self.agent.is_bare:
            self._honest(request, session, text)
        elif not text:
            self.agent.answer(request, {"stopReason": "end_turn"})
        elif text.startswith("/"):
            self._command(request, session, text)
        elif session.turn is not None or session.is_wedged:
            self._mid_turn(request, session, text, all(b["type"] == "text" for b in blocks))
        elif session.is_poisoned:
            self._poisoned(request, session)
        else:
            self.agent.begin(session, request, self._corrected(session, text))

    def _honest(self, request: Any, session: Session, text: str) -> None:
        if session.turn is None:
            self.agent.begin(session, request, text)
        else:
            session.waiting.append((request, text))

    def _mid_turn(self, request: Any, session: Session, text: str, is_plain: bool) -> None:
        """Redirect if the build does so and the turn can take it; otherwise queue."""
        turn = session.turn
        if "redirect" in self.agent.words and turn is not None and is_plain and not turn.is_doomed:
            self.agent.ran(session, text)
            turn.redirect(text)
            self._receipt(request, session, REDIRECTED)
            return
        session.queued.append(text)
        self._receipt(request, session, QUEUED.format(count=len(session.queued)))

    def _receipt(self, request: Any, session: Session, text: str) -> None:
        """The fake completion: a status text, then an answer that completes nothing."""
        slips = self._slips.pop(session.id, {})
        for words in (slips.get("before"), text, slips.get("between")):
            if words is not None:
                self.say(session, words)
        self.agent.answer(request, {"stopReason": "end_turn"})

    def _command(self, request: Any, session: Session, text: str) -> None:
        name, _, rest = text[1:].partition(" ")
        if name == "queue" and rest:
            session.queued.append(rest)
            self.say(session, QUEUED.format(count=len(session.queued)))
        elif name == "steer" and rest and session.turn is None:
            self.agent.begin(session, request, self._corrected(session, rest))
            return
        elif name == "steer" and rest:
            self.say(session, STEER_PENDING.format(text=rest.partition(MARK)[0]))
        else:
            self.say(session, f"/{name}: {len(session.queued)} queued")
        usage = {"size": 200000, "used": 8858, "sessionUpdate": "usage_update"}
        self.agent.update(session, usage)
        self.agent.answer(request, {"stopReason": "end_turn"})

    def _poisoned(self, request: Any, session: Session) -> None:
        """The prompt after a cancel that found no turn. Nothing of it has run."""
        session.is_poisoned = False
        if "poison-cancelled" in self.agent.words:
            result = {"stopReason": "cancelled", "usage": self.usage("cancelled")}
            self.agent.answer(request, result)
            return
        session.is_wedged = True
        self.agent.send({"id": request, "error": wedge_error()})

    def _corrected(self, session: Session, text: str) -> str:
        """After a cancel Hermes 0.20 runs both texts; the program of the new one counts."""
        before, session.cancelled_text = session.cancelled_text, None
        if before is None:
            return text
        return f"{before}\n\nUser correction/guidance after interrupt: {text}"

    def _cancel(self, request: Any, params: Body) -> None:
        session = self.agent.sessions.get(params["sessionId"])
        if session is None:
            return
        turn, words = session.turn, self.agent.words
        if turn is None:
            session.is_poisoned = not self.agent.is_bare and "no-poison" not in words
        elif self.agent.is_bare or "no-wedge" in words or not (turn.is_in_tool or turn.is_asking):
            turn.cancel()
        else:
            turn.is_doomed = True
            if not turn.is_asking:
                self.agent.fail(turn, wedge_error())

    # --- the test's own wishes ---

    def _release(self, request: Any, params: Body) -> None:
        self.agent.gates.add(params["gate"])

    def _background(self, request: Any, params: Body) -> None:
        """Work that nobody asked for. It needs an idle session, as in Hermes."""
        session = self._session(params)
        assert session.turn is None, "a turn is running"
        self.agent.begin(session, None, params["script"], params.get("notice"))

    def _receipt_slips(self, request: Any, params: Body) -> None:
        self._slips[params["sessionId"]] = params

    def _process_notice(self, request: Any, params: Body) -> None:
        self.agent.send({"method": "_hermes/process", "params": params})


def _new_id() -> str:
    """A random id in the form of a uuid; the module itself takes too long to import."""
    text = os.urandom(16).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _sleep_for_ever() -> None:
    while True:
        time.sleep(3600)
