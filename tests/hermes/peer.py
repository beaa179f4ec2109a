"""A client in front of an agent command: sends, records everything, waits with a bound.

The same `Peer` drives an agent directly or through the bridge. It reads no meaning into what
comes: tests ask the record (`frames`, `story`, `answers`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import trio
from attrs import define, field

from tests.hermes.home import Home, How, command_line
from tests.hermes.processes import arguments, descendants, find_below
from tests.hermes.record import Body, Seen, Sent, is_answer, story
from tests.hermes.script import label

WAIT_S = 60.0
"""The bound of every wait that a test does not set: generous, for a loaded machine."""
STOP_S = 8.0
"""How long a process may take to leave after SIGTERM before it is killed."""
READ_BYTES = 1 << 16

CLIENT: Body = {
    "protocolVersion": 1,
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    },
    "clientInfo": {"name": "acpbridge-tests", "version": "0"},
}


class AgentGone(Exception):
    """The process ended while the test waited; the message carries the tail of its stderr."""


@define(eq=False)
class Peer:
    """One client on one process. Made by `Peer.start`; `stop` it before its nursery ends."""

    home: Home
    how: How
    agent: list[str]
    """The agent's own command, to find its process below a bridge."""
    options: list[str]
    """Options of the bridge."""
    nursery: trio.Nursery
    frames: list[Seen] = field(factory=list)
    noise: list[bytes] = field(factory=list)
    """Lines of the agent that were no JSON object."""
    on_permission: Callable[[Body], Body | None] | None = None
    """Answers a permission request at once with this result; None leaves it open."""
    started_s: float = 0.0
    """When the process was spawned, on trio's clock."""
    _process: trio.Process | None = None
    _sent: dict[int, Sent] = field(factory=dict)
    _news: trio.Event = field(factory=trio.Event)
    _ended: trio.Event = field(factory=trio.Event)

    @classmethod
    async def start(
        cls,
        nursery: trio.Nursery,
        home: Home,
        agent: Sequence[str],
        how: How = "direct",
        options: Sequence[str] = (),
    ) -> Peer:
        """Spawn the command in its home and begin to record."""
        peer = cls(home, how, list(agent), list(options), nursery)
        await peer.spawn()
        return peer

    async def spawn(self) -> None:
        """Start the process; after it has ended this is a restart on the same home."""
        self._ended = trio.Event()
        self.started_s = trio.current_time()
        with self.stderr_path.open("ab") as stderr:
            self._process = await trio.lowlevel.open_process(
                command_line(self.how, self.agent, self.options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr.fileno(),
                env=self.home.environment(),
                cwd=str(self.home.work),
            )
        self.nursery.start_soon(self._record, self._process, self._ended)

    @property
    def process(self) -> trio.Process:
        """The spawned process: the agent, or the bridge in front of it."""
        assert self._process is not None, "spawn first"
        return self._process

    @property
    def stderr_path(self) -> Path:
        """What the process wrote to stderr, over all its runs."""
        return self.home.root / "stderr.log"

    # --- sending ---

    def frame(self, method: str, params: Body, name: str | None = None) -> tuple[Body, Sent]:
        """Build a request without sending it, for `send_many`."""
        sent = Sent(len(self._sent) + 1, method, params.get("sessionId"), name or method)
        self._sent[sent.id] = sent
        return {"jsonrpc": "2.0", "id": sent.id, "method": method, "params": params}, sent

    def prompt_frame(self, session: str, text: str) -> tuple[Body, Sent]:
        """Build a ``session/prompt`` of one text block; the story calls it by its label."""
        blocks = [{"type": "text", "text": text}]
        return self.frame("session/prompt", {"sessionId": session, "prompt": blocks}, label(text))

    async def send_many(self, *bodies: Body) -> None:
        """Send frames in ONE write, so that the other side gets them in one read."""
        lines = [json.dumps(body, separators=(",", ":")).encode() + b"\n" for body in bodies]
        at_s = trio.current_time()
        for body in bodies:
            self.frames.append(Seen(at_s, "client", body))
            if "method" in body and body.get("id") in self._sent:
                self._sent[body["id"]].at_s = at_s
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send_all(b"".join(lines))
        except trio.BrokenResourceError as error:
            # Whether a dying process is noticed here or by its EOF is a matter of microseconds.
            raise AgentGone(f"nothing can be sent; {self.account()}") from error

    async def send(self, method: str, params: Body) -> Sent:
        """Send a request and go on; `answer` waits for it."""
        body, sent = self.frame(method, params)
        await self.send_many(body)
        return sent

    async def request(self, method: str, params: Body, within_s: float = WAIT_S) -> Body:
        """Send a request and return the whole response frame."""
        return (await self.answer(await self.send(method, params), within_s)).body

    async def prompt(self, session: str, text: str) -> Sent:
        """Send a prompt and go on."""
        body, sent = self.prompt_frame(session, text)
        await self.send_many(body)
        return sent

    async def notify(self, method: str, params: Body) -> None:
        """Send a notification."""
        await self.send_many({"jsonrpc": "2.0", "method": method, "params": params})

    async def cancel(self, session: str) -> None:
        """Send ``session/cancel``."""
        await self.notify("session/cancel", {"sessionId": session})

    async def reply(self, request: Body, result: Body) -> None:
        """Answer a request of the agent."""
        await self.send_many({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def initialize(self) -> Body:
        """The handshake; returns its whole response frame."""
        return await self.request("initialize", CLIENT)

    async def new_session(self) -> str:
        """Open a session in the work folder and return its id."""
        params = {"cwd": str(self.home.work), "mcpServers": []}
        body = await self.request("session/new", params)
        assert "result" in body, body
        return cast("str", body["result"]["sessionId"])

    async def fence(self) -> None:
        """Return when the agent has handled all that it was sent before.

        ``session/list`` goes through a bridge to the agent and back, in order; an agent that
        hangs is found here.
        """
        await self.request("session/list", {})

    # --- waiting ---

    async def wait_for(
        self,
        predicate: Callable[[Seen], bool],
        within_s: float = WAIT_S,
        what: str = "a frame",
        after: Seen | None = None,
    ) -> Seen:
        """The first frame from the agent, behind ``after`` if given, that satisfies it.

        A frame and not a count of them: what one read brought together is not overlooked.

        Raises:
            TimeoutError: it did not come within ``within_s``.
            AgentGone: the process ended and it had not come.
        """
        looked = 0 if after is None else self.frames.index(after) + 1
        with trio.move_on_after(within_s):
            while True:
                news, has_ended = self._news, self._ended.is_set()
                for seen in self.frames[looked:]:
                    if seen.sender == "agent" and predicate(seen):
                        return seen
                looked = len(self.frames)
                if has_ended:
                    raise AgentGone(f"{what} did not come; {self.account()}")
                await news.wait()
        raise TimeoutError(f"{what} did not come within {within_s} s; {self.account()}")

    async def wait_text(self, text: str, within_s: float = WAIT_S) -> Seen:
        """Wait for a chunk that holds ``text``."""
        return await self.wait_for(lambda seen: text in seen.text, within_s, f"text {text!r}")

    async def wait_kind(self, kind: str, within_s: float = WAIT_S) -> Seen:
        """Wait for an update of this variant."""
        return await self.wait_for(lambda seen: seen.kind == kind, within_s, kind)

    async def answer(self, sent: Sent, within_s: float = WAIT_S) -> Seen:
        """Wait for the response to a request of ours."""
        what = f"the answer to {sent.label!r} (id {sent.id})"
        return await self.wait_for(lambda seen: is_answer(seen, sent), within_s, what)

    async def wait_exit(self, within_s: float = WAIT_S) -> int:
        """Wait for the process to end, its output read to the last line; its exit code."""
        with trio.move_on_after(within_s):
            await self._ended.wait()
            return await self.process.wait()
        raise TimeoutError(f"the process did not end within {within_s} s; {self.account()}")

    # --- the record ---

    def answers(self, sent: Sent) -> list[Seen]:
        """All responses to one request: a test asserts that there is exactly one."""
        return [seen for seen in self.frames if is_answer(seen, sent)]

    def prompts(self) -> list[Sent]:
        """All prompts of ours, in the order of their ids."""
        return [sent for sent in self._sent.values() if sent.method == "session/prompt"]

    def story(self, session: str) -> list[str]:
        """What the client saw of a session, in order, in words: see `record.story`."""
        return story(self.frames, self._sent, session)

    def account(self) -> str:
        """The end of the record and of stderr, for the message of a failed wait."""
        last = [f"{seen.sender}: {json.dumps(seen.body)[:300]}" for seen in self.frames[-12:]]
        errors = self.stderr_path.read_text(errors="replace")
        return "\n".join(["the last frames were", *last, "stderr ends", errors[-2000:]])

    # --- ends ---

    def agent_pid(self) -> int:
        """The agent's own process: ours, or the one below the bridge."""
        if self.how == "direct":
            return self.process.pid
        pid = find_below(self.process.pid, self.agent)
        assert pid is not None, f"no process below {self.process.pid} runs {self.agent}"
        return pid

    def kill_agent(self) -> int:
        """SIGKILL the agent's own process and return its id; a bridge lives on."""
        pid = self.agent_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    async def close_stdin(self) -> None:
        """Let the process see the end of its input."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def stop(self, grace_s: float = STOP_S) -> int | None:
        """SIGTERM; after the grace SIGKILL to what is left of the process and all below it.

        Returns:
            The exit code, or None if SIGTERM was not enough.
        """
        below = {pid: arguments(pid) for pid in descendants(self.process.pid)}
        code = None
        with trio.CancelScope(shield=True):
            if self.process.returncode is None:
                self.process.terminate()
            with trio.move_on_after(grace_s):
                code = await self.process.wait()
            if code is None:
                self.process.kill()
                await self.process.wait()
            for pid, words in below.items():
                # An id may have been given anew: the command line tells.
                if words and arguments(pid) == words:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            with trio.move_on_after(STOP_S):
                await self._ended.wait()
        return code

    async def restart(self) -> None:
        """Kill the process, if it lives, and start the same command on the same home."""
        if self.process.returncode is None:
            self.process.kill()
        await self.wait_exit()
        await self.spawn()

    async def _record(self, process: trio.Process, ended: trio.Event) -> None:
        """Read one process to its end. A line is recorded when its newline is here."""
        assert process.stdout is not None
        tail = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await process.stdout.receive_some(READ_BYTES):
                *lines, tail = (tail + data).split(b"\n")
                at_s = trio.current_time()
                for line in lines:
                    await self._take(line, at_s)
                self._wake()
        ended.set()
        self._wake()

    async def _take(self, line: bytes, at_s: float) -> None:
        try:
            body = json.loads(line)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.noise.append(line)
            return
        self.frames.append(Seen(at_s, "agent", body))
        if body.get("method") == "session/request_permission" and self.on_permission is not None:
            result = self.on_permission(body)
            if result is not None:
                await self.reply(body, result)

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()
