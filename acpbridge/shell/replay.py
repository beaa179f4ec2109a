"""A process that speaks as the agent of a tape: `acpbridge replay`.

What it says and when is decided by `store.playback`; here are the pipes and the clock. stdin's end
is the client's sign to go: what has all it needs is then said at once, and the process ends.
"""

from __future__ import annotations

import math
import signal
from typing import TYPE_CHECKING

import trio

from acpbridge.core.policy import MIB
from acpbridge.shell.notes import Sink
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.stdio import READ_BYTES, check_stdio, own_stdio
from acpbridge.store.playback import Player
from acpbridge.wire.lines import LineDecoder, Oversize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trio.abc import ReceiveStream, SendStream

    from acpbridge.store.tape_reader import Recording

LINE_BYTES_MAX = 64 * MIB
"""One line of the client; a longer one is none of the tape's."""
OUTBOX_HIGH_BYTES = 8 * MIB
"""Nothing more is said, and nothing more read, while this much waits for the client."""
STDERR_BYTES_MAX = 2 * MIB
FLUSH_MAX_S = 2.0
"""At the end, what still waits for the client is written for at most this long."""
_LINES_AT_ONCE_MAX = 256
_STDERR_FLUSH_S = 0.5


def replay_stdio(recording: Recording, *, speed: float, patience_s: float) -> int:
    """Play the tape's agent on our own stdin and stdout to the end; returns the exit code.

    Args:
        recording: The tape.
        speed: How many times faster than recorded; infinity for without waits.
        patience_s: See `Player`.

    Raises:
        UsageFault: stdin or stdout is not open.
    """
    check_stdio()
    return trio.run(run_replay, recording, speed, patience_s)


async def run_replay(recording: Recording, speed: float, patience_s: float) -> int:
    """The same inside trio."""
    with own_stdio() as (stdin, stdout):
        player = Player(recording, speed=speed, patience_s=patience_s, began_s=trio.current_time())
        replay = Replay(player, Sink(2, bytes_max=STDERR_BYTES_MAX))
        await replay.serve(stdin, stdout)
    return 0


class Replay:
    """The tasks of one replay.

    Args:
        player: What decides.
        stderr: Where remarks go.
    """

    def __init__(self, player: Player, stderr: Sink) -> None:
        self._player = player
        self._stderr = stderr
        self._out = Outbox(high_bytes=OUTBOX_HIGH_BYTES, piece_bytes_max=MIB)
        self._news = trio.Event()
        self._is_ending = False

    async def serve(self, stdin: ReceiveStream, stdout: SendStream) -> None:
        """Play until the client closes stdin or stdout, or a signal asks to stop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stderr.run)
            async with trio.open_nursery() as playing:
                playing.start_soon(self._stop_on_signal, playing.cancel_scope)
                playing.start_soon(self._write, stdout, playing.cancel_scope)
                playing.start_soon(self._read, stdin)
                await self._speak()
                with trio.move_on_after(FLUSH_MAX_S):
                    await self._out.drained()
                playing.cancel_scope.cancel()
            self._tell((self._player.summary(),))
            with trio.move_on_after(_STDERR_FLUSH_S):
                await self._stderr.drained()
            nursery.cancel_scope.cancel()

    async def _read(self, stdin: ReceiveStream) -> None:
        decoder = LineDecoder(LINE_BYTES_MAX)
        while data := await stdin.receive_some(READ_BYTES):
            self._take(decoder.feed(data))
            await self._out.room()
        self._take(decoder.end())
        self._player.hurry()
        self._is_ending = True
        self._news.set()

    def _take(self, items: Iterable[bytes | Oversize]) -> None:
        now_s = trio.current_time()
        for item in items:
            if isinstance(item, Oversize):
                self._tell((f"dropped a line of {item.size_bytes} bytes, over the limit",))
                continue
            taken = self._player.take(item, now_s)
            for line in taken.answers:
                self._out.put(line)
            self._tell(taken.notes)
        self._out.flush()
        self._news.set()

    async def _speak(self) -> None:
        """Say what is due until the client has gone and everything that can be said was said."""
        while True:
            self._news = trio.Event()
            said = self._player.speak(trio.current_time(), _LINES_AT_ONCE_MAX)
            for line in said.lines:
                self._out.put(line)
            self._out.flush()
            self._tell(said.notes)
            # An agent whose client does not read stands still as well.
            await self._out.room()
            if self._is_ending and math.isinf(said.again_s):
                return
            with trio.CancelScope(deadline=said.again_s):
                await self._news.wait()

    async def _write(self, stdout: SendStream, playing: trio.CancelScope) -> None:
        await self._out.run(stdout)
        playing.cancel()

    async def _stop_on_signal(self, playing: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                playing.cancel()

    def _tell(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._stderr.put_line(f"acpbridge replay: {note}")
