"""A client that costs little: it counts lines, or compares each with the bytes it must have.

One request is open at a time. Whoever measures bounds the time: the process behind is killed, and
a blocking read or write here then ends with EOFError or BrokenPipeError.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import Any, Protocol

from attrs import frozen

READ_BYTES = 256 * 1024
WRITE_BYTES_MAX = 1024 * 1024
_TAIL_BYTES = 1024
"""No answer of the agent is longer."""
_SHOWN_BYTES = 500
_ESCAPED = rb"say \"ok\"\n"
_TOOL = b'"sessionUpdate":"tool_call_update","toolCallId":"call-1",'
_CHUNK = b'"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"', b'"}'
_AROUND = {
    "hermes": (b'"content":{"text":"', b'","type":"text"},"sessionUpdate":"agent_message_chunk"'),
    "tool": (_TOOL + b'"content":[{"type":"content","content":{"type":"text","text":"', b'"}}]'),
}
"""What stands around the text of an update, by style, as in agent.c."""
_MIXED = r"an é, an \u00e9, \ud83d\ude00, a \"quote\", a \/ and 1e400. ".encode()
"""Of a prompt's text: what a JSON encoder would write otherwise."""
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_DIGITS = 10


class Lost(Exception):
    """What arrived is not what was sent."""


class Wire(Protocol):
    """Lines to and from the process behind."""

    def send(self, line: bytes) -> None:
        """Write one line; `line` has no line feed."""

    def read(self) -> bytes:
        """Return what has come, at least a byte, lines ended by line feeds.

        Raises:
            EOFError: Nothing more will come.
        """

    def close(self) -> None:
        """Give the descriptors back."""


class PipeWire:
    """Two descriptors, blocking."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self._write_fd = write_fd

    def send(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        while rest:
            rest = rest[os.write(self._write_fd, rest[:WRITE_BYTES_MAX]) :]

    def read(self) -> bytes:
        data = os.read(self.read_fd, READ_BYTES)
        if not data:
            raise EOFError("the process behind has closed its output")
        return data

    def close(self) -> None:
        os.close(self.read_fd)
        os.close(self._write_fd)


@frozen
class Updates:
    """The updates that a prompt asks of the agent."""

    number: int
    text_bytes: int
    style: str = "plain"

    @property
    def order(self) -> str:
        """The prompt's text."""
        return f"BENCH {self.number} {self.text_bytes} {self.style}"

    def around(self, session: str) -> tuple[bytes, bytes]:
        """The bytes of each line before and behind its number, the line feed included."""
        before, after = _AROUND.get(self.style, _CHUNK)
        head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%b","update":{'
        pattern = _ESCAPED if self.style == "escaped" else _LETTERS
        whole, rest = divmod(self.text_bytes, len(pattern))
        # No escape is cut in two.
        text = pattern * whole + (b"." * rest if pattern is _ESCAPED else pattern[:rest])
        return head % session.encode() + before, text[_DIGITS:] + after + b"}}}\n"


@frozen
class Turn:
    """A prompt and all that came of it."""

    took_s: float
    answer: dict[str, Any]


class Client:
    """One connection."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._id = 0

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result; updates before it are passed over.

        Raises:
            Lost: It was answered with an error.
        """
        return self._answered(self.send(method, params))

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request and return its id."""
        self._id += 1
        body = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self._wire.send(json.dumps(body, separators=(",", ":")).encode())
        return self._id

    def initialize(self) -> None:
        """Say hello."""
        info = {"name": "bench", "version": "1"}
        self.call(
            "initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info}
        )

    def open_session(self) -> str:
        """Open a session and return its id."""
        return str(self.call("session/new", {"cwd": "/", "mcpServers": []})["sessionId"])

    def round_trip(self, session: str) -> float:
        """Seconds from before session/set_mode is written until its answer is here."""
        self._id += 1
        line = b'{"jsonrpc":"2.0","id":%d,"method":"session/set_mode","params":' % self._id
        line += b'{"sessionId":"%b","modeId":"m"}}' % session.encode()
        begin_s = time.perf_counter()
        self._wire.send(line)
        got = self._wire.read()
        while not got.endswith(b"\n"):
            got += self._wire.read()
        took_s = time.perf_counter() - begin_s
        if b'"id":%d,"result"' % self._id not in got:
            raise Lost(f"session/set_mode was answered {got[:_SHOWN_BYTES]!r}")
        return took_s

    def ask(self, session: str, text: str) -> int:
        """Send a prompt and return its id."""
        prompt = [{"type": "text", "text": text}]
        return self.send("session/prompt", {"sessionId": session, "prompt": prompt})

    def turn(self, session: str, updates: Updates, *, verify: bool) -> Turn:
        """Prompt, read all updates and the answer.

        Raises:
            Lost: Their number or size is not what it must be; with `verify`, a byte of them.
        """
        begin_s = time.perf_counter()
        rpc_id = self.ask(session, updates.order)
        return self.finish(session, updates, rpc_id, begin_s=begin_s, verify=verify)

    def check(self, session: str, size: int) -> float:
        """Seconds of a prompt of `size` bytes until the agent has told what of it arrived.

        Raises:
            Lost: Not the bytes that were sent.
        """
        self._id += 1
        line = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":' % self._id
        line += b'{"sessionId":"%b","prompt":[{"type":"text","text":"CHECK' % session.encode()
        line += _MIXED * (size // len(_MIXED)) + b'"}]}}'
        behind = memoryview(line)[line.index(b',"method"') :]
        wanted = {"bytes": len(behind), "crc32": zlib.crc32(behind)}
        begin_s = time.perf_counter()
        self._wire.send(line)
        meta = self._answered(self._id).get("_meta")
        took_s = time.perf_counter() - begin_s
        if meta != wanted:
            raise Lost(f"the agent has received {meta}, sent was {wanted}")
        return took_s

    def finish(
        self, session: str, updates: Updates, rpc_id: int, *, begin_s: float, verify: bool
    ) -> Turn:
        """Read all updates and the answer of a prompt that was sent.

        Raises:
            Lost: As in `turn`.
        """
        head, tail = updates.around(session)
        read = self._verified if verify else self._counted
        answer = read(head, tail, updates)
        took_s = time.perf_counter() - begin_s
        return Turn(took_s, _result(answer, rpc_id))

    def _counted(self, head: bytes, tail: bytes, updates: Updates) -> bytes:
        read = self._wire.read
        lines = size = 0
        last = b""
        while True:
            data = read()
            lines += data.count(b"\n")
            size += len(data)
            last = data[-_TAIL_BYTES:] if len(data) >= _TAIL_BYTES else (last + data)[-_TAIL_BYTES:]
            answer = last[last.rfind(b"\n", 0, -1) + 1 :]
            if last.endswith(b"\n") and b'"method"' not in answer and b'"id":' in answer:
                break
        wanted = (updates.number, updates.number * (len(head) + _DIGITS + len(tail)))
        if (lines - 1, size - len(answer)) != wanted:
            got = f"{lines - 1} updates of {size - len(answer)} bytes in all"
            raise Lost(f"{got} came for {wanted}, then {answer[:_SHOWN_BYTES]!r}")
        return answer

    def _verified(self, head: bytes, tail: bytes, updates: Updates) -> bytes:
        number = 0
        held: list[bytes] = []
        while True:
            data = self._wire.read()
            end = data.rfind(b"\n") + 1
            if end == 0:
                held.append(data)
                continue
            whole = b"".join([*held, data[:end]])
            held = [data[end:]]
            for line in whole.splitlines(keepends=True):
                if number == updates.number:
                    return line
                if line != b"%b%010d%b" % (head, number, tail):
                    raise Lost(f"update {number} came as {line[:_SHOWN_BYTES]!r}")
                number += 1

    def _answered(self, rpc_id: int) -> dict[str, Any]:
        held = b""
        while True:
            held += self._wire.read()
            *lines, held = held.split(b"\n")
            for line in lines:
                if b'"method"' not in line:
                    return _result(line, rpc_id)


def _result(line: bytes, rpc_id: int) -> dict[str, Any]:
    body = json.loads(line)
    result = body.get("result")
    if body.get("id") != rpc_id or not isinstance(result, dict):
        raise Lost(f"request {rpc_id} was answered {line[:_SHOWN_BYTES]!r}")
    return result
