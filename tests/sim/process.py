"""One process of an agent: its life, its wire, and the sessions that it opens and closes.

It knows nothing of the bridge. What it did with each text stands in `Work`, which is the truth
that the invariants are held against.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tests.sim.clock import Plan
from tests.sim.frames import ID, Json, Posed, Said, chunk, update
from tests.sim.turns import Chat, Record

if TYPE_CHECKING:
    from tests.sim.world import World


class Process:
    """What every agent does beside its turns."""

    info: ClassVar[Json] = {"name": "some-agent", "version": "1.0.0"}

    def __init__(self, world: World, run: int) -> None:
        self.world = world
        self.books = world.ledger
        self.run = run
        self.mix = world.mix
        self.chance = world.chance
        self.dead = False
        self.kind = False
        self.chats: dict[str, Chat] = {}
        self.posed: dict[str, Posed] = {}
        """Its own open requests, by the JSON text of the id."""
        self.asked = 0
        self.calls = 0

    # -- life -------------------------------------------------------------------------------
    def later(self, delay_s: float, act: Callable[[], object]) -> Plan:
        """Plan something that this process does, if it still lives."""

        def alive() -> None:
            if not self.dead:
                act()

        return self.world.clock.later(delay_s, alive)

    def die(self) -> None:
        """The process is gone: what ran did not end, and never will."""
        self.dead = True
        for chat in self.chats.values():
            works = [*(chat.turn.works if chat.turn else []), *chat.queue]
            for work in [*works, *(work for _, work in chat.waiting)]:
                work.killed = True

    def be_kind(self) -> None:
        """From now on everything that runs comes to its end soon."""
        self.kind = True
        soon_s = self.world.clock.now_s + 5.0
        for chat in self.chats.values():
            entry = chat.turn.entry if chat.turn is not None and not chat.turn.over else None
            if chat.turn is not None and entry is not None and entry.due_s > soon_s and entry.act:
                chat.turn.entry = self.world.clock.later(0.5, entry.act)
                entry.call_off()

    # -- the wire ---------------------------------------------------------------------------
    def read(self, lines: list[bytes]) -> None:
        """Take in what one read brought; some agents die of it."""
        for line in lines:
            is_fatal = self.mix.has("dies") and not self.kind and self.chance.random() < 0.01
            if is_fatal and self.chance.random() < 0.5:
                self.world.dies("killed before it looked")
            self._look(line)
            if is_fatal:
                self.world.dies("killed by what it read")

    def _look(self, line: bytes) -> None:
        if not self.dead:
            self.take(json.loads(line))

    def take(self, frame: Json) -> None:
        """Take in one frame."""
        method, id_ = frame.get("method"), json.dumps(frame.get("id"))
        if method is None:
            self._answered(id_)
            return
        name = str(method).removeprefix("_").replace("session/", "on_").replace("$/", "on_")
        handler = getattr(self, name if name.startswith("on_") else f"on_{method}", None)
        if handler is not None:
            handler(id_, frame.get("params") or {})
        elif "id" in frame:
            self.fail(id_, -32601, "method not found")

    def _answered(self, id_: str) -> None:
        posed = self.books.agent_was_answered(id_)
        if posed is not None and not posed.over:
            posed.over = True
            posed.then()

    def say(self, frame: Json, sid: str, what: str = "live") -> Said | None:
        """Write a notification of a session; of a closed one there is nothing to say."""
        chat = self.chats.get(sid)
        if chat is not None and chat.closed:
            return None
        return self.books.agent_says(self, frame, sid, what)

    def reply(self, id_: str, result: Any, sid: str = "") -> None:
        """Answer a request; `sid` is what stands in the result's slots."""
        self.books.agent_answers(self, id_, {"id": ID, "result": result}, sid)

    def fail(self, id_: str, code: int, message: str, data: Any = None) -> None:
        """Answer a request with an error."""
        body: Json = {"code": code, "message": message}
        if data is not None:
            body["data"] = data
        self.books.agent_answers(self, id_, {"id": ID, "error": body})

    def word(self, sid: str, variant: str = "agent_message_chunk", what: str = "live") -> None:
        """Say a chunk that nobody has said before."""
        rest: Json = {}
        chat = self.chats.get(sid)
        if chat is not None and chat.turn is not None and chat.turn.message:
            rest["messageId"] = chat.turn.message
        self.say(chunk(f"w{self.books.next_serial()} ", variant, **rest), sid, what)

    def meta(self, sid: str, variant: str, what: str = "live", **rest: Any) -> Said | None:
        """Say another update that nobody has said before."""
        mark = {"_meta": {"sim/n": self.books.next_serial()}}
        return self.say(update(variant, **{**mark, **rest}), sid, what)

    # -- requests that open and close -------------------------------------------------------
    def on_initialize(self, id_: str, params: Json) -> None:
        """Say who it is and what it can do."""
        traits = self.mix.traits
        session: Json = {"list": {}, "close": {}}
        session |= {name: {} for name in ("resume", "fork") if traits[name]}
        capabilities = {"loadSession": bool(traits["load"]), "sessionCapabilities": session}
        result: Json = {
            "protocolVersion": 1,
            "agentInfo": self.who(),
            "agentCapabilities": capabilities,
            **self.says_of_itself(),
        }
        self.later(self.slowly(0.3), lambda: self.reply(id_, result))

    def who(self) -> Json:
        """What it calls itself."""
        return self.info

    def says_of_itself(self) -> Json:
        """What else stands in its initialize result."""
        return {}

    def slowly(self, most_s: float) -> float:
        """How long an opening takes: now and then longer than anybody waits."""
        if self.mix.has("slow_opens") and not self.kind and self.chance.random() < 0.3:
            return self.chance.choice((1.0, 10.0, 45.0))
        return self.chance.random() * most_s

    def on_new(self, id_: str, params: Json) -> None:
        """Open a new conversation."""
        self.later(self.slowly(0.2), lambda: self._open_new(id_, params))

    def _open_new(self, id_: str, params: Json) -> None:
        record = self.books.new_record(str(params.get("cwd")))
        self._opened(id_, record)
        self.after_opening(record.sid)

    def _opened(self, id_: str, record: Record) -> None:
        self._seat(record.sid, record)
        self.books.agent_opened(id_, record.sid, record.cwd)
        self.reply(id_, self.opened(record), record.sid)

    def opened(self, record: Record) -> Json:
        """The result of session/new."""
        return {"sessionId": record.sid}

    def _seat(self, sid: str, record: Record) -> Chat:
        chat = self.chats.get(sid)
        if chat is None:
            chat = self.chats[sid] = Chat(sid, record)
        chat.closed = False
        return chat

    def after_opening(self, sid: str) -> None:
        """What an open session says and does by itself."""
        chance, mix = self.chance, self.mix
        self.later(
            chance.random() * 0.1,
            lambda: self.meta(sid, "available_commands_update", availableCommands=[]),
        )
        if mix.has("ownerless"):
            for _ in range(chance.randint(1, 4)):
                wait_s = chance.random() * min(mix.span_s, 60.0)
                self.later(wait_s, lambda: self.by_itself(sid))
        if mix.has("usage_outside") and mix.profile == "generic":
            wait_s = chance.random() * 30.0
            self.later(wait_s, lambda: self.meta(sid, "usage_update", used=1, size=2))

    def by_itself(self, sid: str) -> None:
        """Begin to work without a prompt."""

    def on_load(self, id_: str, params: Json, *, replays: bool = True) -> None:
        """Open a conversation from the disk, with its history."""
        sid = str(params.get("sessionId"))
        self.later(self.slowly(0.3), lambda: self._load(id_, sid, replays))

    def on_resume(self, id_: str, params: Json) -> None:
        """Open a conversation from the disk, without its history."""
        self.on_load(id_, params, replays=self.mix.has("replays_on_resume"))

    def _load(self, id_: str, sid: str, replays: bool) -> None:
        record = self.books.find_record(sid)
        if record is None:
            self.nothing_found(id_, sid)
            return
        self._seat(sid, record)
        if replays:
            self._replay(id_, sid, record)
        self.books.agent_loaded(self, sid, record)
        self.reply(id_, self.loaded(record), sid)
        self.after_opening(sid)

    def _replay(self, id_: str, sid: str, record: Record) -> None:
        what = "own_replay" if self.books.is_own_id(id_) else "replay"
        for text in self.books.history(sid, record):
            self.say(chunk(text, "user_message_chunk", replay=self.books.next_serial()), sid, what)
            self.word(sid, what=what)

    def nothing_found(self, id_: str, sid: str) -> None:
        """Nothing of that name is there."""
        self.fail(id_, -32002, "no such session", {"sessionId": sid})

    def loaded(self, record: Record) -> Any:
        """The result of a load."""
        return {}

    def on_fork(self, id_: str, params: Json) -> None:
        """Copy a conversation under a new id."""
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is None or chat.closed:
            self.fail(id_, -32002, "no such session")
            return
        self._opened(id_, self.books.new_record(str(params.get("cwd")), copy=chat.record))

    def on_list(self, id_: str, params: Json) -> None:
        """List what is open."""
        self.reply(id_, {"sessions": [{"sessionId": sid, "cwd": "/w"} for sid in self.chats]})

    def on_set_mode(self, id_: str, params: Json) -> None:
        """Accept any mode."""
        self.reply(id_, self.chance.choice(({}, {}, None)))

    def on_set_model(self, id_: str, params: Json) -> None:
        """Accept any model."""
        self.on_set_mode(id_, params)

    def on_set_config_option(self, id_: str, params: Json) -> None:
        """Accept any option."""
        self.reply(id_, {"configOptions": []})
