"""Time that passes on a fake clock."""

from __future__ import annotations

import trio


async def passes(seconds: float) -> None:
    """Let that much of an autojump clock pass, and everything that is due happen."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()
