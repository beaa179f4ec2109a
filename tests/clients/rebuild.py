"""The conversation that a client makes of an answer to `_acpbridge/events_since`.

`rebuild.mjs` is the same in JavaScript, and a test holds them to that. Every frame must be one that
the SDK understands.
"""

from __future__ import annotations

from typing import Any

from acp import schema

Body = dict[str, Any]
TEXTS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


def rebuild(answer: Body, cursor: Body | None) -> Body:
    """Text in a row is one part; a tool call is one part, as its last update left it."""
    parts: list[Body] = []
    tools: dict[str, Body] = {}
    before: int | None = 0
    if answer["truncated"]:
        # Where something is missing, nobody knows where the first frame begins.
        before = None
    elif not answer["startsOver"] and cursor is not None:
        before = cursor["seq"]
    for frame in answer["frames"]:
        params = frame["params"]
        ours = params["_meta"]["acpbridge"]
        # A frame stands for every seq behind the frame before it: its text may be merged.
        seqs = [None if before is None else before + 1, ours["seq"]]
        before = ours["seq"]
        place = {"seqs": seqs, "traceId": ours["traceId"]}
        if frame["method"] == "_acpbridge/turn_ended":
            reason = (params.get("result") or {}).get("stopReason")
            parts.append({"kind": "end", "reason": reason, **place})
        else:
            schema.SessionNotification.model_validate(params)
            _add(parts, tools, params["update"], place)
    said = ("latestSeq", "truncated", "epoch", "startsOver")
    return {"parts": parts} | {key: answer[key] for key in said}


def _add(parts: list[Body], tools: dict[str, Body], update: Body, place: Body) -> None:
    kind = update["sessionUpdate"]
    last = parts[-1] if parts else {}
    if kind in TEXTS:
        text = update["content"]["text"]
        if last.get("kind") == kind and last["traceId"] == place["traceId"]:
            last["text"] += text
            last["seqs"][1] = place["seqs"][1]
        else:
            parts.append({"kind": kind, "text": text, **place})
    elif kind in ("tool_call", "tool_call_update"):
        call = update["toolCallId"]
        if call not in tools:
            tools[call] = {"kind": "tool", "id": call, "title": None, "status": None, **place}
            parts.append(tools[call])
        for key in ("title", "status"):
            tools[call][key] = update.get(key) or tools[call][key]
        tools[call]["seqs"][1] = place["seqs"][1]
    else:
        parts.append({"kind": kind, **place})
