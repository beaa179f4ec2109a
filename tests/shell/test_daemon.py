"""The daemon's tasks, with peers in memory and a real agent process that sends back."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from acpbridge.core.events import AgentExited, ClientJoined, ClientLeft, ClientSent, StopAsked
from acpbridge.core.policy import Policy
from acpbridge.shell.peers import GOING_AWAY, NORMAL, TRY_AGAIN
from tests.shell.clock import quickest_s
from tests.shell.crowd import BOUND_S, LIMITS, MemoryPeer, Rig
from tests.shell.streams import RecordingStream

pytestmark = pytest.mark.process

REQUEST = b'{"jsonrpc":"2.0","id":%d,"method":"x"}'
STOP = b'{"jsonrpc":"2.0","id":"s","method":"_acpbridge/stop","params":{}}'


@pytest.fixture
async def rig(nursery: trio.Nursery) -> AsyncIterator[Rig]:
    async with at_work(Rig(), nursery) as found:
        yield found


class at_work:  # noqa: N801 - reads as what it is
    """Serve while the block runs, and end in order."""

    def __init__(self, rig: Rig, nursery: trio.Nursery) -> None:
        self._rig, self._nursery = rig, nursery

    async def __aenter__(self) -> Rig:
        self._nursery.start_soon(self._rig.serve)
        await wait_all_tasks_blocked()
        return self._rig

    async def __aexit__(self, *_: object) -> None:
        if not self._rig.ended.is_set():
            self._rig.stop()
            with trio.fail_after(BOUND_S):
                await self._rig.ended.wait()


async def test_clients_get_numbers_and_what_the_agent_says(rig: Rig) -> None:
    first, second = rig.come(), rig.come()
    await first.say(REQUEST % 1)
    assert [REQUEST % 1] == await first.lines(1)
    await second.say(REQUEST % 2)
    assert [REQUEST % 2] == await first.lines(1)
    assert [REQUEST % 2] == await second.lines(1)
    await first.to_us.aclose()
    (left,) = await rig.crowd.until(ClientLeft)
    third = rig.come()
    await third.say(REQUEST % 3)
    assert [REQUEST % 3] == await third.lines(1)

    assert [ClientJoined(1), ClientJoined(2), ClientJoined(3)] == await rig.crowd.until(
        ClientJoined, 3
    )
    assert ClientLeft(1, "it closed the connection") == left
    assert [1, 2, 3] == [event.client for event in await rig.crowd.until(ClientSent, 3)]
    assert [""] == rig.ready


async def test_what_says_nothing_is_no_client(rig: Rig) -> None:
    """A probe connects and leaves; nobody is told, and it holds no place."""
    probe, silent = rig.come(), rig.come()
    await probe.to_us.aclose()
    await probe.is_over.wait()
    await silent.to_us.send_all(b"half a li")
    await wait_all_tasks_blocked()

    assert [] == rig.crowd.present
    assert [] == [one for one in rig.crowd.seen if isinstance(one, ClientLeft)]


@pytest.mark.parametrize("way", ["closes", "breaks", "is lost", "hangs up", "stops"])
async def test_a_client_leaves_once_however_it_goes(way: str, nursery: trio.Nursery) -> None:
    outgoing = RecordingStream()
    async with at_work(Rig(limits=evolve(LIMITS, client_bytes_max=400)), nursery) as rig:
        peer, other = rig.come(outgoing), rig.come()
        await peer.say(REQUEST % 1)
        await other.say(REQUEST % 2)
        await rig.crowd.until(ClientJoined, 2)
        if way == "closes":
            await peer.to_us.aclose()
        elif way == "breaks":
            outgoing.is_broken = True
            await other.say(REQUEST % 3)
        elif way == "is lost":
            peer.lost.set()
        elif way == "hangs up":
            # It writes and does not read, so it is not read; its end stands behind that.
            outgoing.block()
            await peer.say(*[REQUEST % number for number in range(1, 7)])
            while REQUEST % 6 not in await other.lines(1):
                pass
            await peer.say(REQUEST % 7)
            await rig.crowd.until(ClientSent, 9)
            await wait_all_tasks_blocked()
            peer.left.set()
        else:
            rig.stop()
        await rig.crowd.until(ClientLeft, 2 if way == "stops" else 1)
        with trio.fail_after(BOUND_S):
            await peer.is_over.wait()
    left = [one.client for one in await rig.crowd.until(ClientLeft, 2)]

    assert [1, 2] == sorted(left)
    assert left[0] == 1 or way == "stops"
    assert outgoing.is_closed
    assert peer.closed_with is not None
    assert peer.closed_with[0] == (GOING_AWAY if way == "stops" else NORMAL)


async def test_a_slow_client_is_detached_and_nobody_waits_for_it(nursery: trio.Nursery) -> None:
    limits = evolve(LIMITS, client_bytes_max=100_000)
    async with at_work(Rig(limits=limits), nursery) as rig:
        stuck = RecordingStream()
        stuck.block()
        slow, fast = rig.come(stuck, kind="ws"), rig.come()
        await slow.say(REQUEST % 0)
        await rig.crowd.until(ClientJoined)
        lines: list[bytes] = []
        # Written and read in turns: how fast this loop reads must not make the fast one slow.
        for number in range(1, 10_001, 100):
            await fast.say(*[REQUEST % one for one in range(number, number + 100)])
            while REQUEST % (number + 99) not in lines[-1:]:
                lines += await fast.lines(1)
        (left,) = await rig.crowd.until(ClientLeft)
        with trio.fail_after(BOUND_S):
            await slow.is_over.wait()

        assert [REQUEST % number for number in range(1, 10_001)] == [
            line for line in lines if line != REQUEST % 0
        ]
        assert left.client == 1
        assert left.reason.startswith("it read too slowly: 0.1 MiB waited")
        assert (TRY_AGAIN, left.reason) == slow.closed_with
        assert [2] == rig.crowd.present
        assert rig.notes.counters["client_detached"] == 1
        assert len(stuck.data) < 200_000


async def say_all(peer: MemoryPeer, count: int) -> None:
    for number in range(1, count + 1):
        await peer.say(REQUEST % number)


@pytest.mark.parametrize(("spare", "stays"), [(0, True), (1, False)])
async def test_one_line_over_the_limit_detaches_nobody_by_itself(
    spare: int, stays: bool, nursery: trio.Nursery
) -> None:
    """A client that reads well cannot help it; one that has not read the line before can."""
    big = b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * 50_000 + b'"}'
    small = REQUEST % 7
    async with at_work(Rig(limits=evolve(LIMITS, client_bytes_max=1000)), nursery) as rig:
        stuck = RecordingStream()
        stuck.block()
        peer, other = rig.come(stuck), rig.come()
        await peer.say(REQUEST % 1)
        await rig.crowd.until(ClientJoined)
        await other.say(big)
        while big not in await other.lines(1):
            pass
        for _ in range(25 + 5 * spare):
            await other.say(small)
            await other.lines(1)
        await wait_all_tasks_blocked()
        assert stays is (1 in rig.crowd.present)
        stuck.unblock()
        with trio.fail_after(BOUND_S):
            while stays and not stuck.data.endswith(small + b"\n"):
                await wait_all_tasks_blocked()


async def test_a_client_that_only_writes_is_held_back_and_not_detached(
    nursery: trio.Nursery,
) -> None:
    """Its own answers wait for it; the others are read meanwhile."""
    async with at_work(Rig(limits=evolve(LIMITS, client_bytes_max=10_000)), nursery) as rig:
        stuck = RecordingStream()
        stuck.block()
        writer, other = rig.come(stuck), rig.come()
        nursery.start_soon(say_all, writer, 100)
        await rig.crowd.until(ClientSent, 100)
        await other.say(REQUEST % 1)
        await other.lines(1)
        stuck.unblock()
        await writer.to_us.aclose()
        await rig.crowd.until(ClientLeft)

        assert "closed" in (await rig.crowd.until(ClientLeft))[0].reason


async def test_replays_that_are_asked_for_at_once_come_as_they_are_read(
    nursery: trio.Nursery,
) -> None:
    """A client that loads all its sessions in one write is not slow, nor may it take a gigabyte."""
    count, replay = 20, [b'{"method":"x"}' * 10] * 60
    async with at_work(Rig(limits=evolve(LIMITS, client_bytes_max=10_000)), nursery) as rig:
        rig.crowd.replay = replay
        stuck = RecordingStream()
        stuck.block()
        client = rig.come(stuck)
        await client.say(*[b'{"jsonrpc":"2.0","id":1,"method":"replay"}'] * count)
        await rig.crowd.until(ClientSent)
        await wait_all_tasks_blocked()
        assert len(await rig.crowd.until(ClientSent)) == 1
        stuck.unblock()
        await rig.crowd.until(ClientSent, count)
        with trio.fail_after(BOUND_S):
            while stuck.data.count(b"\n") < count * len(replay):
                await wait_all_tasks_blocked()

        assert [1] == rig.crowd.present


async def test_one_client_more_is_refused_in_words(nursery: trio.Nursery) -> None:
    async with at_work(Rig(policy=Policy(clients_max=1)), nursery) as rig:
        first, second, third = rig.come(), rig.come(), rig.come()
        await first.say(REQUEST % 1)
        await first.lines(1)
        await second.say(REQUEST % 2)
        await third.say(b"no JSON")
        answers = [json.loads((await peer.lines(1))[0]) for peer in (second, third)]
        with trio.fail_after(BOUND_S):
            await second.is_over.wait()
            await third.is_over.wait()

        assert [2, None] == [answer["id"] for answer in answers]
        assert "clients_max" in answers[0]["error"]["message"]
        assert answers[0]["error"]["data"]["acpbridge"]["kind"] == "busy"
        assert second.closed_with is not None
        assert second.closed_with[0] == TRY_AGAIN
        assert [1] == rig.crowd.present
        await first.to_us.aclose()
        await rig.crowd.until(ClientLeft)
        with trio.fail_after(BOUND_S):
            await first.is_over.wait()
        fourth = rig.come()
        await fourth.say(REQUEST % 4)
        assert [REQUEST % 4] == await fourth.lines(1)


async def test_connections_have_a_limit_of_their_own(nursery: trio.Nursery) -> None:
    """Those that say nothing must not take every descriptor."""
    async with at_work(Rig(limits=evolve(LIMITS, connections_max=2)), nursery) as rig:
        rig.come(), rig.come()
        third = rig.come()
        with trio.fail_after(BOUND_S):
            await third.is_over.wait()

        assert rig.notes.counters["connection_refused"] == 1


async def test_who_fills_one_listener_does_not_close_the_other(nursery: trio.Nursery) -> None:
    """No token is needed to connect by HTTP and to send half a request, for anybody here."""
    async with at_work(Rig(limits=evolve(LIMITS, connections_max=2)), nursery) as rig:
        rig.come(kind="ws"), rig.come(kind="ws")
        third = rig.come(kind="ws")
        with trio.fail_after(BOUND_S):
            await third.is_over.wait()
        ours = rig.come()
        await ours.say(REQUEST % 1)

        assert [REQUEST % 1] == await ours.lines(1)


async def test_stop_is_a_first_line_that_is_no_client(nursery: trio.Nursery) -> None:
    """Answered, fed once, and the asker's connection ends with the daemon."""
    rig = Rig()
    async with at_work(rig, nursery):
        client, asker = rig.come(), rig.come()
        await client.say(REQUEST % 1)
        await client.lines(1)
        await asker.say(STOP)
        answer = json.loads((await asker.lines(1))[0])
        with trio.fail_after(BOUND_S):
            await rig.ended.wait()

    assert {"jsonrpc": "2.0", "id": "s", "result": {"pid": os.getpid(), "clients": 1}} == answer
    assert [StopAsked("acpbridge stop")] == await rig.crowd.until(StopAsked)
    assert asker.is_over.is_set()
    assert rig.doors.is_closed
    assert (rig.code, 1) == (0, len(await rig.crowd.until(ClientJoined)))


async def test_by_websocket_nobody_stops_it(rig: Rig) -> None:
    """Whoever has the token may talk with the agent; the process is its user's."""
    peer = rig.come(kind="ws")
    await peer.say(STOP)
    assert [STOP] == await peer.lines(1)

    assert [1] == rig.crowd.present


async def test_last_words_reach_a_client_and_a_stuck_one_holds_the_end_up_by_the_flush(
    nursery: trio.Nursery,
) -> None:

    async def end_s() -> float:
        rig = Rig("sh", "-c", 'read line; echo "$line"; read more; echo "$line"')
        async with at_work(rig, nursery):
            stuck = RecordingStream()
            slow, fast = rig.come(stuck), rig.come()
            await slow.say(REQUEST % 1)
            await rig.crowd.until(ClientJoined)
            await fast.say()
            await fast.say(b'{"jsonrpc":"2.0","method":"y"}')
            await rig.crowd.until(ClientJoined, 2)
            stuck.block()
            await rig.crowd.until(AgentExited)
            begin_s = trio.current_time()
            with trio.fail_after(BOUND_S):
                await rig.ended.wait()
        took_s = trio.current_time() - begin_s
        assert REQUEST % 1 in await fast.lines(1)
        assert slow.is_over.is_set()
        return took_s

    assert await quickest_s(2.0, end_s) < 2


async def test_an_agent_that_cannot_start_is_told_to_who_waits(nursery: trio.Nursery) -> None:
    rig = Rig("no-such-agent")
    await rig.serve()

    assert ["no command 'no-such-agent'; install it, or give its full path"] == rig.ready


async def test_who_has_left_leaves_no_task_behind(rig: Rig) -> None:
    """However they go: a thousand that came are nothing but counters."""
    first = rig.come()
    await first.say(REQUEST % 0)
    await first.lines(1)
    before = trio.lowlevel.current_statistics().tasks_living
    for number in range(1, 301):
        peer = rig.come()
        if number % 3:
            await peer.say(REQUEST % number)
        if number % 5 == 0:
            peer.lost.set()
        await peer.to_us.aclose()
        with trio.fail_after(BOUND_S):
            await peer.is_over.wait()
    await wait_all_tasks_blocked()

    assert before == trio.lowlevel.current_statistics().tasks_living
    assert [1] == rig.crowd.present
    assert {1} == set(rig.daemon._visitors)
    assert 1 == rig.daemon._connections.total()
