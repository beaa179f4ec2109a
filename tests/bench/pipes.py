"""The floors: the least that a bridge of trio, or of trio and orjson, could do.

    python tests/bench/pipes.py raw|batch AGENT...

`raw` moves bytes and looks at none. `batch` parses each line once, and forwards the lines of one
read, as they came, in one write. Neither keeps a session, a queue, a clock or a log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import orjson
import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trio.abc import ReceiveStream, SendStream

READ_BYTES = 256 * 1024
"""What one read asks for: as much as acpbridge's."""


async def pump_raw(source: ReceiveStream, sink: SendStream) -> None:
    """Move bytes until the source ends."""
    while data := await source.receive_some(READ_BYTES):
        await sink.send_all(data)


async def pump_batch(source: ReceiveStream, sink: SendStream) -> None:
    """Parse and move lines until the source ends.

    Raises:
        orjson.JSONDecodeError: A line is no JSON.
    """
    loads = orjson.loads
    begun: list[bytes | bytearray] = []
    while data := await source.receive_some(READ_BYTES):
        end = data.rfind(b"\n") + 1
        if end == 0:
            begun.append(data)
            continue
        whole = data[:end]
        if begun:
            whole = b"".join([*begun, whole])
        begun = [data[end:]] if end < len(data) else []
        for line in whole.split(b"\n")[:-1]:
            loads(line)
        await sink.send_all(whole)


PUMPS: dict[str, Callable[[ReceiveStream, SendStream], Awaitable[None]]] = {
    "raw": pump_raw,
    "batch": pump_batch,
}


async def serve(kind: str, argv: Sequence[str]) -> None:
    """Run the agent behind our stdin and stdout until one side ends."""
    pump = PUMPS[kind]
    agent = await trio.lowlevel.open_process(
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    stdin, stdout = trio.lowlevel.FdStream(os.dup(0)), trio.lowlevel.FdStream(os.dup(1))
    async with trio.open_nursery() as nursery:

        async def one_way(source: ReceiveStream, sink: SendStream) -> None:
            await pump(source, sink)
            nursery.cancel_scope.cancel()

        nursery.start_soon(one_way, stdin, agent.stdin)
        nursery.start_soon(one_way, agent.stdout, stdout)
    agent.kill()
    await agent.wait()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1], sys.argv[2:])
