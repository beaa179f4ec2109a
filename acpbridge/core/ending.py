"""The end: stdin EOF, a stop signal, and what becomes of a turn that still runs (R20, R23)."""

from __future__ import annotations

from acpbridge.core import requests
from acpbridge.core.effects import Finish, StopAgent
from acpbridge.core.model import AgentState, Bridge, Prompt


def client_closed(bridge: Bridge) -> None:
    """The client's end is closed: nothing more can be asked of it or told to it."""
    if bridge.client_gone:
        return
    bridge.client_gone = True
    _undeliver(bridge)
    for shown_id, request in list(bridge.requests.items()):
        if not request.settled:
            requests.settle_request(bridge, shown_id)
    if bridge.policy.on_disconnect == "finish" and bridge.running:
        bridge.closing = "client closed; the running turn is finished"
        bridge.note("finishing", turns=bridge.running)
        bridge.arm("finish", None, bridge.policy.finish_max_s)
        return
    stop(bridge, "client closed")


def _undeliver(bridge: Bridge) -> None:
    """What was queued was never sent, and says so to whoever looks it up (R20)."""
    for session in bridge.sessions.values():
        recent = bridge.now - bridge.policy.cancel_eof_s
        for at_s, prompt in session.dropped:
            if at_s >= recent:
                bridge.persist(prompt, session, "accepted", "undelivered: the client left")
        for item in session.queue:
            if isinstance(item, Prompt):
                bridge.persist(item, session, "accepted", "undelivered: the client left")
                bridge.note("undelivered", "warning", session=session.id, prompt=item.number)


def stop(bridge: Bridge, reason: str) -> None:
    """End: nothing is started, recovered or sent any more; the agent is stopped."""
    bridge.closing = bridge.closing or reason
    bridge.note("stopping", reason=reason)
    if bridge.agent_state is AgentState.DEAD:
        bridge.out.append(Finish(bridge.exit_code or 0))
        return
    if bridge.agent_state is not AgentState.STOPPING:
        bridge.agent_state = AgentState.STOPPING
        bridge.out.append(StopAgent(bridge.run))


def check(bridge: Bridge) -> None:
    """A turn has ended: the last one ends the bridge, where the client is gone."""
    if bridge.client_gone and bridge.closing and not bridge.running:
        bridge.disarm("finish", None)
        stop(bridge, "the last turn has ended")


def finish_late(bridge: Bridge) -> None:
    """`finish_max` is over: the turn is stopped all the same."""
    stop(bridge, "the running turn did not end in time")
