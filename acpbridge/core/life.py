"""The agent's life: it is started, it dies, it is started again or not (R22, R23).

The decision is here, the waiting is the shell's. What a session makes of it is `recovery.py`.
"""

from __future__ import annotations

from acpbridge.core import agent_side, ending, openings, present, queue
from acpbridge.core.effects import Recover, StartAgent, StopAgent
from acpbridge.core.model import NEVER, AgentState, Bridge, Session, Stage, Trigger
from acpbridge.core.requests import ask, fail_pending
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame, Kind


def start(bridge: Bridge) -> None:
    """Start the first agent process, and see what dead runs have left."""
    bridge.out.append(Recover(""))
    bridge.out.append(StartAgent(bridge.run))


def start_again(bridge: Bridge) -> None:
    """Start another process after a death or a stop of our own, at once or after a rest.

    The first death costs nothing; from the second one on a process that cannot live is not started
    in a tight circle, and many bridges of one machine do not start together.
    """
    if bridge.closing or bridge.resting:
        return
    policy, before = bridge.policy, len(bridge.deaths) - 1
    rest_s = min(policy.restart_first_s * 2.0 ** (before - 1), policy.restart_cap_s)
    if before < 1 or not rest_s:
        _start_now(bridge)
        return
    bridge.resting = True
    bridge.note("agent_rests", "warning", deaths=before + 1, seconds=rest_s)
    bridge.arm("rest", None, rest_s, policy.restart_jitter)
    await_agent(bridge)


def rested(bridge: Bridge) -> None:
    """The rest before a start is over; it is started if anything still waits for it."""
    bridge.resting = False
    if bridge.closing:
        return
    if _is_needed(bridge):
        _start_now(bridge)
    else:
        _is_back(bridge)


def _start_now(bridge: Bridge) -> None:
    bridge.run += 1
    bridge.agent_state = AgentState.STARTING
    bridge.note("agent_restarting", "warning", run=bridge.run)
    bridge.out.append(StartAgent(bridge.run))
    await_agent(bridge)


def await_agent(bridge: Bridge) -> None:
    """What waits for the agent waits `restart_max` in all, however often it is started (R23)."""
    bridge.away_since_s = min(bridge.away_since_s, bridge.now)
    bridge.arm("restart", None, bridge.away_since_s + bridge.policy.restart_max_s - bridge.now)


def _is_back(bridge: Bridge) -> None:
    bridge.away_since_s = NEVER
    bridge.disarm("restart", None)


def started(bridge: Bridge, run: int) -> None:
    """The process runs: the first is the client's to initialize, a later one ours."""
    if run != bridge.run or bridge.agent_state is not AgentState.STARTING:
        return
    if run == 1:
        bridge.agent_state = AgentState.FRESH
        return
    # Only an initialized agent is started again, so the client's initialize is known.
    assert bridge.initialize is not None
    bridge.agent_state = AgentState.INITIALIZING
    params = openings.params_bytes(bridge, bridge.initialize)
    ask(bridge, None, acp.INITIALIZE, params, _initialized)


def _initialized(bridge: Bridge, session: Session | None, frame: Frame | None) -> None:
    if frame is None:
        return
    if frame.kind is Kind.ERROR:
        bridge.note("restart_failed", "error", reason=present.agent_words(frame))
        _stop_useless(bridge)
        return
    if bridge.agent_state is not AgentState.INITIALIZING:
        # It answered and went: what waits is for the next one.
        return
    bridge.agent_state = AgentState.READY
    _is_back(bridge)
    openings.initialized(bridge, frame)
    wake_sessions(bridge)


def wake_sessions(bridge: Bridge) -> None:
    """The agent is ready: revive what is wanted, send on what waits."""
    for session in list(bridge.sessions.values()):
        if session.queue or session.waiting:
            bridge.fire(session, Trigger.WANT)


def restart_late(bridge: Bridge) -> None:
    """`restart_max` is over and the agent is not back: what waits is told so."""
    why = f"The agent did not come back in {bridge.policy.restart_max_s:.0f} s"
    bridge.note("restart_failed", "error", reason=why)
    bridge.away_since_s = NEVER
    ending.fail_waiting(bridge, why)
    if bridge.agent_state in (AgentState.STARTING, AgentState.INITIALIZING):
        _stop_useless(bridge)


def _stop_useless(bridge: Bridge) -> None:
    """A restarted agent that cannot be used is one death more: the breaker must see it (R23)."""
    bridge.deaths.append(bridge.now)
    bridge.agent_state = AgentState.STOPPING
    bridge.out.append(StopAgent(bridge.run, now=True))


# -- the process ends -----------------------------------------------------------------------
def left(bridge: Bridge, run: int) -> None:
    """The agent takes nothing any more: what is not written yet waits for the next one (R22)."""
    up = (AgentState.FRESH, AgentState.INITIALIZING, AgentState.READY)
    if run == bridge.run and bridge.agent_state in up:
        bridge.agent_state = AgentState.LEAVING


def exited(bridge: Bridge, run: int, reason: str, *, was_started: bool) -> None:
    """The agent is gone: answer what was open, keep what was not sent, decide what next (R22)."""
    if run != bridge.run:
        return
    asked_for = bridge.agent_state is AgentState.STOPPING
    open_work = _has_open_work(bridge)
    bridge.agent_state = AgentState.DEAD
    level = "info" if asked_for and was_started else "error"
    bridge.note("agent_exited", level, reason=reason, run=run)
    for session in list(bridge.sessions.values()):
        _end_at_agent(bridge, session, reason)
    fail_pending(bridge, reason)
    bridge.requests.clear()
    for session in list(bridge.sessions.values()):
        bridge.fire(session, Trigger.GONE)
    # Where it never started there was nothing to ask: a client that left meanwhile ended no agent.
    by_itself = not was_started or (open_work and not asked_for)
    if bridge.closing:
        ending.fail_waiting(bridge, f"The bridge is ending ({bridge.closing})")
        ending.finish(bridge, ending.EXIT_AGENT if by_itself else ending.EXIT_STOPPED)
        return
    if not asked_for:
        bridge.deaths.append(bridge.now)
    if not _may_restart(bridge):
        bridge.closing = "agent exited"
        ending.fail_waiting(bridge, f"The agent ended ({reason}) and is not started again")
        failed = open_work or not bridge.initialized
        ending.finish(bridge, ending.EXIT_AGENT if failed else ending.EXIT_STOPPED)
        return
    if _is_needed(bridge):
        start_again(bridge)
    else:
        _is_back(bridge)


def _has_open_work(bridge: Bridge) -> bool:
    if bridge.pending or bridge.waiting:
        return True
    return any(one.at_agent or one.queue for one in bridge.sessions.values())


def _is_needed(bridge: Bridge) -> bool:
    return bool(bridge.waiting) or any(
        session.queue or session.waiting for session in bridge.sessions.values()
    )


def _may_restart(bridge: Bridge) -> bool:
    """R23: the breaker opens at `breaker_deaths` in `breaker_window`, started well or not."""
    policy = bridge.policy
    while bridge.deaths and bridge.deaths[0] <= bridge.now - policy.breaker_window_s:
        bridge.deaths.popleft()
    if not policy.restart or not bridge.initialized:
        return False
    if len(bridge.deaths) >= policy.breaker_deaths:
        bridge.note("breaker_open", "error", deaths=len(bridge.deaths))
        return False
    return True


def _end_at_agent(bridge: Bridge, session: Session, reason: str) -> None:
    """What the dead agent had: answered if it was sent, back in the queue if it was not."""
    agent_side.release_dead(bridge, session)
    if any(one.stage is Stage.DOUBTED for one in session.at_agent):
        bridge.fire(session, Trigger.GRACE)
    unsent = (Stage.SENDING, Stage.STEERING)
    for prompt in reversed([one for one in session.at_agent if one.stage in unsent]):
        queue.take_back(bridge, session, prompt, "the agent ended before it was written")
    for prompt in list(session.at_agent):
        bridge.pending.pop(prompt.wire_id, None)
        text = (
            f"The agent ended ({reason}) while this message was with it; it may have run. "
            "Look at the conversation before you send it again."
        )
        present.refuse(bridge, session, prompt, "agent-exited", text, f"the agent ended: {reason}")
