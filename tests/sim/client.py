"""The client of a world: impatient, forgetful, sometimes rude; in the end it is kind.

It goes by what it sees. Its deeds are drawn from the seed one after the other; an answer may give
it the idea for the next one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.sim.frames import Ask, Json, id_text
from tests.sim.ledger import Ledger

if TYPE_CHECKING:
    from tests.sim.world import World

COMMANDS = ("/help", "/queue", "/steer", "/compact", "/nothing")
WISHES = ("auto", "steer", "queue", "reject", "whatever")
GARBLED = (
    (b"not json", b"null"),
    (b'[{"jsonrpc":"2.0","id":5,"method":"x"}]', b"null"),
    (b'{"jsonrpc":"2.0","id":"@","method":"session/prompt","method":"x"}', b'"@"'),
    (b'{"jsonrpc":"2.0","id":"@","method":"x","params":{"sessionId":"a","sessionId":"b"}}', b'"@"'),
    (
        b'{"jsonrpc":"2.0","id":"@","method":"x","params":' + b"[" * 1001 + b"]" * 1001 + b"}",
        b'"@"',
    ),
)

ANSWERS: dict[str, tuple[Json, ...]] = {
    "session/request_permission": (
        {"outcome": {"outcome": "selected", "optionId": "a"}},
        {"outcome": {"outcome": "cancelled"}},
    ),
    "elicitation/create": ({"action": "accept"}, {"action": "decline"}),
    "fs/read_text_file": ({"content": "words"},),
}
"""What it may say to each request of an agent."""


class Client:
    """One client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mix = world.mix
        self.chance = world.chance
        self.gone = False
        self.kind = False
        self.sessions: list[str] = []
        self.asks: dict[str, list[Ask]] = {}
        """Its open requests, by the JSON text of the id."""
        self.cards: dict[str, Json] = {}
        """Requests of the agent that it has not answered."""
        self.settled: dict[str, Json] = {}
        """Those that it has answered."""
        self.numbers = 0
        self.opened = 0
        self.deeds = 0
        self.last_id = b""
        self.polite = world.mix.client == "codeg" and world.chance.random() < 0.7
        self.polite = self.polite and not world.mix.traits["impatient"]
        self.cancelled: set[int] = set()

    @property
    def books(self) -> Ledger:
        """The world's books; whoever asks for them is about to write."""
        return self.world.ledger

    # -- it writes --------------------------------------------------------------------------
    def _id(self) -> bytes:
        self.numbers += 1
        kind = self.mix.ids
        if kind == "mixed":
            kind = self.chance.choice(("int", "uuid", "string", "float", "escaped"))
        texts = {
            "int": str(self.numbers),
            "uuid": f'"7b1f3c52-0000-4000-8000-{self.numbers:012d}"',
            "string": f'"req-{self.numbers}"',
            "float": f"{self.numbers}.0",
            "escaped": rf'"\u00e9-{self.numbers}"',
        }
        return texts[kind].encode()

    def ask(self, method: str, params: Json, id_: bytes = b"") -> Ask:
        """Write a request."""
        self.last_id = id_ or self._id()
        ask = self.books.client_asks(method, params, self.last_id)
        self.asks.setdefault(id_text(json.loads(ask.id)), []).append(ask)
        return ask

    def begin(self) -> None:
        """Initialize; the rest follows from the answer."""
        params: Json = {"protocolVersion": 1, "clientCapabilities": {}}
        self.ask("initialize", params)

    def open(self) -> None:
        """Open a session."""
        self.opened += 1
        self.ask("session/new", {"cwd": f"/w/{self.opened}", "mcpServers": []})

    def prompt(self, sid: str, text: str = "", id_: bytes = b"") -> Ask:
        """Prompt; every text is unlike any other."""
        n = self.books.sent_count + 1
        words = self.chance.choice((f"p{n}", f"p{n} and so on", f" p{n}\n\nmore é ", f"p{n} \\n"))
        blocks = [{"type": "text", "text": f"{text} {words}" if text else words}]
        if self.chance.random() < 0.2:
            blocks.append({"type": "text", "text": "and this too "})
        params: Json = {"sessionId": sid, "prompt": blocks}
        if self.mix.has("wishes") and not self.kind and self.chance.random() < 0.3:
            params["_meta"] = {"acpbridge": {"midturn": self.chance.choice(WISHES)}}
        ask = self.ask("session/prompt", params, id_)
        self.books.work_of("\n".join(block["text"] for block in blocks).strip())
        return ask

    def cancel(self, sid: str) -> None:
        """Cancel a session's turn; a polite client takes it for ended from now on."""
        self.books.client_notes("session/cancel", {"sessionId": sid})
        self.cancelled |= {ask.n for ask in self.open_prompts(sid)}

    def open_prompts(self, sid: str) -> list[Ask]:
        """Its own open prompts of a session."""
        return [
            ask
            for asks in self.asks.values()
            for ask in asks
            if ask.method == "session/prompt" and ask.sid == sid
        ]

    # -- it reads ---------------------------------------------------------------------------
    def read(self, line: bytes, frame: Json) -> None:
        """A line of the bridge has arrived."""
        method = frame.get("method")
        if method in ANSWERS:
            self._card(id_text(frame["id"]), frame)
        elif method == "$/cancel_request":
            self._withdrawn(id_text(frame["params"]["requestId"]))
        elif method is None:
            self._answered(frame)

    def _answered(self, frame: Json) -> None:
        asks = self.asks.get(id_text(frame.get("id")))
        if not asks:
            return
        ask = asks.pop(0)
        if not asks:
            del self.asks[id_text(frame.get("id"))]
        result = frame.get("result")
        if ask.method == "initialize" and not self.opened:
            for _ in range(self.chance.randint(2, 6) if self.mix.has("many_sessions") else 1):
                self.open()
            self.world.clock.later(0.0, self._next)
        elif ask.method in ("session/new", "session/fork") and isinstance(result, dict):
            self._has(str(result.get("sessionId", "")))
        elif ask.method in ("session/load", "session/resume") and "error" not in frame:
            self._has(ask.sid)

    def _has(self, sid: str) -> None:
        if sid and sid not in self.sessions:
            self.sessions.append(sid)

    # -- it is asked ------------------------------------------------------------------------
    def _card(self, id_: str, frame: Json) -> None:
        self.cards[id_] = frame
        if self.kind:
            self._answer_soon(id_)
            return
        if self.mix.has("ignores_asks") and self.chance.random() < 0.4:
            return
        slow_s = 80.0 if self.mix.has("slow_answers") else 1.0
        self._later(self.chance.random() * slow_s, lambda: self._reply(id_))
        if self.mix.has("answers_twice"):
            self._later(self.chance.random() * 2.0, lambda: self._reply(id_, again=True))

    def _answer_soon(self, id_: str) -> None:
        self._later(0.5, lambda: self._reply(id_))

    def _reply(self, id_: str, *, again: bool = False) -> None:
        if id_ not in self.cards and not (again and id_ in self.settled):
            return
        frame = self.cards.pop(id_, None) or self.settled[id_]
        self.settled[id_] = frame
        result = self.chance.choice(ANSWERS[str(frame["method"])])
        body: Json = {"id": json.loads(id_), "result": result}
        if self.chance.random() < 0.1:
            body = {"id": json.loads(id_), "error": {"code": -32603, "message": "no window"}}
        self.books.client_replies(body)

    def _withdrawn(self, id_: str) -> None:
        if id_ in self.cards and self.chance.random() < 0.5:
            self._later(0.01, lambda: self._reply(id_))
        else:
            self.cards.pop(id_, None)

    def _later(self, delay_s: float, act: Any) -> None:
        def still_there() -> None:
            if not self.gone:
                act()

        self.world.clock.later(delay_s, still_there)

    # -- deeds ------------------------------------------------------------------------------
    def _next(self) -> None:
        if self.kind or self.gone or self.world.exit_code is not None:
            return
        self._deed()
        self.deeds += 1
        if self.deeds < self.mix.deeds:
            burst = self.chance.random() < 0.2
            wait_s = 0.0 if burst else self.chance.expovariate(1 / self.mix.pace_s)
            self._later(wait_s, self._next)

    def _deed(self) -> None:
        deeds = ["prompt"] * 4 + [name for name in self.mix.mischief if hasattr(self, f"_{name}")]
        name = self.chance.choice(sorted(deeds))
        if name in ("leave", "stop") and self.chance.random() < 0.7:
            name = "prompt"
        if self.sessions:
            getattr(self, f"_{name}")(self.chance.choice(self.sessions))

    def _prompt(self, sid: str) -> None:
        live = [ask for ask in self.open_prompts(sid) if ask.n not in self.cancelled]
        if not (self.polite and live):
            self.prompt(sid)

    def _own_steers(self, sid: str) -> None:
        words = {"type": "text", "text": f"p{self.books.sent_count + 1}"}
        params: Json = {"sessionId": sid, "prompt": [words]}
        if self.chance.random() < 0.6:
            params["_meta"] = {"steering": {"idleBehavior": "promptRequired"}}
        self.ask("_session/steering", params)

    def _commands(self, sid: str) -> None:
        self.prompt(sid, self.chance.choice(COMMANDS))

    def _cancel(self, sid: str) -> None:
        self.cancel(sid)

    def _cancel_prompt(self, sid: str) -> None:
        self.cancel(sid)
        self.prompt(sid)

    def _prompt_cancel(self, sid: str) -> None:
        self._prompt(sid)
        self.cancel(sid)

    def _take_back(self, sid: str) -> None:
        asks = [ask for one in self.asks.values() for ask in one]
        id_ = json.loads(self.chance.choice(asks).id) if asks else "nobody"
        self.books.client_notes("$/cancel_request", {"requestId": id_})

    def _load(self, sid: str, method: str = "session/load") -> None:
        if self.chance.random() < 0.15:
            sid = "never-heard-of"
        self.opened += 1
        cwd = f"/w/{self.opened}"
        if sid in self.books.alias:
            self.books.cwds[cwd] = self.books.alias[sid]
        self.ask(method, {"sessionId": sid, "cwd": cwd, "mcpServers": []})

    def _resume(self, sid: str) -> None:
        self._load(sid, "session/resume")

    def _fork(self, sid: str) -> None:
        self.opened += 1
        self.ask("session/fork", {"sessionId": sid, "cwd": f"/w/{self.opened}"})

    def _close(self, sid: str) -> None:
        self.sessions.remove(sid)
        method = self.chance.choice(("session/close", "session/delete"))
        self.ask(method, {"sessionId": sid})

    def _stranger(self, sid: str) -> None:
        self.prompt(self.chance.choice(("never-heard-of", "s99")))

    def _settings(self, sid: str) -> None:
        method = self.chance.choice(("set_mode", "set_model", "set_config_option"))
        extra = {"set_mode": "modeId", "set_model": "modelId", "set_config_option": "configId"}
        self.ask(f"session/{method}", {"sessionId": sid, extra[method]: "x"})

    def _unknown(self, sid: str) -> None:
        kind = self.chance.randint(0, 3)
        if kind == 0:
            self.ask("_nobody/knows", {"sessionId": sid, "what": 1})
        elif kind == 1:
            self.books.client_notes("_nobody/notes", {"sessionId": sid})
        elif kind == 2:
            self.ask("session/list", {})
        else:
            self.ask("_session/steering", {"sessionId": sid})

    def _malformed(self, sid: str) -> None:
        line, id_ = self.chance.choice(GARBLED)
        name = f"bad-{self.books.sent_count}".encode()
        ask = self.books.client_garbles(line.replace(b"@", name), id_.replace(b"@", name))
        self.asks.setdefault(id_text(json.loads(ask.id)), []).append(ask)

    def _oversize(self, sid: str) -> None:
        method = self.chance.choice(("session/prompt", "session/list", "_nobody/knows"))
        # An id with an escape is not found again in a line that was not kept.
        id_ = f'"big-{self.books.sent_count}"'.encode()
        ask = self.books.client_overdoes(id_, method)
        self.asks.setdefault(id_text(json.loads(ask.id)), []).append(ask)

    def _reuse(self, sid: str) -> None:
        self.prompt(sid, id_=self.last_id)

    def _flood(self, sid: str) -> None:
        for _ in range(self.chance.randint(5, 70)):
            self.prompt(sid)

    def _leave(self, sid: str) -> None:
        if self.chance.random() < 0.5:
            self.cancel(sid)
        self.leave()

    def leave(self) -> None:
        """Close its end."""
        self.gone = True
        self.world.client_leaves()

    def _stop(self, sid: str) -> None:
        self.world.clock.later(0.0, self.world.stop_asked)

    # -- the end ----------------------------------------------------------------------------
    def be_kind(self) -> None:
        """Answer what is open; do nothing new."""
        self.kind = True
        for id_ in list(self.cards):
            self._answer_soon(id_)

    def prompt_everywhere(self) -> None:
        """One more prompt in each session that it has."""
        self.world.say("-- a fresh prompt in each session")
        for sid in self.sessions:
            self.prompt(sid).final = True
