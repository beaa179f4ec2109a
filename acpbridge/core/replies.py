"""Frames that the bridge writes in its own name: completions, refusals, one-line messages.

Everything that the bridge says about itself stands under `_meta.acpbridge` or
`error.data.acpbridge`, so that no client can mistake it for the agent's word.
"""

from __future__ import annotations

from typing import Any

from acpbridge.wire import acp, codec, scan, splice
from acpbridge.wire.frame import Frame, RpcId
from acpbridge.wire.look import member

ERROR_CODES = {
    "busy": -32050,
    "queue-full": -32051,
    "not-durable": -32052,
    "delivery-unknown": -32053,
    "agent-exited": -32054,
    "session-lost": -32055,
    "wedged": -32056,
    "frame-too-large": -32057,
    "observer": -32058,
}
"""`data.acpbridge.kind` and the JSON-RPC code of every error of our own (design, errors)."""


def completion(id_: RpcId, stop_reason: str, **said: str) -> bytes:
    """A prompt's response of our own making, with what we say about it under `_meta`."""
    result: dict[str, Any] = {"stopReason": stop_reason}
    if said:
        result["_meta"] = {"acpbridge": said}
    return codec.result(id_, result)


def refusal(id_: RpcId, kind: str, message: str) -> bytes:
    """An error of our own: `kind` is stable, the message names the thing and the remedy."""
    return codec.error(id_, ERROR_CODES[kind], message, {"acpbridge": {"kind": kind}})


def chunk(session_id: str, text: str, variant: str) -> bytes:
    """A message or thought chunk in the bridge's own name."""
    update = {
        "sessionUpdate": variant,
        "content": {"type": "text", "text": text},
        "_meta": {"acpbridge": {"notice": True}},
    }
    return codec.notification(acp.SESSION_UPDATE, {"sessionId": session_id, "update": update})


def is_notice(frame: Frame) -> bool:
    """Whether a chunk is one of ours."""
    return member(frame.update, "_meta", "acpbridge", "notice") is True


def marked(line: bytes, holder: str, said: dict[str, Any]) -> bytes:
    """Return the line with `said` as `_meta.acpbridge` of its `holder`: "params" or "result".

    A line whose holder is no object is returned as it is.
    """
    if b'"_meta"' in line or b"\\u00" in line:
        # The name may stand in the holder, in letters or in escapes; elsewhere it counts for none.
        meta = scan.find(line, holder, "_meta")
        if meta is not None and line[meta[0] : meta[0] + 1] == b"{":
            return splice.with_member(line, (holder, "_meta"), "acpbridge", codec.encode(said))
    try:
        # ACP lets `_meta` be null, which says no more than none.
        return splice.with_member(line, (holder,), "_meta", codec.encode({"acpbridge": said}))
    except KeyError:
        return line


def withdrawal(id_: RpcId) -> bytes:
    """`$/cancel_request` for a request of the agent that is open at the client."""
    prefix = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":'
    return prefix + bytes(id_) + b"}}"


def cancelled_outcome(id_: RpcId, method: str) -> bytes:
    """The answer that a cancelled turn's permission or elicitation request gets (R17)."""
    if method == acp.ELICITATION_CREATE:
        return codec.result(id_, {"action": "cancel"})
    return codec.result(id_, {"outcome": {"outcome": "cancelled"}})
