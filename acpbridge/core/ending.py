"""The end: stdin EOF, a stop signal, and what becomes of a turn that still runs (R20, R23).

Whatever ends the bridge, every request that the client can still hear of is answered (I1).
"""

from __future__ import annotations

from acpbridge.core import cancel, openings, present, requests
from acpbridge.core.effects import Finish, StopAgent
from acpbridge.core.model import AgentState, Bridge, Prompt, Session

EXIT_STOPPED = 0
EXIT_AGENT = 3


def client_closed(bridge: Bridge) -> None:
    """The client writes no more: nothing can be asked of it, but it may still read (I1)."""
    if bridge.client_gone:
        return
    bridge.client_gone = True
    _undeliver(bridge)
    for shown_id in list(bridge.requests):
        requests.settle_request(bridge, shown_id)
    if bridge.policy.on_disconnect == "finish" and _turns(bridge):
        bridge.closing = bridge.closing or "client closed; the running turn is finished"
        bridge.note("finishing", turns=_turns(bridge))
        bridge.arm("finish", None, bridge.policy.finish_max_s)
        return
    stop(bridge, "client closed")


def abandoned(bridge: Bridge, session_id: str, *, cancels: bool) -> None:
    """No client of a session is left: what its agent asks is answered, its turn goes on or ends."""
    session = bridge.sessions.get(session_id)
    if session is None:
        return
    session.is_abandoned = True
    bridge.note("session_abandoned", "warning", session=session.id, cancels=cancels)
    for shown_id in [key for key, one in bridge.requests.items() if one.session == session.id]:
        requests.settle_request(bridge, shown_id)
    if cancels:
        cancel.cancel_session(bridge, session, None)


def _turns(bridge: Bridge) -> int:
    """How many sessions have a prompt of ours at the agent, under a receipt or not."""
    return sum(bool(session.at_agent) for session in bridge.sessions.values())


def _undeliver(bridge: Bridge) -> None:
    """What was queued was never sent, and says so to whoever looks it up (R20)."""
    for session in bridge.sessions.values():
        recent = bridge.now - bridge.policy.cancel_eof_s
        for at_s, prompt in session.dropped:
            if at_s >= recent:
                bridge.ended.pop(prompt.wire_id, None)
                bridge.persist(prompt, session, "accepted", "undelivered: the client left")
        _refuse_undelivered(bridge, session, "The client has closed its end")


def _refuse_undelivered(bridge: Bridge, session: Session, why: str) -> None:
    """What is queued was never sent: the client is told, and the record keeps it to be found."""
    queued = [item for item in session.queue if isinstance(item, Prompt)]
    openings.refuse_queue(bridge, session, "agent-exited", why)
    for prompt in queued:
        bridge.ended.pop(prompt.wire_id, None)
        bridge.persist(prompt, session, "accepted", f"undelivered: {why}")
        bridge.note("undelivered", "warning", session=session.id, prompt=prompt.number)


def forget_dropped(bridge: Bridge) -> None:
    """`cancel_eof` after the last of them: what a cancel ended is cancelled for good (R20, I9)."""
    for session in bridge.sessions.values():
        session.dropped.clear()


def stop(bridge: Bridge, reason: str) -> None:
    """End: nothing is started, recovered or sent any more; the agent is stopped."""
    bridge.closing = bridge.closing or reason
    bridge.note("stopping", reason=reason)
    fail_waiting(bridge, f"The bridge is ending ({reason})")
    if bridge.agent_state is AgentState.DEAD:
        finish(bridge, EXIT_STOPPED)
    elif bridge.agent_state is not AgentState.STOPPING:
        bridge.agent_state = AgentState.STOPPING
        bridge.out.append(StopAgent(bridge.run))


def fail_waiting(bridge: Bridge, why: str) -> None:
    """Nothing that waits will be sent, and the client is told so."""
    for session in list(bridge.sessions.values()):
        _refuse_undelivered(bridge, session, why)
    while bridge.waiting:
        openings.refuse_frame(bridge, bridge.waiting.popleft(), "agent-exited", why)


def finish(bridge: Bridge, code: int) -> None:
    """The last effect of all, once; responses that waited out a gap go before it."""
    if bridge.exit_code is not None:
        return
    bridge.exit_code = code
    for session in bridge.sessions.values():
        present.release_paced(bridge, session)
    bridge.out.append(Finish(code))


def check(bridge: Bridge) -> None:
    """A turn has ended: the last one ends the bridge, where the client is gone."""
    if bridge.client_gone and not _turns(bridge):
        bridge.disarm("finish", None)
        stop(bridge, "the last turn has ended")


def finish_late(bridge: Bridge) -> None:
    """`finish_max` is over: the turn is stopped all the same."""
    stop(bridge, "the running turn did not end in time")
