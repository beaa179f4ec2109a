"""A named pipe that a tool of the agent writes to: the test learns when the tool runs."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import trio
from attrs import define, field

WAIT_S = 60.0


@define(eq=False)
class Signal:
    """``with Signal(path) as signal``; a command such as ``echo > path`` lets `wait` return."""

    path: Path
    _descriptor: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        os.mkfifo(self.path, mode=0o600)
        # Opened before anyone writes, so that the writer never waits for us.
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    async def wait(self, within_s: float = WAIT_S) -> None:
        """Wait for the first byte. Raises TimeoutError."""
        with trio.move_on_after(within_s):
            await trio.lowlevel.wait_readable(self._descriptor)
            return
        raise TimeoutError(f"nothing wrote to {self.path} within {within_s} s")
