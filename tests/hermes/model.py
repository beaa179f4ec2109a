"""A scripted OpenAI-compatible model server on loopback.

The last user message carries the program (`script.py`), so the server keeps no state but its
gates. A tool step ends one HTTP answer; the next request of the turn goes on after it, which
is known from the tool calls in the message list. Steps:

    ["say", text]                    one content delta
    ["think", text]                  one reasoning delta
    ["stream", n, delay_s, word]     n deltas "word0 ", "word1 " …, delay_s seconds apart
    ["gate", name]                   hold the open answer until `ModelServer.release`
    ["sleep", seconds]               hold the open answer for a time
    ["big", n]                       one delta of n bytes "x"
    ["tool", name, arguments]        one tool call; ends this answer
    ["tools", [[name, arguments] …]] several tool calls; ends this answer
    ["status", code, text]           an HTTP error in place of an answer
    ["reset"]                        close the connection with RST, now
    ["finish", reason]               the finish_reason to send
    ["usage", prompt, completion]    the token counts to report

A request without tools is a title or a compression summary: it gets a fixed text and is kept
apart. A user message without a program is echoed.
"""

from __future__ import annotations

import json
import socket
import struct
from functools import partial
from typing import Any

import h11
import trio
from attrs import define, field, frozen

from tests.hermes.gates import ScriptedModel
from tests.hermes.script import Step, program, segments

READ_BYTES = 65536
SIDE_TEXT = "Scripted title"
MODEL = "scripted-model"
CONTEXT_TOKENS = 200_000


@frozen
class Asked:
    """One chat request that reached the model."""

    at_s: float
    messages: list[dict[str, Any]]
    has_tools: bool
    streams: bool

    @property
    def text(self) -> str:
        """The last paragraph of the last user message; empty if there is none.

        Hermes joins a message that got no reply (a failed call, a kill) with the next one,
        a blank line between; a test's own texts have no blank lines.
        """
        texts = self.user_texts
        return texts[-1].rpartition("\n\n")[2] if texts else ""

    @property
    def opens_turn(self) -> bool:
        """Whether the user message is last: a turn's first request, or a retry of it."""
        return bool(self.messages) and self.messages[-1].get("role") == "user"

    @property
    def user_texts(self) -> list[str]:
        """Every user message, oldest first: the conversation that the agent remembers."""
        return [message_text(m) for m in self.messages if m.get("role") == "user"]


def message_text(message: dict[str, Any]) -> str:
    """The text of a chat message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part.get("text", "") for part in parts if isinstance(part, dict))


@define(eq=False)
class ModelServer(ScriptedModel[Asked]):
    """Hermes' model: one chat API."""

    @property
    def url(self) -> str:
        """The base URL for an agent's configuration."""
        return f"{self.root}/v1"

    def prompts(self) -> list[str]:
        """The user texts that opened a turn, in order. A retry by the agent counts again."""
        return [asked.text for asked in self.asked if asked.opens_turn]


async def start_model(nursery: trio.Nursery) -> ModelServer:
    """Serve on a free loopback port until the nursery is cancelled."""
    server = ModelServer()
    await server.listen(nursery, partial(_serve, server))
    return server


async def _serve(server: ModelServer, stream: trio.SocketStream) -> None:
    """One connection: request after request until either side is done with it."""
    http = _Http(stream)
    try:
        while True:
            received = await http.receive()
            if received is None:
                return
            await _respond(server, http, *received)
            if not http.next_cycle():
                return
    except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError, _Gone):
        return  # The agent hung up (a cancel does that), or the script asked for a reset.


async def _respond(server: ModelServer, http: _Http, target: str, body: bytes) -> None:
    if target.rstrip("/").endswith("/models"):
        card = {"id": MODEL, "object": "model", "context_length": CONTEXT_TOKENS}
        await http.send_json(200, {"object": "list", "data": [card]})
        return
    if not target.endswith("/chat/completions"):
        await http.send_json(404, {"error": {"message": f"nothing is served at {target}"}})
        return
    request = json.loads(body)
    asked = Asked(
        at_s=trio.current_time(),
        messages=request.get("messages") or [],
        has_tools=bool(request.get("tools")),
        streams=bool(request.get("stream")),
    )
    server.note(asked)
    serial = len(server.asked) + len(server.aside)
    await _Reply(server, http, asked.streams, serial).play(_steps_for(asked))


def _steps_for(asked: Asked) -> list[Step]:
    if not asked.has_tools:
        return [["say", SIDE_TEXT]]
    steps = program(asked.text)
    if steps is None:
        return [["say", f"echo: {asked.text}"]]
    last_user = max(i for i, m in enumerate(asked.messages) if m.get("role") == "user")
    calls = [m for m in asked.messages[last_user:] if m.get("tool_calls")]
    parts = segments(steps)
    return parts[len(calls)] if len(calls) < len(parts) else [["say", "(the program is over)"]]


class _Gone(Exception):
    """The script closed the connection."""


@define(eq=False)
class _Http:
    """HTTP/1.1 on one stream, by h11; only what a model server needs."""

    stream: trio.SocketStream
    _connection: h11.Connection = field(factory=lambda: h11.Connection(h11.SERVER))

    async def receive(self) -> tuple[str, bytes] | None:
        """The next request as (target, body); None when the peer has closed."""
        target, body = "", bytearray()
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(await self.stream.receive_some(READ_BYTES))
            elif isinstance(event, h11.Request):
                target = event.target.decode("ascii")
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return target, bytes(body)
            else:
                return None

    def next_cycle(self) -> bool:
        """Make ready for the next request; False if the connection must close."""
        states = (self._connection.our_state, self._connection.their_state)
        if states != (h11.DONE, h11.DONE):
            return False
        self._connection.start_next_cycle()
        return True

    async def send(self, *events: h11.Event) -> None:
        await self.stream.send_all(b"".join(self._connection.send(e) or b"" for e in events))

    async def send_json(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        head = h11.Response(status_code=status, headers=headers)
        await self.send(head, h11.Data(data=body), h11.EndOfMessage())

    async def reset(self) -> None:
        """Close with RST: a zero linger throws away what is unsent."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(self.stream)
        raise _Gone


@define(eq=False)
class _Reply:
    """One chat answer while its steps play; server-sent events, or one body at the end."""

    server: ModelServer
    http: _Http
    streams: bool
    serial: int
    text: str = ""
    calls: list[dict[str, Any]] = field(factory=list)
    finish: str = "stop"
    usage: tuple[int, int] = (100, 10)
    _has_begun: bool = False

    async def play(self, steps: list[Step]) -> None:
        for step in steps:
            if step[0] == "status":
                await self.http.send_json(step[1], {"error": {"message": step[2]}})
                return
            await self._step(step)
        await self._end()

    async def _step(self, step: Step) -> None:
        match step:
            case ["say", text]:
                await self._say(text)
            case ["think", text]:
                await self._delta({"reasoning_content": text})
            case ["stream", count, delay_s, word]:
                for number in range(count):
                    await self._say(f"{word}{number} ")
                    await trio.sleep(delay_s)
            case ["gate", name]:
                await self._delta({})
                await self.server.pass_gate(name)
            case ["sleep", seconds]:
                await self._delta({})
                await trio.sleep(seconds)
            case ["big", count]:
                await self._say("x" * count)
            case ["tool", name, arguments]:
                await self._call([[name, arguments]])
            case ["tools", calls]:
                await self._call(calls)
            case ["reset"]:
                await self.http.reset()
            case ["finish", reason]:
                self.finish = reason
            case ["usage", prompt, completion]:
                self.usage = (prompt, completion)
            case _:
                # The text reaches the test as the model's answer, so a typo is seen at once.
                await self._say(f"(unknown step {step!r})")

    async def _say(self, text: str) -> None:
        self.text += text
        await self._delta({"content": text})

    async def _call(self, calls: list[Any]) -> None:
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{self.serial}_{index}", "type": "function", "function": function}
            self.calls.append(call)
            await self._delta({"tool_calls": [{"index": index, **call}]})
        self.finish = "tool_calls"

    async def _delta(self, delta: dict[str, Any], finish: str | None = None) -> None:
        if not self.streams:
            return
        events: list[h11.Event] = []
        if not self._has_begun:
            self._has_begun = True
            headers = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
            events.append(h11.Response(status_code=200, headers=headers))
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        await self.http.send(*events, self._event({"choices": [choice]}))

    def _event(self, value: dict[str, Any]) -> h11.Data:
        body = {**self._frame("chat.completion.chunk"), **value}
        return h11.Data(data=b"data: " + json.dumps(body).encode() + b"\n\n")

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.serial}", "object": kind, "created": 0, "model": MODEL}

    async def _end(self) -> None:
        prompt, completion = self.usage
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        if self.streams:
            await self._delta({}, self.finish)
            done = h11.Data(data=b"data: [DONE]\n\n")
            last = self._event({"choices": [], "usage": usage})
            await self.http.send(last, done, h11.EndOfMessage())
            return
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = self.calls
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        body = {**self._frame("chat.completion"), "choices": [choice], "usage": usage}
        await self.http.send_json(200, body)
