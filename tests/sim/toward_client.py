"""What the bridge may write to the client: what the agent said, in order, and few words of its own.

I1 (one answer to each request), I6 (nothing lost, nothing overtakes), I7 (bytes). What a response
may say is judged in `verdicts.py`.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from tests.sim import verdicts
from tests.sim.frames import Ask, Json, Posed, Said, filled, id_text
from tests.sim.ledger import Ledger
from tests.sim.violation import Violation, must

if TYPE_CHECKING:
    from tests.sim.world import World

ENDINGS = ("session/close", "session/delete")
LOADS = ("session/load", "session/resume")
FROM_AGENT = ("session/request_permission", "elicitation/create", "fs/read_text_file")


def _is_in_turn(ask: Ask) -> bool:
    """Also one whose answer the bridge holds, because it does not believe it yet."""
    return ask.written > 0


class TowardClient:
    """The checks of one world in this direction."""

    def __init__(self, world: World, books: Ledger) -> None:
        self.world = world
        self.books = books
        self.codeg = world.mix.client == "codeg"
        self.open: dict[str, deque[Ask]] = {}
        """The client's open requests by the JSON text of their id, oldest first."""
        self.unseen: dict[tuple[str, bool], deque[Said]] = {}
        """What the client has still to see of a session, in the agent's order; for Codeg, which
        sees late content later, in two rows: content and the rest."""
        self.skipped: set[int] = set()
        """Frames that were overtaken: they must never come."""
        self.by_serial: dict[int, Said] = {}
        self.closed: set[str] = set()
        """Sessions that the client has closed; what was kept of them is forgotten."""
        self.last_update_s: dict[str, float] = {}
        self.notices = 0
        self.tags: dict[str, int] = {}
        """Kinds of answers to prompts, counted."""

    # -- what the bridge reads --------------------------------------------------------------
    def client_fed(self, line: bytes, ask: Ask | None) -> None:
        """The bridge reads a line of the client."""
        if ask is not None:
            self.open.setdefault(id_text(json.loads(ask.id)), deque()).append(ask)
            if ask.method in ENDINGS:
                self._cancelled(ask.sid)
                self.closed.add(ask.sid)
            return
        frame = json.loads(line)
        params = frame.get("params", {})
        if frame.get("method") == "session/cancel":
            self._cancelled(params["sessionId"])
        elif frame.get("method") == "$/cancel_request":
            for one in self.open.get(id_text(params.get("requestId")), ()):
                one.cancelled = True
                self._turn_cancelled(one)

    def _turn_cancelled(self, ask: Ask) -> None:
        """R20: where one prompt cannot be taken out of its turn, the turn is cancelled."""
        if not _is_in_turn(ask):
            return
        for one in self.open_of(ask.sid):
            one.cancelled = one.cancelled or _is_in_turn(one)

    def _cancelled(self, sid: str) -> None:
        for queue in self.open.values():
            for ask in queue:
                ask.cancelled = ask.cancelled or ask.sid == sid

    def agent_fed(self, said: Said) -> None:
        """The bridge reads a line of the agent."""
        self.by_serial[said.serial] = said
        if said.ask is not None:
            said.ask.at_agent = False
            said.ask.replied_s = self.world.clock.now_s
        if said.steer is not None:
            said.steer.steer_open = False
            said.steer.joined = said.outcome in ("injected", "startedNewTurn")
            if said.steer.joined and not any(ask.at_agent for ask in self.open_of(said.steer.sid)):
                # As good as a receipt: a turn has it of which no response will tell (R16).
                self.books.receipts.add(said.steer.sid)
        if said.for_client and said.what not in ("noise", "response", "second", "withdrawal"):
            key = (said.for_client, self.codeg and said.content)
            self.unseen.setdefault(key, deque()).append(said)

    # -- lines ------------------------------------------------------------------------------
    def write(self, line: bytes) -> None:
        """The bridge writes a line to the client."""
        waiting = self.books.expected.get(line)
        while waiting and len(waiting) > 1 and waiting[1].fed and waiting[0].serial in self.skipped:
            # A receipt text that was dropped; receipts are equal to the byte.
            waiting.popleft()
        if waiting:
            must(waiting[0].fed, "I6", "a frame is shown before the agent wrote it")
            self._shown(waiting.popleft())
            return
        frame: Json = json.loads(line)
        if "method" not in frame:
            verdicts.response(self, line, frame)
        elif frame["method"] == "session/update":
            self._own_update(frame)
        elif frame["method"] == "$/cancel_request":
            self._withdrawal(frame)
        elif frame["method"] in FROM_AGENT:
            self._request(line, frame)
        else:
            raise Violation("I7", f"nobody wrote this: {line.decode(errors='replace')[:300]}")

    def _shown(self, said: Said) -> None:
        must(said.shown == 0, "I6", f"frame {said.serial} is shown twice")
        must(said.what != "own_replay" or not said.content, "R23", "hidden history is shown")
        must(said.serial not in self.skipped, "I6", f"frame {said.serial} comes out of order")
        said.shown += 1
        sid = said.for_client
        unseen = self.unseen.get((sid, self.codeg and said.content))
        if self.codeg and said.content and unseen and self._is_loading(sid):
            # Late content for Codeg waits for its next prompt, a load in between or not.
            unseen.remove(said)
            unseen = None
        while unseen:
            first = unseen.popleft()
            if first is said:
                break
            self._pass_over(first, f"frame {said.serial}")
        if said.what != "request":
            self.last_update_s[sid] = self.world.clock.now_s
        if said.output:
            for ask in self.open_of(sid):
                ask.saw_output = True
        if self.codeg and said.content and said.what == "live":
            evicted = self.world.bridge.counters.get("session_forgotten")
            may = self.open_of(sid) or self._is_loading(sid) or evicted or sid in self.closed
            must(bool(may), "codeg", "content while no prompt is open")

    def _pass_over(self, said: Said, by: str) -> None:
        """A frame is overtaken: only one that may be withheld, and then for good."""
        by_bridge = said.posed is not None and said.posed.answers
        if said.what != "receipt" and not by_bridge:
            must(said.content, "I6", f"{by} overtakes frame {said.serial} ({said.what})")
        self.skipped.add(said.serial)

    def all_seen(self, sid: str, serial: int, what: str, *, by_prompt: bool) -> None:
        """I6: what the agent sent before a response is written before it.

        Late content for Codeg waits for its next prompt, whatever else is answered.
        """
        for content in (False, True) if by_prompt or not self.codeg else (False,):
            unseen = self.unseen.get((sid, content))
            while unseen and unseen[0].serial < serial:
                self._pass_over(unseen.popleft(), what)

    def open_of(self, sid: str) -> list[Ask]:
        """The client's open prompts of a session."""
        return [
            ask
            for queue in self.open.values()
            for ask in queue
            if ask.sid == sid and ask.method == "session/prompt"
        ]

    def _is_loading(self, sid: str) -> bool:
        return any(
            ask.sid == sid and ask.method in LOADS for queue in self.open.values() for ask in queue
        )

    def _own_update(self, frame: Json) -> None:
        update, sid = frame["params"]["update"], frame["params"]["sessionId"]
        own = update.get("_meta", {}).get("acpbridge", {}).get("notice")
        must(own is True, "I7", f"an update that nobody wrote: {json.dumps(frame)[:300]}")
        must(bool(self.open_of(sid)), "I10", "a notice where no prompt is open")
        self.notices += 1
        self.last_update_s[sid] = self.world.clock.now_s
        for ask in self.open_of(sid):
            ask.saw_output = ask.noticed = True

    def _withdrawal(self, frame: Json) -> None:
        shown = id_text(frame["params"]["requestId"]).encode()
        must(not self.codeg, "codeg", "a withdrawal that Codeg does not know")
        # One that the bridge has answered itself was never shown; the agent may take it back.
        posed = [
            one
            for one in self.books.posed.values()
            if one.shown_id == shown or (one.withdrawn and one.agent_id == shown)
        ]
        must(bool(posed), "R17", "a withdrawal of a request that was never shown")

    def _request(self, line: bytes, frame: Json) -> None:
        posed = self.books.posed[frame["params"]["_meta"]["sim/n"]]
        said = posed.said
        assert said is not None
        must(said.fed, "I6", "a request is shown before the agent wrote it")
        posed.shown_id = id_text(frame["id"]).encode()
        expected = filled(posed.template, posed.shown_id, posed.sid)
        is_same = line == expected or posed.sid in self.closed
        must(is_same, "I7", f"a request of the agent is changed: {line!r}")
        must(posed.run > 1 or posed.shown_id == posed.agent_id, "I7", "an id is changed")
        self._shown(said)

    # -- what is open -----------------------------------------------------------------------
    def all_answered(self) -> None:
        """I1 and I10: nothing is open, of a client that writes no more as well: it may read."""
        still = [(one.n, one.method) for queue in self.open.values() for one in queue]
        must(not still, "I10", f"never answered: {still}")

    def waits_visibly(self) -> list[str]:
        """Sessions with a prompt under a receipt behind which nothing more came (R10).

        Where receipts are not all in a profile, the bridge may have missed a wedge as well; and
        one that a close has brought it has forgotten, when the session is loaded again.
        """
        lies = self.world.mix.has("unlisted")
        bound = [
            ask
            for queue in self.open.values()
            for ask in queue
            if ask.bound and (lies or ask.sid in self.closed or self.books.works[ask.n].ended)
        ]
        if self.world.mix.policy["wait_notice"]:
            silent = [ask.n for ask in bound if not ask.noticed]
            must(not silent, "I10", f"prompts {silent} wait and nobody says why")
        return sorted({ask.sid for ask in bound})

    def asker(self, shown_id: bytes) -> Posed | None:
        """The newest request of an agent that the client saw under this id."""
        found = [one for one in self.books.posed.values() if one.shown_id == shown_id]
        return found[-1] if found else None

    def tag(self, name: str) -> None:
        """Count a kind of answer to a prompt."""
        self.tags[name] = self.tags.get(name, 0) + 1
