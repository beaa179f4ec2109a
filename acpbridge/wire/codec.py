"""Write frames of our own.

The rule of this module: only what the bridge itself says is encoded here. Bytes of a peer that
become part of it go in as they are (`verbatim`). Frames come without LF; the shell adds it.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from acpbridge.wire.ids import RpcId


def encode(value: Any) -> bytes:
    """Return the JSON text of a value that orjson can encode, or that `look` returned parts of.

    Lone surrogates and integers over 64 bits, which orjson refuses, are written as escapes and
    digits: a text of a peer must never end the process (field case 102).
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_eased(value))


def verbatim(raw: bytes) -> orjson.Fragment:
    """Return a value that `encode` writes as these very bytes; they must be valid JSON."""
    return orjson.Fragment(raw)


def _eased(value: Any) -> Any:
    if isinstance(value, dict):
        return orjson.Fragment(
            b"{" + b",".join(encode(key) + b":" + encode(of) for key, of in value.items()) + b"}"
        )
    if isinstance(value, (list, tuple)):
        return orjson.Fragment(b"[" + b",".join(encode(item) for item in value) + b"]")
    if isinstance(value, (str, int)):
        return orjson.Fragment(json.dumps(value).encode("ascii"))
    # Nothing that comes from JSON; orjson says what it is.
    return value


def rpc_id(value: str | int) -> RpcId:
    """Return the id with this value."""
    return RpcId(encode(value))


def request(id: RpcId, method: str, params: Any) -> bytes:  # noqa: A002 - JSON-RPC's name
    """Return a request with this id."""
    return b"".join(
        (
            b'{"jsonrpc":"2.0","id":',
            id,
            b',"method":',
            encode(method),
            b',"params":',
            encode(params),
            b"}",
        )
    )


def notification(method: str, params: Any) -> bytes:
    """Return a notification."""
    head = b'{"jsonrpc":"2.0","method":'
    return b"".join((head, encode(method), b',"params":', encode(params), b"}"))


def result(id: RpcId, result: Any) -> bytes:  # noqa: A002 - JSON-RPC's name
    """Return the response to the request with this id."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', encode(result), b"}"))


def error(
    id: RpcId,  # noqa: A002 - JSON-RPC's name
    code: int,
    message: str,
    data: dict[str, Any] | None = None,
) -> bytes:
    """Return the error response to the request with this id."""
    fault: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        fault["data"] = data
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"error":', encode(fault), b"}"))
