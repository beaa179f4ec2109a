"""A test's own hands on an agent: it reads what the agent gets and writes what the agent says."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from tests.e2e.bridge import BOUND_S, Frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SESSION = "s-1"


class Puppet:
    """The agent of one daemon; it opens one session."""

    def __init__(self, path: Path, listener: trio.SocketListener) -> None:
        self.command = (
            sys.executable,
            str(Path(__file__).parent / "agents" / "puppet.py"),
            str(path),
        )
        """What the daemon is to start."""
        self.frames: list[Frame] = []
        """What came to the agent, in order."""
        self._listener = listener
        self._stream: trio.SocketStream | None = None
        self._tail = b""
        self._taken = 0

    async def takes(self, method: str) -> Frame:
        """The next frame that comes to the agent, which must be of this method."""
        frame = await self.takes_next()
        assert frame.get("method") == method, frame
        return frame

    async def takes_answer(self, id_: Any) -> Any:
        """The next frame that comes to the agent, which must be this result."""
        frame = await self.takes_next()
        assert frame.get("id") == id_, frame
        return frame["result"]

    async def answers(self, method: str, result: Frame) -> Frame:
        """Take a request and answer it."""
        frame = await self.takes(method)
        await self.says({"id": frame["id"], "result": result})
        return frame

    async def says(self, *frames: Frame) -> None:
        stream = await self._connected()
        lines = [json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in frames]
        await stream.send_all(b"".join(lines))

    async def updates(self, *updates: Frame) -> None:
        """Say updates of the session, in one write."""
        await self.says(
            *(
                {"method": "session/update", "params": {"sessionId": SESSION, "update": update}}
                for update in updates
            )
        )

    async def takes_next(self) -> Frame:
        """The next frame that comes to the agent."""
        with trio.fail_after(BOUND_S):
            stream = await self._connected()
            while self._taken == len(self.frames):
                data = await stream.receive_some(1 << 16)
                assert data, "the agent has ended"
                *lines, self._tail = (self._tail + data).split(b"\n")
                self.frames += [json.loads(line) for line in lines]
        self._taken += 1
        return self.frames[self._taken - 1]

    async def _connected(self) -> trio.SocketStream:
        if self._stream is None:
            with trio.fail_after(BOUND_S):
                self._stream = await self._listener.accept()
        return self._stream

    async def aclose(self) -> None:
        await self._listener.aclose()
        if self._stream is not None:
            await self._stream.aclose()


@asynccontextmanager
async def puppet(folder: Path) -> AsyncIterator[Puppet]:
    """An agent to be started by `Puppet.command`."""
    path = folder / "puppet.sock"
    ours = trio.socket.socket(trio.socket.AF_UNIX)
    await ours.bind(str(path))
    ours.listen()
    agent = Puppet(path, trio.SocketListener(ours))
    try:
        yield agent
    finally:
        with trio.CancelScope(shield=True):
            await agent.aclose()


def tool(call: str) -> Frame:
    """A new tool call: an event that is never merged with another one."""
    return {"sessionUpdate": "tool_call", "toolCallId": call, "title": call, "kind": "execute"}


def permission(id_: Any) -> Frame:
    """A permission request that a person can allow or deny."""
    options = [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
    ]
    call = {"toolCallId": "t-1", "title": "rm -rf ./build"}
    params = {"sessionId": SESSION, "toolCall": call, "options": options}
    return {"id": id_, "method": "session/request_permission", "params": params}


def is_asked(frame: Frame) -> bool:
    return frame.get("method") == "session/request_permission"
