"""What the client sees of a session: the one way out for updates and responses.

The client's profile acts here and nowhere else. A frame that no rule touches leaves with the
bytes with which it came (I7), in the order in which it came (I6).
"""

from __future__ import annotations

from collections import deque

from attrs import evolve

from acpbridge.core import identity, replies
from acpbridge.core.model import Bridge, Ended, Prompt, Session, Stage
from acpbridge.core.outgoing import release_behind
from acpbridge.wire import acp, scan, splice
from acpbridge.wire.frame import Frame, Kind, RpcId
from acpbridge.wire.ids import is_stable

OUTPUT = frozenset(
    {acp.AGENT_MESSAGE_CHUNK, acp.AGENT_THOUGHT_CHUNK, acp.TOOL_CALL, acp.TOOL_CALL_UPDATE}
)
"""Updates that a person sees as the agent's output."""

CONTENT = OUTPUT | {acp.PLAN, acp.USER_MESSAGE_CHUNK}
"""Updates that belong to a turn; the rest is about the session and passes at any time."""

NO_OUTPUT = "The agent ended its turn without any output."

AGENT_ERROR = "agent-error"
"""How a prompt ended that the agent answered with an error of its own."""

_UNSENT = (Stage.QUEUED, Stage.SENDING, Stage.STEERING)
"""Stages in which no byte of a prompt has gone to the agent."""

AGENT_WORDS_MAX = 500
"""Characters of an agent's error message that are said again in a chunk."""


# -- updates --------------------------------------------------------------------------------
def update(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Show the client one `session/update` of the agent."""
    line = frame.raw
    if session.agent_id != session.id or frame.session != session.id:
        line = splice.with_session(line, session.id)
    if frame.variant == acp.SESSION_INFO_UPDATE:
        line = identity.own_provenance(bridge, session, line, "params", "update")
    if frame.variant in CONTENT:
        if not _is_wanted(bridge, session, frame, line):
            return
        if not session.loading:
            # A refused prompt may be open, and nothing newer may come before what was kept.
            flush_late(bridge, session)
    if frame.variant in OUTPUT:
        _mark_shown(session)
    session.shown_s = bridge.now
    bridge.to_client(line)


def old_update(bridge: Bridge, session: Session, frame: Frame) -> None:
    """Show what a cancelled turn still says after a recovery fork has left it behind (R24)."""
    line = splice.with_session(frame.raw, session.id)
    if frame.variant in CONTENT and bridge.client.hides_cancelled_work:
        bridge.count("cancelled_work_withheld")
        _keep(bridge, session, line, for_later=False)
        return
    session.shown_s = bridge.now
    bridge.to_client(line)


def _is_wanted(bridge: Bridge, session: Session, frame: Frame, line: bytes) -> bool:
    """Whether this client sees this content now; what it does not see is kept (I6)."""
    client = bridge.client
    if session.loading:
        if not session.resuming or not client.hides_resume_content:
            return True
        bridge.count("resume_content_withheld")
        _keep(bridge, session, line, for_later=False)
        return False
    if session.muted or session.ghost_runs:
        bridge.count("cancelled_work_withheld")
        _keep(bridge, session, line, for_later=False)
        return False
    if frame.variant == acp.USER_MESSAGE_CHUNK and client.hides_echo:
        bridge.count("echo_withheld")
        _keep(bridge, session, line, for_later=False)
        return False
    if client.keeps_late_content and not has_open_prompt(session):
        bridge.count("late_content_kept")
        _keep(bridge, session, line, for_later=True)
        return False
    return True


def _keep(bridge: Bridge, session: Session, line: bytes, *, for_later: bool) -> None:
    policy = bridge.policy
    kept = session.late if for_later else session.withheld
    dropped = kept.dropped
    kept.put(line, policy.kept_frames_max, policy.kept_bytes_max)
    if kept.dropped != dropped:
        bridge.count("kept_frames_dropped")


def _mark_shown(session: Session) -> None:
    for prompt in session.at_agent:
        prompt.shown = True
    head = session.head()
    if head is not None:
        head.shown = True


def has_open_prompt(session: Session) -> bool:
    """Whether the client waits for a response in this session."""
    if session.paced:
        return True
    prompts = [item for item in (*session.at_agent, *session.queue) if isinstance(item, Prompt)]
    return not all(is_unheard(prompt) for prompt in prompts)


def flush_late(bridge: Bridge, session: Session) -> None:
    """Put what was kept in front of the stream of the prompt that has just come."""
    for line in session.late.take():
        session.shown_s = bridge.now
        bridge.to_client(line)


def say(bridge: Bridge, session: Session, text: str, variant: str) -> None:
    """Say one sentence to the client in the bridge's own name."""
    session.shown_s = bridge.now
    bridge.to_client(replies.chunk(session.id, text, variant))


# -- responses to prompts -------------------------------------------------------------------
def answer(
    bridge: Bridge,
    session: Session,
    prompt: Prompt,
    line: bytes,
    stop: str,
    completion: str = "response",
) -> None:
    """Give a prompt its one response: `line` under the client's id, with stop reason `stop`.

    `completion` is how its end was known (R8), for the journal.
    """
    client = bridge.client
    if stop == acp.CANCELLED and not prompt.cancelled and client.cancelled_only_if_asked:
        line = splice.with_value(line, ("result", "stopReason"), b'"end_turn"')
        bridge.note("unasked_cancel_reworded", session=session.id)
        stop = acp.END_TURN
    if stop == acp.END_TURN and client.needs_output and not prompt.shown and not prompt.cancelled:
        say(bridge, session, NO_OUTPUT, acp.AGENT_THOUGHT_CHUNK)
    if prompt.stage in _UNSENT:
        # Whoever took it out of its queue has said why.
        completion = stop
    else:
        result = scan.value(line, "result")
        bridge.persist(prompt, session, "settled", completion=completion, answer=result)
    _end(bridge, session, prompt, completion)
    _respond_all(bridge, session, prompt, line)


def refuse(
    bridge: Bridge, session: Session, prompt: Prompt, kind: str, text: str, reason: str = ""
) -> None:
    """Answer a prompt with an error of our own, as the client's profile wants it said.

    `reason` is what the journal keeps, where that is shorter than what the client is told.
    """
    bridge.note("prompt_refused", "warning", session=session.id, prompt=prompt.number, kind=kind)
    # What was at the agent may have run; what was not never will.
    state = "refused" if prompt.stage in _UNSENT else "unknown"
    if prompt.looking:
        # It begins with its key: undelivered without one, it could run beside its repeat (I3).
        bridge.persist(prompt, session, "accepted")
    bridge.persist(prompt, session, state, reason or text)
    if is_unheard(prompt):
        leave_again(bridge, session, prompt, reason or text, is_lost=kind != "not-durable")
    fail(bridge, session, prompt, replies.refusal(prompt.id, kind, text), kind, text)


def is_unheard(prompt: Prompt) -> bool:
    """Whether nobody waits for its answer."""
    return prompt.unasked and not prompt.followers


def leave_again(
    bridge: Bridge, session: Session, prompt: Prompt, reason: str, *, is_lost: bool = True
) -> None:
    """Nobody asked for it now, so nobody is refused: it is told of in the next prompt's turn.

    What was not sent is undelivered again. Not `is_lost`: another bridge may have it.
    """
    assert prompt.left is not None
    left = prompt.left
    if prompt.stage in _UNSENT:
        bridge.persist(prompt, session, "accepted", f"undelivered: {reason}")
    else:
        left = evolve(left, state="unknown", content=b"")
    prompt.recorded = False
    if is_lost:
        session.untold.append(left)


def fail(
    bridge: Bridge, session: Session, prompt: Prompt, line: bytes, kind: str, text: str
) -> None:
    """Answer a prompt with an error line, or with the words of `text` and an `end_turn`."""
    if bridge.client.errors_as_text:
        if not prompt.cancelled and not is_unheard(prompt):
            say(bridge, session, text, acp.AGENT_MESSAGE_CHUNK)
        line = replies.completion(prompt.id, acp.END_TURN, kind=kind)
    if kind == AGENT_ERROR:
        bridge.persist(prompt, session, "settled", text, completion=kind)
    _end(bridge, session, prompt, kind)
    _respond_all(bridge, session, prompt, line)


def refuse_unread(bridge: Bridge, session: Session, id_: RpcId, kind: str, text: str) -> None:
    """Answer a prompt that was never read, as the client's profile wants errors said."""
    line = replies.refusal(id_, kind, text)
    if bridge.client.errors_as_text:
        say(bridge, session, text, acp.AGENT_MESSAGE_CHUNK)
        line = replies.completion(id_, acp.END_TURN, kind=kind)
    _pace(bridge, session, take_id(bridge, id_), line)


def agent_words(frame: Frame) -> str:
    """What an agent's error says, bounded, for a chunk."""
    message = frame.error.get("message")
    words = message if isinstance(message, str) and message else "no reason given"
    return f"The agent answered with an error: {words[:AGENT_WORDS_MAX]}"


def _end(bridge: Bridge, session: Session, prompt: Prompt, completion: str) -> None:
    if prompt.stage in (Stage.WRITTEN, Stage.SENDING):
        bridge.running -= 1
    prompt.stage = Stage.ENDED
    prompt.answer = None
    if prompt in session.at_agent:
        session.at_agent.remove(prompt)
        # What waited behind it came before whatever is written next (I5).
        release_behind(bridge)
    ids = (prompt.wire_id, *prompt.followers)
    bridge.ended[prompt.wire_id] = Ended(session, prompt, completion, ids)
    bridge.note("prompt_answered", "debug", session=session.id, prompt=prompt.number)


def _respond_all(bridge: Bridge, session: Session, prompt: Prompt, line: bytes) -> None:
    """Give the answer to the prompt's request, and to every one that joined it by its key."""
    if prompt.unasked:
        _answered(bridge, prompt.wire_id)
    else:
        _pace(bridge, session, prompt.wire_id, line)
    followers, prompt.followers = prompt.followers, []
    for wire_id in followers:
        _pace(bridge, session, wire_id, splice.with_id(line, bridge.client_ids[wire_id]))


def _pace(bridge: Bridge, session: Session, wire_id: RpcId, line: bytes) -> None:
    gap_s = bridge.client.answer_gap_s
    if not session.paced and bridge.now - session.shown_s >= gap_s:
        respond(bridge, wire_id, line)
        return
    if not session.paced:
        bridge.arm("gap", session, session.shown_s + gap_s - bridge.now)
    session.paced.append((wire_id, line, bridge.now))


def gap_over(bridge: Bridge, session: Session) -> None:
    """The gap's timer fired: let the responses go, or wait for updates that came meanwhile."""
    client = bridge.client
    rest_s = session.shown_s + client.answer_gap_s - bridge.now
    while session.paced:
        wire_id, line, since_s = session.paced[0]
        # Where updates never stop each response has a longest wait of its own.
        wait_s = min(rest_s, since_s + client.answer_gap_max_s - bridge.now)
        if wait_s > 0:
            bridge.arm("gap", session, wait_s)
            return
        session.paced.popleft()
        respond(bridge, wire_id, line)


def release_paced(bridge: Bridge, session: Session) -> None:
    """Write the responses that waited for the gap."""
    while session.paced:
        wire_id, line, _ = session.paced.popleft()
        respond(bridge, wire_id, line)


# -- responses to any request ---------------------------------------------------------------
def _answered(bridge: Bridge, wire_id: RpcId) -> None:
    """Its response goes out: it has an end that its client was told.

    A client that has closed its end may not read any more: what settled is kept as a result.
    """
    ended = bridge.ended.pop(wire_id, None)
    if ended is None or bridge.client_gone or bridge.unheard.issuperset(ended.ids):
        return
    bridge.persist(ended.prompt, ended.session, "answered", completion=ended.completion)


def take_id(bridge: Bridge, id_: RpcId) -> RpcId:
    """Open a client's request id; the wire id is the same unless that one is in use (R26)."""
    taken = id_ in bridge.open_ids or id_ in bridge.pending or id_ in bridge.client_ids
    if taken:
        bridge.note("request_id_reused", "warning")
    # An id that a JSON library may write back with other bytes gets a private one too.
    wire_id = id_ if is_stable(id_) and not taken else bridge.own_id()
    bridge.open_ids.setdefault(id_, deque()).append(wire_id)
    bridge.client_ids[wire_id] = id_
    return wire_id


def reserve_id(bridge: Bridge, frame: Frame) -> None:
    """Open the id of a request that waits: a later one of the same id is answered after it."""
    if frame.kind is Kind.REQUEST and frame not in bridge.reserved:
        bridge.reserved[frame] = take_id(bridge, frame.id)


def id_of(bridge: Bridge, frame: Frame) -> RpcId:
    """The wire id of a request that goes now, or is answered without going."""
    wire_id = bridge.reserved.pop(frame, None)
    return take_id(bridge, frame.id) if wire_id is None else wire_id


def respond(bridge: Bridge, wire_id: RpcId, line: bytes) -> None:
    """Answer a client's request: once, and after an older one under the same id (I1, R26)."""
    id_ = bridge.client_ids.get(wire_id)
    if id_ is None:
        # A fault of ours: the client must not see it, and a conversation must not die of it.
        bridge.note("second_answer_dropped", "error")
        return
    waiting = bridge.open_ids[id_]
    if len(waiting) == 1:
        # Only a client that reuses an open id makes an answer wait.
        del bridge.open_ids[id_], bridge.client_ids[wire_id]
        bridge.to_client(line)
        _answered(bridge, wire_id)
        return
    bridge.early[wire_id] = line
    while waiting and waiting[0] in bridge.early:
        first = waiting.popleft()
        del bridge.client_ids[first]
        bridge.to_client(bridge.early.pop(first))
        _answered(bridge, first)
    if not waiting:
        del bridge.open_ids[id_]
