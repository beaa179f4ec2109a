"""What the hub's log is given must be what the agents said, in order, and few words of its own.

It is the one client's part of the checks, with the log in the place of that client; what each
client then gets of it is looked at in `view.py`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from typing import TYPE_CHECKING

from acpbridge.core.effects import Persist
from tests.sim.frames import Ask, Json, Posed, Said, id_text
from tests.sim.page import TURN_ENDED, Happened, words_of
from tests.sim.toward_agent import TowardAgent
from tests.sim.toward_client import LOADS, TowardClient
from tests.sim.violation import must

if TYPE_CHECKING:
    from tests.sim.crowd import Crowd

ENDS = ("settled", "answered", "cancelled", "refused", "unknown")
_TEXT = re.compile(r"\bp(\d+)\b")


class Scribe(TowardClient):
    """The checks of what happens, whoever is there to see it."""

    world: Crowd

    # -- what the bridge reads --------------------------------------------------------------
    def client_fed(self, line: bytes, ask: Ask | None) -> None:
        """A line of one client: what it may cancel is its own, and what runs."""
        number = self.books.seat.number
        if ask is not None:
            self.open[str(ask.n)] = deque([ask])
            if ask.method == "session/close" and self.world.is_last(number, ask.sid):
                self._cancelled(ask.sid)
                self.closed.add(ask.sid)
            self.world.views[number].asked(ask)
            return
        frame = json.loads(line)
        params = frame.get("params", {})
        view = self.world.views[number]
        if view.observes or not view.is_ready:
            return
        for one in [row[0] for row in self.open.values()]:
            if frame.get("method") == "session/cancel" and one.sid == params["sessionId"]:
                one.cancelled = one.cancelled or one.client == number or one.written > 0
            is_named = id_text(json.loads(one.id)) == id_text(params.get("requestId"))
            is_own = is_named and one.client == number
            if frame.get("method") == "$/cancel_request" and is_own:
                one.cancelled = True
                self._turn_cancelled(one)

    def agent_fed(self, said: Said) -> None:
        """A line of the agent; what a load replays and what it asks are no events."""
        super().agent_fed(said)
        session = self.world.bridge.sessions.get(said.for_client)
        is_history = said.content and session is not None and session.loading > 0
        if is_history:
            agents, clients = (json.dumps(sid).encode() for sid in (said.sid, said.for_client))
            self.world.replayed.add(said.line.replace(agents, clients))
        if said.for_client and (is_history or said.what == "request"):
            row = self.unseen[said.for_client, False]
            if row and row[-1] is said:
                row.pop()

    def abandoned(self, sid: str) -> None:
        """Nobody has come back in time, and that ends what runs and what waits."""
        self._cancelled(sid)

    # -- what the log is told ---------------------------------------------------------------
    def happened(self, sid: str, seq: int, line: bytes, trace: str) -> None:
        """The log is given an event."""
        frame: Json = json.loads(line)
        page = self.world.page(sid)
        waiting = self.books.expected.get(line)
        said = waiting[0] if waiting else None
        of: set[int] = set()
        if said is not None:
            self.write(line)
        elif frame["method"] == TURN_ENDED:
            before = page.events.values()
            of = {one for event in before if event.trace == trace for one in event.of}
        elif frame["params"]["update"]["sessionUpdate"] == "user_message_chunk":
            of = self._author(sid, frame, page.events.get(seq - 1))
        else:
            self._own_update(frame)
        serial = said.serial if said is not None else 0
        page.add(seq, Happened(line, frame, trace, words_of(frame), frozenset(of), serial))
        self.world.touched.add(sid)

    def _author(self, sid: str, frame: Json, before: Happened | None) -> set[int]:
        """Whose message this is: it has a number in its first block."""
        found = _TEXT.search(frame["params"]["update"]["content"]["text"])
        if found is None:
            must(before is not None and bool(before.of), "I7", f"words of nobody in {sid}")
            assert before is not None
            return set(before.of)
        ask = self.books.asks[int(found[1])]
        must(ask.sid == sid and not ask.answer, "I6", f"the message {ask.n} is shown in {sid}")
        return {ask.client}

    def _is_loading(self, sid: str) -> bool:
        return any(row[0].sid == sid and row[0].method in LOADS for row in self.open.values())

    # -- the end ----------------------------------------------------------------------------
    def all_answered(self) -> None:
        """I1, I10: nothing is open of any client that is there."""
        for view in self.world.views.values():
            view.all_answered()


class TowardAgentOfMany(TowardAgent):
    """What differs toward the agent where clients are many."""

    world: Crowd

    def is_in_line(self, ask: Ask) -> bool:
        """A load waits for another one of its session, prompts do not wait for it."""
        return ask.method == "session/prompt"

    def is_behind(self, ask: Ask) -> bool:
        """Ids are the hub's own: none is used twice."""
        return False

    def may_say(self, posed: Posed, line: bytes, frame: Json) -> bool:
        """Where nobody is left the bridge says so."""
        is_nobody = frame.get("error", {}).get("code") == -32800
        return is_nobody or super().may_say(posed, line, frame)

    def persist(self, effect: Persist) -> None:
        """What a client is owed that has left is answered where the disk is told of its end."""
        super().persist(effect)
        ask = self.numbers.get(effect.prompt)
        if ask is not None and effect.state in ENDS and ask.client not in self.world.views:
            ask.answer = ask.answer or b'{"error":"nobody hears it"}'
            self.world.scribe.open.pop(str(ask.n), None)

    def write(self, line: bytes) -> None:
        """A load begins where the log stands now."""
        super().write(line)
        frame = json.loads(line)
        if frame.get("method") in LOADS:
            sid = str(frame["params"]["sessionId"])
            page = self.world.page(self.books.alias.get(sid, sid))
            page.load_seq = page.latest
