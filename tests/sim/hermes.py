"""Hermes: receipts, a queue inside the open request, the wedge, the poison, four turns at once.

0.19.0 as recorded (knowledge of its tapes); 0.20 and newer as read in its source: redirects,
turns that nobody asked for, a drain behind set_model, an unasked `cancelled`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from tests.sim.agent import Agent
from tests.sim.frames import SID, Json, Work, chunk
from tests.sim.turns import Chat, Record, Turn, plan
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

TURNS_MAX = 4
WEDGE: Json = {"details": "'NoneType' object has no attribute 'startswith'"}
COMMANDS = ("help", "compact", "version", "tools")
DEADLOCK_S = 0.0005
"""Two frames of a session closer than this count as one read."""


class Hermes19(Agent):
    """Hermes 0.19.0."""

    info: ClassVar[Json] = {"name": "hermes-agent", "version": "0.19.0"}
    redirects = False

    def __init__(self, world: World, run: int) -> None:
        super().__init__(world, run)
        self.live = 0
        """Turns that hold one of the four places."""
        self.starved: deque[Turn] = deque()

    # -- openings ---------------------------------------------------------------------------
    def opened(self, record: Record) -> Json:
        """A new session has models and says what it really is."""
        return {"sessionId": record.sid, **self._proof(record)}

    def loaded(self, record: Record) -> Any:
        """So does a loaded one."""
        return self._proof(record)

    def _proof(self, record: Record) -> Json:
        provenance = {
            "acpSessionId": SID,
            "currentHermesSessionId": record.tip,
            "rootHermesSessionId": record.root,
        }
        return {
            "models": {"availableModels": [], "currentModelId": "m"},
            "_meta": {"hermes": {"sessionProvenance": provenance}},
        }

    def nothing_found(self, id_: str, sid: str) -> None:
        """It succeeds in loading nothing."""
        self.reply(id_, {})

    def on_resume(self, id_: str, params: Json) -> None:
        """A resume replays; one of an unknown session opens another one."""
        self.on_load(id_, params, replays=True)

    def on_fork(self, id_: str, params: Json) -> None:
        """A fork of an unknown session has no name."""
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is None:
            self.reply(id_, {"sessionId": ""})
            return
        if self.books.is_own_id(id_) and not chat.wedged:
            # R24 takes a receipt behind an unanswered cancel for a wedge; here it is an unseen
            # turn, and what it holds in its queue runs twice. Found by this simulator; a fork,
            # unlike a restart, cannot help it.
            for work in chat.queue:
                work.excuse = "a living session was forked"
        super().on_fork(id_, params)

    def on_close(self, id_: str, params: Json) -> None:
        """It knows no close, says `{}` and goes on."""
        self.reply(id_, {})

    def on_set_mode(self, id_: str, params: Json) -> None:
        """Any session, any mode."""
        self.reply(id_, {})

    def on_set_config_option(self, id_: str, params: Json) -> None:
        """Any session, any option."""
        self.reply(id_, {})

    def after_opening(self, sid: str) -> None:
        """It says its usage, which is no end of anything."""
        self.later(0.05, lambda: self.meta(sid, "usage_update", used=1, size=2))
        super().after_opening(sid)

    def unknown_session(self, id_: str) -> None:
        """A refusal without a word."""
        self.reply(id_, {"stopReason": "refusal"})

    # -- prompts ----------------------------------------------------------------------------
    def on_prompt(self, id_: str, params: Json) -> None:
        """Run it, queue it with a receipt, or fail on what an earlier cancel has left behind."""
        text = "\n".join(block.get("text", "") for block in params["prompt"]).strip()
        work = self.books.received(text)
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is None:
            self.books.is_lost(str(params.get("sessionId")))
            self.unknown_session(id_)
            return
        if text.startswith("/") and text[1:].split(None, 1)[0] in COMMANDS:
            self.command(chat, id_, work)
            return
        self._no_deadlock(chat)
        if chat.running:
            self.met_a_turn(chat, id_, work)
        elif chat.poisoned:
            self.poisoned(chat, id_)
        else:
            self.begin(chat, id_, [work])

    def _no_deadlock(self, chat: Chat) -> None:
        """Two frames of a session in one read while a turn runs stop the process for ever."""
        now_s = self.world.clock.now_s
        if chat.turn is None:
            return
        if now_s - chat.read_s < DEADLOCK_S:
            raise Violation("R16", "Hermes deadlocks: two frames of a session in one read")
        chat.read_s = now_s

    def command(self, chat: Chat, id_: str, work: Work) -> None:
        """A slash command is answered at once, without usage, whatever runs."""
        self.books.runs(work, chat.record)
        self.word(chat.sid)
        self.books.ended([work])
        self.reply(id_, {"stopReason": "end_turn"})

    def met_a_turn(self, chat: Chat, id_: str, work: Work) -> None:
        """Keep it for later, and answer at once."""
        chat.queue.append(work)
        self.receipt(chat, id_, f"Queued for the next turn. ({len(chat.queue)} queued)")

    def receipt(self, chat: Chat, id_: str, text: str) -> None:
        """A chunk and a bare answer; a chunk of the turn may slip in between."""
        if self.mix.has("unlisted") and self.chance.random() < 0.5:
            # A sentence that no profile has: the bridge can only doubt it (R12).
            self.books.newest_received.excuse = "a receipt that no profile lists"
            self.say(chunk(f"Noted, number {self.books.next_serial()}."), chat.sid)
            self.reply(id_, {"stopReason": "end_turn"})
            chat.read_s = -1.0
            return
        self.say(chunk(text), chat.sid, "receipt")
        if chat.turn is not None and chat.turn.worked and self.chance.random() < 0.1:
            self.word(chat.sid)
        self.books.bound(id_)
        self.reply(id_, {"stopReason": "end_turn"})
        chat.read_s = -1.0

    def poisoned(self, chat: Chat, id_: str) -> None:
        """A cancel while idle: the next prompt fails, and all after it are never run."""
        chat.poisoned = False
        chat.running = chat.wedged = True
        self.fail(id_, -32603, "Internal error", WEDGE)

    def by_itself(self, sid: str) -> None:
        """0.19 has no background work; another surface on the same session looks like it."""
        chat = self.chats.get(sid)
        if chat is None or chat.running:
            return
        if chat.poisoned:
            # What an idle cancel has left behind hits the next turn, whoever begins it.
            chat.poisoned = False
            return
        super().by_itself(sid)

    # -- turns ------------------------------------------------------------------------------
    def begin(self, chat: Chat, owner: str, works: list[Work], *, owned: bool = True) -> None:
        """Begin a turn, or wait silently for one of the four places."""
        turn = Turn(chat.sid, owner, works, plan(self.chance, self.mix, owned=owned))
        if self.mix.traits["messages"] and self.redirects:
            turn.message = f"m{self.books.next_serial()}"
        chat.turn = turn
        chat.running = True
        turn.asked_s = self.world.clock.now_s
        if self.live >= TURNS_MAX:
            self.starved.append(turn)
        else:
            self._live(turn)

    def _live(self, turn: Turn) -> None:
        self.live += 1
        turn.begun = True
        for work in turn.works:
            self.books.runs(work, self.chats[turn.sid].record)
        self.go_on(turn)

    def segment_over(self, turn: Turn) -> None:
        """What was queued meanwhile runs now, behind its echo, inside the same turn."""
        chat = self.chats[turn.sid]
        if turn.over:
            return
        if not self.mix.has("open_tools"):
            self._close(turn)
        turn.tool = ""
        self.books.ended(turn.works)
        if not chat.queue:
            self.finish(turn)
            return
        work = chat.queue.pop(0)
        turn.segments += 1
        turn.works = [work]
        turn.plan = plan(self.chance, self.mix, owned=False)
        self.say(chunk(work.text, "user_message_chunk", echo=self.books.next_serial()), turn.sid)
        self.books.runs(work, chat.record)
        self.go_on(turn)

    def finish(self, turn: Turn) -> None:
        """A usage update for each segment, then the one answer."""
        chat = self.chats[turn.sid]
        if turn.first_cancelled:
            turn.stop = "cancelled"
        if self.mix.has("rotates") and turn.owner and self.chance.random() < 0.3:
            self.rotate(chat)
        if turn.owner or self.mix.traits["marks"]:
            for _ in range(turn.segments):
                self.meta(turn.sid, "usage_update", used=1, size=2)
        self.books.ended(turn.works)
        if turn.owner:
            self.answer(turn)
        chat.running = False
        self.end(chat, turn)
        self._free()
        self.afterwards(chat, turn)

    def _free(self) -> None:
        self.live -= 1
        while self.starved and self.live < TURNS_MAX:
            turn = self.starved.popleft()
            if not turn.over:
                self._live(turn)

    def rotate(self, chat: Chat) -> None:
        """The conversation goes on under a new id on the disk; the process keeps the old one."""
        record = chat.record
        tip = self.books.rotated(record)
        proof = self._proof(record)["_meta"]
        proof["hermes"]["sessionProvenance"]["currentHermesSessionId"] = tip
        proof["sim/n"] = self.books.next_serial()
        record.told = self.meta(chat.sid, "session_info_update", _meta=proof)

    # -- cancel -----------------------------------------------------------------------------
    def on_cancel(self, id_: str, params: Json) -> None:
        """Stop, wedge or poison, by what the session is doing."""
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is None or chat.wedged:
            return
        self._no_deadlock(chat)
        turn = chat.turn
        if turn is None:
            chat.poisoned = True
        elif not turn.doomed:
            self.cancel(chat, turn)

    def cancel(self, chat: Chat, turn: Turn) -> None:
        """During a tool or a question the session breaks; else the segment stops."""
        turn.doomed = True
        too_soon = self.world.clock.now_s - turn.asked_s < DEADLOCK_S and not turn.worked
        in_trouble = bool(turn.tool or turn.posed is not None or too_soon)
        if in_trouble and self.mix.traits["wedges"]:
            self.later(self.chance.random() * 2.0, lambda: self.wedge(chat, turn))
        else:
            wait_s = 0.02 + self.chance.random() * 0.13
            self.later(wait_s, lambda: self.stopped(chat, turn))

    def wedge(self, chat: Chat, turn: Turn) -> None:
        """The turn fails in its own clean-up and the session never runs anything again."""
        if turn.over:
            return
        if self.asks_still(turn, lambda: self.wedge(chat, turn)):
            return
        turn.over = True
        self.books.ended(turn.works)
        for work in chat.queue:
            work.killed = True
        chat.turn = None
        chat.wedged = True
        if turn.owner:
            self.fail(turn.owner, -32603, "Internal error", WEDGE)
        self._free()

    def stopped(self, chat: Chat, turn: Turn) -> None:
        """The running segment stops; what is queued still runs."""
        if turn.over:
            return
        if self.asks_still(turn, lambda: self.stopped(chat, turn)):
            return
        turn.first_cancelled = turn.first_cancelled or turn.segments == 1
        turn.doomed = False
        turn.plan.clear()
        if turn.entry is not None:
            turn.entry.call_off()
        if not turn.begun:
            self.starved.remove(turn)
            self._live(turn)
            turn.plan.clear()
            if turn.entry is not None:
                turn.entry.call_off()
        self.segment_over(turn)


class Hermes20(Hermes19):
    """Hermes 0.20 and newer, as read."""

    redirects = True

    def met_a_turn(self, chat: Chat, id_: str, work: Work) -> None:
        """Put it into the running turn where that is possible, else keep it."""
        turn = chat.turn
        can = turn is not None and turn.begun and not turn.doomed and turn.posed is None
        if not can or chat.wedged or self.chance.random() < 0.25:
            super().met_a_turn(chat, id_, work)
            return
        assert turn is not None
        self.books.runs(work, chat.record)
        turn.works.append(work)
        if self.chance.random() < 0.8:
            for _ in range(self.chance.randint(1, 3)):
                turn.plan.append((self.chance.random() * 0.5, "chunk"))
        self.receipt(chat, id_, "Redirected the active turn with your correction.")

    def poisoned(self, chat: Chat, id_: str) -> None:
        """As 0.19, or an unasked `cancelled`, or nothing, by the build."""
        how = self.mix.traits["poison"]
        if how == "error":
            super().poisoned(chat, id_)
            return
        chat.poisoned = False
        if how == "cancelled":
            self.reply(id_, {"stopReason": "cancelled", "usage": {"totalTokens": 0}})
        else:
            self.begin(chat, id_, [self.books.newest_received])

    def by_itself(self, sid: str) -> None:
        """Background work, or another surface: with a message of its own in front, or silent."""
        chat = self.chats.get(sid)
        if chat is None or chat.running or self.kind:
            return
        super().by_itself(sid)
        if self.chats[sid].running and self.mix.traits["echoes"]:
            words = f"somebody else says {self.books.next_serial()}"
            self.say(chunk(words, "user_message_chunk"), sid)

    def on_set_model(self, id_: str, params: Json) -> None:
        """What is left in the queue is drained behind the answer, as a turn of its own."""
        self.reply(id_, {})
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is None or chat.running or not chat.queue:
            return
        work = chat.queue.pop(0)
        self.say(chunk(work.text, "user_message_chunk", echo=self.books.next_serial()), chat.sid)
        self.begin(chat, "", [work], owned=False)
