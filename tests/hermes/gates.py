"""What every scripted model server holds for its test: the requests that came, and the gates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

import trio
from attrs import define, field

WAIT_S = 60.0


class HasTools(Protocol):
    """One request that reached a model."""

    @property
    def has_tools(self) -> bool:
        """Whether it may call tools, as those of turns may."""


T = TypeVar("T")
AskedT = TypeVar("AskedT", bound=HasTools)


@define(eq=False)
class ScriptedModel(Generic[AskedT]):
    """A server on loopback whose answers wait where a test's script says so."""

    port: int = 0
    asked: list[AskedT] = field(factory=list)
    """Requests with tools, in order of arrival: the turns."""
    aside: list[AskedT] = field(factory=list)
    """Titles and summaries."""
    _gates: dict[str, trio.Event] = field(factory=dict)
    _reached: dict[str, trio.Event] = field(factory=dict)
    _news: trio.Event = field(factory=trio.Event)

    @property
    def root(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def listen(
        self, nursery: trio.Nursery, serve: Callable[[trio.SocketStream], Awaitable[None]]
    ) -> None:
        """Serve on a free port until the nursery is cancelled."""
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        self.port = listeners[0].socket.getsockname()[1]

    def release(self, *names: str) -> None:
        """Open gates, also those that no answer has reached yet. A gate stays open."""
        for name in names:
            self._gates.setdefault(name, trio.Event()).set()

    async def reached(self, name: str, within_s: float = WAIT_S) -> None:
        """Wait until an answer stands at the gate ``name``. Raises TimeoutError."""
        event = self._reached.setdefault(name, trio.Event())
        await bounded(event.wait, within_s, f"no answer reached the gate {name!r}")

    async def wait_asked(
        self, predicate: Callable[[AskedT], bool], within_s: float = WAIT_S
    ) -> AskedT:
        """Wait for a request (past ones count) that satisfies ``predicate``. TimeoutError."""

        async def look() -> AskedT:
            while True:
                news = self._news
                for asked in self.asked:
                    if predicate(asked):
                        return asked
                await news.wait()

        return await bounded(look, within_s, "no such request reached the model")

    def note(self, asked: AskedT) -> None:
        """Record one request and wake the waiters."""
        (self.asked if asked.has_tools else self.aside).append(asked)
        self._news.set()
        self._news = trio.Event()

    async def pass_gate(self, name: str) -> None:
        """Stand at a gate until it is released."""
        self._reached.setdefault(name, trio.Event()).set()
        await self._gates.setdefault(name, trio.Event()).wait()


async def bounded(wait: Callable[[], Awaitable[T]], within_s: float, complaint: str) -> T:
    """What the wait brings. Raises TimeoutError."""
    with trio.move_on_after(within_s):
        return await wait()
    raise TimeoutError(f"{complaint} within {within_s} s")
