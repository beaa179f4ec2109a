"""What a client may ask the bridge itself: events since a cursor, figures, open prompts."""

from __future__ import annotations

from typing import Any

from acpbridge.core.hub import follow
from acpbridge.core.hub.state import Client, Conversation, Hub
from acpbridge.core.model import Prompt, Session
from acpbridge.wire import acp, codec
from acpbridge.wire.frame import Frame
from acpbridge.wire.look import member

SESSIONS_MAX = 64
"""Sessions that `stats` names: the ones with the newest events."""
WORDS_CHARS_MAX = 80
"""Characters of a prompt that `prompts` says."""
STREAMING_S = 1.0
"""A turn whose last work is younger than this streams."""


def events_since(hub: Hub, client: Client, frame: Frame) -> None:
    """`_acpbridge/events_since {sessionId, cursor?: {epoch, seq}}`: what came behind the cursor.

    Answers {frames, latestSeq, truncated, epoch}, and from there on the client follows the
    session. A cursor of another epoch, or none, begins with the oldest event that is kept.
    """
    if not frame.session:
        text = "events_since needs params.sessionId: the session whose events are wanted."
        hub.refuse(client.number, frame.id, acp.INVALID_PARAMS, text)
        return
    epoch, seq = _cursor(frame.params.get("cursor"))
    conversation = hub.conversation(frame.session)
    replay = hub.log.since(conversation.id, epoch, seq)
    frames = follow.replayed(hub, client, replay)
    hub.respond(
        client.number,
        frame.id,
        {
            "frames": [codec.verbatim(line) for line in frames],
            "latestSeq": replay.latest_seq,
            "truncated": replay.truncated,
            "epoch": replay.epoch,
            "startsOver": replay.starts_over,
        },
    )
    if hub.is_shared:
        follow.follow(hub, client, conversation)


def _cursor(cursor: Any) -> tuple[str, int]:
    """(epoch, seq) of a cursor; ("", 0) for anything that is none."""
    epoch, seq = member(cursor, "epoch"), member(cursor, "seq")
    if not isinstance(epoch, str) or not isinstance(seq, int) or isinstance(seq, bool):
        return "", 0
    return epoch, seq


def stats(hub: Hub, client: Client, frame: Frame) -> None:
    """`_acpbridge/stats`: turns, queues, clients, and how full the log is."""
    sessions = hub.bridge.sessions.values()
    newest = [one for one in hub.conversations.values() if _is_there(hub, one)][-SESSIONS_MAX:]
    ring = hub.log.stats()
    hub.respond(
        client.number,
        frame.id,
        {
            "epoch": hub.log.epoch,
            "turns": [_turn(hub, one) for one in sessions if one.turn is not None],
            "queued": sum(len(one.queue) for one in sessions),
            "clients": len(hub.clients),
            "sessions": [
                {
                    "sessionId": one.id,
                    "latestSeq": follow.latest_seq(hub, one),
                    "followers": len(one.followers),
                }
                for one in newest
            ],
            "ring": {
                "sessions": ring.sessions,
                "events": ring.events,
                "texts": ring.texts,
                "bytes": ring.bytes,
            },
        },
    )


def _is_there(hub: Hub, conversation: Conversation) -> bool:
    """Whether there is such a session: one that was only asked for is followed, and may come."""
    return hub.session(conversation.id) is not None or follow.latest_seq(hub, conversation) > 0


def _turn(hub: Hub, session: Session) -> dict[str, Any]:
    turn = session.turn
    assert turn is not None
    return {
        "sessionId": session.id,
        "traceId": hub.bridge.trace(turn),
        "state": session.phase.value,
        "elapsedMs": round((hub.bridge.now - turn.started_s) * 1000),
        "streaming": hub.bridge.now - turn.last_work_s < STREAMING_S,
        "queued": len(session.queue),
    }


def prompts(hub: Hub, client: Client, frame: Frame) -> None:
    """`_acpbridge/prompts {sessionId?}`: the prompts that wait or are at the agent, oldest first.

    What has ended is in the journal, which `acpbridge prompts` reads.
    """
    found: list[dict[str, Any]] = []
    for session in hub.bridge.sessions.values():
        if frame.session and hub.session(frame.session) is not session:
            continue
        queued = [item for item in session.queue if isinstance(item, Prompt)]
        found += [_prompt(hub, session, one) for one in (*session.at_agent, *queued)]
    hub.respond(client.number, frame.id, {"prompts": found})


def _prompt(hub: Hub, session: Session, prompt: Prompt) -> dict[str, Any]:
    told: dict[str, Any] = {
        "sessionId": session.id,
        "prompt": prompt.number,
        "state": prompt.stage.value,
        "client": prompt.client,
        "waitedMs": round((hub.bridge.now - prompt.accepted_s) * 1000),
        "words": prompt.text[:WORDS_CHARS_MAX],
    }
    return told | ({"promptKey": prompt.key} if prompt.key else {})


def gauges(hub: Hub) -> dict[str, float]:
    """The figures of a hub that go up and down, by name, for whoever draws them."""
    sessions = hub.bridge.sessions.values()
    ring = hub.log.stats()
    return {
        "clients": len(hub.clients),
        "sessions": len(hub.bridge.sessions),
        "turns": sum(one.turn is not None for one in sessions),
        "queued_prompts": sum(len(one.queue) for one in sessions),
        "queued_bytes": hub.bridge.queue_bytes,
        "open_requests": len(hub.routes),
        "agent_requests": len(hub.asks),
        "log_sessions": ring.sessions,
        "log_events": ring.events,
        "log_texts": ring.texts,
        "log_bytes": ring.bytes,
    }
