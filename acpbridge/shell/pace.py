"""How long the agent waits for those who read it.

An agent that fills a pipe writes two hundred megabytes a second, and no client reads that fast: a
large history could never be loaded if whoever falls behind were detached at once. So a client may
hold the agent up, but for `client_wait_max_s` in all until it has caught up: until it has read half
of `client_bytes_max` and less than that waits. One that stalls costs the others that much, once,
and several that stall together cost no more. One that reads steadily, but slower than the agent
writes, may never have read all; what it has read shows that it does not stall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acpbridge.shell.visitor import Visitor


class Reader(Protocol):
    """Who reads the agent: one outbox, or many."""

    def has_room(self, high_bytes: int) -> bool:
        """Whether `room` would return at once."""

    async def room(self, high_bytes: int | None = None) -> None:
        """Return once more may be read from the agent."""


class Pace:
    """The readers of a daemon; a `Reader` as an outbox is.

    Args:
        visitors: The clients that are there, by number.
        high_bytes: A client for which more than this waits is behind.
        wait_max_s: One that is behind is waited for so long in all, until it has read `high_bytes`
            since these waits began, and less than that waits.
    """

    def __init__(
        self, visitors: Mapping[int, Visitor], *, high_bytes: int, wait_max_s: float
    ) -> None:
        self._visitors = visitors
        self._high_bytes = high_bytes
        self._wait_max_s = wait_max_s

    def has_room(self, high_bytes: int) -> bool:
        """As `Reader`; a client's own limit may be lower."""
        limit_bytes = min(high_bytes, self._high_bytes)
        return not any(self._is_waited_for(one, limit_bytes) for one in self._visitors.values())

    async def room(self, high_bytes: int | None = None) -> None:
        """As `Reader`."""
        limit_bytes = min(high_bytes or self._high_bytes, self._high_bytes)
        visitors = list(self._visitors.values())
        async with trio.open_nursery() as nursery:
            for visitor in visitors:
                if self._is_waited_for(visitor, limit_bytes):
                    nursery.start_soon(self._wait_for, visitor, limit_bytes)

    async def _wait_for(self, visitor: Visitor, limit_bytes: int) -> None:
        begin_s = trio.current_time()
        if not visitor.waited_s:
            visitor.waited_from_bytes = visitor.read_bytes
        try:
            with trio.move_on_after(self._wait_max_s - visitor.waited_s):
                await visitor.outbox.room(limit_bytes)
        finally:
            visitor.waited_s += trio.current_time() - begin_s
            # Seen here, too: by the next look the agent may have put it behind again.
            self._renew(visitor, limit_bytes)

    def _is_waited_for(self, visitor: Visitor, limit_bytes: int) -> bool:
        if visitor.has_left.is_set():
            return False
        self._renew(visitor, limit_bytes)
        return visitor.outbox.waiting_bytes >= limit_bytes and visitor.waited_s < self._wait_max_s

    def _renew(self, visitor: Visitor, limit_bytes: int) -> None:
        """Who is not behind any more, and not only by a line, may be waited for anew.

        Reading alone is not enough: from a large replay much is read long before the end.
        """
        if (
            visitor.waited_s
            and visitor.outbox.waiting_bytes < limit_bytes
            and visitor.read_bytes - visitor.waited_from_bytes >= limit_bytes
        ):
            visitor.waited_s = 0.0
