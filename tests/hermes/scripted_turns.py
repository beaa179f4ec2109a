"""The turns of the scripted agent: a program of steps, played between waits.

A turn is a generator that yields what it waits for; the loop in `scripted.py` resumes it. So one
thread decides everything and every order of frames can be had on demand. Standard library only.

Steps (those of `script.py`'s notation that make sense without a model):

    ["say", text] ["think", text] ["user", text]        a chunk of that kind
    ["stream", n, delay_s, word] ["big", n]             many chunks; one big chunk
    ["gate", name] ["file", path] ["sleep", s]          wait for `_test/release`, a file, a time
    ["silence"]                                         wait for ever
    ["tool", title, {"gate"|"file"|"sleep": value}]     a tool call that waits while it runs
    ["permission", title, before = ""]                  ask, wait; the answer is said in a word
    ["ask", method, params]                             any request to the client; says the answer
    ["plan", text] ["emit", update] ["rotate"]          a plan, any update, a rotation notice
    ["stop", reason]                                    the stop reason of the answer
    ["fail", code, message, details]                    answer with an error, now
    ["die", code]                                       leave the process; what was said is out
    ["stderr", n] ["noise", text] ["spawn", seconds]    n bytes on stderr; a line on stdout that
                                                        is no JSON; a grandchild that sleeps
    ["argv"] ["environ", name]                          says the arguments, one variable
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any, Protocol

from tests.hermes.script import Step, program

Body = dict[str, Any]
Wait = tuple[str, Any]

WEDGE_DETAILS = "'NoneType' object has no attribute 'startswith'"


class Cancelled(Exception):
    """Thrown into a turn: its running segment stops."""


class Failed(Exception):
    """Ends the turn with a JSON-RPC error, which is its only argument."""


class Out(Protocol):
    """What a turn needs of the agent around it."""

    def update(self, session: Session, update: Body) -> None: ...
    def send(self, body: Body) -> None: ...
    def write(self, line: bytes) -> None: ...
    def flush(self) -> None: ...
    def ask(self, method: str, params: Body) -> int: ...
    def answer_to(self, request: int) -> Body: ...
    def remember(self, session: Session, role: str, text: str) -> None: ...
    def rotate(self, session: Session) -> None: ...
    def ran(self, session: Session, text: str) -> None: ...


class Session:
    """One conversation. ``tip`` is the id of its record on disk, which a rotation changes."""

    def __init__(self, acp_id: str, tip: str) -> None:
        self.id = acp_id
        self.tip = tip
        self.turn: Turn | None = None
        self.queued: deque[str] = deque()
        """Texts that were acknowledged and will run inside the running turn."""
        self.waiting: deque[tuple[Any, str]] = deque()
        """Prompts of an honest agent that wait for their own turn: (request id, text)."""
        self.is_poisoned = False
        self.is_wedged = False
        self.has_title = False
        self.cancelled_text: str | None = None


def steps_of(text: str) -> list[Step]:
    """The program of a prompt; without one the text is echoed."""
    steps = program(text)
    return [["say", f"echo: {text}"]] if steps is None else steps


def chunk(kind: str, text: str) -> Body:
    """The update of a text chunk; ``kind`` is agent_message, agent_thought or user_message."""
    return {"content": {"text": text, "type": "text"}, "sessionUpdate": f"{kind}_chunk"}


class Turn:
    """A stretch of work in one session, with an owner request or without (``owner`` None)."""

    def __init__(self, out: Out, session: Session, owner: object, text: str, serial: int) -> None:
        self.out = out
        self.session = session
        self.owner = owner
        self.text = text
        self.serial = serial
        self.steps: deque[Step] = deque(steps_of(text))
        self.segments = 1
        self.reason = "end_turn"
        self.was_first_cancelled = False
        self.is_in_tool = False
        """A cancel here is the one that Hermes 0.20 does not survive."""
        self.is_asking = False
        """A client request is open; Hermes waits for its answer even after a cancel."""
        self.is_doomed = False
        self.wait: Wait = ("now", None)
        self._calls = 0
        self._life = self._live()

    def resume(self) -> bool:
        """Play on until the next wait; False when the turn is over. Raises Failed."""
        try:
            self.wait = next(self._life)
        except StopIteration:
            return False
        return True

    def cancel(self) -> None:
        """Stop the running segment where it stands."""
        self.steps.clear()
        self.is_in_tool = self.is_asking = False
        self.wait = self._life.throw(Cancelled())

    def redirect(self, text: str) -> None:
        """Take a correction into the running segment, after what it still has to play."""
        self.steps.extend(steps_of(text))

    def _live(self) -> Generator[Wait, None, None]:
        """All segments: the turn's own, then each queued text behind its echo."""
        while True:
            try:
                # A wait before the first step: a cancel can reach a turn that has not begun.
                yield ("now", None)
                while self.steps:
                    yield from self._play(self.steps.popleft())
            except Cancelled:
                self.was_first_cancelled = self.was_first_cancelled or self.segments == 1
                yield ("now", None)
            if not self.session.queued:
                return
            text = self.session.queued.popleft()
            self.segments += 1
            self.out.update(self.session, chunk("user_message", text))
            self.out.ran(self.session, text)
            self.steps.extend(steps_of(text))

    def _play(self, step: Step) -> Iterator[Wait]:
        match step:
            case ["say", text]:
                self._say(text)
            case ["think", text]:
                self.out.update(self.session, chunk("agent_thought", text))
            case ["user", text]:
                self.out.update(self.session, chunk("user_message", text))
            case ["stream", count, delay_s, word]:
                for number in range(count):
                    self._say(f"{word}{number} ")
                    yield ("until", time.monotonic() + delay_s)
            case ["big", count]:
                self._say("x" * count)
            case ["gate" | "file" | "sleep" | "silence", *_]:
                yield wait_of(step)
            case ["tool", title, how]:
                yield from self._tool(title, how)
            case ["permission", title, *before]:
                yield from self._permission(title, "".join(before))
            case ["ask", method, params]:
                answer = yield from self._ask(method, params)
                self._say(json.dumps(answer))
            case _:
                self._play_at_once(step)

    def _play_at_once(self, step: Step) -> None:
        """The steps that never wait."""
        match step:
            case ["plan", text]:
                entry = {"content": text, "priority": "medium", "status": "in_progress"}
                self.out.update(self.session, {"entries": [entry], "sessionUpdate": "plan"})
            case ["emit", update]:
                self.out.update(self.session, update)
            case ["rotate"]:
                self.out.rotate(self.session)
            case ["stop", reason]:
                self.reason = reason
            case ["fail", code, message, details]:
                raise Failed({"code": code, "message": message, "data": {"details": details}})
            case ["die", code]:
                self.out.flush()
                os._exit(code)
            case ["stderr", count]:
                sys.stderr.write("e" * count + "\n")
                sys.stderr.flush()
            case ["noise", text]:
                self.out.write(text.encode())
            case ["spawn", seconds]:
                pid = os.posix_spawnp("sleep", ["sleep", str(seconds)], os.environ)
                self._say(f"pid {pid}")
            case ["argv"]:
                self._say(json.dumps(sys.argv[1:]))
            case ["environ", name]:
                self._say(os.environ.get(name, "(unset)"))
            case _:
                self._say(f"(unknown step {step!r})")

    def _say(self, text: str) -> None:
        self.out.update(self.session, chunk("agent_message", text))
        self.out.remember(self.session, "agent", text)

    def _tool(self, title: str, how: Body) -> Iterator[Wait]:
        self._calls += 1
        call = {"kind": "execute", "toolCallId": f"tc-{self.serial:06x}{self._calls:06x}"}
        opened = {**call, "content": [], "locations": [], "title": title}
        self.out.update(self.session, {**opened, "sessionUpdate": "tool_call"})
        self.is_in_tool = True
        for item in how.items():
            yield wait_of(list(item))
        self.is_in_tool = False
        closed = {**call, "content": [], "status": "completed"}
        self.out.update(self.session, {**closed, "sessionUpdate": "tool_call_update"})

    def _permission(self, title: str, before: str) -> Iterator[Wait]:
        options = [
            {"kind": "allow_once", "name": "Allow once", "optionId": "allow_once"},
            {"kind": "reject_once", "name": "Deny", "optionId": "deny"},
        ]
        call = {
            "toolCallId": "perm-check-1",
            "title": title,
            "kind": "execute",
            "status": "pending",
        }
        params = {"sessionId": self.session.id, "options": options, "toolCall": call}
        answer = yield from self._ask("session/request_permission", params)
        outcome = answer.get("result", {}).get("outcome", {})
        self._say(before + (outcome.get("optionId") or outcome.get("outcome") or "no outcome"))

    def _ask(self, method: str, params: Body) -> Generator[Wait, None, Body]:
        request = self.out.ask(method, params)
        self.is_asking = True
        yield ("answer", request)
        self.is_asking = False
        if self.is_doomed:
            raise Failed(wedge_error())
        return self.out.answer_to(request)


def wait_of(step: Step) -> Wait:
    """The wait of a gate, file, sleep or silence step."""
    match step:
        case ["sleep", seconds]:
            return ("until", time.monotonic() + seconds)
        case [kind, value]:
            return (kind, value)
    return ("silence", None)


def wedge_error() -> Body:
    """What a cancel at the wrong moment makes of a turn in Hermes 0.19 to 0.21."""
    return {"code": -32603, "message": "Internal error", "data": {"details": WEDGE_DETAILS}}
