"""Lines for the event log, and short ways to fill it and to ask it."""

from __future__ import annotations

import json
import sys

from acpbridge.core.ring import EventLog
from acpbridge.core.ring_entries import Replay
from acpbridge.wire.frame import Frame, peek

EPOCH, OTHER_EPOCH = "0123abcd", "0123abce"
TRACE, OTHER_TRACE = "0123456789ab", "0123456789ac"
MESSAGE, THOUGHT = "agent_message_chunk", "agent_thought_chunk"

HERMES = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"content":{"text":%b,"type":"text"},"sessionUpdate":"agent_message_chunk"}}}'
)
CODEX = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_thought_chunk","messageId":"m1","content":'
    b'{"type":"text","text":%b}}}}'
)
CODEX_NEXT = CODEX.replace(b"m1", b"m2")
SPACED = (
    b' {"params": {"update": {"content": {"text" : %b , "type":"text"}, "sessionUpdate":'
    b'"agent_message_chunk", "n":1.0}, "sessionId":"s"}, "method":"session/update",'
    b'"jsonrpc":"2.0" } '
)
DOUBLED = HERMES.replace(b'{"content"', b'{"content":{"text":"first","type":"text"},"content"')
TEMPLATES = (HERMES, CODEX, CODEX_NEXT, SPACED, DOUBLED)
TOOL = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"tool_call_update","toolCallId":%b}}}'
)


def chunk(text: str, template: bytes = HERMES) -> bytes:
    return template % json.dumps(text).encode()


def tool(name: str) -> bytes:
    return TOOL % json.dumps(name).encode()


def put(log: EventLog, line: bytes, trace_id: str = TRACE, session: str = "s") -> int:
    """Append the line as the bridge would: with what a look at it tells."""
    frame = peek(line, strict=False)
    assert isinstance(frame, Frame)
    return log.append(session, line, trace_id, frame.variant)


def filled(*lines: bytes, **limits: int) -> EventLog:
    log = EventLog(EPOCH, **limits)
    assert list(range(1, len(lines) + 1)) == [put(log, line) for line in lines]
    return log


def behind(log: EventLog, seq: int, session: str = "s") -> list[tuple[int, bytes]]:
    return [(frame.seq, frame.line) for frame in log.since(session, EPOCH, seq).frames]


def claims(replay: Replay) -> tuple[int, bool, bool, bool]:
    return replay.latest_seq, replay.truncated, replay.text_dropped, replay.starts_over


def held_bytes(log: EventLog) -> int:
    """What the entries of text take, as Python counts; shared halves are counted each time."""
    return sum(
        sys.getsizeof(part)
        for text in log._sessions["s"].texts
        for part in (text, text.head, text.tail, text.body, text.ends)
    )
