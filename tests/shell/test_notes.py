from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acpbridge.shell.notes import Notes, Sink, render

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    for fd in (read_fd, write_fd):
        try:
            os.close(fd)
        except OSError:
            assert fd == read_fd, "only a test closes its reading end"


async def read(fd: int, size: int = 100_000) -> bytes:
    with trio.fail_after(10):
        await trio.lowlevel.wait_readable(fd)
    return os.read(fd, size)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "acpbridge info stopping"),
        ({"run": 2, "ok": True}, "acpbridge info stopping run=2 ok=True"),
        ({"session": "s-1", "path": "/a/b.c"}, "acpbridge info stopping session=s-1 path=/a/b.c"),
        ({"reason": "exit status 3"}, 'acpbridge info stopping reason="exit status 3"'),
        ({"reason": 'a "b"\nc'}, r'acpbridge info stopping reason="a \"b\"\nc"'),
        ({"reason": ""}, 'acpbridge info stopping reason=""'),
        ({"reason": "größe"}, 'acpbridge info stopping reason="größe"'),
    ],
)
def test_a_note_is_one_line_of_key_and_value(fields: dict[str, object], expected: str) -> None:
    assert expected == render("stopping", "info", fields)


def test_long_values_are_cut() -> None:
    """Clients show the last lines of our stderr to people."""
    line = render("x", "info", {"a": "y" * 300, "b": "z" * 301})

    assert "a=" + "y" * 300 + " " in line
    assert 'b="' + "z" * 299 + '…"' in line


async def test_notes_below_the_level_are_counted_and_not_written(
    pipe: tuple[int, int], nursery: trio.Nursery
) -> None:
    sink = Sink(pipe[1], bytes_max=1000)
    notes = Notes(sink, level="warning")
    for level in ("debug", "info", "warning", "error"):
        notes.note("seen", level)
    nursery.start_soon(sink.run)
    await sink.drained()

    assert b"acpbridge warning seen\nacpbridge error seen\n" == await read(pipe[0])
    assert notes.counters["seen"] == 4


async def test_any_field_name_will_do() -> None:
    """The core names its fields; `name` and `level` are among what it may say."""
    notes = Notes(Sink(2, bytes_max=1000), level="info")
    notes.note("profile", "info", name="hermes", level=3)

    assert notes._sink._pieces.pop() == b"acpbridge info profile name=hermes level=3\n"


async def test_a_file_gets_the_time_too(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    sink = Sink(pipe[1], bytes_max=1000)
    Notes(sink, level="info", is_stamped=True).note("seen")
    nursery.start_soon(sink.run)
    stamp, _, rest = (await read(pipe[0])).partition(b" ")

    assert rest == b"acpbridge info seen\n"
    assert len(stamp) == len("2026-01-01T00:00:00+0000")


async def test_a_note_never_continues_somebody_elses_line(
    pipe: tuple[int, int], nursery: trio.Nursery
) -> None:
    sink = Sink(pipe[1], bytes_max=1000)
    sink.put(b"")
    sink.put_line("one")
    sink.put(b"agent: no line feed")
    sink.put_line("two")
    nursery.start_soon(sink.run)
    await sink.drained()

    assert b"one\nagent: no line feed\ntwo\n" == await read(pipe[0])


async def test_what_is_over_the_limit_is_dropped_and_counted(pipe: tuple[int, int]) -> None:
    sink = Sink(pipe[1], bytes_max=10)
    sink.put(b"12345")
    sink.put(b"123456")
    sink.put(b"67890")

    assert sink.waiting_bytes == 10
    assert sink.dropped_bytes == 6


async def test_a_stuck_reader_never_holds_the_loop_up(
    pipe: tuple[int, int], nursery: trio.Nursery
) -> None:
    """A client that does not read our stderr must not stop the conversation."""
    sink = Sink(pipe[1], bytes_max=1 << 20)
    nursery.start_soon(sink.run)
    sink.put(b"x" * 500_000)
    with trio.move_on_after(0.05) as scope:
        await sink.drained()
    assert scope.cancelled_caught
    received = b""
    while len(received) < 500_000:
        received += await read(pipe[0])
    await sink.drained()

    assert received == b"x" * 500_000


async def test_a_descriptor_in_non_blocking_mode_is_waited_for(
    pipe: tuple[int, int], nursery: trio.Nursery
) -> None:
    """Who shares our stderr may have changed its mode."""
    os.set_blocking(pipe[1], False)
    sink = Sink(pipe[1], bytes_max=1 << 20)
    nursery.start_soon(sink.run)
    sink.put(b"x" * 200_000)
    received = b""
    while len(received) < 200_000:
        received += await read(pipe[0], 1000)
    await sink.drained()

    assert sink.dropped_bytes == 0


async def test_a_reader_that_left_is_no_fault(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    sink = Sink(pipe[1], bytes_max=1000)
    os.close(pipe[0])
    nursery.start_soon(sink.run)
    sink.put(b"anyone?")
    await sink.drained()
    sink.put(b"no")
    await wait_all_tasks_blocked()

    assert sink.dropped_bytes == 9
    assert sink.waiting_bytes == 0
