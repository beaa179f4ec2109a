"""A scripted agent of the Hermes 0.20 kind: READ FROM SOURCE, NOT RECORDED.

    python -m tests.hermes.scripted MODE [--state FILE] [--log FILE] [anything else is ignored]

Hermes 0.20 and later could not be run for this project; what is scripted here was read in its
source and in reports (receipts, wedge, idle cancel, rotation, notices). Prompts carry programs
(`scripted_turns.py`). MODE is words with commas between:

    redirect    a mid-turn prompt is folded in: "Redirected the active turn …", bare end_turn
    queued      a mid-turn prompt is run later in the same turn, behind its echo
    bare        an honest simple agent: first come, first served, each with its own answer
    poison-error | poison-cancelled | no-poison
                what a cancel while idle does to the next prompt: -32603 and a wedged session
                (the default of redirect and queued), an unasked `cancelled`, or nothing
    no-wedge    a cancel during a tool or a permission request is answered `cancelled`
    linger      ignores the end of stdin while a turn runs (redirect and queued do so anyway)
    ignore-term ignores SIGTERM

Notifications for the test, all with `sessionId` where a session is meant:

    _test/release {gate}            open a gate, for good
    _test/background {script, notice?}  an ownerless turn; with notice its user_message_chunk
                                    comes first, without one the turn is silent until its script
    _test/receipt {before?, between?}   chunks that slip in around the next receipt
    _test/emit {frame}              write this very frame
    _test/rotate {}                 the conversation goes on under a new internal id
    _test/mute {}                   never read or write again, as in Hermes' deadlock
    _test/die {code}                leave at once
    _test/process {toolCallId, command, status, …}   becomes a `_hermes/process` notice
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from itertools import pairwise
from typing import Any

from tests.hermes.scripted_requests import Requests
from tests.hermes.scripted_store import Store
from tests.hermes.scripted_turns import Body, Failed, Session, Turn

TURNS_MAX = 4
"""Hermes runs its turns in a pool of four threads; a fifth turn is silent until one ends."""
FILE_POLL_S = 0.005
READ_BYTES = 1 << 16


class Agent:
    """The loop: read what is there, play every turn that can go on, write, wait."""

    def __init__(self, mode: str, store: Store) -> None:
        self.words = frozenset(mode.split(","))
        self.is_bare = "bare" in self.words
        self.store = store
        self.sessions: dict[str, Session] = {}
        self.turns: list[Turn] = []
        self.gates: set[str] = set()
        self.is_ending = False
        self._out = bytearray()
        self._in = bytearray()
        self._answers: dict[int, Body] = {}
        self._asked = 0
        self._begun = 0
        self._requests = Requests(self)

    # --- what turns need (`scripted_turns.Out`) ---

    def send(self, body: Body) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **body}, separators=(",", ":")).encode())

    def write(self, line: bytes) -> None:
        self._out += line + b"\n"

    def update(self, session: Session, update: Body) -> None:
        params = {"sessionId": session.id, "update": update}
        self.send({"method": "session/update", "params": params})

    def ask(self, method: str, params: Body) -> int:
        request, self._asked = self._asked, self._asked + 1
        self.send({"id": request, "method": method, "params": params})
        return request

    def answer_to(self, request: int) -> Body:
        return self._answers[request]

    def remember(self, session: Session, role: str, text: str) -> None:
        self.store.remember(session.tip, role, text)

    def ran(self, session: Session, text: str) -> None:
        self.store.log(ran=text, session=session.id)
        self.remember(session, "user", text)

    def rotate(self, session: Session) -> None:
        """Go on under a new internal id; the ACP id stays while the process lives."""
        old = session.tip
        session.tip = f"20260101_000000_{os.urandom(3).hex()}"
        self.store.add(self.store.records[old]["cwd"], session.tip, parent=old)
        meta = self.store.provenance(session.id, session.tip)
        extra = {
            "previousHermesSessionId": old,
            "reason": "compression",
            "creatorKind": "compression",
        }
        meta["hermes"]["sessionProvenance"].update(extra)
        self.update(session, {"sessionUpdate": "session_info_update", "_meta": meta})

    # --- turns ---

    def begin(self, session: Session, owner: object, text: str, notice: str | None = None) -> None:
        """Start a turn; ``owner`` is the request's id, or None for an ownerless turn."""
        self._begun += 1
        session.turn = Turn(self, session, owner, text, self._begun)
        self.turns.append(session.turn)
        if notice is not None:
            self._requests.say(session, notice, "user_message")
        if owner is not None:
            self.ran(session, text)

    def finish(self, turn: Turn) -> None:
        """Close a turn as Hermes does: a usage update for each segment, then one answer."""
        session = turn.session
        session.turn = None
        reason = "cancelled" if turn.was_first_cancelled else turn.reason
        if self.is_bare:
            self.answer(turn.owner, {"stopReason": reason})
            self._begin_waiting(session)
            return
        if reason == "cancelled":
            session.cancelled_text = turn.text
        usage = {"size": 200000, "used": 8858, "sessionUpdate": "usage_update"}
        for _ in range(turn.segments):
            self.update(session, usage)
        self.answer(turn.owner, {"stopReason": reason, "usage": self._requests.usage(reason)})
        if not session.has_title and turn.owner is not None and reason == "end_turn":
            session.has_title = True
            meta = self.store.provenance(session.id, session.tip)
            title = {"title": "Scripted title", "updatedAt": "2026-01-01T00:00:00+00:00"}
            self.update(session, {"_meta": meta, **title, "sessionUpdate": "session_info_update"})

    def fail(self, turn: Turn, error: Body) -> None:
        """Answer a turn with an error. Hermes' own failure never clears its `running` flag."""
        turn.session.turn = None
        turn.session.is_wedged = turn.is_doomed
        if turn in self.turns:
            self.turns.remove(turn)
        if turn.owner is not None:
            self.send({"id": turn.owner, "error": error})
        self._begin_waiting(turn.session)

    def _begin_waiting(self, session: Session) -> None:
        """An honest agent's next prompt; Hermes' kind never has one here."""
        if session.waiting:
            self.begin(session, *session.waiting.popleft())

    def answer(self, request: Any, result: Body | None) -> None:
        if request is not None:
            self.send({"id": request, "result": result})

    def _play(self) -> None:
        """Let every turn that waits for nothing more go on, until all of them wait."""
        is_moving = True
        while is_moving:
            is_moving = False
            for turn in self.turns[:TURNS_MAX]:
                if not self._is_ready(turn):
                    continue
                is_moving = True
                try:
                    if not turn.resume():
                        self.turns.remove(turn)
                        self.finish(turn)
                except Failed as failure:
                    self.fail(turn, failure.args[0])

    def _is_ready(self, turn: Turn) -> bool:
        kind, value = turn.wait
        match kind:
            case "until":
                return bool(time.monotonic() >= value)
            case "gate":
                return value in self.gates
            case "file":
                return os.path.exists(value)  # noqa: PTH110
            case "answer":
                return value in self._answers
        return kind == "now"

    def _pause_s(self) -> float | None:
        """How long nothing can happen but input; None for ever."""
        waits = [turn.wait for turn in self.turns[:TURNS_MAX]]
        pauses_s = [max(0.0, value - time.monotonic()) for kind, value in waits if kind == "until"]
        pauses_s += [FILE_POLL_S for kind, _ in waits if kind == "file"]
        return min(pauses_s, default=None)

    # --- the loop ---

    def serve(self) -> int:
        """Run until stdin has ended and, for Hermes' kind, no turn runs any more."""
        while True:
            self._play()
            self.flush()
            if self.is_ending and not (self.turns and self._lingers()):
                return 0
            inputs = [] if self.is_ending else [0]
            readable, _, _ = select.select(inputs, [], [], self._pause_s())
            if readable:
                self._read()

    def _lingers(self) -> bool:
        return not self.is_bare or "linger" in self.words

    def _read(self) -> None:
        data = os.read(0, READ_BYTES)
        self.is_ending = not data
        self._in += data
        *lines, rest = self._in.split(b"\n")
        self._in = bytearray(rest)
        for line in lines:
            if line.strip():
                self._take(bytes(line))

    def _take(self, line: bytes) -> None:
        try:
            body = json.loads(line)
        except ValueError:
            return  # Hermes logs it and sends no error.
        if isinstance(body, list):
            sys.exit(1)  # A batch kills Hermes.
        self.store.log(got=body)
        if "method" not in body:
            self._answers[body.get("id")] = body
        else:
            self._requests.handle(body)

    def flush(self) -> None:
        """Write what was said."""
        if self.is_ending and not self.is_bare:
            self._out.clear()  # Nothing is written after the end of stdin.
        data, self._out = memoryview(bytes(self._out)), bytearray()
        while data:
            data = data[os.write(1, data) :]


def main(words: list[str]) -> int:
    """Parse as little as possible: what a client appends (``--setup``) must not matter."""
    mode = words[0] if words else "bare"
    options = dict(pairwise(words[1:]))
    if "ignore-term" in mode.split(","):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return Agent(mode, Store(options.get("--state"), options.get("--log"))).serve()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
