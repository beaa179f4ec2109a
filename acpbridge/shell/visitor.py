"""One client of the daemon: what waits for it, and how it comes to leave.

A client that reads too slowly is detached at its byte limit; the agent waits for it before that as
`pace` says. The lines that wait are the same objects for all of them, so what a slow one
holds is held once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from acpbridge.shell.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acpbridge.config import Limits


class Visitor:
    """A door of the driver's (`ClientDoor`).

    Args:
        number: As in `ClientJoined`.
        limits: For the sizes.
        detach: Called once, with the number and a reason, when it is over its limit.
    """

    def __init__(self, number: int, *, limits: Limits, detach: Callable[[int, str], None]) -> None:
        self.number = number
        self.outbox = Outbox(
            high_bytes=limits.client_bytes_max // 2, piece_bytes_max=limits.write_bytes_max
        )
        self._bytes_max = limits.client_bytes_max
        self._put_bytes = 0
        self._spare_bytes = 0
        """The most that was put at once, a long line or the replay that a client has asked for, if
        it is over half the limit: that alone detaches nobody."""
        self._detach = detach
        self.is_slow = False
        """It was over its limit; what waits for it is not written any more."""
        self.waited_s = 0.0
        """For how long the agent was held up for it, since it last had caught up (`Pace`)."""
        self.waited_from_bytes = 0
        """Its `read_bytes` when the first of these waits began."""
        self.left_reason = ""
        self.has_left = trio.Event()
        """`ClientLeft` was fed."""

    @property
    def read_bytes(self) -> int:
        """What of its lines its connection has taken so far; a long line counts once it is over."""
        return self._put_bytes - self.outbox.waiting_bytes

    def put_all(self, lines: Sequence[bytes]) -> None:
        """Queue lines; never waits."""
        before_bytes = self.outbox.waiting_bytes
        self.outbox.put_all(lines)
        put_bytes = self.outbox.waiting_bytes - before_bytes
        self._put_bytes += put_bytes
        if put_bytes > self._bytes_max // 2:
            self._spare_bytes = max(self._spare_bytes, put_bytes)

    def flush(self) -> None:
        """Have it written; what does not fit may be too much."""
        outbox = self.outbox
        outbox.flush()
        if outbox.waiting_bytes <= self._bytes_max:
            self._spare_bytes = 0
        elif outbox.waiting_bytes > self._bytes_max + self._spare_bytes and not self.is_slow:
            self.is_slow = True
            waiting_mib = outbox.waiting_bytes / 2**20
            self._detach(
                self.number, f"it read too slowly: {waiting_mib:.1f} MiB waited (client_bytes_max)"
            )
