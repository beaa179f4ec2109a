"""The tasks of a replay, on memory streams and a clock that jumps."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import memory_stream_one_way_pair

from acpbridge.shell import replay as module
from acpbridge.shell.notes import Sink
from acpbridge.shell.replay import Replay
from acpbridge.store.playback import Player
from tests.shell.clock import passes
from tests.shell.streams import RecordingStream
from tests.store.taped import Row, chunk, done, line, prompt, recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trio.testing import MockClock

TURN: list[Row] = [
    (0.0, "client", prompt(1, "a")),
    (0.5, "agent", chunk("x")),
    (2.0, "agent", done(1)),
]


class Played:
    """A replay at work: the client's end of stdin, stdout, and the file that is its stderr."""

    def __init__(self, tape: Path, rows: list[Row]) -> None:
        self.to_us, self.stdin = memory_stream_one_way_pair()
        self.stdout = RecordingStream()
        self._taken = 0
        self.stderr_path = tape / "stderr"
        self._stderr = os.open(self.stderr_path, os.O_WRONLY | os.O_CREAT)
        player = Player(
            recording(tape, rows), speed=1.0, patience_s=1.0, began_s=trio.current_time()
        )
        self._replay = Replay(player, Sink(self._stderr, bytes_max=1 << 20))
        self.has_ended = trio.Event()

    async def run(self) -> None:
        await self._replay.serve(self.stdin, self.stdout)
        os.close(self._stderr)
        self.has_ended.set()

    def came(self) -> list[bytes]:
        """The lines that have come since the last look."""
        lines = self.stdout.data.splitlines()[self._taken :]
        self._taken += len(lines)
        return lines


@asynccontextmanager
async def played(tape: Path, rows: list[Row]) -> AsyncIterator[Played]:
    ours = Played(tape, rows)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.run)
        yield ours
        nursery.cancel_scope.cancel()


async def test_lines_come_when_they_are_due(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with played(tmp_path, TURN) as ours:
        await ours.to_us.send_all(line(prompt(7, "a")) + b"\n")
        await passes(0.4)
        assert ours.came() == []
        await passes(0.2)
        assert ours.came() == [line(chunk("x"))]
        await passes(1.3)
        assert ours.came() == []
        await passes(0.2)

        assert ours.came() == [line(done(7))]


async def test_the_end_of_stdin_is_the_end(tmp_path: Path) -> None:
    """What was asked for is said without a wait, then the process goes."""
    slow: list[Row] = [*TURN[:2], (600.0, "agent", done(1))]
    async with played(tmp_path, slow) as ours:
        await ours.to_us.send_all(line(prompt(1, "a")))
        await ours.to_us.aclose()
        with trio.fail_after(1.5):
            await ours.has_ended.wait()

        assert ours.came() == [line(chunk("x")), line(done(1))]
        assert "said 2 of 2 lines" in ours.stderr_path.read_text()


async def test_a_client_that_stops_reading_ends_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with played(tmp_path, TURN) as ours:
        ours.stdout.is_broken = True
        await ours.to_us.send_all(line(prompt(1, "a")) + b"\n")
        with trio.fail_after(5):
            await ours.has_ended.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it(number: signal.Signals, tmp_path: Path) -> None:
    async with played(tmp_path, TURN) as ours:
        await trio.testing.wait_all_tasks_blocked()
        os.kill(os.getpid(), number)
        with trio.fail_after(5):
            await ours.has_ended.wait()


async def test_a_mismatch_is_answered_and_told(tmp_path: Path) -> None:
    async with played(tmp_path, TURN) as ours:
        await ours.to_us.send_all(line(prompt(5, "b")) + b"\nnot json\n")
        await ours.to_us.aclose()
        await ours.has_ended.wait()
        first, second = ours.came()
        told = ours.stderr_path.read_text().splitlines()

    assert b'"id":5,"error"' in first
    assert b'"id":null,"error"' in second
    assert told[0].startswith("acpbridge replay: the tape does not have this session/prompt; ")
    assert 'prompt[0].text is "b" here and "a" there' in told[0]
    assert "no JSON object" in told[1]
    assert "2 were not" in told[2]


async def test_a_line_over_the_limit_is_told_and_dropped(tmp_path: Path) -> None:
    async with played(tmp_path, TURN) as ours:
        # A byte more than the limit, in pieces that a pipe would bring.
        for _ in range(64):
            await ours.to_us.send_all(b"x" * (module.LINE_BYTES_MAX // 64))
        await ours.to_us.send_all(b"xx\n")
        await ours.to_us.aclose()
        await ours.has_ended.wait()

    assert "dropped a line of" in ours.stderr_path.read_text()


async def test_a_client_that_reads_slowly_is_waited_for(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Lines stay on the tape while more than the limit waits to be written."""
    text = "x" * 40_000
    rows: list[Row] = [(0.0, "client", prompt(1, "a"))]
    rows += [(0.0, "agent", chunk(text)) for _ in range(600)]
    async with played(tmp_path, rows) as ours:
        ours.stdout.block()
        await ours.to_us.send_all(line(prompt(1, "a")) + b"\n")
        await passes(1.0)
        said = ours._replay._player.spoken
        ours.stdout.unblock()
        await passes(1.0)

        assert said <= module._LINES_AT_ONCE_MAX
        assert ours._replay._player.spoken == 600
        assert ours.stdout.data.count(b"\n") == 600
