"""A playbook for the core: a client and an agent on paper, a clock that only tests move.

`Talk` feeds events to the real `step`, fires its timers in order as time is let pass, answers
`Persist` as a disk would, and keeps what went out to either side. Nothing in it decides anything;
it only insists that the journal would take every transition.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from acpbridge.core.bridge import Bridge, begin, start, step
from acpbridge.core.effects import (
    Adopt,
    ArmTimer,
    DisarmTimer,
    Effect,
    FindKey,
    Finish,
    Note,
    Persist,
    PersistAlias,
    Recover,
    StartAgent,
    StopAgent,
    StreamToClient,
    Tell,
    ToAgent,
    ToClient,
)
from acpbridge.core.events import (
    AgentExited,
    AgentGarbled,
    AgentLeft,
    AgentSent,
    AgentStarted,
    AgentStreamed,
    ClientClosed,
    ClientGarbled,
    ClientSent,
    Event,
    KeptPrompt,
    KeyFound,
    Persisted,
    PersistFailed,
    Recovered,
    StopAsked,
    TimerFired,
    TimerKey,
)
from acpbridge.core.policy import Policy
from acpbridge.profiles import AgentProfile, ClientProfile, agent_named, client_named
from acpbridge.wire.frame import Frame, Malformed, peek
from acpbridge.wire.lines import Oversize
from acpbridge.wire.shapes import Chunks, Shapes
from tests.store.journal.rows import Edges

Json = dict[str, Any]

HERMES_INFO = {"name": "hermes-agent", "version": "0.19.0"}
INFOS = {
    "hermes": HERMES_INFO,
    "claude": {"name": "@agentclientprotocol/claude-agent-acp", "version": "0.101.0"},
    "codex": {"name": "@agentclientprotocol/codex-acp", "version": "2.6.0"},
    "generic": {"name": "some-agent", "version": "1.0.0"},
}


def dumps(frame: Json | bytes) -> bytes:
    """A frame as a line; bytes are a line already."""
    if isinstance(frame, bytes):
        return frame
    return json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode()


def agent_news(run: int, look: Frame | Malformed | Oversize | Chunks) -> Event:
    """What a look at the agent's lines is for the core."""
    if isinstance(look, Chunks):
        return AgentStreamed(run, look)
    return AgentSent(run, look) if isinstance(look, Frame) else AgentGarbled(run, look)


class Talk:
    """One bridge, its client, its agent and its clock."""

    nonce = "n0nce"

    def __init__(
        self,
        agent: str | AgentProfile = "generic",
        client: str | ClientProfile = "generic",
        *,
        disk: bool = True,
        shaped: bool = True,
        agent_starts: bool = True,
        **policy: Any,
    ) -> None:
        profile = agent_named(agent) if isinstance(agent, str) else agent
        self.agent_name = profile.name
        shown = client_named(client) if isinstance(client, str) else client
        # A death is followed by a start at once; the rest between two has tests of its own.
        policy.setdefault("restart_first_s", 0.0)
        self.bridge: Bridge = start(Policy(**policy), profile, shown, self.nonce)
        self.now = 100.0
        self.events: deque[Event] = deque()
        self.timers: dict[TimerKey, float] = {}
        self.armed: list[ArmTimer] = []
        self.shaped = shaped
        """False parses every line of the agent, so that no frame is ever `plain`."""
        self.shapes = Shapes()
        self.disk = disk
        """False leaves `Persist` unanswered until `persisted` or `persist_failed` is called."""
        self.unanswered: list[Persist] = []
        self.client_lines: list[bytes] = []
        self.agent_lines: list[bytes] = []
        self.dialogue: list[str] = []
        self.persists: list[Persist] = []
        self.edges = Edges()
        self.known: dict[str, Recovered] = {}
        """What the journal knows of a session from before; nothing where it is not here."""
        self.looks: list[str] = []  # The sessions of every `Recover`, in order.
        self.hold_recovery = False
        """True leaves `Recover` and `FindKey` unanswered."""
        self.keys: dict[str, KeptPrompt] = {}  # Of earlier runs.
        self.asked: list[Adopt | Tell | PersistAlias] = []
        self.notes: list[Note] = []
        self.starts: list[int] = []
        self.agent_starts = agent_starts  # False leaves `StartAgent` unanswered.
        self.stops: list[StopAgent] = []
        self.exit_code: int | None = None
        self.finishes: list[int] = []
        self._perform(self.begin())

    # Another core is begun and stepped otherwise.
    def begin(self) -> list[Effect]:
        return begin(self.bridge, self.now)

    def step(self, event: Event) -> list[Effect]:
        return step(self.bridge, self.now, event)

    # -- what happens -----------------------------------------------------------------------
    def feed(self, event: Event) -> None:
        """Feed one event, then what its effects cause at once: in order, never recursively."""
        self.events.append(event)
        if len(self.events) > 1:
            return
        while self.events:
            self._perform(self.step(self.events[0]))
            self.events.popleft()

    def client(self, *frames: Json | bytes) -> None:
        """The client writes frames, in one read."""
        for frame in frames:
            line = dumps(frame)
            self.dialogue.append(f"{self.now:9.3f} client> {line.decode(errors='replace')}")
            seen = peek(line, strict=True)
            self.feed(ClientSent(seen) if isinstance(seen, Frame) else ClientGarbled(seen))

    def agent(self, *frames: Json | bytes) -> None:
        """The agent of the current run writes frames, in one read."""
        lines = [dumps(frame) for frame in frames]
        for line in lines:
            self.dialogue.append(f"{self.now:9.3f} agent> {line.decode(errors='replace')}")
        if self.shaped:
            looks = self.shapes.look(lines)
        else:
            looks = (peek(line, strict=False) for line in lines)
        for seen in looks:
            self.feed(agent_news(self.bridge.run, seen))

    def wait(self, seconds: float) -> None:
        """Let time pass; timers fire in the order in which they run out."""
        until = self.now + seconds
        while self.timers:
            key, due = min(self.timers.items(), key=lambda item: item[1])
            if due > until:
                break
            del self.timers[key]
            self.now = max(self.now, due)
            self.dialogue.append(f"{self.now:9.3f} timer {key[0]}")
            self.feed(TimerFired(key))
        self.now = until

    def deaf(self) -> None:
        """The agent takes nothing any more; its last lines and its end are still to come."""
        self.feed(AgentLeft(self.bridge.run))

    def die(self, reason: str = "killed by SIGKILL") -> None:
        """The agent process ends."""
        self.feed(AgentExited(self.bridge.run, reason))

    def leave(self) -> None:
        """The client closes its end."""
        self.feed(ClientClosed())

    def stop(self, reason: str = "SIGTERM") -> None:
        """A signal asks the bridge to end."""
        self.feed(StopAsked(reason))

    def persisted(self) -> None:
        """The disk answers everything that it owes."""
        owed, self.unanswered = self.unanswered, []
        for persist in owed:
            self.feed(Persisted(persist.token))

    def persist_failed(self, reason: str = "no space left") -> None:
        """The disk refuses everything that it owes."""
        owed, self.unanswered = self.unanswered, []
        for persist in owed:
            self.feed(PersistFailed(persist.token, reason))

    # -- what came of it --------------------------------------------------------------------
    def seen(self) -> list[Json]:
        """What the client got since the last call, parsed."""
        lines, self.client_lines = self.client_lines, []
        return [json.loads(line) for line in lines]

    def got(self) -> list[Json]:
        """What the agent got since the last call, parsed."""
        lines, self.agent_lines = self.agent_lines, []
        return [json.loads(line) for line in lines]

    def show(self) -> str:
        """The whole dialogue, for a failing test."""
        return "\n".join(self.dialogue)

    def count(self, name: str) -> int:
        """How often a thing was counted."""
        return self.bridge.counters.get(name, 0)

    # -- openings that most tests share -----------------------------------------------------
    def open(self, session: str = "s1", *, steering: bool = False) -> None:
        """Initialize and open one session; what both sides saw of that is forgotten."""
        self.initialize(steering=steering)
        self.new(session)
        self.wait(1.0)
        self.seen()
        self.got()

    def initialize(self, *, steering: bool = False) -> None:
        """The client initializes, the agent answers as its profile's builds do."""
        self.client(request("i", "initialize", {"protocolVersion": 1, "clientCapabilities": {}}))
        result: Json = {
            "protocolVersion": 1,
            "agentInfo": INFOS[self.agent_name],
            "agentCapabilities": CAPABILITIES,
        }
        if steering:
            result["_meta"] = {"steering": {"supported": True}}
        self.agent(answer("i", result))

    def new(self, session: str = "s1") -> None:
        """The client opens a session."""
        self.client(request(f"n-{session}", "session/new", {"cwd": "/w", "mcpServers": []}))
        self.agent(answer(f"n-{session}", new_result(session)))

    # -- performing effects -----------------------------------------------------------------
    def _perform(self, effects: list[Effect]) -> None:
        self.edges.see(effects)
        for effect in effects:
            self._do(effect)

    def _ask_disk(self, effect: Effect) -> None:
        if isinstance(effect, Recover):
            self.looks.append(effect.session)
        match effect:
            case Persist():
                self.persists.append(effect)
                if effect.token and self.disk:
                    self.feed(Persisted(effect.token))
                elif effect.token:
                    self.unanswered.append(effect)
            case Recover(session=session) if not self.hold_recovery:
                self.feed(self.known.pop(session, Recovered(session)))
            case FindKey(token=token, key=key) if not self.hold_recovery:
                self.feed(KeyFound(token, self.keys.get(key)))
            case Adopt() | Tell() | PersistAlias():
                self.asked.append(effect)

    def _do(self, effect: Effect) -> None:
        self._ask_disk(effect)
        match effect:
            case ToClient(line=line):
                self.dialogue.append(f"{self.now:9.3f} client< {line.decode(errors='replace')}")
                self.client_lines.append(line)
            case StreamToClient(lines=lines):
                for line in lines:
                    self._do(ToClient(line))
            case ToAgent(line=line):
                self.dialogue.append(f"{self.now:9.3f} agent< {line.decode(errors='replace')}")
                self.agent_lines.append(line)
            case ArmTimer(key=key, delay_s=delay):
                self.armed.append(effect)
                self.timers[key] = self.now + delay
            case DisarmTimer(key=key):
                self.timers.pop(key, None)
            case StartAgent(run=run):
                self.starts.append(run)
                self.shapes = Shapes()
                if self.agent_starts:
                    self.feed(AgentStarted(run))
            case StopAgent():
                self.stops.append(effect)
            case Finish(code=code):
                self.exit_code = code
                self.finishes.append(code)
            case Note():
                self.notes.append(effect)


# -- frames -----------------------------------------------------------------------------------
CAPABILITIES: Json = {
    "loadSession": True,
    "sessionCapabilities": {"fork": {}, "list": {}, "resume": {}},
}


def new_result(session: str) -> Json:
    """A session/new result, with the member that proves a Hermes load."""
    return {"sessionId": session, "models": {"availableModels": [], "currentModelId": "m"}}


def request(id_: Any, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def notify(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(id_: Any, result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def error(id_: Any, code: int, message: str = "no", data: Any = None) -> Json:
    body: Json = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": id_, "error": body}


def prompt(id_: Any, text: str = "hello", session: str = "s1", **params: Any) -> Json:
    blocks = [{"type": "text", "text": text}]
    return request(id_, "session/prompt", {"sessionId": session, "prompt": blocks, **params})


def cancel(session: str = "s1") -> Json:
    return notify("session/cancel", {"sessionId": session})


def update(variant: str, session: str = "s1", **rest: Any) -> Json:
    body = {"sessionUpdate": variant, **rest}
    return notify("session/update", {"sessionId": session, "update": body})


def chunk(text: str = "word", session: str = "s1", **rest: Any) -> Json:
    return update("agent_message_chunk", session, content={"type": "text", "text": text}, **rest)


def echo(text: str, session: str = "s1") -> Json:
    return update("user_message_chunk", session, content={"type": "text", "text": text})


def usage(session: str = "s1", **rest: Any) -> Json:
    return update("usage_update", session, used=1, size=2, **rest)


def tool(call: str = "t1", session: str = "s1", kind: str = "execute", **rest: Any) -> Json:
    return update("tool_call", session, toolCallId=call, title="t", kind=kind, **rest)


def tool_update(call: str = "t1", session: str = "s1", status: str = "completed") -> Json:
    return update("tool_call_update", session, toolCallId=call, status=status)


def ended(id_: Any, stop: str = "end_turn", *, usage: bool = True) -> Json:
    """A completion; with usage unless it is to be bare."""
    result: Json = {"stopReason": stop}
    if usage:
        result["usage"] = {"totalTokens": 1}
    return answer(id_, result)


def permission(id_: Any, session: str = "s1") -> Json:
    options = [{"optionId": "a", "name": "Allow", "kind": "allow_once"}]
    params = {"sessionId": session, "toolCall": {"toolCallId": "p"}, "options": options}
    return request(id_, "session/request_permission", params)


QUEUED = "Queued for the next turn. (1 queued)"
REDIRECTED = "Redirected the active turn with your correction."
WEDGE = {"details": "'NoneType' object has no attribute 'startswith'"}


def wedge(id_: Any) -> Json:
    """The Hermes error after which a session runs nothing."""
    return error(id_, -32603, "Internal error", WEDGE)
