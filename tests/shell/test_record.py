from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from acpbridge.shell.notes import Notes, Sink
from acpbridge.shell.record import TapeRecorder
from acpbridge.store.tape import Tape, open_tape
from tests.shell.clock import passes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def notes() -> Notes:
    return Notes(Sink(2, bytes_max=1000), level="error")


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return open_tape(tmp_path / "tape.jsonl", recorded="2026-01-01")


def lines_of(tape: Tape) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tape.path.read_text().splitlines()]


async def test_lines_reach_the_file_with_their_times(
    tape: Tape, notes: Notes, autojump_clock: MockClock
) -> None:
    await passes(100)
    recorder = TapeRecorder(tape, notes=notes, bytes_max=1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await wait_all_tasks_blocked()
        recorder.take(100.25, "client", b'{"id":1}')
        recorder.take(101.5, "agent", b"noise")
        recorder.end()
        recorder.take(102.0, "agent", b"too late")

    assert [
        {"t": 0.25, "from": "client", "frame": {"id": 1}},
        {"t": 1.5, "from": "agent", "line": "noise"},
    ] == lines_of(tape)[1:]


async def test_the_file_grows_while_the_bridge_runs(
    tape: Tape, notes: Notes, nursery: trio.Nursery
) -> None:
    """A recording that is killed keeps what was seen before."""
    recorder = TapeRecorder(tape, notes=notes, bytes_max=100_000)
    nursery.start_soon(recorder.run)
    for number in range(100):
        recorder.take(0.0, "client", b'{"id":%d}' % number)
    with trio.fail_after(10):
        while len(tape.path.read_bytes().splitlines()) < 101:
            await wait_all_tasks_blocked(0.001)
    tape.close()


async def test_a_disk_that_is_too_slow_ends_the_recording(tape: Tape, notes: Notes) -> None:
    """At the limit all is well; one byte more, and a tape with a hole would be a lie."""
    recorder = TapeRecorder(tape, notes=notes, bytes_max=16)
    recorder.take(0.0, "client", b'{"id":1}')
    recorder.take(0.0, "client", b'{"id":2}')
    assert notes.counters["tape_ended"] == 0
    recorder.take(0.0, "client", b"x")
    recorder.take(0.0, "client", b"y")
    await recorder.run()

    assert notes.counters["tape_ended"] == 1
    assert [1, 2] == [line["frame"]["id"] for line in lines_of(tape)[1:]]


@pytest.mark.parametrize("line_count", [1, 100])
async def test_a_full_disk_ends_the_recording_and_not_the_bridge(
    line_count: int, notes: Notes, tmp_path: Path
) -> None:
    """The first line waits for the header until the end, a hundred of them do not."""
    full = os.open("/dev/full", os.O_WRONLY)
    tape = Tape(full, tmp_path, scenario="x", recorded="2026-01-01")
    recorder = TapeRecorder(tape, notes=notes, bytes_max=100_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        for number in range(line_count):
            recorder.take(0.0, "client", b'{"id":%d}' % number)
        if line_count == 1:
            recorder.end()

    assert notes.counters["tape_ended"] == 1
