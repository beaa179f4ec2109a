"""Look at one line and say what it is, without changing a byte.

The rule of this module: `peek` never raises; it returns a `Frame` that holds the very line it was
given, or a `Malformed` that says why not. Who wrote the line decides how strict the look is (R26).
"""

from __future__ import annotations

import re
from typing import Any

from attrs import define, field, frozen

from acpbridge.wire.acp import INVALID_REQUEST, JSONRPC, SESSION_UPDATE
from acpbridge.wire.ids import NO_ID, NULL_ID, Kind, RpcId, salvage_id
from acpbridge.wire.look import NESTING_MAX, Unreadable, look, too_deep
from acpbridge.wire.scan import depth_exceeds, walk

__all__ = ["NO_ID", "NULL_ID", "Frame", "Kind", "Malformed", "RpcId", "peek", "salvage_id"]

MALFORMED_BYTES_MAX = 2 * 1024
"""What is kept of a malformed line, for the log."""

_ID = re.compile(rb'"id"[ \t\n\r]*+:[ \t\n\r]*+("[^"\\]*+"|[^ \t\n\r",{}\[\]]++)')
"""The only `"id"` of a line that has one at top level, with a value that needs no scanner."""

_BACKSLASH = ord("\\")

_SPELLED = re.compile(rb"\\u00(?:6[4589d-fD-F]|7[34]|49)")
"""An escape that stands for a letter of "id", "method" or "sessionId"."""

_FOREIGN = 'the object is no JSON-RPC message: "jsonrpc" must be "2.0"'

_SHOWN_BYTES_MAX = 120
"""What a frame's `repr` shows of its line."""


def _shown(raw: bytes) -> str:
    return repr(raw) if len(raw) <= _SHOWN_BYTES_MAX else f"{raw[:_SHOWN_BYTES_MAX]!r}…"


@define(eq=False)
class Frame:
    """One well-formed line: the bytes as they came, and what a look at them told."""

    raw: bytes = field(repr=_shown)
    """The line as received, without its end."""
    kind: Kind
    method: str
    """Empty for responses."""
    id: RpcId
    """The id's own bytes; empty where the frame has no id member."""
    session: str
    """`params.sessionId` where that is a string, else empty; empty for responses."""
    variant: str
    """`params.update.sessionUpdate` of a session/update, else empty."""
    plain: bool
    """Whether a learned shape told all this: a non-empty text chunk, not parsed (see `shapes`)."""
    known_text: str
    """The text if `plain`, else empty."""
    _body: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def body(self) -> dict[str, Any]:
        """The parsed line, parsed on first use and kept. For reading only: never encode it."""
        if self._body is None:
            try:
                body = look(self.raw)
            except Unreadable:
                body = None
            self._body = body if isinstance(body, dict) else {}
        return self._body

    @property
    def params(self) -> dict[str, Any]:
        """The params if they are an object, else an empty one."""
        found = self.body.get("params")
        return found if isinstance(found, dict) else {}

    @property
    def result(self) -> Any:
        """The result, None where there is none or where it is null."""
        return self.body.get("result")

    @property
    def error(self) -> dict[str, Any]:
        """The error if it is an object, else an empty one."""
        return _object(self.body.get("error"))

    @property
    def update(self) -> dict[str, Any]:
        """The update of a session/update if it is an object, else an empty one."""
        return _object(self.params.get("update"))

    @property
    def text(self) -> str:
        """The text of an update with a text content, else empty. No parser runs if `plain`."""
        if self.plain:
            return self.known_text
        text = _object(self.update.get("content")).get("text")
        return text if isinstance(text, str) else ""

    def spelled(self, raw: bytes, id_: RpcId | None = None) -> Frame:
        """The same request or notification with other bytes, and the id that they have.

        `body` stays the parsed line as it came: what was spliced into `raw` is not in it.
        """
        own_id = self.id if id_ is None else id_
        return Frame(raw, self.kind, self.method, own_id, self.session, "", False, "", self.body)


@frozen
class Malformed:
    """A line that is no frame, and why."""

    code: int
    """-32700 where it is no JSON or no UTF-8, else -32600."""
    message: str
    """Names the thing and the remedy; fit to be sent to whoever wrote the line."""
    id: RpcId
    """The id to answer with, `null` where it cannot be known."""
    raw: bytes = field(repr=_shown)
    """The line's first `MALFORMED_BYTES_MAX` bytes."""


def peek(line: bytes, *, strict: bool) -> Frame | Malformed:
    """Return what the line is; never raises, never copies it.

    `strict` is for lines of a client: whatever two readers could understand differently is
    refused (R26). Otherwise the line is an agent's, and what is no JSON-RPC 2.0 message is
    malformed: a log object with an id must not become a response (field case 104).
    """
    try:
        body = look(line)
    except Unreadable as fault:
        answer_id = salvage_id(line) if strict and fault.code == INVALID_REQUEST else NULL_ID
        return Malformed(fault.code, str(fault), answer_id, line[:MALFORMED_BYTES_MAX])
    if not isinstance(body, dict):
        return _refused(line, _not_an_object(body), strict=False)
    if strict:
        fault_message = _ambiguity(line, body)
    else:
        fault_message = "" if body.get("jsonrpc") == JSONRPC else _FOREIGN
    if fault_message:
        return _refused(line, fault_message, strict=strict)
    return _read(line, body, strict=strict)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _refused(line: bytes, message: str, *, strict: bool) -> Malformed:
    answer_id = salvage_id(line) if strict else NULL_ID
    return Malformed(INVALID_REQUEST, message, answer_id, line[:MALFORMED_BYTES_MAX])


def _not_an_object(body: Any) -> str:
    if isinstance(body, list):
        return "JSON-RPC batches are not supported: send each message on a line of its own"
    return "the line is JSON but no object: send one JSON-RPC message on each line"


def _ambiguity(line: bytes, body: dict[str, Any]) -> str:
    """Return why two readers of this line could disagree, empty if they could not (R26).

    Names are compared decoded: one written with an escape is a double too.
    """
    if len(line) > NESTING_MAX:
        if depth_exceeds(line, NESTING_MAX):
            return too_deep(NESTING_MAX)
    else:
        params = body.get("params")
        names = len(body) + len(params) if isinstance(params, dict) else len(body)
        if line.count(b":") == names:
            # Each member has a colon: there is none beside those that the parser has kept.
            return ""
    # A name can be doubled only where its bytes are, or where an escape may spell it; a walk
    # over all members costs ten times as much as these searches.
    count = line.count
    is_once = count(b'"id"') < 2 and count(b'"method"') < 2 and count(b'"sessionId"') < 2
    if is_once and not _may_be_spelled(line):
        return ""
    seen: set[str] = set()
    for name, _, value in walk(line, 0):
        if name in ("id", "method"):
            if name in seen:
                return f'the message has two "{name}" members: send one'
            seen.add(name)
        elif name == "params" and value is not None:
            # Doubled params are searched as one: each reader would take another sessionId.
            for inner, _, _ in walk(line, value[0]):
                if inner == "sessionId":
                    if "sessionId" in seen:
                        return 'the params have two "sessionId" members: send one'
                    seen.add("sessionId")
    return ""


def _may_be_spelled(line: bytes) -> bool:
    """Whether one of the names that count may stand in the line with an escape in it.

    A large text with other escapes is common, and a walk over it costs a second.
    """
    return _BACKSLASH in line and b"\\u00" in line and _SPELLED.search(line) is not None


def _read(line: bytes, body: dict[str, Any], *, strict: bool) -> Frame | Malformed:
    """Sort one object into its kind.

    A null method, result or error beside another of the three counts as absent: libraries that
    write all members of one record send such (`{"id":1,"result":{},"error":null}`).
    """
    get = body.get
    method, result, error = get("method"), get("result"), get("error")
    if isinstance(get("id"), (dict, list)):
        return _refused(
            line, "the id is an object or array: send a string or number", strict=strict
        )
    if (method is not None) + (result is not None) + (error is not None) > 1:
        return _refused(
            line, "the message has more than one of method, result and error", strict=strict
        )
    if method is not None:
        if not isinstance(method, str):
            return _refused(line, "the method is no string: send its name", strict=strict)
        return _call(line, body, method)
    if error is not None or ("error" in body and "result" not in body):
        if "id" in body or strict:
            # Clients report a line that they could not read without id or with a null one.
            return Frame(line, Kind.ERROR, "", _id(line, body), "", "", False, "", body)
    elif "result" in body and "id" in body:
        return Frame(line, Kind.RESPONSE, "", _id(line, body), "", "", False, "", body)
    return _refused(
        line,
        "the message has no method and is no response: send a method, or an id with a result",
        strict=strict,
    )


def _call(line: bytes, body: dict[str, Any], method: str) -> Frame:
    """Build the frame of a request or notification."""
    params = body.get("params")
    if not isinstance(params, dict):
        params = {}
    session = params.get("sessionId")
    variant = ""
    if method == SESSION_UPDATE:
        named = _object(params.get("update")).get("sessionUpdate")
        variant = named if isinstance(named, str) else ""
    return Frame(
        line,
        Kind.REQUEST if "id" in body else Kind.NOTIFICATION,
        method,
        _id(line, body),
        session if isinstance(session, str) else "",
        variant,
        False,
        "",
        body,
    )


def _id(line: bytes, body: dict[str, Any]) -> RpcId:
    """Return the bytes of the top-level id; of a doubled one the last, as parsers do."""
    value = body.get("id")
    # JSON has one spelling of an integer, but for 0 and -0, and one of a string without escapes.
    if type(value) is int and value:
        return RpcId(b"%d" % value)
    if type(value) is str and _BACKSLASH not in line:
        return RpcId(b'"%b"' % value.encode())
    if value is None and "id" not in body:
        return NO_ID
    if line.count(b'"id"') == 1 and not _may_be_spelled(line):
        # No other name, and none in escapes: these bytes are the member, wherever they stand.
        found = _ID.search(line)
        if found is not None:
            return RpcId(found[1])
    rpc_id = NO_ID
    for name, _, value in walk(line, 0):
        if name == "id" and value is not None:
            rpc_id = RpcId(line[value[0] : value[1]])
    return rpc_id
