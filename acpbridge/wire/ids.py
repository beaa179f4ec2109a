"""Request ids and the kinds of frames.

The rule of this module: an id is its own JSON text, never the value: as dictionary keys
1 == 1.0 == True, and a peer that wrote 1.0 must get 1.0 back (acp.md section 1.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NewType

from attrs import frozen

from acpbridge.wire.scan import decode_string, walk

RpcId = NewType("RpcId", bytes)
"""The id's own JSON text: `1`, `1.0`, `"1"` and `null` are four ids."""

NULL_ID = RpcId(b"null")
"""The id of an answer to a request whose id cannot be known (JSON-RPC 2.0, section 5)."""

NO_ID = RpcId(b"")
"""What `Frame.id` holds where the frame has no id member."""

_STABLE = re.compile(rb'(?:0|-?[1-9][0-9]{0,14}|"[ A-Za-z0-9!#$%()*,.:;=?@\[\]^_{|}~-]*+"|null)')

# A member `"id": scalar` right before the brace that closes a valid text is a top-level member: a
# quote after a comma or brace and before a bare `id` can only open a name.
_LAST_ID = re.compile(
    rb'[,{][ \t\n\r]*"id"[ \t\n\r]*:[ \t\n\r]*("[^"\\]*"|-?[0-9][0-9.eE+-]*|null)[ \t\n\r]*\}'
    rb"[ \t\n\r]*\Z"
)


class Kind(Enum):
    """What a frame is."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    """A response with a result."""
    ERROR = "error"
    """A response with an error."""


ANSWERS = (Kind.RESPONSE, Kind.ERROR)
"""Kinds of frames that answer a request."""


def is_stable(rpc_id: RpcId) -> bool:
    """Whether every JSON library writes this id back as the same bytes.

    True for integers of at most 15 digits, for strings of ASCII characters that no encoder is
    known to escape, and for null. Another one may come back changed (1 for 1.0, an escape for an
    umlaut): give such a request a private id toward its receiver, or its answer is missed.
    """
    return _STABLE.fullmatch(rpc_id) is not None


@frozen
class Salvage:
    """What can be known of a line that was not kept or that is refused."""

    kind: Kind | None
    """None where neither a method nor a result or error is in sight."""
    id: RpcId
    """`null` where no id is in sight, or more than one."""
    method: str
    """Empty where none is in sight."""


def salvage(head: bytes, tail: bytes = b"") -> Salvage:
    """Read what there is of a line of which only the beginning, and maybe the end, is left.

    Trusts that the whole line was one JSON object; what the cut may have shortened is not used.
    """
    found: dict[str, list[bytes]] = {}
    for key, value in _top_level(head):
        found.setdefault(key, []).append(value)
    ids = [value for value in found.get("id", []) if value[:1] not in (b"{", b"[", b"")]
    # Where the head shows no member the line is no message, and its tail means nothing.
    last_id = _LAST_ID.search(tail) if found and not ids else None
    if last_id is not None:
        ids = [last_id[1]]
    method = found.get("method", [b"null"])[-1]
    kind: Kind | None = None
    if method != b"null":
        kind = Kind.REQUEST if ids else Kind.NOTIFICATION
    elif "error" in found or "result" in found:
        kind = Kind.ERROR if "error" in found else Kind.RESPONSE
    return Salvage(
        kind,
        RpcId(ids[0]) if len(ids) == 1 else NULL_ID,
        decode_string(method) if method.startswith(b'"') else "",
    )


def salvage_id(head: bytes, tail: bytes = b"") -> RpcId:
    """Return the id to answer a refused line with: its top-level id, or `null`.

    `null` too for a response: its id is one of the receiver's own requests, and an error with
    that id would be taken for the answer to another request of the sender.
    """
    known = salvage(head, tail)
    return NULL_ID if known.kind in ANSWERS else known.id


def _top_level(head: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of the top-level members; b"" for the value that was cut off."""
    for key, _, value in walk(head, 0):
        yield key, b"" if value is None else head[value[0] : value[1]]
