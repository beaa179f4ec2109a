"""The mode, model and options of a session as they are now, for the answer to one who comes late.

What the agent said when it opened the session is kept as it came; only what was set since is put
into it.
"""

from __future__ import annotations

from acpbridge.core.hub.state import Conversation, Route
from acpbridge.wire import acp, scan, splice
from acpbridge.wire.frame import Frame

_PLACES = {
    acp.SESSION_SET_MODE: ("modes", "currentModeId"),
    acp.SESSION_SET_MODEL: ("models", "currentModelId"),
}


def learn(conversation: Conversation, frame: Frame) -> None:
    """An update tells of another mode, or of all options."""
    if frame.variant == acp.CURRENT_MODE_UPDATE:
        _put(conversation, _PLACES[acp.SESSION_SET_MODE], _value(frame, "currentModeId"))
    elif frame.variant == acp.CONFIG_OPTION_UPDATE:
        _put(conversation, ("configOptions",), _value(frame, "configOptions"))


def acknowledged(conversation: Conversation, route: Route, frame: Frame) -> None:
    """The agent has taken a setting."""
    if route.method in _PLACES:
        _put(conversation, _PLACES[route.method], route.setting)
    elif route.method == acp.SESSION_SET_CONFIG_OPTION:
        options = scan.value(frame.raw, "result", "configOptions")
        _put(conversation, ("configOptions",), options)


def _value(frame: Frame, name: str) -> bytes:
    return scan.value(frame.raw, "params", "update", name)


def _put(conversation: Conversation, path: tuple[str, ...], value: bytes) -> None:
    """Only where the agent has said something of that kind at the opening."""
    span = scan.find(conversation.result, *path) if value and conversation.result else None
    if span is not None:
        conversation.result = splice.replace(conversation.result, span, value)
