"""A session is opened, loaded, come back to: from the log where that is whole, else by the agent.

`session/load` replays what there is, `session/resume` only what no client has seen; both are
answered without the agent where the session lives (issue 6, point 5). What the agent replays is
for its asker alone, and is kept beside the log for the next one.
"""

from __future__ import annotations

from acpbridge.core import replies
from acpbridge.core.events import Event
from acpbridge.core.hub import follow
from acpbridge.core.hub.routes import begin, renamed, under
from acpbridge.core.hub.state import Client, Conversation, Hub, Route
from acpbridge.core.model import Phase
from acpbridge.core.ring_entries import Replay
from acpbridge.wire import acp, codec, scan, splice
from acpbridge.wire.frame import Frame, Kind, RpcId


# -- a session begins -----------------------------------------------------------------------
def opened(hub: Hub, route: Route, frame: Frame) -> None:
    """The answer to new or fork names a session: its client follows it from here on."""
    # The bridge has turned an answer without a session into an error.
    session_id: str = frame.result["sessionId"]
    conversation = hub.conversation(session_id)
    if conversation.result:
        # The agent has opened a known id anew: the old one ends, and nobody is alarmed by it.
        hub.note("session_superseded", "warning", session=session_id)
        loads = conversation.loads
        _over(hub, conversation)
        conversation = hub.conversation(session_id)
        conversation.loads = loads
    conversation.result = _result(frame)
    conversation.history = [] if route.method == acp.SESSION_NEW else None
    client = hub.clients.get(route.client)
    if client is not None and hub.is_shared:
        catch_up(hub, client, conversation)


def catch_up(hub: Hub, client: Client, conversation: Conversation) -> None:
    """Say what nobody has seen who takes part; from here on the client follows.

    Who only observes, as `tail` does, has seen nothing for anybody else.
    """
    is_new = client.number not in conversation.followers
    if is_new and not hub.participants(conversation):
        _tell_since(hub, client, conversation, conversation.seen_seq)
    follow.follow(hub, client, conversation)


def _tell_since(hub: Hub, client: Client, conversation: Conversation, seq: int) -> None:
    replay = hub.log.since(conversation.id, hub.log.epoch, seq)
    hub.send((client.number,), *follow.replayed(hub, client, replay))


def closed(hub: Hub, conversation: Conversation) -> None:
    """The agent has closed a session; a turn of it that has still to end is still followed."""
    if conversation.loads or conversation.id in hub.bridge.sessions:
        conversation.result, conversation.history = b"", None
    else:
        _over(hub, conversation)


def _over(hub: Hub, conversation: Conversation) -> None:
    """The session has ended at the agent: nothing of it is kept, and no seq is used again."""
    hub.conversations.pop(conversation.id, None)
    hub.log.forget(conversation.id)
    for ask in [one for one in hub.asks.values() if one.session == conversation.id]:
        # Nobody comes back to it: who has it may answer, and goes with the answer.
        ask.session = ""
        if not ask.shown:
            follow.unanswerable(hub, ask)


def _result(frame: Frame) -> bytes:
    """The JSON of a result, without the session id that only an opening's has."""
    result = scan.value(frame.raw, "result")
    if not result.startswith(b"{"):
        return b"{}"
    return splice.without_members(result, (), ("sessionId",))


# -- one comes back -------------------------------------------------------------------------
def load(hub: Hub, client: Client, frame: Frame, own: RpcId | None = None) -> list[Event]:
    """Take in a load or resume: answered from the log, or by the agent, one at a time.

    `own` is the hub's id of one that has waited.
    """
    conversation = hub.conversation(frame.session)
    is_load = frame.method == acp.SESSION_LOAD
    if _is_live(hub, conversation) and not conversation.loads:
        session = hub.bridge.sessions[conversation.id]
        if not is_load:
            _resume(hub, client, conversation, frame, own)
            return []
        replay = hub.log.since(conversation.id, hub.log.epoch, conversation.base_seq)
        is_whole = conversation.history is not None and not _is_cut(replay)
        if is_whole or follow.is_busy(session) or client.observes:
            said = "" if is_whole else "partial"
            lines = follow.history_of(client, conversation) + follow.replayed(hub, client, replay)
            hub.send((client.number,), *lines)
            _answer(hub, client, conversation, frame, said, own)
            follow.follow(hub, client, conversation)
            return []
    if client.observes:
        text = f"The session {frame.session} is not open here; an observer opens none."
        hub.answer(client.number, frame.id, replies.refusal(frame.id, "observer", text))
        return []
    if len(conversation.loads) > hub.bridge.policy.queue_prompts_max:
        text = "Too much waits for this session to be loaded already (queue_prompts_max)."
        hub.answer(client.number, frame.id, replies.refusal(frame.id, "queue-full", text))
        return []
    # One that waits has its place among its client's requests of the same id (R26).
    own = own or begin(hub, client, frame)
    conversation.loads.append((client.number, frame, own))
    return _go(hub, conversation) if len(conversation.loads) == 1 else []


def _is_live(hub: Hub, conversation: Conversation) -> bool:
    """Whether the agent has the session, and we know what it said when it was opened."""
    session = hub.bridge.sessions.get(conversation.id)
    if session is None or not session.known or not conversation.result:
        return False
    return session.phase is not Phase.LOST


def _is_cut(replay: Replay) -> bool:
    """Whether anything that it should have is gone."""
    return replay.truncated or replay.text_dropped


def _resume(
    hub: Hub, client: Client, conversation: Conversation, frame: Frame, own: RpcId | None
) -> None:
    """Answer a resume: nothing old is said again, but what nobody has seen."""
    missed = None
    if not hub.participants(conversation):
        missed = hub.log.since(conversation.id, hub.log.epoch, conversation.seen_seq)
    is_cut = missed is not None and _is_cut(missed)
    _answer(hub, client, conversation, frame, "partial" if is_cut else "", own)
    if missed is not None and client.number not in conversation.followers:
        hub.send((client.number,), *follow.replayed(hub, client, missed))
    follow.follow(hub, client, conversation)


def _answer(
    hub: Hub,
    client: Client,
    conversation: Conversation,
    frame: Frame,
    replayed: str,
    own: RpcId | None = None,
) -> None:
    """Respond as the agent did when it opened the session."""
    line = codec.result(frame.id, codec.verbatim(conversation.result or b"{}"))
    if replayed:
        line = replies.marked(line, "result", {"replay": replayed})
    hub.answer(client.number, frame.id, line, own)
    hub.note("answered_from_log", session=conversation.id, client=client.number)


# -- by the agent ---------------------------------------------------------------------------
def _go(hub: Hub, conversation: Conversation) -> list[Event]:
    """Take the first of the loads that wait to the agent."""
    number, frame, own = conversation.loads[0]
    conversation.replay, conversation.replay_bytes = [], 0
    conversation.load_seq, conversation.window_seq = follow.latest_seq(hub, conversation), None
    # What its session's id means may have changed when the answer comes.
    hub.routes[own].session = conversation.id
    return [under(hub.clients[number], frame, own)]


def loaded(hub: Hub, route: Route, frame: Frame) -> None:
    """The agent has answered a load or resume: its asker follows, and the next one is taken."""
    conversation = hub.conversations[route.session]
    asker = hub.clients.get(route.client)
    _, load_frame, _ = conversation.loads.pop(0)
    if frame.kind is Kind.RESPONSE:
        _loaded(hub, conversation, asker, route, frame)
    elif asker is not None and _is_live(hub, conversation) and not _is_taken_back(frame):
        # The session lives: whoever could not be given its past gets its present, and is told.
        hub.note("replay_failed", "warning", session=conversation.id, client=route.client)
        _answer(hub, asker, conversation, load_frame, "failed", frame.id)
        _join(hub, asker, conversation)
    else:
        hub.answer(route.client, route.id, renamed(frame.raw, route), frame.id)
    conversation.replay = None
    waiting, conversation.loads = conversation.loads, []
    for number, other, own in waiting:
        hub.more += load(hub, hub.clients[number], other, own)


def _is_taken_back(frame: Frame) -> bool:
    """Whether its own client has asked for the load's end (`$/cancel_request`)."""
    return frame.error.get("code") == acp.REQUEST_CANCELLED


def _loaded(
    hub: Hub, conversation: Conversation, asker: Client | None, route: Route, frame: Frame
) -> None:
    conversation.result = _result(frame)
    is_load = route.method == acp.SESSION_LOAD
    if is_load:
        conversation.history = conversation.replay
        conversation.base_seq = follow.latest_seq(hub, conversation)
    if asker is None:
        return
    if is_load and asker.number not in conversation.followers:
        # What is no history, and came among it, comes before the answer; nothing comes twice.
        if conversation.window_seq is not None:
            _tell_since(hub, asker, conversation, conversation.window_seq)
        conversation.seen_seq = conversation.base_seq
    hub.answer(route.client, route.id, renamed(frame.raw, route), frame.id)
    _join(hub, asker, conversation, is_told=is_load)


def _join(hub: Hub, client: Client, conversation: Conversation, *, is_told: bool = False) -> None:
    """Let a client follow, who has missed what others were told while its load was open."""
    is_new = client.number not in conversation.followers
    if is_new and hub.participants(conversation) and not is_told:
        _tell_since(hub, client, conversation, conversation.load_seq)
    catch_up(hub, client, conversation)
