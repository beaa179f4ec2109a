"""What the bridge may write to the agent: in order, unchanged, once, and never too early or late.

I3 (nothing that ran is written again), I4 (one prompt at a session), I5 (order), I7 (bytes), I8
(durable first), and the rules that keep an agent from harm: R16, R22, R23.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from acpbridge.core.effects import Persist
from acpbridge.store.journal import IllegalTransition
from tests.sim.frames import Ask, Json, Posed, filled, id_text
from tests.sim.ledger import OWN, Ledger
from tests.sim.violation import Violation, must
from tests.store.journal.rows import Edges

if TYPE_CHECKING:
    from tests.sim.world import World

IN_LINE = ("session/prompt", "session/load", "session/resume")
"""What waits in a session's one queue."""
AT_ONCE = ("session/close", "session/delete")
"""What goes through at once, whatever waits (R20)."""
STEERING = "_session/steering"
GAP_S = 0.0199
CANCELLED_OUTCOMES: dict[str, Json] = {
    "session/request_permission": {"outcome": {"outcome": "cancelled"}},
    "elicitation/create": {"action": "cancel"},
}


class TowardAgent:
    """The checks of one world in this direction."""

    def __init__(self, world: World, books: Ledger) -> None:
        self.world = world
        self.books = books
        self.numbers: dict[int, Ask] = {}
        """Prompts by the bridge's number."""
        self.edges = Edges()
        self.tokens: dict[int, Ask] = {}
        self.last_in_line: dict[str, int] = {}
        """The place of the newest prompt, load or resume that was written, by session."""
        self.last_steered: dict[str, int] = {}
        """The place of the newest prompt that was written as a steer, by session."""
        self.last_passed: dict[str, int] = {}
        """The same for everything that passes at once."""
        self.last_written_s: dict[str, float] = {}
        self.last_cancel_s: dict[str, float] = {}
        self.cancelled_in: dict[str, int] = {}
        """The prompt in whose turn the last cancel was written, by session."""
        self.has_left = False
        """The bridge knows that the process takes nothing any more."""
        self.closing = ""
        """Why the end was asked for."""

    # -- lines ------------------------------------------------------------------------------
    def write(self, line: bytes) -> None:
        """The bridge writes a line to the agent."""
        frame: Json = json.loads(line)
        method = frame.get("method")
        if method is None:
            self._answer(line, frame)
            return
        must(not self.has_left or method not in IN_LINE, "R22", f"{method} for one that has left")
        params = frame.get("params") or {}
        id_ = id_text(frame["id"]) if "id" in frame else ""
        self._gap(str(method), params)
        if id_.startswith(OWN) and not self._stands_for_a_clients(frame):
            must(not self.closing, "R23", f"{method} after the end was asked for")
            self.books.own_asks[id_] = frame
        elif method == "session/cancel":
            self._cancel(str(params["sessionId"]))
        elif id_:
            self._request(line, id_, params, str(method))
        elif method == "$/cancel_request":
            meant = self.books.at_agent.get(id_text(params.get("requestId")))
            if meant is not None:
                meant.cancel_written = True
        else:
            self._passed(params.get("_meta", {}).get("sim/n", 0), params)

    def _stands_for_a_clients(self, frame: Json) -> bool:
        """Whether an id of the bridge's is a client's request under a private id (R26)."""
        n = (frame.get("params") or {}).get("_meta", {}).get("sim/n")
        ask = self.books.asks.get(n) if n is not None else None
        if ask is None or ask.answer:
            return False
        if frame.get("method") == STEERING and ask.method == "session/prompt":
            return not ask.steered
        if ask.method != frame.get("method"):
            return False
        return not ask.written or ask.method == "session/prompt"

    def _request(self, line: bytes, id_: str, params: Json, method: str) -> None:
        ask = self.books.asks.get(params.get("_meta", {}).get("sim/n"))
        assert ask is not None, f"a request that nobody wrote: {line!r}"
        must(not ask.answer, "I1", "a request is written that was answered before")
        must(id_ not in self.books.at_agent, "R26", f"the id {id_} is open at the agent")
        sid = str(params.get("sessionId", ""))
        if sid:
            must(self.books.alias.get(sid, sid) == ask.sid, "I6", "it is for another session")
        if method == STEERING and ask.method == "session/prompt":
            self._steer(ask, line, params)
            self.books.at_agent[id_] = ask
            return
        expected = filled(ask.template, id_.encode(), sid)
        # R3: the words of a /queue or /steer go without it, so such a line differs.
        is_plain = params.get("prompt") == json.loads(expected)["params"].get("prompt")
        must(line == expected or not is_plain, "I7", f"a request is changed: {line!r}")
        if ask.method == "session/prompt":
            self._prompt(ask)
        elif ask.method not in (*IN_LINE, *AT_ONCE, STEERING):
            self._passed(ask.n, params)
        if self.is_in_line(ask) and sid:
            place = self.books.places[ask.n]
            newest = self.last_in_line.get(ask.sid, 0)
            redirects = self.world.mix.traits["redirects"]
            if redirects and ask.written:
                # Both prompts of a turn were taken back; the older one goes again first.
                newest = 0
            elif not ask.written:
                # An owner that was refused as busy goes again, whatever was steered behind it.
                newest = max(newest, self.last_steered.get(ask.sid, 0))
            must(place >= newest, "I5", f"request {ask.n} is written too late")
            self.last_in_line[ask.sid] = place
        ask.written += 1
        self.books.at_agent[id_] = ask

    def is_in_line(self, ask: Ask) -> bool:
        """Whether it keeps its place among what waits in its session."""
        return ask.method in IN_LINE

    def _prompt(self, ask: Ask) -> None:
        must(ask.durable, "I8", "a prompt is written before the disk has its intent")
        ask.durable = False
        must(not self.closing, "R23", "a prompt is written after the end was asked for")
        work = self.books.works.get(ask.n)
        must(work is None or not work.ran, "I3", f"prompt {ask.n} ran and is written again")
        others = [
            one.n
            for one in self.books.asks.values()
            if one.sid == ask.sid and one is not ask and self.has(one)
        ]
        must(not others or self._may_redirect(ask), "I4", f"prompt {ask.n} beside {others}")
        ask.at_agent = True
        ask.bound = ask.cancel_written = False

    def _may_redirect(self, ask: Ask) -> bool:
        """I4: profile and policy both ask for it, and a prompt is open in the turn."""
        wish = json.loads(ask.template)["params"]["_meta"].get("acpbridge", {}).get("midturn")
        is_wanted = (wish or "steer") in ("steer", "whatever")
        asks = self.books.asks.values()
        owned = any(one.sid == ask.sid and one.at_agent and not one.answer for one in asks)
        return bool(self.world.mix.traits["redirects"]) and is_wanted and owned

    def _steer(self, ask: Ask, line: bytes, params: Json) -> None:
        """R14: durable, once, alone, in order, into a turn that runs and was not cancelled."""
        n, sid, books = ask.n, ask.sid, self.books
        must(ask.durable, "I8", f"steer {n} is written before the disk has its intent")
        ask.durable = False
        must(not self.closing, "R23", "a steer is written after the end was asked for")
        must(not self.has_left, "R22", "a steer for one that has left")
        must(not ask.steered and not ask.written, "I3", f"prompt {n} is steered a second time")
        others = [one for one in books.asks.values() if one.sid == sid and one is not ask]
        owners = [one for one in others if one.at_agent and not one.answer]
        must(bool(owners), "R14", f"steer {n} where no prompt is open")
        must(
            not any(one.cancel_written for one in owners), "R16", f"steer {n} into a cancelled turn"
        )
        must(not any(one.steer_open for one in others), "R14", f"steer {n} beside another")
        newest = max(self.last_in_line.get(sid, 0), self.last_steered.get(sid, 0))
        place = books.places[n]
        must(place >= newest, "I5", f"steer {n} is written too late")
        self.last_steered[sid] = place
        asked = json.loads(filled(ask.template, b"0"))["params"]
        must(params["prompt"] == asked["prompt"], "I7", f"the blocks of steer {n} are changed")
        texts = [asked["prompt"][0]["text"].strip()]
        texts += [json.loads(one.template)["params"]["prompt"][0]["text"] for one in owners]
        commands = [text for text in texts if text.lstrip().startswith("/")]
        must(not commands, "R3", f"steer {n} and a command: {commands}")
        self._may_be_steered(n, params, asked)
        ask.steered = ask.steer_open = True
        ask.written += 1

    def _may_be_steered(self, n: int, params: Json, asked: Json) -> None:
        """R1, R2: advertised, not listed as unsafe, wished for."""
        mix = self.world.mix
        kind = mix.traits["steers"]
        must(kind in ("safe", "old"), "R1", f"steer {n} for an agent that advertises none")
        must((mix.agent, kind) != ("claude", "old"), "R1", f"steer {n} for an unsafe build")
        wish = asked["_meta"].get("acpbridge", {}).get("midturn")
        policy = wish if wish in ("auto", "steer", "queue", "reject") else mix.policy["midturn"]
        must(policy in ("auto", "steer"), "R2", f"steer {n} under {policy}")
        opt_in = params["_meta"].get("steering", {}).get("idleBehavior")
        knows = (mix.agent, kind) != ("codex", "old")
        must(opt_in == ("promptRequired" if knows else None), "R14", f"the opt-in of steer {n}")

    def has(self, ask: Ask) -> bool:
        """Whether the agent has this prompt: open, or under a receipt."""
        if ask.answer or not ask.written or ask.method != "session/prompt":
            return False
        work = self.books.works.get(ask.n)
        if not ask.at_agent and self.is_behind(ask):
            return False
        if ask.steer_open or ask.joined:
            return ask.steer_open or (work is not None and not work.ended)
        return ask.at_agent or (ask.bound and work is not None and not work.ended)

    def is_behind(self, ask: Ask) -> bool:
        """R26: an answer that the bridge has given may wait for an older request of its id."""
        row = self.world.toward_client.open.get(id_text(json.loads(ask.id)), ())
        return next(iter(row), ask) is not ask

    def _passed(self, n: int, params: Json) -> None:
        sid = str(params.get("sessionId", ""))
        sid = self.books.alias.get(sid, sid)
        newest, place = self.last_passed.get(sid, 0), self.books.places.get(n, 0)
        must(place > newest, "I5", f"frame {n} of the client is written too late")
        self.last_passed[sid] = place
        self.books.notes.discard(n)

    def _answer(self, line: bytes, frame: Json) -> None:
        """An answer to a request of the agent: the client's, or one for a cancelled turn."""
        posed = self.books.open_posed.get(id_text(frame["id"]))
        assert posed is not None, f"an answer to a request that is not open: {line!r}"
        posed.answers += 1
        must(posed.answers == 1, "I1", "a request of the agent is answered twice")
        must(self.may_say(posed, line, frame), "I7", f"an answer that nobody gave: {line!r}")

    def may_say(self, posed: Posed, line: bytes, frame: Json) -> bool:
        if line in posed.client_lines:
            return True
        if frame.get("result") == CANCELLED_OUTCOMES.get(posed.method, "none"):
            return True
        return bool(self.closing) and frame.get("error", {}).get("code") == -32800

    # -- what harms an agent ----------------------------------------------------------------
    def _gap(self, method: str, params: Json) -> None:
        """R16: no other frame of a Hermes session close to its cancel."""
        sid = str(params.get("sessionId", ""))
        if not sid or self.world.bridge.agent.name != "hermes":
            return
        now_s = self.world.clock.now_s
        if method == "session/cancel":
            since_s = now_s - self.last_written_s.get(sid, -1e9)
            self.last_cancel_s[sid] = now_s
        else:
            since_s = now_s - self.last_cancel_s.get(sid, -1e9)
        must(since_s >= GAP_S, "R16", f"{method} of {sid} {since_s:.4f} s from a cancel")
        self.last_written_s[sid] = now_s

    def _cancel(self, agent_sid: str) -> None:
        """R16: one cancel a turn, and none without a turn, where nobody else works in there."""
        sid = self.books.alias.get(agent_sid, agent_sid)
        for ask in self.books.asks.values():
            if ask.sid == sid and ask.at_agent:
                ask.cancel_written = True
        counters = self.world.bridge.counters
        believes = counters.get("ownerless_turn") or counters.get("doubted_answer_was_receipt")
        if believes or sid in self.books.ownerless or sid in self.books.receipts:
            return
        asks = self.books.asks.values()
        at_agent = [one.n for one in asks if one.sid == sid and one.at_agent and not one.answer]
        must(bool(at_agent), "R16", f"a cancel while nothing runs in {sid}")
        must(self.cancelled_in.get(sid) != at_agent[0], "R16", f"two cancels in {at_agent[0]}")
        self.cancelled_in[sid] = at_agent[0]

    # -- the disk ---------------------------------------------------------------------------
    def persist(self, effect: Persist) -> None:
        """The bridge asks for a transition to be made durable."""
        try:
            self.edges.see([effect])
        except IllegalTransition as fault:
            raise Violation("I8", f"the journal would refuse it: {fault}") from fault
        if effect.state == "accepted" and effect.line:
            n = json.loads(effect.line)["params"]["_meta"]["sim/n"]
            self.numbers[effect.prompt] = self.books.asks[n]
        if effect.token:
            ask = self.numbers[effect.prompt]
            ask.durable = False
            self.tokens[effect.token] = ask
            ask.token = effect.token

    def persisted(self, token: int) -> None:
        """The disk has it."""
        ask = self.tokens.pop(token)
        ask.durable = ask.token == token

    def refused_by_disk(self, token: int) -> None:
        """The disk has refused it."""
        self.tokens.pop(token).denied = True

    # -- life -------------------------------------------------------------------------------
    def new_process(self) -> None:
        """A process begins: nothing was written to it."""
        self.has_left = False
        self.last_written_s.clear()
        self.last_cancel_s.clear()

    def agent_starts(self) -> None:
        """The bridge starts an agent."""
        must(not self.closing, "R23", "an agent is started after the end was asked for")
