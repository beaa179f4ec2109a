"""What the daemon's shell itself says to a connection, before it is a client or instead of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acpbridge.core.replies import refusal
from acpbridge.wire import codec
from acpbridge.wire.frame import NULL_ID, Frame, Kind, peek

if TYPE_CHECKING:
    from acpbridge.wire.lines import Oversize

STOP = "_acpbridge/stop"
"""A request, and the first line of a connection: end in order (`acpbridge stop`)."""


def stop_request(item: bytes | Oversize) -> Frame | None:
    """The line as a request to stop, if it is one."""
    if not isinstance(item, bytes) or STOP.encode() not in item:
        return None
    frame = peek(item, strict=True)
    is_one = isinstance(frame, Frame) and frame.kind is Kind.REQUEST and frame.method == STOP
    return frame if is_one and isinstance(frame, Frame) else None


def stop_answer(request: Frame, said: dict[str, Any]) -> bytes:
    """The answer to it, without LF; then the connection stays open until the daemon has ended."""
    return codec.result(request.id, said)


def too_many(item: bytes | Oversize, clients_max: int) -> bytes:
    """The answer to the first line of a client that finds no place, without LF."""
    frame = peek(item, strict=True) if isinstance(item, bytes) else None
    id_ = frame.id if isinstance(frame, Frame) and frame.kind is Kind.REQUEST else NULL_ID
    return refusal(id_, "busy", words_of_too_many(clients_max))


def words_of_too_many(clients_max: int) -> str:
    """One line that names the limit and the remedy."""
    return f"the daemon takes no more than clients_max ({clients_max}): let one leave, or raise it"
