"""The honest base of all agents: first come, first served, each prompt with its own answer."""

from __future__ import annotations

import json
from typing import Any

from tests.sim import steers
from tests.sim.frames import REQUEST, SID, Json, Work, chunk
from tests.sim.process import Process
from tests.sim.turns import Chat, Turn, plan

NOISE = (b"Traceback (most recent call last):", b'{"level":"info","id":3}', b"\xff\xfe", b"[1]")
ODD_STOPS = ("max_tokens", "max_turn_requests", "refusal")


class Agent(Process):
    """An honest agent with every fault that the mix asks for."""

    # -- steers -----------------------------------------------------------------------------
    def who(self) -> Json:
        """An old build says so."""
        return steers.info(self)

    def says_of_itself(self) -> Json:
        """Whether it can be steered."""
        return steers.advert(self)

    def on_steering(self, id_: str, params: Json) -> None:
        """A text for the running turn."""
        steers.take(self, id_, params)

    # -- prompts ----------------------------------------------------------------------------
    def on_prompt(self, id_: str, params: Json) -> None:
        """A prompt: run it, or do what this agent does while it is busy."""
        text = "\n".join(block.get("text", "") for block in params["prompt"]).strip()
        work = self.books.received(text)
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is None or chat.closed:
            self.books.is_lost(str(params.get("sessionId")))
            self.unknown_session(id_)
        elif chat.turn is not None:
            self.met_a_turn(chat, id_, work)
        else:
            self.begin(chat, id_, [work])

    def unknown_session(self, id_: str) -> None:
        """A prompt for a session that this process does not have."""
        self.fail(id_, -32002, "no such session")

    def met_a_turn(self, chat: Chat, id_: str, work: Work) -> None:
        """Serialise honestly: it waits for its own turn."""
        chat.waiting.append((id_, work))

    def by_itself(self, sid: str) -> None:
        """Begin to work without a prompt, if nothing runs."""
        chat = self.chats.get(sid)
        if chat is None or chat.turn is not None or chat.closed or self.kind:
            return
        self.books.ownerless.add(self.books.alias.get(sid, sid))
        chat.record.texts.append("a notification")
        self.begin(chat, "", [], owned=False)

    def begin(self, chat: Chat, owner: str, works: list[Work], *, owned: bool = True) -> None:
        """Begin a turn."""
        turn = Turn(chat.sid, owner, works, plan(self.chance, self.mix, owned=owned))
        chat.turn = turn
        if self.mix.traits["messages"]:
            turn.message = f"m{self.books.next_serial()}"
        for work in works:
            self.books.runs(work, chat.record)
        self.go_on(turn)

    # -- a turn goes on ---------------------------------------------------------------------
    def go_on(self, turn: Turn) -> None:
        """Plan the next step, or the end."""
        if turn.over:
            return
        if turn.plan:
            wait_s, what = turn.plan.popleft()
            if self.kind:
                wait_s = min(wait_s, 1.0)
            turn.entry = self.later(wait_s, lambda: self.play(turn, what))
        else:
            wait_s = 0.0 if self.mix.traits["quick"] else self.chance.random() * 0.05
            turn.entry = self.later(wait_s, lambda: self.segment_over(turn))

    def play(self, turn: Turn, what: str) -> None:
        """Take one step."""
        if turn.over:
            return
        if what == "ask":
            self.ask(turn)
            return
        getattr(self, f"_{what}")(turn)
        if what != "keepalive":
            turn.worked = True
        self.go_on(turn)

    def _chunk(self, turn: Turn) -> None:
        self.word(turn.sid)

    def _thought(self, turn: Turn) -> None:
        self.word(turn.sid, "agent_thought_chunk")

    def _burst(self, turn: Turn) -> None:
        for _ in range(self.chance.randint(5, 30)):
            self.word(turn.sid)

    def _open(self, turn: Turn) -> None:
        self._close(turn)
        self.calls += 1
        turn.tool = f"t{self.run}-{self.calls}"
        kind = self.chance.choice(("execute", "read", "edit", "other"))
        self.meta(turn.sid, "tool_call", toolCallId=turn.tool, title="t", kind=kind)

    def _touch(self, turn: Turn) -> None:
        if turn.tool:
            self._tool(turn, "in_progress")

    def _close(self, turn: Turn) -> None:
        if turn.tool:
            self._tool(turn, "completed")
            turn.tool = ""

    def _tool(self, turn: Turn, status: str) -> None:
        self.meta(turn.sid, "tool_call_update", toolCallId=turn.tool, status=status)

    def _slow_tool(self, turn: Turn) -> None:
        self._open(turn)
        turn.plan.appendleft((self.chance.choice((3.0, 30.0, 200.0)), "close"))

    def _plan(self, turn: Turn) -> None:
        self.meta(turn.sid, "plan", entries=[])

    def _keepalive(self, turn: Turn) -> None:
        self.say(chunk("", keepalive=self.books.next_serial()), turn.sid)

    def _usage(self, turn: Turn) -> None:
        self.meta(turn.sid, "usage_update", used=1, size=2)

    def _noise(self, turn: Turn) -> None:
        self.books.agent_noise(self, self.chance.choice(NOISE))

    # -- it asks the client -----------------------------------------------------------------
    def ask(self, turn: Turn) -> None:
        """Ask the client for something and wait for the answer."""
        turn.worked = True
        id_ = str(self.asked) if self.mix.traits["prompt_ids"] == "int" else f'"ask-{self.asked}"'
        self.asked += 1
        serial = self.books.next_serial()
        params: Json = {"sessionId": SID, "_meta": {"sim/n": serial}}
        method = self.chance.choice(
            ("session/request_permission",) * 3 + ("elicitation/create", "fs/read_text_file")
        )
        frame = {"id": json.loads(id_), "method": method, "params": params}
        posed = self.books.agent_asks(self, frame, turn.sid, id_, serial)
        posed.then = lambda: self.asked_enough(turn)
        self.posed[id_] = posed
        turn.posed = posed
        if self.mix.has("takes_back") and self.chance.random() < 0.4:
            self.later(self.chance.random() * 5.0, lambda: self.take_back(id_))

    def take_back(self, id_: str) -> None:
        """The agent needs no answer any more."""
        posed = self.posed.get(id_)
        if posed is None or posed.over:
            return
        posed.withdrawn = posed.over = True
        body: Json = {"method": "$/cancel_request", "params": {"requestId": REQUEST}}
        self.books.agent_withdraws(self, body, posed)
        posed.then()

    def asked_enough(self, turn: Turn) -> None:
        """The question is settled: the turn goes on."""
        turn.posed = None
        self.go_on(turn)

    def asks_still(self, turn: Turn, then: Any) -> bool:
        """Whether the turn waits for an answer; if so `then` happens when it comes."""
        if turn.posed is None or turn.posed.over:
            return False
        turn.posed.then = then
        return True

    # -- a turn ends ------------------------------------------------------------------------
    def segment_over(self, turn: Turn) -> None:
        """The plan is played."""
        if turn.over:
            return
        if self.mix.has("open_tools") and self.chance.random() < 0.5:
            turn.tool = ""
        self._close(turn)
        self.finish(turn)

    def finish(self, turn: Turn) -> None:
        """Answer and end; then what waits begins."""
        chat = self.chats[turn.sid]
        self.end_marker(turn)
        self.books.ended(turn.works)
        if turn.owner:
            self.answer(turn)
        self.end(chat, turn)
        self.afterwards(chat, turn)

    def end_marker(self, turn: Turn) -> None:
        """What this agent shows at the end of a turn."""

    def answer(self, turn: Turn) -> None:
        """The response of the turn's owner."""
        owner, chance, mix = turn.owner, self.chance, self.mix
        if mix.has("too_long") and not self.kind and chance.random() < 0.1:
            self.books.too_long(owner)
        if turn.stop == "end_turn" and mix.has("errors") and chance.random() < 0.2:
            self.fail(owner, -32603, "the model is on fire", {"details": "boom"})
        else:
            self.reply(owner, self.completion(turn))
        if mix.has("twice") and chance.random() < 0.3:
            self.books.agent_repeats(self, owner)
        if mix.has("unknown_answers") and chance.random() < 0.3:
            self.books.agent_repeats(self, '"nobody"')

    def completion(self, turn: Turn) -> Json:
        """The result: with usage, if this agent's completions carry it."""
        mix = self.mix
        if turn.stop == "end_turn" and turn.worked and mix.has("odd_stops"):
            turn.stop = self.chance.choice((*ODD_STOPS, "end_turn", "end_turn"))
        result: Json = {"stopReason": turn.stop}
        bare = mix.has("bare") and self.chance.random() < 0.3
        if mix.traits["usage"] and turn.worked and not bare:
            result["usage"] = {"totalTokens": self.books.next_serial()}
        return result

    def end(self, chat: Chat, turn: Turn) -> None:
        """The turn is over; the next one may begin."""
        turn.over = True
        if chat.turn is turn:
            chat.turn = None
        if chat.waiting and not chat.closed:
            id_, work = chat.waiting.popleft()
            self.begin(chat, id_, [work])

    def afterwards(self, chat: Chat, turn: Turn) -> None:
        """What still comes when the turn is answered."""
        chance, mix, sid = self.chance, self.mix, turn.sid
        if mix.has("trail") and turn.owner and turn.worked and chance.random() < 0.4:
            for at in range(chance.randint(1, 3)):
                self.later(0.05 * at + chance.random() * 0.1, lambda: self._trails(chat, turn))
        if mix.has("ownerless") and chance.random() < mix.traits["by_itself"]:
            wait_s = chance.random() * chance.choice((0.01, 0.5, 5.0))
            self.later(wait_s, lambda: self.by_itself(sid))
        if mix.has("titles") and chance.random() < 0.5:
            wait_s = chance.random() * 3.0
            self.later(wait_s, lambda: self.meta(sid, "session_info_update", title="t"))
        if mix.has("late_tools") and self.calls:
            call: Json = {"toolCallId": f"t{self.run}-{self.calls}", "status": "completed"}
            wait_s = chance.random() * 4.0
            self.later(wait_s, lambda: self.meta(sid, "tool_call_update", **call))

    def _trails(self, chat: Chat, turn: Turn) -> None:
        """A chunk that comes too late, unless a new turn has begun."""
        if chat.turn is None and not chat.closed:
            rest: Json = {"messageId": turn.message} if turn.message else {}
            self.say(chunk(f"w{self.books.next_serial()} ", **rest), turn.sid)

    # -- it is stopped ----------------------------------------------------------------------
    def on_cancel(self, id_: str, params: Json) -> None:
        """Stop the turn of a session."""
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is not None and chat.turn is not None:
            self.cancel(chat, chat.turn)

    def cancel(self, chat: Chat, turn: Turn) -> None:
        """Stop a turn, unless this agent is deaf today."""
        deaf = self.mix.has("deaf") and self.chance.random() < 0.4
        if not turn.doomed and not deaf:
            turn.doomed = True
            self.stop_soon(chat, turn)

    def stop_soon(self, chat: Chat, turn: Turn) -> None:
        """Let it go on for a moment."""
        wait_s = self.chance.random() * self.chance.choice((0.02, 0.3))
        self.later(wait_s, lambda: self.stopped(chat, turn))

    def stopped(self, chat: Chat, turn: Turn) -> None:
        """The turn ends as cancelled, once its question is answered."""
        if turn.over or self.asks_still(turn, lambda: self.stopped(chat, turn)):
            return
        turn.stop = "cancelled"
        turn.plan.clear()
        self.finish(turn)

    def on_close(self, id_: str, params: Json) -> None:
        """Stop what runs and what waits, now; then forget the session."""
        chat = self.chats.get(str(params.get("sessionId")))
        if chat is not None:
            self.drop_waiting(chat)
            if chat.turn is not None and not chat.turn.over:
                if chat.turn.posed is not None:
                    chat.turn.posed.over = True
                chat.turn.stop = "cancelled"
                self.finish(chat.turn)
            chat.closed = True
        self.reply(id_, {})

    def on_delete(self, id_: str, params: Json) -> None:
        """The same."""
        self.on_close(id_, params)

    def drop_waiting(self, chat: Chat) -> None:
        """What waits for its turn is answered `cancelled`."""
        while chat.waiting:
            owner, _ = chat.waiting.popleft()
            self.reply(owner, {"stopReason": "cancelled"})
