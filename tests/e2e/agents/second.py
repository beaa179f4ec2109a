"""An agent that differs only in what it does with a second prompt; for `acpbridge demo -- …`.

    python second.py MODE

fifo     runs it when the first has ended, and answers it then
busy     refuses it with an error while the first runs
abort    ends the first as cancelled, and runs it
silent   does not answer it while the first runs, nor afterwards
once     never answers it, whenever it comes
quick    has answered the first before a second can come
closed   opens no session
mute     answers nothing at all
dies     leaves with a last word on stderr when the first prompt comes
asks     as fifo, and asks its client for things in the first turn
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections import deque
from typing import Any

CHUNK_S = 0.05
"""Ten of them are a first turn, into which the second prompt has to come."""
MODE = sys.argv[1]


def send(*bodies: dict[str, Any], **body: Any) -> None:
    """One write: what belongs together is read together."""
    frames = (*bodies, body) if body else bodies
    lines = (json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in frames)
    os.write(1, b"".join(lines))


def chunk(text: str) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def say(text: str) -> None:
    send(chunk(text))


class Agent:
    def __init__(self) -> None:
        self.queue: deque[Any] = deque()
        """Ids of prompts; the first one's turn runs."""
        self.chunks = 0
        self.prompts = 0

    def take(self, body: dict[str, Any]) -> None:
        method, request = body.get("method"), body.get("id")
        if method is None:
            answer = body.get("result") or body["error"]["code"]
            say(f"(you answered {json.dumps(answer)})")
        elif method == "initialize":
            send(id=request, result={"protocolVersion": 1, "agentInfo": {"name": "second"}})
        elif method == "session/new" and MODE == "closed":
            send(id=request, error={"code": -32000, "message": "log in first"})
        elif method == "session/new":
            send(id=request, result={"sessionId": "s"})
        elif method == "session/prompt":
            self.prompt(request)

    def prompt(self, request: Any) -> None:
        if MODE == "dies":
            os.write(2, b"no model is configured\n")
            sys.exit(1)
        if self.queue and MODE == "busy":
            send(id=request, error={"code": -32603, "message": "a turn is running"})
            return
        if self.queue and MODE == "silent":
            return
        self.prompts += 1
        if self.prompts > 1 and MODE == "once":
            return
        if self.queue and MODE == "abort":
            send(id=self.queue.popleft(), result={"stopReason": "cancelled"})
            self.chunks = 0
        self.queue.append(request)
        if MODE == "asks" and len(self.queue) == 1:
            send(id="p", method="session/request_permission", params={"sessionId": "s"})
            send(id="f", method="fs/read_text_file", params={"sessionId": "s", "path": "/x"})
        if MODE == "quick":
            end = {"id": self.queue.popleft(), "result": {"stopReason": "end_turn"}}
            send(chunk("done "), end)

    def go_on(self) -> None:
        """One more chunk of the turn that runs; ten are a turn."""
        self.chunks += 1
        say(f"{self.chunks} ")
        if self.chunks == 10:
            self.answer()

    def answer(self) -> None:
        self.chunks = 0
        send(id=self.queue.popleft(), result={"stopReason": "end_turn"})

    def serve(self) -> None:
        rest = b""
        while True:
            if not select.select([0], [], [], CHUNK_S if self.queue else None)[0]:
                self.go_on()
                continue
            data = os.read(0, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if MODE != "mute":
                    self.take(json.loads(line))


if __name__ == "__main__":
    Agent().serve()
