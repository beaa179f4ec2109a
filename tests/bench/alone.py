"""What is measured of acpbridge alone: a client that stalls, long turns, many sessions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from tests.bench import proc
from tests.bench.client import Updates
from tests.bench.crowd import CROWD_CLIENTS, Drain, joined
from tests.bench.measure import FEW_SESSIONS, LARGE_BYTES, LONG_TURN, MIB, SMALL_BYTES, Sizes
from tests.bench.targets import AGENT, BRIDGE, UNIX, Running, running

_STALL = ("stall_held_mib", "stall_mib", "stall_read_mb")
_LINEAR = ("linear_ratio", "linear_mib")
_CROWD = ("crowd_mib", "crowd_whole", "crowd_agents")
_ROW_TRIPS = 20
"""Round trips in a row before the other side has its row."""
_SESSIONS = ("sessions_trip_ratio", "sessions_small_ratio", "sessions_kib_each")

Passes: TypeAlias = dict[str, list[float]]
"""Named figures, one of each pass."""


def stalled(agent: Path, sizes: Sizes, figures: Passes) -> None:
    """A client that reads nothing while the agent sends, and then everything.

    Raises:
        Lost: Something is missing, changed or not in order.
    """
    held, grown, read = (figures.setdefault(name, []) for name in _STALL)
    with running(BRIDGE, agent) as run:
        idle_mib, before = run.cost().rss_mib, 0
        for size in (LARGE_BYTES, SMALL_BYTES):
            session = run.client.open_session()
            updates = Updates(-(-sizes.stall_mb * 1_000_000 // size), size)
            begin_s = time.perf_counter()
            # Until all of it is here, none of it is.
            read.append(0)
            rpc_id = run.client.ask(session, updates.order)
            written = proc.written_when_still(run.agent(), sizes.still_s)
            run.client.finish(session, updates, rpc_id, begin_s=begin_s, verify=True)
            read[-1] = updates.number * size / 1e6
            # The agent has written the first turn's bytes before the second one's.
            held.append((written - before) / MIB)
            before = proc.written_bytes(run.agent())
            # The highest of all this time, what came after the stall included.
            grown.append(run.cost().peak_mib - idle_mib)


def linear(agent: Path, sizes: Sizes, figures: Passes) -> None:
    """The time of an update in a turn of ten times as many, and the memory that it adds."""
    short = Updates(sizes.linear, SMALL_BYTES)
    long = Updates(sizes.linear * LONG_TURN, SMALL_BYTES)
    ratios, added = (figures.setdefault(name, []) for name in _LINEAR)
    for _ in range(sizes.passes):
        with running(BRIDGE, agent) as run:
            session = run.client.open_session()
            run.client.turn(session, short, verify=True)
            # A short turn on either side: the machine's speed drifts while a long one runs.
            short_s = run.client.turn(session, short, verify=False).took_s
            before_mib = run.cost().peak_mib
            long_s = run.client.turn(session, long, verify=False).took_s
            added.append(run.cost().peak_mib - before_mib)
            short_s += run.client.turn(session, short, verify=False).took_s
            ratios.append(long_s / LONG_TURN / (short_s / 2))


def many_sessions(agent: Path, sizes: Sizes, figures: Passes) -> None:
    """What a round trip and an update cost with many used sessions, to what they do with ten."""
    trips, streams, each = (figures.setdefault(name, []) for name in _SESSIONS)
    with running(BRIDGE, agent) as few, running(BRIDGE, agent) as many:
        few_ids = _used_sessions(few, FEW_SESSIONS)
        many_ids = _used_sessions(many, sizes.sessions)
        more_mib = many.cost().rss_mib - few.cost().rss_mib
        each.append(more_mib * 1024 / (sizes.sessions - FEW_SESSIONS))
        updates = Updates(sizes.small // 2, SMALL_BYTES)
        for number in range(sizes.passes):
            trips.append(_trips_ratio((many, many_ids), (few, few_ids), sizes.round_trips // 4))
            pair = [(many, many_ids[number]), (few, few_ids[number])]
            in_turn = pair[::-1] if number % 2 else pair
            took = {run.pid: _turn_s(run, session, updates) for run, session in in_turn}
            streams.append(took[many.pid] / took[few.pid])


def _used_sessions(run: Running, number: int) -> list[str]:
    """Open sessions, with one short turn in each."""
    ids = [run.client.open_session() for _ in range(number)]
    for session in ids:
        run.client.turn(session, Updates(1, SMALL_BYTES), verify=True)
    return ids


def _trips_ratio(
    many: tuple[Running, list[str]], few: tuple[Running, list[str]], tried: int
) -> float:
    """The median round trip with many sessions to that with few, each trip in another one.

    A row of these, then a row of those, and who begins takes turns: with the many always first,
    right behind the other's stream, passes said 2.7 for a core that steps as fast as with ten.
    """
    took: dict[int, list[float]] = {many[0].pid: [], few[0].pid: []}
    for begin in range(0, tried, _ROW_TRIPS):
        is_turned = begin // _ROW_TRIPS % 2
        for run, ids in (few, many) if is_turned else (many, few):
            stride = max(1, len(ids) // tried)
            took[run.pid] += [
                run.client.round_trip(ids[trip * stride % len(ids)])
                for trip in range(begin, min(begin + _ROW_TRIPS, tried))
            ]
    return statistics.median(took[many[0].pid]) / statistics.median(took[few[0].pid])


def _turn_s(run: Running, session: str, updates: Updates) -> float:
    return run.client.turn(session, updates, verify=False).took_s


def crowd(agent: Path, sizes: Sizes, figures: Passes) -> None:
    """Many clients at one daemon: all read one turn but one that stalls; then all come and go.

    Raises:
        Lost: A client that reads was detached, or an answer was wrong.
    """
    peaks, whole, agents = (figures.setdefault(name, []) for name in _CROWD)
    with running(UNIX, agent) as run, ExitStack() as stack:
        sessions = _used_sessions(run, sizes.crowd_sessions)
        updates = Updates(sizes.small, SMALL_BYTES)
        others = [
            stack.enter_context(joined(run.place, sessions[0])) for _ in range(CROWD_CLIENTS - 1)
        ]
        # The first of them never reads.
        readers = others[1:]
        with Drain([one.wire for one in readers]) as drain:
            run.client.turn(sessions[0], updates, verify=True)
            wanted = sum(map(len, updates.around(sessions[0]))) + 10
            got = drain.take(updates.number * wanted)
        whole.append(1 + sum(size >= updates.number * wanted for size in got))
        for number in range(sizes.reconnects):
            with joined(run.place, sessions[number % len(sessions)]):
                pass
        run.client.turn(sessions[1], Updates(1, SMALL_BYTES), verify=True)
        peaks.append(run.cost().peak_mib)
        agents.append(sum(proc.name(pid) == AGENT for pid in proc.tree(run.pid)))


ALONE: dict[str, Callable[[Path, Sizes, Passes], None]] = {
    "stall": stalled,
    "linear": linear,
    "sessions": many_sessions,
    "crowd": crowd,
}
