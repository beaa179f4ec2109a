"""The conversation that `acpbridge demo` shows: two prompts, the second into the first one's turn.

A small client of its own, so that what is shown is what any client would see. It is run twice, once
on the agent and once on a real `acpbridge run` in front of it, within a bound in all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import trio
from attrs import define, field, frozen

from acpbridge.core.policy import MIB
from acpbridge.shell.stdio import READ_BYTES
from acpbridge.wire import acp
from acpbridge.wire.lines import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

How = Literal["direct", "bridged"]
What = Literal["sends", "says", "thinks", "echoes", "calls", "answers"]

TOTAL_S = 20.0
"""Everything that the demo does ends within this time."""
DIRECT_S = 9.0
"""The first conversation ends by then, whatever it came to; the rest is the second one's."""
STOP_S = 0.5
"""An agent that was asked to end gets this long, and a bridge twice, before it is killed."""
QUIET_S = 0.6
"""How long is listened after the last answer, for what comes too late."""
STDERR_TAIL_BYTES = 400

_CHUNKS: dict[str, What] = {
    acp.AGENT_MESSAGE_CHUNK: "says",
    acp.AGENT_THOUGHT_CHUNK: "thinks",
    acp.USER_MESSAGE_CHUNK: "echoes",
}
_CLIENT = {
    "protocolVersion": acp.PROTOCOL_VERSION,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}},
    "clientInfo": {"name": "acpbridge-demo", "version": "1"},
}


@frozen
class Script:
    """What the client says."""

    first: str
    second: str
    after_chunks: int
    """The second prompt goes when the first one's turn has brought so many chunks."""


SCRIPTED = Script("Count to 9.", "What is 6 times 7?", after_chunks=3)
"""To the scripted Hermes."""
HARMLESS = Script(
    "Count from 1 to 40, one number after the other. Use no tools.",
    "What is 6 times 7? Answer with the number. Use no tools.",
    after_chunks=1,
)
"""To an agent with a model behind it: long enough to be met, and nothing that could do harm."""


def scripted_hermes() -> list[str]:
    """The command of the scripted Hermes that is part of this package."""
    return [sys.executable, "-m", "acpbridge.shell.scripted_hermes"]


@frozen
class Moment:
    """One thing that the client did or saw."""

    at_s: float
    """Since the first prompt was written."""
    what: What
    prompt: int = 0
    """1 or 2 where it is a prompt or its answer."""
    text: str = ""
    """What was said; of an answer the stop reason, or the error's message."""
    is_error: bool = False
    is_bare: bool = False
    """An answer `end_turn` with nothing beside it."""


@define
class Run:
    """What one conversation came to."""

    how: How
    moments: list[Moment] = field(factory=list)
    failure: str = ""
    """Why it did not come to its end; empty if it did."""
    lasted_s: float = 0.0
    """From the first prompt until nobody listened any more."""

    def find(self, what: What, prompt: int) -> Moment | None:
        """When this prompt was sent, or answered; None if it was not."""
        return next((m for m in self.moments if (m.what, m.prompt) == (what, prompt)), None)


def run_demo(agent: Sequence[str] | None, on_news: Callable[[Run], None]) -> tuple[Run, Run]:
    """Hold both conversations, one after the other; returns (direct, bridged).

    Args:
        agent: The agent's command; None for the scripted Hermes.
        on_news: Called with the run that goes on after each moment of it.

    Raises:
        KeyboardInterrupt: A signal broke it off; its processes have been ended.
    """
    script = SCRIPTED if agent is None else HARMLESS
    command = scripted_hermes() if agent is None else list(agent)
    runs = trio.run(_run_unless_stopped, command, script, on_news)
    if runs is None:
        raise KeyboardInterrupt
    return runs


async def _run_unless_stopped(
    command: list[str], script: Script, on_news: Callable[[Run], None]
) -> tuple[Run, Run] | None:
    runs = None
    async with trio.open_nursery() as nursery:
        await nursery.start(_cancel_on_signal, nursery.cancel_scope)
        runs = await _run_both(command, script, on_news)
        nursery.cancel_scope.cancel()
    return runs


async def _cancel_on_signal(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


async def _run_both(
    command: list[str], script: Script, on_news: Callable[[Run], None]
) -> tuple[Run, Run]:
    began_s = trio.current_time()
    direct, bridged = Run("direct"), Run("bridged")
    with tempfile.TemporaryDirectory(prefix="acpbridge-demo-") as folder:
        bridge = [sys.executable, "-m", "acpbridge", "run", "--", *command]
        # Room to end the processes, and for what waits behind a cancelled conversation.
        spare_s = 4 * STOP_S
        for run, words, ends_s in (
            (direct, command, began_s + DIRECT_S),
            (bridged, bridge, began_s + TOTAL_S - spare_s),
        ):
            conversation = Conversation(run, script, folder, partial(on_news, run))
            await conversation.hold(words, _environment(folder), ends_s)
            if run.failure and run.find("sends", 2) is None:
                break
    return direct, bridged


def _environment(folder: str) -> Mapping[str, str]:
    """Ours, without the person's settings of the bridge; it queues, which every agent allows."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ACPBRIDGE_")}
    return {**kept, "ACPBRIDGE_STATE_DIR": folder, "ACPBRIDGE_MIDTURN": "queue"}


class Conversation:
    """A client on one process.

    Args:
        run: Where what happens is written.
        script: What to say.
        folder: The session's working directory.
        on_news: Called after each moment.
    """

    def __init__(self, run: Run, script: Script, folder: str, on_news: Callable[[], None]) -> None:
        self._run = run
        self._script = script
        self._folder = folder
        self._on_news = on_news
        self._results: dict[int, Any] = {}
        self._news = trio.Event()
        self._chunks = 0
        self._began_s = 0.0
        self._stderr = b""
        self._stderr_done = trio.Event()
        self._has_ended = False
        self._process: trio.Process | None = None

    async def hold(self, command: Sequence[str], environ: Mapping[str, str], ends_s: float) -> None:
        """Start the process, hold the conversation until `ends_s` at most, end the process."""
        try:
            self._process = await trio.lowlevel.open_process(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._run.failure = f"{command[0]} cannot be started: {error}"
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(self._drain_stderr)
                with trio.CancelScope(deadline=ends_s) as scope:
                    await self._talk()
                if scope.cancelled_caught:
                    self._run.failure = "it took too long"
                self._run.lasted_s = trio.current_time() - self._began_s if self._began_s else 0.0
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await _end(self._process)

    async def _talk(self) -> None:
        try:
            await self._ask(1, acp.INITIALIZE, _CLIENT)
            opened = await self._ask(2, acp.SESSION_NEW, {"cwd": self._folder, "mcpServers": []})
            session = opened["sessionId"]
            await self._prompt(1, session, self._script.first)
            await self._until(
                lambda: self._chunks >= self._script.after_chunks or 3 in self._results
            )
            await self._prompt(2, session, self._script.second)
            await self._until(lambda: 3 in self._results and 4 in self._results)
            with trio.move_on_after(QUIET_S):
                await self._until(lambda: False)
        except _Failed as failure:
            self._run.failure = str(failure)
        except (KeyError, TypeError):
            self._run.failure = "it opened no session"

    async def _ask(self, rpc_id: int, method: str, params: dict[str, Any]) -> Any:
        await self._write({"id": rpc_id, "method": method, "params": params})
        await self._until(lambda: rpc_id in self._results)
        body = self._results[rpc_id]
        if "error" in body:
            raise _Failed(f"it refused {method}: {_message(body)}")
        return body["result"]

    async def _prompt(self, number: int, session: str, text: str) -> None:
        if number == 1:
            self._began_s = trio.current_time()
        blocks = [{"type": "text", "text": text}]
        params = {"sessionId": session, "prompt": blocks}
        self._add("sends", prompt=number, text=text)
        await self._write({"id": number + 2, "method": acp.SESSION_PROMPT, "params": params})

    async def _write(self, body: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        line = json.dumps({"jsonrpc": acp.JSONRPC, **body}).encode() + b"\n"
        # One that is gone is noticed by its stdout.
        with suppress(trio.BrokenResourceError):
            await self._process.stdin.send_all(line)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._has_ended:
                words = self._stderr.decode("utf-8", "replace").strip().splitlines()
                raise _Failed(f"it ended by itself{': ' + words[-1] if words else ''}")
            self._news = trio.Event()
            await self._news.wait()

    # --- what comes ---

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        decoder = LineDecoder(64 * MIB)
        while data := await self._process.stdout.receive_some(READ_BYTES):
            for line in decoder.feed(data):
                if isinstance(line, bytes):
                    await self._take(line)
            self._news.set()
        # Its last words explain its end.
        with trio.move_on_after(STOP_S):
            await self._stderr_done.wait()
        self._has_ended = True
        self._news.set()

    async def _take(self, line: bytes) -> None:
        try:
            body = json.loads(line)
        except ValueError:
            return
        if not isinstance(body, dict):
            return
        method, rpc_id = body.get("method"), body.get("id")
        if method is None:
            self._answered(rpc_id, body)
        elif rpc_id is not None:
            await self._write({"id": rpc_id, **_no(method)})
        elif method == acp.SESSION_UPDATE:
            self._updated((body.get("params") or {}).get("update") or {})

    def _answered(self, rpc_id: Any, body: dict[str, Any]) -> None:
        if rpc_id not in (1, 2, 3, 4) or rpc_id in self._results:
            return
        self._results[rpc_id] = body
        if rpc_id in (3, 4):
            result = body.get("result")
            self._add(
                "answers",
                prompt=rpc_id - 2,
                text=_message(body) if "error" in body else str((result or {}).get("stopReason")),
                is_error="error" in body,
                is_bare=result == {"stopReason": acp.END_TURN},
            )

    def _updated(self, update: dict[str, Any]) -> None:
        kind, content = update.get("sessionUpdate"), update.get("content")
        if not self._began_s:
            return
        if kind == acp.TOOL_CALL:
            self._chunks += 1
            self._add("calls", text=str(update.get("title", "")))
        text = content.get("text") if isinstance(content, dict) else None
        if kind in _CHUNKS and isinstance(text, str) and text:
            self._chunks += 1
            self._add(_CHUNKS[str(kind)], text=text)

    def _add(self, what: What, **fields: Any) -> None:
        at_s = trio.current_time() - self._began_s
        self._run.moments.append(Moment(at_s, what, **fields))
        self._on_news()

    async def _drain_stderr(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        async for data in self._process.stderr:
            self._stderr = (self._stderr + data)[-STDERR_TAIL_BYTES:]
        self._stderr_done.set()


class _Failed(Exception):
    """The conversation cannot go on; the text says why."""


async def _end(process: trio.Process) -> None:
    """Ask the process to end, then kill its group, whose number is ours until it is reaped."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # pragma: no cover - no Linux, or an old one
        pidfd = -1
    # A bridge that is asked twice kills its agent at once.
    for _ in range(2) if pidfd >= 0 else ():
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with trio.move_on_after(STOP_S):
            await trio.lowlevel.wait_readable(pidfd)
            break
    if pidfd >= 0:
        os.close(pidfd)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            await trio.aclose_forcefully(pipe)


def _no(method: str) -> dict[str, Any]:
    """The answer to whatever the agent asks for: nobody is here to allow anything."""
    if method == acp.REQUEST_PERMISSION:
        return {"result": {"outcome": {"outcome": "cancelled"}}}
    return {"error": {"code": acp.METHOD_NOT_FOUND, "message": "this is a demo"}}


def _message(body: dict[str, Any]) -> str:
    error = body["error"]
    return str(error.get("message", "") if isinstance(error, dict) else error)
