"""Read a tape back: its header, and every line that was spoken with its bytes.

The format is the one that `tape` writes. A file that is none, or that a newer acpbridge wrote, is
refused in one line, and so is one with damaged lines, each named by its number. Tapes may hold
texts that were cut to their heads (fixtures/README.md); they are grown again to their length, and
remember their head, so that the text that was really sent still equals them.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from acpbridge.errors import UsageFault
from acpbridge.wire.codec import encode
from acpbridge.wire.ids import NO_ID, RpcId
from acpbridge.wire.look import Unreadable, look
from acpbridge.wire.scan import find

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""The newest format that this version reads."""
TAPE_BYTES_MAX = 1024 * 1024 * 1024
"""A larger file is refused: the whole tape is held in memory."""
FAULTS_SHOWN_MAX = 5

_SIDES = ("client", "agent")
_CUT = re.compile(r"\.\.\.<elided (\d+) chars>\Z")
_CUT_FRAME = re.compile(r"(\d+) bytes\Z")
_CUT_TAILS = {
    "agent": '", "type": "text"}, "sessionUpdate": "agent_message_chunk"}}}',
    "client": ' @@[[\\"say\\", \\"got it\\"]]"}]}}',
}
"""How the two whole frames of tape big-frames that were cut end; their heads are on the tape."""


class Regrown(str):
    """A text that the tape had cut: its head, repeated up to the length that it had."""

    __slots__ = ("cut", "head")
    head: str
    cut: str
    """As it stands on the tape."""

    def stands_for(self, text: str) -> bool:
        """Whether `text` may be the one that was cut: as long, and with the same beginning.

        Or the cut one itself, from a client that reads the tape without growing it.
        """
        return (len(text) == len(self) and text.startswith(self.head)) or text == self.cut


@define(eq=False)
class Entry:
    """One line of a tape."""

    number: int
    """Its line in the file, from 1."""
    t_s: float
    """When it was seen, in seconds since the recording began."""
    side: str
    """client or agent."""
    raw: bytes
    """The line as it was spoken, without its end."""
    body: dict[str, Any] | None
    """Parsed; None for a line that was no JSON object."""

    @property
    def method(self) -> str:
        """Empty for responses and for what is no frame."""
        method = (self.body or {}).get("method")
        return method if isinstance(method, str) else ""

    @property
    def params(self) -> dict[str, Any]:
        """Empty where there are none, or no object."""
        return _object((self.body or {}).get("params"))

    @property
    def result(self) -> dict[str, Any]:
        """Empty where there is none, or no object."""
        return _object((self.body or {}).get("result"))

    @property
    def session(self) -> str:
        """The session id that the params name; empty where they name none."""
        session = self.params.get("sessionId")
        return session if isinstance(session, str) else ""

    @cached_property
    def id(self) -> RpcId:
        """The id's own JSON text; empty where there is none."""
        span = find(self.raw, "id") if self.body is not None and "id" in self.body else None
        return NO_ID if span is None else RpcId(self.raw[span[0] : span[1]])

    @property
    def is_request(self) -> bool:
        """Whether it asks for a response."""
        return self.method != "" and self.id != NO_ID

    @property
    def is_response(self) -> bool:
        """Whether it is the response to a request."""
        return self.body is not None and not self.method and self.id != NO_ID


@frozen(eq=False)
class Recording:
    """A tape that was read."""

    agent: str
    version: str
    scenario: str
    entries: tuple[Entry, ...]


def read_tape(path: Path) -> Recording:
    """Read a whole tape.

    Raises:
        UsageFault: The file cannot be read, is no tape, is of a newer format, or is damaged.
    """
    try:
        size_bytes = path.stat().st_size
        data = path.read_bytes() if size_bytes <= TAPE_BYTES_MAX else b""
    except OSError as error:
        hint = f"cannot read the tape {path}: {error.strerror}; name a file of `run --record`"
        raise UsageFault("tape_unreadable", hint) from error
    if size_bytes > TAPE_BYTES_MAX:
        hint = f"{path} has {size_bytes} bytes; a tape is read up to {TAPE_BYTES_MAX}: cut it"
        raise UsageFault("tape_too_large", hint)
    first, _, rest = data.partition(b"\n")
    header = _header(path, first)
    entries: list[Entry] = []
    faults: list[str] = []
    for number, row in enumerate(rest.split(b"\n"), start=2):
        if not row or row.isspace():
            continue
        try:
            entries.append(_entry(number, row))
        except _Damaged as fault:
            faults.append(f"line {number} {fault}")
    if faults:
        more = len(faults) - FAULTS_SHOWN_MAX
        shown = faults[:FAULTS_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
        hint = f"the tape {path} is damaged: {'; '.join(shown)}; put them right or remove them"
        raise UsageFault("tape_damaged", hint)
    named = {name: str(header.get(name, "unknown")) for name in ("agent", "version", "scenario")}
    return Recording(**named, entries=tuple(entries))


class _Damaged(ValueError):
    """A line of a tape is not what it should be; its text says how, after "line 7 "."""


def _header(path: Path, first: bytes) -> dict[str, Any]:
    try:
        header = look(first)
    except Unreadable:
        header = None
    version = header.get("tape") if isinstance(header, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        hint = f'{path} is no tape: line 1 must be its header, {{"tape":{FORMAT},…}}'
        raise UsageFault("no_tape", hint)
    if version > FORMAT:
        hint = (
            f"the tape {path} is of format {version}, and this acpbridge reads format {FORMAT}: "
            "install a newer acpbridge"
        )
        raise UsageFault("tape_too_new", hint)
    return dict(header)


def _entry(number: int, row: bytes) -> Entry:
    try:
        body = look(row)
    except Unreadable as fault:
        raise _Damaged("is no JSON, or cut off") from fault
    if not isinstance(body, dict):
        raise _Damaged("is no JSON object")
    t_s, side = body.get("t"), body.get("from")
    if isinstance(t_s, bool) or not isinstance(t_s, int | float) or not math.isfinite(t_s):
        raise _Damaged('has no number of seconds as "t"')
    if side not in _SIDES:
        raise _Damaged('has neither "client" nor "agent" as "from"')
    if ("frame" in body) == ("line" in body):
        raise _Damaged('must have either a "frame" or a "line"')
    if "line" in body:
        text = body["line"]
        if not isinstance(text, str):
            raise _Damaged('has a "line" that is no text')
        return Entry(number, float(t_s), side, text.encode("utf-8", "surrogateescape"), None)
    if not isinstance(body["frame"], dict):
        raise _Damaged('has a "frame" that is no object')
    return Entry(number, float(t_s), side, *_spoken(row, side, body["frame"]))


def _spoken(row: bytes, side: str, frame: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """(bytes, parsed) of a frame as it was spoken, with what was cut grown again."""
    if set(frame) == {"__elided__", "head"}:
        size = _CUT_FRAME.match(str(frame["__elided__"]))
        if size is None or not isinstance(frame["head"], str) or not frame["head"]:
            raise _Damaged("has a cut frame that does not tell its size and head")
        raw = _regrown_frame(frame["head"], _CUT_TAILS[side], int(size[1]))
        try:
            return raw, _object(look(raw))
        except Unreadable as fault:
            raise _Damaged("has a cut frame whose head does not end in a text") from fault
    if b"<elided " in row:
        frame = _whole(frame)
        return encode(frame), frame
    span = find(row, "frame")
    assert span is not None, "it was parsed with a frame in it"
    return row[span[0] : span[1]], frame


def _regrown_frame(head: str, tail: str, size_bytes: int) -> bytes:
    """A cut frame, with the last character of its head repeated as often as its size asks for."""
    return (head + head[-1] * (size_bytes - len(head) - len(tail)) + tail).encode()


def _whole(value: Any) -> Any:
    """The same value with each cut text grown from its head, at its recorded length."""
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    cut = _CUT.search(value) if isinstance(value, str) else None
    if cut is None or cut.start() == 0:
        return value
    head = value[: cut.start()]
    length = len(head) + int(cut[1])
    whole = Regrown((head * (length // len(head) + 1))[:length])
    whole.head, whole.cut = head, value
    return whole


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
