"""What was really said and done: the world's own books, kept apart from anything the bridge says.

Agents and the client write through here, so that every line has an entry before the bridge sees
it, and so that each session of an agent is known by the name that the client has for it.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from attrs import define, field

from tests.sim.clock import Pipe
from tests.sim.frames import SID, Ask, Json, Posed, Said, Work, filled, id_text
from tests.sim.turns import Record
from tests.sim.violation import Violation, must

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

CONTENT = frozenset(
    {
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
    }
)
OUTPUT = CONTENT - {"user_message_chunk", "plan"}
NONCE = "5eed5eed"
OWN = f'"acpbridge-{NONCE}-'
_TEXT = re.compile(r"\bp(\d+)\b")


@define(eq=False)
class Seat:
    """Where one client writes."""

    from_client: Pipe
    number: int = 0
    is_heard: bool = True
    """What it answers to an agent counts; an observer's does not."""
    sent: deque[tuple[bytes, Ask | None, int]] = field(factory=deque)
    """Lines on their way to the bridge, with the place of each, 0 for a response."""


class Ledger:
    """The books of one world."""

    def __init__(self, world: World, seat: Seat) -> None:
        self.world = world
        self.seat = seat
        """Who writes or is read now."""
        self.fed_count = 0
        self.places: dict[int, int] = {}
        """In which order the bridge has read what was sent, by its place among that."""
        self.asks: dict[int, Ask] = {}
        """Requests of the client by their place."""
        self.works: dict[int, Work] = {}
        self.sent_count = 0
        self.notes: set[int] = set()
        """Notifications of the client that must reach the agent, by their place."""
        self.serials = 0
        self.said_count = 0
        self.oversize: set[bytes] = set()
        """Lines of the client that count as longer than the limit, whatever their length."""
        self.unfed: deque[Said] = deque()
        """Lines of the agent on their way to the bridge."""
        self.fed_serial = 0
        self.expected: dict[bytes, deque[Said]] = {}
        """What the client may see next, by its exact bytes."""
        self.alias: dict[str, str] = {}
        """The client's name of each session id that an agent uses."""
        self.records: dict[str, Record] = {}
        self.at_agent: dict[str, Ask] = {}
        """The client's requests that are open at the agent, by the JSON text of the wire id."""
        self.own_asks: dict[str, Json] = {}
        """The bridge's own open requests at the agent."""
        self.posed: dict[int, Posed] = {}
        """Requests of the agents, by the serial in them."""
        self.open_posed: dict[str, Posed] = {}
        """Those of the running process, by the agent's id."""
        self.replies: dict[bytes, list[Ask]] = {}
        """Responses of the agent as the client must get them."""
        self.deaths = 0
        self.stops = 0
        self.cwds: dict[str, str] = {}
        """The client's session of each working directory."""
        self.ownerless: set[str] = set()
        """Sessions in which an agent has ever worked by itself."""
        self.receipts: set[str] = set()
        """Sessions in which an agent has ever answered with a receipt."""
        self.lost: set[str] = set()
        """Sessions of which an agent has ever said that they are not there."""

    # -- the client writes ------------------------------------------------------------------
    def client_asks(self, method: str, params: Json, id_: bytes) -> Ask:
        """Write a request of the client."""
        world = self.world
        self.sent_count += 1
        n = self.sent_count
        meta = {**params.get("_meta", {}), "sim/n": n}
        sid = str(params.get("sessionId", ""))
        slots = {**params, "_meta": meta}
        if sid:
            slots["sessionId"] = SID
        template = world.client_style.line({"id": "@ID@", "method": method, "params": slots})
        ask = Ask(n, id_, method, sid, template, world.clock.now_s)
        self.asks[n] = ask
        if isinstance(params.get("cwd"), str):
            ask.cwd = params["cwd"]
        self._client_writes(filled(template, id_, sid), ask, n)
        return ask

    def client_notes(self, method: str, params: Json) -> int:
        """Write a notification of the client; returns its place."""
        self.sent_count += 1
        meta = {"sim/n": self.sent_count}
        if method.startswith("_"):
            self.notes.add(self.sent_count)
        frame = {"method": method, "params": {**params, "_meta": meta}}
        self._client_writes(self.world.client_style.line(frame), None, self.sent_count)
        return self.sent_count

    def client_garbles(self, line: bytes, answer_id: bytes) -> Ask:
        """Write a line that the bridge must refuse, under this id."""
        self.sent_count += 1
        ask = Ask(self.sent_count, answer_id, "malformed", "", b"", self.world.clock.now_s)
        self.asks[ask.n] = ask
        self._client_writes(line, ask, ask.n)
        return ask

    def client_overdoes(self, id_: bytes, method: str) -> Ask:
        """Write a line over the limit."""
        self.sent_count += 1
        ask = Ask(self.sent_count, id_, "oversize", "", b"", self.world.clock.now_s)
        self.asks[ask.n] = ask
        frame = {"id": "@ID@", "method": method, "params": {"much": self.sent_count}}
        line = filled(self.world.client_style.line(frame), id_)
        self.oversize.add(line)
        self._client_writes(line, ask, ask.n)
        return ask

    def client_replies(self, frame: Json) -> None:
        """Write a response of the client to a request of an agent."""
        template = self.world.client_style.line({**frame, "id": "@ID@"})
        shown_id = id_text(frame["id"]).encode()
        posed = self.world.toward_client.asker(shown_id)
        if posed is not None and self.seat.is_heard:
            posed.client_lines.append(filled(template, posed.agent_id))
        self._client_writes(filled(template, shown_id), None, 0)

    def _client_writes(self, line: bytes, ask: Ask | None, n: int) -> None:
        seat = self.seat
        if ask is not None:
            ask.client = seat.number
        if not seat.from_client.closed:
            seat.sent.append((line, ask, n))
            seat.from_client.write(line)

    def client_fed(self, line: bytes) -> None:
        """The bridge reads this line now."""
        written, ask, n = self.seat.sent.popleft()
        assert written == line
        self.fed_count += 1
        self.places[n] = self.fed_count
        if ask is not None:
            ask.fed = True
        self.world.toward_client.client_fed(line, ask)

    # -- the agent writes -------------------------------------------------------------------
    def next_serial(self) -> int:
        """A number that nobody has used."""
        self.serials += 1
        return self.serials

    def _agent_writes(self, agent: Process, line: bytes, what: str, sid: str = "") -> Said:
        self.said_count += 1
        for_client = self.alias.get(sid, sid)
        said = Said(self.said_count, agent.run, sid, for_client, line, what)
        pipe = self.world.from_agent
        if agent.dead or pipe is None or pipe.closed:
            return said
        self.unfed.append(said)
        pipe.write(line)
        return said

    def agent_fed(self) -> Said:
        """The bridge reads the agent's next line now."""
        said = self.unfed.popleft()
        said.fed = True
        self.fed_serial = said.serial
        self.world.toward_client.agent_fed(said)
        return said

    def agent_gone(self) -> None:
        """The process has ended; all that it wrote has been read."""
        for ask in self.asks.values():
            ask.at_agent = ask.bound = ask.steer_open = ask.joined = False
        self.at_agent.clear()
        self.own_asks.clear()
        for posed in self.open_posed.values():
            posed.over = True
        self.open_posed.clear()

    def agent_says(self, agent: Process, frame: Json, sid: str, what: str) -> Said:
        """Write a notification of the agent."""
        template = self.world.agent_style.line(frame)
        said = self._agent_writes(agent, filled(template, sid=sid), what, sid)
        if frame["method"] == "session/update":
            variant = frame["params"]["update"]["sessionUpdate"]
            said.content = variant in CONTENT
            said.output = variant in OUTPUT
        self._expect(filled(template, sid=said.for_client or sid), said)
        if said.for_client != sid and said.for_client in self.world.toward_client.closed:
            # The client has closed it, so the bridge need not know its other name any more.
            self._expect(filled(template, sid=sid), said)
        return said

    def _expect(self, line: bytes, said: Said) -> None:
        self.expected.setdefault(line, deque()).append(said)

    def agent_noise(self, agent: Process, line: bytes) -> None:
        """Write a line that is no frame."""
        self._agent_writes(agent, line, "noise")

    def agent_asks(self, agent: Process, frame: Json, sid: str, id_: str, serial: int) -> Posed:
        """Write a request of the agent."""
        template = self.world.agent_style.line({**frame, "id": "@ID@"})
        said = self._agent_writes(agent, filled(template, id_.encode(), sid), "request", sid)
        said.content = False
        posed = Posed(said.for_client or sid, agent.run, id_.encode())
        self.posed[serial] = posed
        posed.method = frame["method"]
        self.open_posed[id_] = posed
        posed.template = template
        posed.said, said.posed = said, posed
        return posed

    def agent_withdraws(self, agent: Process, frame: Json, posed: Posed) -> None:
        """Write the agent's `$/cancel_request` for a request of its own."""
        template = self.world.agent_style.line(frame)
        line = filled(template, request=posed.agent_id)
        said = self._agent_writes(agent, line, "withdrawal")
        posed.withdrawal_template = template
        posed.withdrawal = said

    def agent_was_answered(self, id_: str) -> Posed | None:
        """The agent reads a response to one of its requests."""
        return self.open_posed.get(id_)

    def agent_answers(self, agent: Process, id_: str, frame: Json, sid: str = "") -> None:
        """Write a response of the agent; `sid` is the session that its slots mean."""
        template = self.world.agent_style.line(frame)
        said = self._agent_writes(agent, filled(template, id_.encode(), sid), "response")
        if id_ in self.own_asks:
            del self.own_asks[id_]
            return
        ask = self.at_agent.pop(id_, None)
        if ask is None:
            return
        if ask.steer_open and ask.steered and not ask.at_agent:
            result = frame.get("result")
            said.steer = ask
            said.outcome = str(result.get("outcome")) if isinstance(result, dict) else ""
            return
        said.ask = ask
        said.too_long = ask.too_long
        if ask.reply:
            self.replies[ask.reply].remove(ask)
        ask.reply = filled(template, ask.id, self.alias.get(sid, sid))
        ask.reply_serial = said.serial
        self.replies.setdefault(ask.reply, []).append(ask)

    def too_long(self, id_: str) -> None:
        """The answer that comes next under this id is over the limit."""
        if id_ in self.at_agent:
            self.at_agent[id_].too_long = True

    def bound(self, id_: str) -> None:
        """The answer that comes next under this id is a receipt."""
        ask = self.at_agent.get(id_)
        if ask is not None:
            ask.bound = True
            self.receipts.add(ask.sid)

    def agent_repeats(self, agent: Process, id_: str) -> None:
        """Write a response that nobody waits for."""
        frame = {"id": "@ID@", "result": {"stopReason": "end_turn", "again": self.next_serial()}}
        line = filled(self.world.agent_style.line(frame), id_.encode())
        self._agent_writes(agent, line, "second")

    # -- what the agent did -----------------------------------------------------------------
    def work_of(self, text: str) -> Work:
        """The work of the prompt with this text; a text of nobody's gets a book of its own."""
        found = _TEXT.search(text)
        n = int(found[1]) if found else -self.next_serial()
        work = self.works.get(n)
        if work is None:
            work = self.works[n] = Work(n, text)
        return work

    def received(self, text: str) -> Work:
        """An agent has read a prompt with this text."""
        work = self.work_of(text)
        work.received += 1
        work.text = text
        self.newest_received = work
        return work

    newest_received: Work
    """The work of the prompt that an agent has read last."""

    def rotated(self, record: Record) -> str:
        """The conversation is kept under a new id from now on."""
        tip = f"{record.sid}-tip{self.next_serial()}"
        record.tip = tip
        self.records[tip] = record
        self.alias[tip] = self.alias.get(record.sid, record.sid)
        return tip

    def runs(self, work: Work, record: Record) -> None:
        """An agent begins to work on this text."""
        work.ran += 1
        record.texts.append(work.text)
        self.world.say(f"            (agent runs {work.text[:12]!r})")
        is_once = work.ran <= 1 or work.n < 0 or bool(work.excuse)
        must(is_once, "I3", f"prompt {work.n} runs {work.ran} times")

    def ended(self, works: list[Work]) -> None:
        """The agent has done everything that it does for these."""
        for work in works:
            if not work.ended:
                work.ended = True
                work.end_serial = self.said_count
                self.world.say(f"            (agent has ended {work.text[:12]!r})")

    # -- conversations ----------------------------------------------------------------------
    def new_record(self, cwd: str, copy: Record | None = None) -> Record:
        """A new conversation on the agent's disk."""
        sid = f"s{len(self.records) + 1}"
        record = Record(sid, cwd, list(copy.texts) if copy else [], tip=sid, root=sid)
        self.records[sid] = record
        return record

    def find_record(self, sid: str) -> Record | None:
        """The conversation of this name, if it can be found today."""
        record = self.records.get(sid)
        if record is None or (
            self.world.mix.has("load_nothing")
            and not self.world.kind
            and self.world.chance.random() < 0.5
        ):
            self.is_lost(sid)
            return None
        return record

    def is_lost(self, sid: str) -> None:
        """An agent says that it does not have this session."""
        self.lost.add(self.alias.get(sid, sid))

    def history(self, sid: str, record: Record) -> list[str]:
        """The texts that a load under this id replays."""
        return record.texts if sid in (record.sid, record.tip) else []

    def is_own_id(self, id_: str) -> bool:
        """Whether the bridge itself has asked under this id."""
        return id_ in self.own_asks

    def is_bridges_steer(self, id_: str) -> bool:
        """Whether a steer is one of the bridge's: a client waits for its own for ever."""
        ask = self.at_agent.get(id_)
        return ask is not None and ask.method == "session/prompt"

    def agent_opened(self, id_: str, sid: str, cwd: str) -> None:
        """A session begins under this id: the client's own, or one that stands for its old one."""
        if id_ in self.own_asks:
            self.alias[sid] = self.cwds[cwd]
            self.world.say(f"            ({self.cwds[cwd]} is {sid} at the agent now)")
        else:
            self.alias[sid] = sid
            self.cwds[cwd] = sid

    def agent_loaded(self, agent: Process, sid: str, record: Record) -> None:
        """An agent has found the conversation of this id."""
        self.alias.setdefault(sid, self.alias.get(record.sid, sid))
        told = record.told
        # Of what was closed only the journal remembers the tip, and this disk remembers nothing.
        is_closed = self.alias.get(sid, sid) in self.world.toward_client.closed
        if told is None or is_closed:
            return
        if told.fed and told.run != agent.run and sid != record.tip:
            text = f"{sid} is loaded, and the conversation goes on under {record.tip}"
            raise Violation("R25", text)
