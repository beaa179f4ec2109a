"""One client of a crowd: it comes, watches or works, leaves in the middle, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from tests.sim.client import Client
from tests.sim.clock import Pipe
from tests.sim.frames import Ask, Json
from tests.sim.ledger import Ledger, Seat

if TYPE_CHECKING:
    from tests.sim.crowd import Crowd

WAYS = ("load", "resume", "since", "since", "nothing")
"""How one that comes back takes up a session."""
DEEDS = (
    "cancel", "cancel_prompt", "prompt_cancel", "take_back", "load", "resume", "settings",
    "unknown", "malformed", "oversize", "reuse", "close", "commands",
)  # fmt: skip


@define
class Memory:
    """What a client knows of its sessions when it comes."""

    sessions: list[str] = field(factory=list)
    cursors: dict[str, Json] = field(factory=dict)


class Guest(Client):
    """One client, from its connection to its end."""

    world: Crowd

    def __init__(self, world: Crowd, number: int, memory: Memory) -> None:
        super().__init__(world)
        slow_s = world.mix.traits["latency_s"]
        self.number, self.memory = number, memory
        read = lambda lines: world.guest_read(self, lines)  # noqa: E731 - bound to this guest
        self.seat = Seat(Pipe(world.clock, world.chance, read, slow_s), number)
        self.to_client = Pipe(world.clock, world.chance, self.take, slow_s)
        self.wants_events = self.chance.random() < 0.6
        self.observes = bool(memory.sessions) and self.chance.random() < 0.15
        self.seat.is_heard = not self.observes
        self.is_ready = False
        self.opened = 1000 * number
        """Working directories are nobody else's."""

    @property
    def books(self) -> Ledger:
        """The world's books, opened at this client's place."""
        self.world.ledger.seat = self.seat
        return self.world.ledger

    def begin(self) -> None:
        """Say what it wants to be."""
        said: Json = {"events": self.wants_events}
        if self.observes:
            said["observe"] = True
        capabilities: Json = {"_meta": {"acpbridge": said}}
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})

    # -- it reads ---------------------------------------------------------------------------
    def take(self, lines: list[bytes]) -> None:
        """Lines of the bridge have arrived."""
        for line in lines:
            if not self.gone:
                self.world.guest_hears(self, line)

    def read(self, line: bytes, frame: Json) -> None:
        """Remember where the log stands."""
        params = frame.get("params", {})
        place = (params.get("_meta") or {}).get("acpbridge", {}) if params else {}
        if "seq" in place:
            cursor = {"epoch": place["epoch"], "seq": place["seq"]}
            self.memory.cursors[params["sessionId"]] = cursor
        super().read(line, frame)

    def _answered(self, frame: Json) -> None:
        row = self.asks.get(self.key(frame))
        ask = row[0] if row else None
        if ask is not None and ask.method == "initialize":
            row = self.asks.pop(self.key(frame))
            if "result" in frame:
                self._is_in()
            return
        super()._answered(frame)
        if ask is not None and ask.method == "_acpbridge/events_since" and "result" in frame:
            self._has(ask.sid)
            result = frame["result"]
            cursor = {"epoch": result["epoch"], "seq": result["latestSeq"]}
            self.memory.cursors[ask.sid] = cursor

    @staticmethod
    def key(frame: Json) -> str:
        """An answer's id, as the open requests are kept by."""
        from tests.sim.frames import id_text  # noqa: PLC0415

        return id_text(frame.get("id"))

    def _has(self, sid: str) -> None:
        super()._has(sid)
        if sid and sid not in self.memory.sessions:
            self.memory.sessions.append(sid)

    def _is_in(self) -> None:
        self.is_ready = True
        for sid in list(self.memory.sessions):
            way = self.chance.choice(WAYS)
            if self.kind:
                way = "load"
            if way in ("load", "resume"):
                self.load(sid, f"session/{way}")
            elif way == "since":
                self.since(sid)
            else:
                self.sessions.append(sid)
        if not self.memory.sessions or (not self.observes and self.chance.random() < 0.1):
            self.open()
        self.world.clock.later(0.0, self._next)

    def since(self, sid: str) -> Ask:
        """Ask for what it has missed."""
        params: Json = {"sessionId": sid}
        if sid in self.memory.cursors and self.chance.random() < 0.8:
            params["cursor"] = self.memory.cursors[sid]
        return self.ask("_acpbridge/events_since", params)

    def load(self, sid: str, method: str = "session/load") -> None:
        """Load a session, under a directory of its own."""
        self.opened += 1
        cwd = f"/w/{self.opened}"
        if sid in self.books.alias:
            self.books.cwds[cwd] = self.books.alias[sid]
        self.ask(method, {"sessionId": sid, "cwd": cwd, "mcpServers": []})

    # -- deeds ------------------------------------------------------------------------------
    def _deed(self) -> None:
        names = ["prompt"] * 5 + ["since", "stats", "leave", "come"]
        names += [name for name in DEEDS if self.mix.has(name)]
        name = self.chance.choice(names)
        if self.sessions:
            getattr(self, f"_{name}")(self.chance.choice(self.sessions))

    def _since(self, sid: str) -> None:
        self.since(sid)

    def _stats(self, sid: str) -> None:
        self.ask(self.chance.choice(("_acpbridge/stats", "_acpbridge/prompts")), {})

    def _load(self, sid: str, method: str = "session/load") -> None:
        self.load(sid, method)

    def _close(self, sid: str) -> None:
        self.sessions.remove(sid)
        self.memory.sessions.remove(sid)
        self.ask("session/close", {"sessionId": sid})

    def _come(self, sid: str) -> None:
        """Another one joins, who knows of the same sessions."""
        self.world.comes(Memory(list(self.memory.sessions), {}))

    def _leave(self, sid: str) -> None:
        self.world.leaves(self)
        wait_s = self.chance.random() * self.chance.choice((0.01, 1.0, 30.0, 300.0))
        self.world.clock.later(wait_s, lambda: self.world.comes(self.memory))
