"""Who may open a WebSocket: decided from the request's head, before a frame is read.

Everything here is a pure function but `read_token_digest`. A refusal never repeats what the peer
sent: a reason may land in a log, and what was sent may be a secret (field cases 123 to 125).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import stat
from typing import TYPE_CHECKING

from attrs import field, frozen

from acpbridge.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PATH = b"/acp"
"""The one path of ACP (draft of the remote transports)."""
TOKEN_BYTES_MIN = 16
TOKEN_BYTES_MAX = 4096

_ORIGIN = re.compile(r"(?i)null|[a-z][a-z0-9+.-]*://[^/?#\s]+")
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""`b64token`, all that a bearer token can be (RFC 6750 section 2.1)."""
_HTTP_PORT = 80
"""A browser leaves this port out of `Host`."""


@frozen
class Refused:
    """The answer to a request that is not let in."""

    status: int
    """Of HTTP: 401, 403 or 404 from the door, 400 and up from the handshake."""
    reason: str
    """One line in ASCII for the peer and for the log; names a remedy, repeats nothing sent."""


@frozen
class Bind:
    """Where to listen."""

    host: str
    """An IPv4 or IPv6 address without brackets."""
    port: int
    """0: the system chooses a free one."""

    @property
    def name(self) -> str:
        """The address as it stands in a URL and in a `Host`."""
        return f"[{self.host}]" if ":" in self.host else self.host


@frozen
class DoorRules:
    """What a request must show. The token itself is not kept, so it cannot be printed."""

    token_digest: bytes = field(repr=False)
    """SHA-256 of the token, 32 bytes; see `read_token_digest`."""
    hosts: frozenset[bytes]
    """Values of `Host` that are ours, in lower case with their port; see `own_hosts`."""
    origins: frozenset[bytes] = frozenset()
    """Values of `Origin` that are let in, in lower case. None at all is always let in."""


def refusal(
    method: bytes,
    target: bytes,
    headers: Iterable[tuple[bytes, bytes]],
    rules: DoorRules,
    *,
    page: bytes = PATH,
    is_public: bool = False,
) -> Refused | None:
    """Why this request is not let in; None lets it in.

    What a web page cannot forge is looked at first, so that a page learns nothing else.

    Args:
        method: As sent, `b"GET"`.
        target: The request line's target, as sent.
        headers: (name in lower case, value) as h11 gives them, in order.
        rules: What must be shown.
        page: The path that is there.
        is_public: Whoever passes Host and Origin may have it without the token.
    """
    shown: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        shown.setdefault(name, []).append(value)
    hosts, origins = shown.get(b"host", []), shown.get(b"origin", [])
    if len(hosts) != 1 or hosts[0].lower() not in rules.hosts:
        return Refused(403, "this Host is no name of the daemon: serve --allow-host lets it in")
    if origins and (len(origins) > 1 or origins[0].lower() not in rules.origins):
        return Refused(403, "a web page may not connect: serve --allow-origin lets its Origin in")
    path, question, _ = target.partition(b"?")
    if method != b"GET" or path != page:
        return Refused(404, "there is nothing here but GET /acp, /healthz and /metrics")
    if question:
        return Refused(403, "no query string: a URL ends in logs, send the token as a header")
    if not is_public and not _has_token(shown.get(b"authorization", []), rules.token_digest):
        text = "no token, or another one than the daemon's: send Authorization: Bearer and its own"
        return Refused(401, text)
    return None


def _has_token(values: list[bytes], token_digest: bytes) -> bool:
    if len(values) != 1:
        return False
    scheme, _, token = values[0].partition(b" ")
    # Digests have one length, so the time says nothing about the token's either.
    digest = hashlib.sha256(token.strip(b" ")).digest()
    return hmac.compare_digest(digest, token_digest) and scheme.lower() == b"bearer"


def own_hosts(bind: Bind, more: Iterable[str] = ()) -> frozenset[bytes]:
    """The values of `Host` that lead to a listener.

    Args:
        bind: The address and the port really listened on, never 0.
        more: Further ones as a client sends them: `name:port`, or `name` alone where the client
            leaves out its scheme's usual port (behind a TLS proxy: 443).
    """
    names = [bind.name]
    if _is_loopback(bind.host):
        names += ["localhost", "127.0.0.1", "[::1]"]
    found = {f"{name}:{bind.port}" for name in names}
    if bind.port == _HTTP_PORT:
        found.update(names)
    return frozenset(name.lower().encode() for name in (*found, *more))


def named_origins(texts: Iterable[str]) -> frozenset[bytes]:
    """The values of `Origin` that somebody names, as `DoorRules` compares them.

    Raises:
        UsageFault: A browser sends none of that form: it would let nobody in.
    """
    found = set()
    for text in texts:
        if not _ORIGIN.fullmatch(text):
            hint = f"{text!r} is no origin: name scheme, host and port alone, as in"
            raise UsageFault("origin_invalid", f"{hint} https://app.example")
        found.add(text.lower().encode())
    return frozenset(found)


def parse_bind(text: str, *, behind_tls_proxy: bool = False) -> Bind:
    """Read `ADDRESS:PORT`, `[IPv6]:PORT` or `localhost:PORT`.

    Names are not resolved: what a name leads to can change after it was checked.

    Raises:
        UsageFault: It is no such thing, or others could reach it without TLS.
    """
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = "127.0.0.1" if host.lower() == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        is_address = (ipaddress.ip_address(host).version == 6) == is_bracketed
    except ValueError:
        is_address = False
    if not is_address or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        hint = f"cannot listen on {text!r}: expected ADDRESS:PORT, such as 127.0.0.1:8137"
        raise UsageFault("bind_invalid", hint)
    if not _is_loopback(host) and not behind_tls_proxy:
        hint = (
            f"will not listen on {text}: others could reach it, and the token would travel in"
            " the clear; listen on 127.0.0.1, or say --behind-tls-proxy if something else ends TLS"
        )
        raise UsageFault("bind_not_loopback", hint)
    return Bind(host, int(port))


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def read_token_digest(path: Path) -> bytes:
    """The SHA-256 of the token in a file; see `read_token`."""
    return hashlib.sha256(read_token(path)).digest()


def read_token(path: Path) -> bytes:
    """The token in a file that only its owner, us, can read.

    White space around the token is no part of it.

    Raises:
        UsageFault: There is no such file, others can read it, or what it holds is no token of
            `TOKEN_BYTES_MIN` to `TOKEN_BYTES_MAX` bytes.
    """
    try:
        # O_NONBLOCK: a FIFO that nobody writes would hold the start up.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            # Of the open file, so that no other one can take its name between look and read.
            status = os.fstat(fd)
            token = os.read(fd, TOKEN_BYTES_MAX + 2) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(fd)
    except OSError as error:
        hint = f"cannot read the token file {path}: {error.strerror}; name one that holds the token"
        raise UsageFault("token_file_unusable", hint) from error
    if not stat.S_ISREG(status.st_mode):
        hint = f"the token file {path} is no plain file: name one that holds the token"
        raise UsageFault("token_file_unusable", hint)
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.getuid():
        hint = f"the token file {path} is not yours alone: own it and chmod 600 it"
        raise UsageFault("token_file_open", hint)
    token = token.strip()
    if not TOKEN_BYTES_MIN <= len(token) <= TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        hint = (
            f"the token file {path} holds no token: write {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}"
            " characters of A-Z a-z 0-9 . _ ~ + / - into it"
        )
        raise UsageFault("token_invalid", hint)
    return token
