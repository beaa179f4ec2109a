"""HTTP/1.1 on one loopback connection, by h11: only what a scripted model server needs.

Rule: an answer ends at once when the agent hangs up. Both agents cut a running generation that
way, and a test has to see it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import h11
import trio
from attrs import define, field, frozen

from tests.hermes.record import Body

READ_BYTES = 65536
HUNG_UP = (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)


@frozen
class Request:
    """One request, read to its end."""

    method: str
    target: str
    """The path without its query."""
    body: bytes


@define(eq=False)
class Connection:
    """One connection of an agent. Raises one of HUNG_UP when the agent has left."""

    stream: trio.SocketStream
    _http: h11.Connection = field(factory=lambda: h11.Connection(h11.SERVER))

    async def receive(self) -> Request | None:
        """The next request; None when the agent has closed the connection."""
        head, body = None, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self.stream.receive_some(READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                target = head.target.decode("ascii").partition("?")[0]
                return Request(head.method.decode("ascii"), target, bytes(body))
            else:
                return None

    def next_cycle(self) -> bool:
        """Make ready for the next request; False if the connection must close."""
        if (self._http.our_state, self._http.their_state) != (h11.DONE, h11.DONE):
            return False
        self._http.start_next_cycle()
        return True

    async def until_hung_up(self, answer: Callable[[], Awaitable[None]]) -> None:
        """Run ``answer`` until it is done or the agent hangs up, whichever comes first."""
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                with suppress(*HUNG_UP):
                    while data := await self.stream.receive_some(READ_BYTES):
                        self._http.receive_data(data)
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            with suppress(*HUNG_UP):
                await answer()
            nursery.cancel_scope.cancel()

    async def send_nothing(self, status: int) -> None:
        """A whole answer without a body: the only kind that a HEAD may get."""
        head = h11.Response(status_code=status, headers=[("Content-Length", "0")])
        await self._send(head, h11.EndOfMessage())

    async def send_json(self, status: int, value: Body) -> None:
        """A whole answer of one JSON object."""
        body = json.dumps(value).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        head = h11.Response(status_code=status, headers=headers)
        await self._send(head, h11.Data(data=body), h11.EndOfMessage())

    async def begin_events(self) -> None:
        """The head of an answer of server-sent events."""
        headers = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
        await self._send(h11.Response(status_code=200, headers=headers))

    async def send_event(self, name: str, value: Body) -> None:
        """One named event; both APIs repeat the name as the data's ``type``."""
        data = json.dumps({"type": name, **value})
        await self._send(h11.Data(data=f"event: {name}\ndata: {data}\n\n".encode()))

    async def end_events(self) -> None:
        """The end of an answer of server-sent events."""
        await self._send(h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        await self.stream.send_all(b"".join(self._http.send(event) or b"" for event in events))
