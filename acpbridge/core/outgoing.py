"""Lines toward the agent, in their order."""

from __future__ import annotations

from acpbridge.core.model import Bridge, Session, Trigger


def send(bridge: Bridge, session: Session | None, line: bytes) -> None:
    """Write a line to the agent, in its order.

    It waits behind a prompt that is still on its way to the disk, and for the end of the gap around
    a cancel (R16).
    """
    if session is not None:
        if session.is_recording():
            session.behind.append(line)
            bridge.behind.append(session)
            return
        if session.gated or session.gate_until_s > bridge.now:
            session.gated.append(line)
            bridge.arm("gate", session, session.gate_until_s - bridge.now)
            return
        session.last_sent_s = bridge.now
    bridge.to_agent(line)


def release_behind(bridge: Bridge) -> None:
    """Write what came behind a prompt, once that one has gone or will not go now."""
    waiting, bridge.behind = bridge.behind, []
    for session in waiting:
        if session.is_recording():
            bridge.behind.append(session)
            continue
        while session.behind:
            send(bridge, session, session.behind.popleft())


def gate_over(bridge: Bridge, session: Session) -> None:
    """The gap is over: what waited goes, in order, and so may the next prompt."""
    while session.gated:
        session.last_sent_s = bridge.now
        bridge.to_agent(session.gated.popleft())
    bridge.fire(session, Trigger.WANT)
