"""The daemon's HTTP side: `GET /acp` becomes a client, and two pages beside it.

`/healthz` says that the daemon is there and asks for no token, because a probe has none; what it
says, whoever can connect knows already. `/metrics` says how much is going on, and asks for it.
"""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from acpbridge.errors import UsageFault
from acpbridge.shell.door import (
    DoorRules,
    Refused,
    named_origins,
    own_hosts,
    parse_bind,
    read_token_digest,
    refusal,
)
from acpbridge.shell.metrics import CONTENT_TYPE
from acpbridge.shell.peers import WebSocketPeer
from acpbridge.shell.upgrade import Request, admit, answer, read_request, refuse
from acpbridge.shell.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from acpbridge.config import Limits, Settings
    from acpbridge.shell.daemon import Greet
    from acpbridge.shell.door import Bind
    from acpbridge.shell.notes import Notes

HEALTH, METRICS = b"/healthz", b"/metrics"


class Gate:
    """The listeners of `--ws` and what greets their connections; see `open_gate`."""

    def __init__(
        self,
        listeners: Sequence[trio.SocketListener],
        address: str,
        rules: DoorRules,
        limits: Limits,
    ) -> None:
        self.listeners = listeners
        self.address = address
        """`HOST:PORT` as it is listened on."""
        self._rules = rules
        self._limits = limits

    def greeting(self, metrics: Callable[[], str], notes: Notes) -> Greet:
        """What greets its connections.

        Args:
            metrics: Makes the page.
            notes: Where refusals are told.
        """

        def greet(
            stream: trio.SocketStream,
        ) -> AbstractAsyncContextManager[WebSocketPeer | None]:
            return self._greeted(stream, metrics, notes)

        return greet

    @asynccontextmanager
    async def _greeted(
        self, stream: trio.SocketStream, metrics: Callable[[], str], notes: Notes
    ) -> AsyncIterator[WebSocketPeer | None]:
        """Answer what is no client, and close it; make a peer of what is one."""
        fd = stream.socket.fileno()
        request = await read_request(stream, self._limits)
        outcome: WebSocket | Refused | None
        if isinstance(request, Request):
            outcome = await self._outcome(stream, request, metrics)
        else:
            outcome = request
            if request is not None:
                await refuse(stream, request, self._limits)
        if isinstance(outcome, Refused):
            notes.note("request_refused", "warning", status=outcome.status, reason=outcome.reason)
        try:
            yield WebSocketPeer(outcome, fd) if isinstance(outcome, WebSocket) else None
        finally:
            await trio.aclose_forcefully(stream)

    async def _outcome(
        self, stream: trio.SocketStream, request: Request, metrics: Callable[[], str]
    ) -> WebSocket | Refused | None:
        path = request.target.partition(b"?")[0]
        if path not in {HEALTH, METRICS}:
            connection_id = secrets.token_hex(16)
            return await admit(stream, request, self._rules, self._limits, connection_id)
        refused = refusal(
            request.method,
            request.target,
            request.headers,
            self._rules,
            page=path,
            is_public=path == HEALTH,
        )
        if refused is not None:
            await refuse(stream, refused, self._limits)
        elif path == HEALTH:
            await answer(stream, 200, b"ok\n", self._limits)
        else:
            body = metrics().encode()
            await answer(stream, 200, body, self._limits, content_type=CONTENT_TYPE)
        return refused


async def open_gate(settings: Settings, *, origins: Sequence[str], hosts: Sequence[str]) -> Gate:
    """Listen where `ws` says.

    Raises:
        UsageFault: The address, the token file, an origin or the port cannot be used.
    """
    assert settings.ws is not None
    bind = parse_bind(settings.ws, behind_tls_proxy=settings.behind_tls_proxy)
    if settings.token_file is None:
        hint = "--ws needs --token-file FILE: whoever connects must show what stands in it"
        raise UsageFault("token_file_missing", hint)
    digest = read_token_digest(settings.token_file)
    allowed = named_origins(origins)
    listeners = await _listening(bind)
    port: int = listeners[0].socket.getsockname()[1]
    bind = evolve(bind, port=port)
    rules = DoorRules(digest, own_hosts(bind, hosts), allowed)
    return Gate(listeners, f"{bind.name}:{port}", rules, settings.limits)


async def _listening(bind: Bind) -> list[trio.SocketListener]:
    try:
        return await trio.open_tcp_listeners(bind.port, host=bind.host)
    except OSError as error:
        hint = f"cannot listen on port {bind.port} of {bind.host}: {error.strerror or error}"
        raise UsageFault("bind_unusable", f"{hint}; choose another one") from error
