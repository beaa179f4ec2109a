"""`step`: one event in, the effects it demands out. The only door to the core.

Deterministic: the same state, time and event give the same effects. The first branch is the fast
path: a text chunk in a turn where nothing is in doubt is passed on without being looked into.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, count, islice, repeat
from typing import assert_never

from acpbridge.core import cancel, client_side, ending, keeping, life, queue, recovery, work
from acpbridge.core.agent_side import agent_frame, agent_garbled, release_hold
from acpbridge.core.effects import Effect, StreamToClient, ToClient
from acpbridge.core.events import (
    AgentExited,
    AgentGarbled,
    AgentLeft,
    AgentSent,
    AgentStarted,
    AgentStreamed,
    ClientClosed,
    ClientGarbled,
    ClientSent,
    Event,
    KeyFound,
    Persisted,
    PersistFailed,
    Recovered,
    SessionAbandoned,
    SingleEvent,
    StopAsked,
    TimerFired,
    TimerKey,
)
from acpbridge.core.model import Bridge, Session, Trigger
from acpbridge.core.outgoing import gate_over, release_behind
from acpbridge.core.policy import Policy
from acpbridge.core.table import TABLE
from acpbridge.profiles import GENERIC_AGENT, GENERIC_CLIENT, AgentProfile, ClientProfile

__all__ = ["Bridge", "begin", "start", "step"]


def start(
    policy: Policy, agent: AgentProfile | None, client: ClientProfile | None, nonce: str
) -> Bridge:
    """A bridge that has seen nothing yet; profiles that are None are chosen from the wire.

    `nonce` is random text of this run in letters and digits, from the shell.
    """
    return Bridge(
        policy=policy,
        agent=agent or GENERIC_AGENT,
        client=client or GENERIC_CLIENT,
        agent_chosen=agent is not None,
        client_chosen=client is not None,
        nonce=nonce,
        table=TABLE,
    )


def begin(bridge: Bridge, now_s: float) -> list[Effect]:
    """The effects with which a bridge begins: the agent is started."""
    bridge.now = now_s
    life.start(bridge)
    out, bridge.out = bridge.out, []
    return out


def step(bridge: Bridge, now_s: float, event: Event) -> list[Effect]:
    """Take in one event at `now_s` (monotonic seconds) and say what is to be done."""
    if isinstance(event, AgentStreamed):
        return _streamed(bridge, now_s, event)
    if type(event) is AgentSent and event.frame.plain:
        session = bridge.fast.get(event.frame.session)
        if session is not None and event.run == bridge.run:
            frame = event.frame
            if not frame.known_text.startswith(bridge.agent.receipt_heads):
                turn = session.turn
                assert turn is not None
                turn.last_work_s = session.shown_s = now_s
                return [ToClient(frame.raw)]
    bridge.now = now_s
    bridge.fast.clear()
    _take_in(bridge, event)
    if bridge.behind:
        release_behind(bridge)
    if bridge.waiting:
        client_side.flush_waiting(bridge)
    if bridge.settled:
        bridge.settled = False
        if bridge.wedged:
            recovery.mend_wedged(bridge)
        ending.check(bridge)
    if bridge.starved:
        queue.feed_starved(bridge)
    out, bridge.out = bridge.out, []
    return out


def _streamed(bridge: Bridge, now_s: float, event: AgentStreamed) -> list[Effect]:
    """Take in chunks in a row: those that need no thought at once, the others one by one."""
    effects: list[Effect] = []
    chunks, heads = event.chunks, bridge.agent.receipt_heads
    at, end = 0, len(chunks.lines)
    while at < end:
        session = bridge.fast.get(chunks.session) if event.run == bridge.run else None
        stop = at
        if session is not None:
            # The first text that may be a receipt's, without a loop of ours over each of them.
            are_heads = map(str.startswith, islice(chunks.texts, at, None), repeat(heads))
            stop = next(compress(count(at), are_heads), end)
        if session is not None and stop > at:
            assert session.turn is not None
            session.turn.last_work_s = session.shown_s = now_s
            effects.append(StreamToClient(chunks.lines[at:stop]))
        else:
            effects += step(bridge, now_s, AgentSent(event.run, chunks.frame(at)))
            stop = at + 1
        at = stop
    return effects


def _take_in(bridge: Bridge, event: SingleEvent) -> None:
    match event:
        case AgentSent():
            if event.run == bridge.run:
                agent_frame(bridge, event.frame)
        case ClientSent():
            bridge.speaker = event.client
            client_side.client_frame(bridge, event.frame)
        case TimerFired(key=key):
            _timer(bridge, key)
        case Persisted() | PersistFailed() | Recovered() | KeyFound():
            keeping.disk_said(bridge, event)
        case ClientGarbled(fault=fault):
            client_side.client_garbled(bridge, fault)
        case AgentGarbled(run=run, fault=garbled):
            if run == bridge.run:
                agent_garbled(bridge, garbled)
        case AgentStarted(run=run):
            life.started(bridge, run)
            client_side.flush_waiting(bridge)
        case AgentLeft(run=run):
            life.left(bridge, run)
        case AgentExited(run=run, reason=reason, started=was_started):
            life.exited(bridge, run, reason, was_started=was_started)
        case ClientClosed():
            ending.client_closed(bridge)
        case SessionAbandoned(session=session_id, cancels=cancels):
            ending.abandoned(bridge, session_id, cancels=cancels)
        case StopAsked(reason=reason):
            ending.stop(bridge, reason)
        case _:
            assert_never(event)


def _timer(bridge: Bridge, key: TimerKey) -> None:
    name, session_id = key
    whole = _BRIDGE_TIMERS.get(name)
    if whole is not None:
        whole(bridge)
        return
    session = bridge.sessions.get(session_id)
    if session is not None:
        _SESSION_TIMERS[name](bridge, session)


def _fires(trigger: Trigger) -> Callable[[Bridge, Session], None]:
    def fired(bridge: Bridge, session: Session) -> None:
        bridge.fire(session, trigger)

    return fired


_SESSION_TIMERS: dict[str, Callable[[Bridge, Session], None]] = {
    "quiet": work.quiet_fired,
    "marker": work.marker_fired,
    "grace": _fires(Trigger.GRACE),
    "trail": _fires(Trigger.TRAIL),
    "wait_max": _fires(Trigger.WAIT_MAX),
    "settle": _fires(Trigger.SETTLE),
    "steer": _fires(Trigger.SILENT),
    "revive": recovery.revive_late,
    "busy": queue.busy_over,
    "notice": queue.notice,
    "cancel": cancel.try_cancel,
    "gate": gate_over,
    "hold": release_hold,
    "gap": client_side.gap_over,
    "silence": recovery.silent,
}

_BRIDGE_TIMERS: dict[str, Callable[[Bridge], None]] = {
    "restart": life.restart_late,
    "rest": life.rested,
    "finish": ending.finish_late,
    "undelivered": ending.forget_dropped,
}
