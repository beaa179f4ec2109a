"""A client's bytes on their way to a daemon and back, with both in memory."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, memory_stream_one_way_pair, wait_all_tasks_blocked

from acpbridge.errors import UsageFault
from acpbridge.shell.attach import Pump
from acpbridge.shell.attach_ws import check_url
from tests.shell.streams import RecordingStream


class MemoryLine:
    """A connection to a daemon that a test plays."""

    goodbye = ""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.has_eof = trio.Event()
        self.is_broken = False
        self.says, self._said = memory_stream_one_way_pair()

    async def send_all(self, data: bytes | bytearray) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            raise trio.BrokenResourceError
        self.sent += data

    async def receive(self) -> bytes:
        return bytes(await self._said.receive_some())

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            raise trio.BrokenResourceError
        self.has_eof.set()


class Rig:
    """A pump at work."""

    def __init__(self, nursery: trio.Nursery, *, observes: bool = False) -> None:
        self.line = MemoryLine()
        self.client, stdin = memory_stream_one_way_pair()
        self.stdout = RecordingStream()
        self.pump = Pump(observes=observes)
        self.ended = trio.Event()
        nursery.start_soon(self._run, stdin)

    async def _run(self, stdin: trio.abc.ReceiveStream) -> None:
        await self.pump.run(self.line, stdin, self.stdout)
        self.ended.set()


async def test_bytes_go_both_ways_as_they_come(nursery: trio.Nursery) -> None:
    rig = Rig(nursery)
    await rig.client.send_all(b"half a ")
    await wait_all_tasks_blocked()
    assert b"half a " == rig.line.sent
    assert rig.pump.is_unheard
    await rig.client.send_all(b"line\n\xff\x00\n")
    await rig.line.says.send_all(b"\xfe\n")
    await wait_all_tasks_blocked()
    assert b"half a line\n\xff\x00\n" == rig.line.sent
    await rig.line.says.aclose()
    await rig.ended.wait()

    assert b"\xfe\n" == rig.stdout.data
    assert not rig.pump.has_left


async def test_last_answers_still_come_and_then_it_ends(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A daemon that goes on talking holds nobody up for a second."""
    rig = Rig(nursery)
    await rig.client.aclose()
    await rig.line.has_eof.wait()
    begin_s = trio.current_time()
    await rig.line.says.send_all(b"answer\n")
    await rig.ended.wait()

    assert b"answer\n" == rig.stdout.data
    assert rig.pump.has_left
    assert 0 < trio.current_time() - begin_s < 1


async def test_a_client_that_reads_no_more_has_left(nursery: trio.Nursery) -> None:
    rig = Rig(nursery)
    rig.stdout.is_broken = True
    await rig.line.says.send_all(b"x")
    await rig.ended.wait()

    assert rig.pump.has_left


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_daemon_that_reads_no_more_is_heard_to_its_end(
    nursery: trio.Nursery, leaves: bool
) -> None:
    rig = Rig(nursery)
    rig.line.is_broken = True
    if leaves:
        await rig.client.aclose()
    else:
        await rig.client.send_all(b"x")
        await wait_all_tasks_blocked()
        await rig.line.says.send_all(b"last words\n")
        await rig.line.says.aclose()
    await rig.ended.wait()

    assert leaves is rig.pump.has_left
    assert rig.stdout.data == (b"" if leaves else b"last words\n")


async def test_leaving_twice_is_leaving_once(nursery: trio.Nursery) -> None:
    rig = Rig(nursery)
    await wait_all_tasks_blocked()
    await rig.pump.leave()
    await rig.pump.leave()
    await rig.line.says.aclose()
    await rig.ended.wait()

    assert rig.pump.has_left


async def test_what_nobody_has_answered_is_said_again_elsewhere(nursery: trio.Nursery) -> None:
    """The daemon was about to end when we came: the next one hears all of it."""
    rig = Rig(nursery)
    await rig.client.send_all(b"first\n")
    await wait_all_tasks_blocked()
    await rig.line.says.aclose()
    await rig.ended.wait()
    assert rig.pump.is_unheard
    other, stdin = MemoryLine(), memory_stream_one_way_pair()
    nursery.start_soon(rig.pump.run, other, stdin[1], rig.stdout)
    await stdin[0].send_all(b"second\n")
    await wait_all_tasks_blocked()
    await other.says.aclose()

    assert b"first\nsecond\n" == other.sent


async def test_what_is_too_much_to_be_said_again_is_not_kept(nursery: trio.Nursery) -> None:
    rig = Rig(nursery)
    await rig.client.send_all(b"x" * (1 << 20) + b"\n")
    await wait_all_tasks_blocked()
    assert not rig.pump.is_unheard
    await rig.line.says.aclose()
    await rig.ended.wait()


async def test_an_observer_says_so_in_its_initialize(nursery: trio.Nursery) -> None:
    rig = Rig(nursery, observes=True)
    await rig.client.send_all(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    await wait_all_tasks_blocked()
    await rig.line.says.aclose()
    await rig.ended.wait()

    assert b'"_meta":{"acpbridge":{"observe":true}}' in rig.line.sent


@pytest.mark.parametrize(
    "url",
    ["ws://127.0.0.1:1/acp", "ws://localhost/acp", "ws://[::1]:1/acp", "wss://acp.example/acp"],
)
def test_urls_that_a_token_may_go_to(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1/acp", "url_invalid"),
        ("ws:///acp", "url_invalid"),
        ("ws://127.0.0.1:x/acp", "url_invalid"),
        ("ws://[::1/acp", "url_invalid"),
        ("ws://127.0.0.1/acp?token=1", "url_invalid"),
        ("ws://me@127.0.0.1/acp", "url_invalid"),
        ("ws://acp.example/acp", "url_not_secure"),
        ("ws://10.0.0.1/acp", "url_not_secure"),
    ],
)
def test_urls_that_it_may_not_go_to(url: str, code: str) -> None:
    with pytest.raises(UsageFault) as caught:
        check_url(url)

    assert code == caught.value.code
