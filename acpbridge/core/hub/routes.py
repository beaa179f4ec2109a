"""A client's request under the hub's id, and its answer under the client's own."""

from __future__ import annotations

from acpbridge.core.events import ClientSent
from acpbridge.core.hub.state import Client, Hub, Route
from acpbridge.wire import acp, scan, splice
from acpbridge.wire.frame import Frame, RpcId

_SET = {acp.SESSION_SET_MODE: "modeId", acp.SESSION_SET_MODEL: "modelId"}


def forward(hub: Hub, client: Client, frame: Frame) -> ClientSent:
    """Take a client's request to the bridge, and keep the way that its answer will take back."""
    return under(client, frame, begin(hub, client, frame))


def begin(hub: Hub, client: Client, frame: Frame) -> RpcId:
    """Keep the way that a request's answer will take back; the hub's id of it."""
    wire_id = hub.new_id(client.number) if hub.is_shared else frame.id
    setting = _setting(frame)
    route = Route(client.number, frame.id, frame.method, frame.session, setting=setting)
    hub.begin_route(wire_id, route)
    return wire_id


def under(client: Client, frame: Frame, wire_id: RpcId) -> ClientSent:
    """The request as the bridge is to have it."""
    if wire_id == frame.id:
        return ClientSent(frame, client.number)
    return ClientSent(frame.spelled(splice.with_id(frame.raw, wire_id), wire_id), client.number)


def renamed(line: bytes, route: Route) -> bytes:
    """The line of an answer, under the id that the client wrote."""
    return splice.with_id(line, route.id)


def _setting(frame: Frame) -> bytes:
    """The JSON of the mode or model that a request sets, empty for any other request."""
    name = _SET.get(frame.method)
    return scan.value(frame.raw, "params", name) if name is not None else b""
