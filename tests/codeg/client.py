"""A client that behaves as Codeg 0.27 does, for tests: its habits and its ways to die.

Read in Codeg's source, not recorded. What makes it differ from a polite client:

* ids are UUID strings; ``initialize`` carries no ``clientInfo``;
* one prompt at a time BY ITS OWN BELIEF: a local cancel closes the turn at once, and the next
  prompt may follow in the same millisecond with the cancelled one still unanswered;
* an update and the turn's response that are ready together are read in random order; output
  that is read behind the response is rendered nowhere (`Turn.lost`);
* content while no prompt is pending is dropped; ``end_turn`` without output is "empty";
* an error answer to a live prompt, an unknown stop reason, a session id that is no string and
  bytes that are no UTF-8 kill the connection. This one also dies on ``null`` for a load, where
  Codeg itself goes on under a new id: the conversation of the row is lost all the same.

Not built: `fs/*` and `terminal/*` are refused with an error, though ``initialize`` offers them.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import trio
from attrs import define, field

from tests.codeg.line import Line
from tests.codeg.turns import ECHO, METADATA, OUTPUT, STOP_REASONS, Dropped, Turn
from tests.hermes.home import Home
from tests.hermes.record import Body, Seen

INITIALIZE: Body = {
    "protocolVersion": 1,
    "clientCapabilities": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
    },
}
INITIALIZE_S = 60.0
"""Codeg's own limit for the handshake."""
CALL_S = 60.0
"""Ours for the other calls; Codeg has none."""
DRAIN_S = 0.1
"""A pause of this length ends the replay after a load."""
ANSWER_FIRST = 0.25
"""How often the response wins over one ready update: one of the select's four branches."""

TAPE_MAX = 200
TAPE_BYTES = 1000


class Died(Exception):
    """The connection is dead; its argument says of what."""


@define(eq=False)
class Codeg:
    """One connection and the one conversation (row) that it serves; `open` it first."""

    home: Home
    command: Sequence[str]
    rng: random.Random
    nursery: trio.Nursery
    session: str = ""
    turns: list[Turn] = field(factory=list)
    dropped: list[Dropped] = field(factory=list)
    replayed: int = 0
    """Updates of the history that a load brought."""
    complaints: list[str] = field(factory=list)
    """What Codeg logs and survives: noise, unknown updates, strays, echoes."""
    death: str | None = None
    tape: deque[tuple[float, str, str]] = field(factory=lambda: deque(maxlen=TAPE_MAX))
    """The last lines of both sides: (trio's clock, "client" or "agent ", the line)."""
    asked: int = 0
    """Permission requests that came."""
    on_permission: Callable[[], float] = lambda: 0.0
    """How long the user thinks before the first option is chosen, in seconds."""
    _line: Line | None = None
    _updates: deque[tuple[int, Seen]] = field(factory=deque)
    _answer: tuple[int, Body] | None = None
    _calls: dict[str, Body | None] = field(factory=dict)
    _cards: dict[object, Body] = field(factory=dict)
    _read: int = 0
    _news: trio.Event = field(factory=trio.Event)

    # --- the connection ---

    async def open(self) -> None:
        """Start the process, shake hands and open a new session. Raises Died."""
        await self._start()
        result = await self._call("session/new", {"cwd": str(self.home.work), "mcpServers": []})
        self.session = self._session_id(result)

    async def reopen(self) -> None:
        """Leave as a closed tab does, and come back to the row: resume, or else load.

        A resume must replay nothing; what comes is dropped. A load's replay is drained until a
        pause. Raises Died.
        """
        assert not self.is_prompting, "a tab with a live turn is never swept"
        await self.close()
        self._line, self._cards = None, {}
        capabilities = (await self._start()).get("agentCapabilities") or {}
        params = {"sessionId": self.session, "cwd": str(self.home.work)}
        if "resume" in (capabilities.get("sessionCapabilities") or {}):
            body = await self._send_call("session/resume", params)
            if "error" not in body:
                return
        await self._call("session/load", {"mcpServers": [], **params})
        while await self._comes(lambda: bool(self._updates), DRAIN_S):
            self.replayed += len(self._updates)
            self._updates.clear()

    async def probe(self) -> bool:
        """The settings page: a second process, initialize, session/new, kill. Whether it lived."""
        other = Codeg(self.home, self.command, self.rng, self.nursery)
        try:
            await other.open()
        except Died as death:
            self.complaints.append(f"a settings probe died of {death}")
        await other.close()
        return other.death is None

    async def close(self) -> None:
        """Close stdin and SIGTERM the process and all below it, as Codeg's ChildGuard does."""
        if self._line is not None:
            await self._line.close()

    async def _start(self) -> Body:
        self._line = await Line.start(self.nursery, self.command, self.home, self._take)
        return await self._call("initialize", INITIALIZE, INITIALIZE_S)

    # --- what the user does ---

    @property
    def is_prompting(self) -> bool:
        """Whether Codeg believes that a turn is live."""
        return bool(self.turns) and self.turns[-1].is_live

    def prompt(self, text: str) -> Turn:
        """Send a prompt; Codeg's own gate lets none pass while it believes a turn is live."""
        assert not self.is_prompting, "TurnInProgress"
        turn = Turn(len(self.turns), str(uuid.uuid4()), text, trio.current_time())
        self.turns.append(turn)
        blocks = [{"type": "text", "text": text}]
        self._write(turn.id, "session/prompt", {"sessionId": self.session, "prompt": blocks})
        return turn

    def cancel(self) -> None:
        """Press Stop: notify, answer the cards, close the turn here. Also while idle."""
        self._write(None, "session/cancel", {"sessionId": self.session})
        for card in list(self._cards.values()):
            self._choose(card, {"outcome": "cancelled"})
        if self.is_prompting:
            self.turns[-1].cancel(trio.current_time())
            self._answer = None
        self._wake()

    async def ended(self, turn: Turn, within_s: float) -> bool:
        """Wait for the end of a turn; False where it is stuck. Raises Died."""
        return await self._comes(lambda: not turn.is_live, within_s)

    async def shows(self, turn: Turn, within_s: float) -> bool:
        """Wait for a turn's first output or its end. Raises Died."""
        return await self._comes(lambda: turn.has_output or not turn.is_live, within_s)

    async def asks(self, within_s: float) -> bool:
        """Wait for a permission card. Raises Died."""
        return await self._comes(lambda: bool(self._cards), within_s)

    async def settled(self, turns: Sequence[Turn], within_s: float) -> bool:
        """Wait until the agent's side has answered all of these, cancelled ones too."""
        return await self._comes(lambda: all(turn.answers for turn in turns), within_s)

    async def pause(self, seconds: float) -> None:
        """Let the user think; cut short by a death, which is raised."""
        await self._comes(lambda: False, seconds)

    # --- what comes ---

    def _take(self, lines: Sequence[bytes], is_late: bool, ended: str | None) -> None:
        """All lines of one read; then the loop runs over what is ready. Called by `Line`."""
        for line in lines:
            if self.death is None:
                self._dispatch(line)
        while self.death is None and self._step(is_late):
            pass
        if ended is not None:
            self._die(ended)
        self._wake()

    def _step(self, is_late: bool) -> bool:
        """One arm of Codeg's select; False when nothing is ready.

        Where this process itself was not run for a while (``is_late``) frames that were written
        apart look simultaneous; that is no fault of the other side, so the order stands.
        """
        if self._answer is not None:
            at, body = self._answer
            before = [seen for when, seen in self._updates if when < at and seen.kind in OUTPUT]
            if before and not is_late:
                self.turns[-1].was_raced = True
            wins = self.rng.random() < ANSWER_FIRST and not is_late
            if not self._updates or wins:
                self._answer = None
                self.turns[-1].lost += before
                self._end_turn(body)
                return True
        if not self._updates:
            return False
        _, seen = self._updates.popleft()
        if self.is_prompting:
            self.turns[-1].shown.append(seen)
        elif seen.kind not in METADATA:
            self.dropped.append(Dropped(seen, len(self.turns) - 1))
        return True

    def _end_turn(self, body: Body) -> None:
        result = body.get("result")
        if "error" in body:
            self._die(f"an error answer to a prompt: {json.dumps(body)}")
        elif not isinstance(result, dict) or result.get("stopReason") not in STOP_REASONS:
            self._die(f"an unknown stop reason: {json.dumps(body)}")
        else:
            self.turns[-1].end(result["stopReason"], trio.current_time())

    def _dispatch(self, line: bytes) -> None:
        """Sort one line: an answer, a request, an update."""
        self._read += 1
        self._note("agent ", line)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self._die(f"bytes that are no UTF-8: {line[:80]!r}")
            return
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._complain(f"noise: {text[:200]}", -32700, {"line": text})
            return
        if "method" not in body:
            self._take_answer(body)
            return
        params = body.get("params")
        session = params.get("sessionId") if isinstance(params, dict) else None
        if isinstance(params, dict) and "sessionId" in params and not isinstance(session, str):
            self._die(f"a session id that is no string: {text[:300]}")
        elif "id" in body:
            self._take_request(body, session)
        elif session is None:
            self._complain(f"a notification of no session: {text[:200]}", -32601, None)
        elif session != self.session and self.session:
            self.complaints.append(f"an update of a session that is not ours: {text[:200]}")
        elif body["method"] == "session/update":
            self._take_update(Seen(trio.current_time(), "agent", body))

    def _take_answer(self, body: Body) -> None:
        known = body.get("id")
        if known in self._calls:
            self._calls[str(known)] = body
            return
        for turn in reversed(self.turns):
            if turn.id == known:
                turn.answers.append(body)
                turn.answered_s = min(turn.answered_s, trio.current_time())
                if len(turn.answers) > 1:
                    self.complaints.append(f"a second answer to prompt {turn.serial}: {body}")
                elif turn.is_live:
                    self._answer = (self._read, body)
                return
        self.complaints.append(f"an answer to nothing: {json.dumps(body)[:200]}")

    def _take_update(self, seen: Seen) -> None:
        if seen.kind == ECHO:
            self.complaints.append(f"an echo, recorded as a second prompt: {seen.text[:200]}")
        elif seen.kind not in OUTPUT | METADATA:
            self.complaints.append(f"an update of an unknown kind: {json.dumps(seen.body)[:200]}")
        else:
            self._updates.append((self._read, seen))

    def _take_request(self, body: Body, session: str | None) -> None:
        params, method = body.get("params"), body["method"]
        if method == "session/request_permission":
            if session is None or not isinstance(params, dict) or not params.get("options"):
                self._die(f"a malformed permission request: {json.dumps(body)[:300]}")
                return
            self.asked += 1
            self._cards[body["id"]] = body
            self.nursery.start_soon(self._think, body)
        elif method.startswith(("fs/", "terminal/")):
            error = {"code": -32603, "message": "not served by this test client"}
            self._post({"id": body["id"], "error": error})
        elif session is None:
            self._post({"id": body["id"], "error": {"code": -32601, "message": "no such method"}})
        # An unknown request of our session is never answered: Codeg's handler swallows it.

    async def _think(self, card: Body) -> None:
        with trio.move_on_after(self.on_permission()):
            await trio.sleep_forever()
        option = card["params"]["options"][0]["optionId"]
        self._choose(card, {"outcome": "selected", "optionId": option})

    def _choose(self, card: Body, outcome: Body) -> None:
        """Answer a card once; a cancel may have been faster than the user."""
        if self._cards.pop(card["id"], None) is not None:
            self._post({"id": card["id"], "result": {"outcome": outcome}})

    # --- the wire, and waiting ---

    async def _call(self, method: str, params: Body, within_s: float = CALL_S) -> Body:
        body = await self._send_call(method, params, within_s)
        result = body.get("result")
        if not isinstance(result, dict):
            self._die(f"{method} was answered {json.dumps(body)[:300]}")
            raise Died(self.death)
        return result

    async def _send_call(self, method: str, params: Body, within_s: float = CALL_S) -> Body:
        request = str(uuid.uuid4())
        self._calls[request] = None
        self._write(request, method, params)
        if not await self._comes(lambda: self._calls[request] is not None, within_s):
            self._die(f"{method} was not answered within {within_s} s")
            raise Died(self.death)
        return self._calls.pop(request) or {}

    def _session_id(self, result: Body) -> str:
        session = result.get("sessionId")
        if not isinstance(session, str):
            self._die(f"a session id that is no string: {session!r}")
            raise Died(self.death)
        return session

    async def _comes(self, is_so: Callable[[], bool], within_s: float) -> bool:
        with trio.move_on_after(within_s):
            while True:
                news = self._news
                if self.death is not None:
                    raise Died(self.death)
                if is_so():
                    return True
                await news.wait()
        return False

    def _complain(self, text: str, code: int, data: Any) -> None:
        """Log what sacp cannot use, and send its error frame without an id."""
        self.complaints.append(text)
        self._post({"id": None, "error": {"code": code, "message": "unusable", "data": data}})

    def _die(self, cause: str) -> None:
        if self.death is None:
            self.death = cause
            self.nursery.start_soon(self.close)
        self._wake()

    def _write(self, request: str | None, method: str, params: Body) -> None:
        named = {} if request is None else {"id": request}
        self._post({**named, "method": method, "params": params})

    def _post(self, body: Body) -> None:
        assert self._line is not None, "open first"
        line = json.dumps({"jsonrpc": "2.0", **body}, separators=(",", ":")).encode()
        self._note("client", line)
        self._line.post(line)

    def _note(self, side: str, line: bytes) -> None:
        self.tape.append((trio.current_time(), side, line[:TAPE_BYTES].decode(errors="replace")))

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()
