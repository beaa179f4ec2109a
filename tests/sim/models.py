"""The agents of the world, by name: small honest models of real ones and of what is read of others.

Sources are the tapes and readings of claude-agent-acp 0.101.0 and codex-acp 2.6.0; the generic
ones are the habits that the field reports. Hermes has a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.sim.agent import Agent
from tests.sim.frames import SID, Json, Work, id_text
from tests.sim.hermes import Hermes19, Hermes20
from tests.sim.turns import Chat, Record, Turn


class Busy(Agent):
    """Refuses a prompt that meets a turn, before anything of it runs."""

    def met_a_turn(self, chat: Chat, id_: str, work: Work) -> None:
        """Say that the session is busy."""
        self.fail(id_, -32000, "session is busy", {"reason": "session_busy"})


class Aborts(Agent):
    """A second prompt ends the running turn, which is answered `cancelled`."""

    def met_a_turn(self, chat: Chat, id_: str, work: Work) -> None:
        """End what runs and begin the new one."""
        turn = chat.turn
        assert turn is not None
        if turn.posed is not None:
            turn.posed.over = True
        turn.stop = "cancelled"
        chat.waiting.append((id_, work))
        self.finish(turn)


class Claude(Agent):
    """claude-agent-acp 0.101.0: a queue, background turns, usage with cost at every end."""

    info: ClassVar[Json] = {"name": "@agentclientprotocol/claude-agent-acp", "version": "0.101.0"}

    def on_prompt(self, id_: str, params: Json) -> None:
        """Its engine may die of a prompt, and the session with it."""
        chat = self.chats.get(str(params.get("sessionId")))
        fatal = self.mix.has("engine_dies") and not self.kind and self.chance.random() < 0.1
        super().on_prompt(id_, params)
        if fatal and chat is not None and chat.turn is not None and not chat.turn.doomed:
            self.later(self.chance.random(), lambda: self._engine_dies(chat))

    def _engine_dies(self, chat: Chat) -> None:
        turn = chat.turn
        if turn is None or turn.over:
            return
        turn.over = True
        if turn.posed is not None:
            turn.posed.over = True
        for work in turn.works:
            work.killed = True
        self.books.ended(turn.works)
        if turn.owner:
            self.fail(turn.owner, -32603, "the engine has died")
        for owner, work in chat.waiting:
            work.killed = True
            self.fail(owner, -32603, "the engine has died")
        self.books.lost.add(self.books.alias.get(chat.sid, chat.sid))
        del self.chats[chat.sid]

    def end_marker(self, turn: Turn) -> None:
        """`usage_update` with `cost`; behind the response where that is `cancelled`, sometimes."""
        if turn.owner and turn.stop == "cancelled" and self.chance.random() < 0.5:
            self.later(0.02, lambda: self._cost(turn.sid))
        else:
            self._cost(turn.sid)

    def _cost(self, sid: str) -> None:
        self.meta(sid, "usage_update", used=1, size=2, cost={"amount": 0.1, "currency": "USD"})

    def stop_soon(self, chat: Chat, turn: Turn) -> None:
        """The turn stops, and with it all that waits; a question is taken back at once."""
        self.drop_waiting(chat)
        self.take_question_back(turn)
        super().stop_soon(chat, turn)

    def take_question_back(self, turn: Turn) -> None:
        """It does not wait for the answer."""
        if turn.posed is not None and not turn.posed.over:
            turn.posed.then = lambda: None
            self.take_back(turn.posed.agent_id.decode())

    def on_cancel_request(self, id_: str, params: Json) -> None:
        """Stop the turn of this request, or take it from the queue."""
        wanted = id_text(params.get("requestId"))
        for chat in self.chats.values():
            if chat.turn is not None and chat.turn.owner == wanted:
                self.cancel(chat, chat.turn)
            for item in list(chat.waiting):
                if item[0] == wanted:
                    chat.waiting.remove(item)
                    self.reply(wanted, {"stopReason": "cancelled"})

    def loaded(self, record: Record) -> Any:
        """The result says which session it is."""
        return {"sessionId": SID}


class Codex(Claude):
    """codex-acp 2.6.0: threadStatus; a queued prompt runs after a cancel."""

    info: ClassVar[Json] = {"name": "@agentclientprotocol/codex-acp", "version": "2.6.0"}

    def _engine_dies(self, chat: Chat) -> None:
        """Its engine starts again with the next prompt: an error, and nothing is lost."""
        turn = chat.turn
        if turn is None or turn.over or turn.doomed:
            return
        if turn.posed is not None:
            turn.posed.over = True
        self.books.ended(turn.works)
        if turn.owner:
            self.fail(turn.owner, 1001, "the engine has died")
        self.end(chat, turn)

    def end_marker(self, turn: Turn) -> None:
        """The threadStatus `idle`, just before the response."""
        self.meta(turn.sid, "usage_update", used=1, size=2)
        self._status(turn.sid, "idle")

    def go_on(self, turn: Turn) -> None:
        """The threadStatus `active` at the beginning."""
        if not turn.begun:
            turn.begun = True
            self._status(turn.sid, "active")
        super().go_on(turn)

    def _status(self, sid: str, status: str) -> None:
        mark = {"sim/n": self.books.next_serial(), "codex": {"threadStatus": {"type": status}}}
        self.meta(sid, "session_info_update", _meta=mark)

    def stop_soon(self, chat: Chat, turn: Turn) -> None:
        """Only the running turn stops; what waits runs next."""
        self.take_question_back(turn)
        Agent.stop_soon(self, chat, turn)

    def nothing_found(self, id_: str, sid: str) -> None:
        """Codex says so with an internal error."""
        self.fail(id_, -32603, "Internal error", {"details": "no rollout found"})

    def loaded(self, record: Record) -> Any:
        """The result says nothing."""
        return {}


MODELS: dict[str, Callable[[Any, int], Agent]] = {
    "honest": Agent,
    "busy": Busy,
    "aborts": Aborts,
    "hermes-0.19": Hermes19,
    "hermes-0.20": Hermes20,
    "claude": Claude,
    "codex": Codex,
}
