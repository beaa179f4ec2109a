"""What one client of a crowd may be told: its own answers, and every event of what it follows."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from acpbridge.wire import scan
from tests.sim import verdicts
from tests.sim.frames import Ask, Json, filled, id_text
from tests.sim.page import Page, Reader, bare
from tests.sim.toward_client import FROM_AGENT, LOADS
from tests.sim.violation import Violation, must

if TYPE_CHECKING:
    from tests.sim.crowd import Crowd

TOLD = "Another client stopped the running turn; what you sent and has not begun still waits."
OPENINGS = ("session/new", "session/fork")
QUERIES = ("_acpbridge/stats", "_acpbridge/prompts")
SINCE = "_acpbridge/events_since"
BY_HUB = (*LOADS, *QUERIES, SINCE, "initialize", "session/close")
"""What may be answered without the agent."""


class View:
    """One client while it is there; the checks of its lines (I1, I6)."""

    codeg = False

    def __init__(self, world: Crowd, number: int) -> None:
        self.world = world
        self.books = world.ledger
        self.scribe = world.scribe
        self.reader = Reader(number)
        self.observes = False
        self.is_ready = False
        """Its initialize was answered."""
        self.open: dict[str, deque[Ask]] = {}
        self.at: dict[str, int] = {}
        """How far it has read each session that it follows."""
        self.lines: list[bytes] = []
        """What it was told in the step of now."""
        self.loose: dict[str, list[bytes]] = {}
        """Of those, what belongs to a session that it does not follow yet."""
        self.cards: set[str] = set()
        self.fresh: set[str] = set()
        """What it follows since the step of now."""
        self.closed, self.last_update_s = self.scribe.closed, self.scribe.last_update_s

    # -- what it asks -----------------------------------------------------------------------
    def asked(self, ask: Ask) -> None:
        """The bridge reads a request of it."""
        self.open.setdefault(id_text(json.loads(ask.id)), deque()).append(ask)
        params = json.loads(ask.template).get("params", {}) if ask.template else {}
        if ask.method == "initialize" and not self.is_ready:
            said = params["clientCapabilities"].get("_meta", {}).get("acpbridge", {})
            self.reader.has_events = said.get("events") is True
            self.observes = said.get("observe") is True
        if ask.method == "session/prompt" and ask.sid and self.is_ready and not self.observes:
            self._follows(ask.sid, self.page(ask.sid).before)

    def page(self, sid: str) -> Page:
        """What has happened in a session."""
        return self.world.page(sid)

    def _follows(self, sid: str, otherwise: int) -> None:
        """It follows from now on: from what nobody has seen where nobody takes part."""
        if sid in self.at:
            return
        others = [view for view in self.world.followers(sid) if not view.observes]
        self.at[sid] = otherwise if others else self.page(sid).seen
        self.fresh.add(sid)

    # -- a step is over ---------------------------------------------------------------------
    def step_over(self) -> None:
        """Look at what it was told in this step, and whether it was told enough."""
        lines, self.lines = self.lines, []
        frames = [(line, json.loads(line)) for line in lines]
        loaded = {sid for line, frame in frames if (sid := self._loaded_by_log(frame))}
        for line, frame in frames:
            self._line(line, frame, loaded)
        must(not self.loose, "I6", f"{self.reader.number} does not follow {list(self.loose)}")
        for sid in self.fresh if self.world.is_lossy else ():
            # What it missed was more than the log had.
            self.at[sid] = self.page(sid).latest
        self.fresh.clear()
        for sid in self.at.keys() & self.world.touched:
            holes = self.page(sid).holes(self.at[sid], self.reader)
            must(not holes, "I6", f"{self.reader.number} was not given {holes} of {sid}")

    def _loaded_by_log(self, frame: Json) -> str:
        row = self.open.get(id_text(frame.get("id"))) if "method" not in frame else None
        is_load = row and row[0].method == "session/load" and not row[0].written
        return row[0].sid if row and is_load and "result" in frame else ""

    def _line(self, line: bytes, frame: Json, loaded: set[str]) -> None:
        method, params = frame.get("method"), frame.get("params", {})
        if method is None:
            self._answered(line, frame)
        elif method == "$/cancel_request":
            must(id_text(params["requestId"]) in self.cards, "R17", "withdrawn, and never shown")
        elif method in FROM_AGENT:
            self._request(line, frame)
        elif self._is_told(params):
            sid = params["sessionId"]
            mine = [ask for row in self.open.values() for ask in row if ask.sid == sid]
            must(bool(mine), "R16", "told of a cancel, and nothing is open")
        elif self._is_history(line, frame):
            if params["sessionId"] in loaded:
                self.loose.setdefault(params["sessionId"], []).append(line)
        elif params["sessionId"] in loaded or params["sessionId"] not in self.at:
            self.loose.setdefault(params["sessionId"], []).append(line)
        else:
            sid = params["sessionId"]
            self.at[sid] = self._read(sid, [line], self.at[sid])

    def _read(self, sid: str, lines: list[bytes], at: int) -> int:
        for line in lines:
            lossy = self.world.is_lossy and sid in self.fresh
            at = self.page(sid).read(line, at, self.reader, may_begin_later=lossy)
        return at

    def _is_told(self, params: Json) -> bool:
        content = params.get("update", {}).get("content")
        return isinstance(content, dict) and content.get("text") == TOLD

    def _is_history(self, line: bytes, frame: Json) -> bool:
        if not self.reader.has_events:
            return line in self.world.replayed
        _, said = bare(frame)
        if "history" not in said:
            return False
        must(said == {"history": True}, "S12", f"history with a place: {line!r}")
        return True

    def _request(self, line: bytes, frame: Json) -> None:
        serial = frame["params"]["_meta"]["sim/n"]
        posed = self.books.posed[serial]
        said = posed.said
        assert said is not None
        must(said.fed, "I6", "a request is shown before the agent wrote it")
        must(not posed.answers, "R17", "a request is shown that is answered")
        posed.shown_id = id_text(frame["id"]).encode()
        self.cards.add(id_text(frame["id"]))
        expected = filled(posed.template, posed.shown_id, posed.sid)
        is_same = line == expected
        if self.reader.has_events:
            is_same = bare(frame)[0] == json.loads(expected)
        must(is_same, "I7", f"a request of the agent is changed: {line!r}")
        if posed.method == "fs/read_text_file":
            must(not self.observes, "observer", "an observer is asked for a file")
            # By what is its own: the next process of the agent begins its ids anew.
            other = self.world.holders.get(serial, self.reader.number)
            view = self.world.views.get(other)
            is_alone = view is None or view is self or posed.sid not in view.at
            must(is_alone, "owner", "two clients are asked for one file")
            self.world.holders[serial] = self.reader.number

    # -- answers ----------------------------------------------------------------------------
    def _answered(self, line: bytes, frame: Json) -> None:
        row = self.open.get(id_text(frame.get("id")))
        number = self.reader.number
        must(bool(row), "I1", f"{number} gets an answer that it does not wait for: {line[:300]!r}")
        assert row
        ask = row[0]
        kind = frame.get("error", {}).get("data", {})
        is_observer = isinstance(kind, dict) and kind.get("acpbridge", {}).get("kind") == "observer"
        self.scribe.open.pop(str(ask.n), None)
        if is_observer:
            must(self.observes, "observer", "it is none")
        elif ask.method not in BY_HUB or ask in self.books.replies.get(line, []):
            verdicts.response(self, line, frame)
        if row and row[0] is ask:
            row.popleft()
            if not row:
                del self.open[id_text(frame.get("id"))]
        ask.answer = line
        if "result" in frame and not is_observer:
            self._learn(ask, frame["result"])

    def _learn(self, ask: Ask, result: Json) -> None:
        sid = ask.sid
        if ask.method == "initialize":
            self.is_ready = True
            epoch = (result.get("_meta") or {}).get("acpbridge", {}).get("epoch")
            expected = self.world.hub.log.epoch if self.reader.has_events else None
            must(epoch == expected, "epoch", f"{result}")
        elif ask.method in OPENINGS:
            self._opened(str(result["sessionId"]))
        elif ask.method in LOADS:
            self._loaded(ask, result)
        elif ask.method == SINCE:
            self._since(ask, ask.answer, result)
        elif ask.method == "session/close" and not ask.written:
            self.world.leaves_session(self, sid)

    def _opened(self, sid: str) -> None:
        lines = self.loose.pop(sid, [])
        if sid not in self.at:
            self._follows(sid, self.page(sid).before)
            self.at[sid] = self._read(sid, lines, self.at[sid])

    def _loaded(self, ask: Ask, result: Json) -> None:
        sid, page = ask.sid, self.page(ask.sid)
        said = (result.get("_meta") or {}).get("acpbridge", {}) if result else {}
        lines = self.loose.pop(sid, [])
        if ask.method == "session/load" and said.get("replay") != "failed":
            if ask.written:
                if sid not in self.at:
                    self.at[sid] = self._read(sid, lines, page.load_seq)
                return
            conversation = self.world.hub.conversations[sid]
            old = [one for one in lines if self._is_history(one, json.loads(one))]
            must(len(old) == len(conversation.history or []), "I6", "history is missing")
            must(lines[: len(old)] == old, "I6", "history comes late")
            rest, whole = lines[len(old) :], "replay" not in said
            self.at[sid] = page.latest
            if whole:
                at = self._read(sid, rest, conversation.base_seq)
                gone = page.holes(at, self.reader)
                must(not gone, "I6", f"the log's replay of {sid} ends before {gone}")
            return
        must(not lines, "I6", f"a resume of {sid} says something before its answer: {lines}")
        asked = self.world.hub.conversations[sid].load_seq
        self._follows(sid, asked if ask.written else page.before)

    def _since(self, ask: Ask, line: bytes, result: Json) -> None:
        sid, cursor = ask.sid, json.loads(ask.template)["params"].get("cursor")
        page = self.page(sid)
        must(result["latestSeq"] == page.latest, "seq", f"{result['latestSeq']} of {page.latest}")
        at = 0 if result["startsOver"] or cursor is None else int(cursor["seq"])
        span = scan.find(line, "result", "frames")
        assert span is not None
        frames = [line[begin:end] for begin, end in scan.elements(line, span[0])]
        if not (result["truncated"] or self.world.is_forgotten(sid)):
            at = self._read(sid, frames, at)
            holes = page.holes(at, self.reader)
            must(not holes, "I6", f"events_since of {sid} leaves out {holes}")
        self.at[sid] = page.latest

    # -- for the verdicts -------------------------------------------------------------------
    def all_seen(self, sid: str, serial: int, what: str, *, by_prompt: bool) -> None:
        """I6: what the agent sent before a response is written before it, if it follows."""
        self.scribe.all_seen(sid, serial, what, by_prompt=by_prompt)
        at = self.at.get(sid)
        if at is None:
            return
        page = self.page(sid)
        early = [seq for seq in page.holes(at, self.reader) if 0 < page.events[seq].serial < serial]
        must(not early, "I6", f"{what} comes before {early} of {sid}")

    def tag(self, name: str) -> None:
        """Count a kind of answer to a prompt."""
        self.scribe.tag(name)

    def all_answered(self) -> None:
        """I1, I10: nothing of it is open."""
        still = [(one.n, one.method) for row in self.open.values() for one in row]
        must(not still, "I10", f"{self.reader.number} was never answered: {still}")

    def gone(self) -> None:
        """It has left: whatever is still written to it is a fault."""
        if self.lines:
            raise Violation("I6", f"{self.reader.number} is written to and has left")
