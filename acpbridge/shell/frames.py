"""WebSocket frames as bytes: many server frames built at once, client frames parsed in pieces.

No I/O here. What a client does wrong is a `Fault` at the end of what was found, never an
exception, so the messages before it are not lost, and how the stream was cut into pieces makes
no difference to what comes out (RFC 6455 section 5).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

NORMAL, GOING_AWAY, PROTOCOL_ERROR = 1000, 1001, 1002
NO_CODE, ABNORMAL = 1005, 1006
"""Never on the wire: a close frame without a code, and an end without a close frame."""
NOT_UTF8, TOO_BIG = 1007, 1009

CONTROL_BYTES_MAX = 125
"""Payload of a ping, pong or close frame (section 5.5)."""

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FINAL, _RESERVED, _OPCODE, _CONTROL = 0x80, 0x70, 0x0F, 0x08
_MASKED, _LENGTH = 0x80, 0x7F
_LENGTH_2, _LENGTH_8 = 126, 127
"""The length field says that 2 or 8 bytes of length follow (section 5.2)."""
_MASK_BYTES = 4
_HEADS_MAX = 4096
"""Heads of text frames that are remembered, by size."""


@frozen
class Ping:
    """The peer wants a pong with this payload."""

    payload: bytes


@frozen
class Pong:
    """The peer is there."""

    payload: bytes


@frozen
class Close:
    """The peer has said its last word; nothing is parsed after it."""

    code: int
    """`NO_CODE` if the frame had none."""
    reason: str


@frozen
class Fault:
    """The peer broke the protocol; nothing is parsed after it."""

    code: int
    """What to close with: `PROTOCOL_ERROR`, `NOT_UTF8` or `TOO_BIG`."""
    reason: str
    """One line that repeats nothing sent."""


Received: TypeAlias = bytes | Ping | Pong | Close | Fault
"""A text message as its UTF-8 bytes, or a control frame."""


class FrameParser:
    """Turns a client's byte stream into messages; holds at most one message and one frame head.

    Args:
        message_bytes_max: A message of more is a `Fault` of `TOO_BIG`, told at its frame's head.
    """

    def __init__(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._held = b""
        """The beginning of a frame's head, fewer than 14 bytes."""
        self._message = bytearray()
        """The open text message so far, unmasked."""
        self._message_bytes = 0
        """The size that the heads of the open message's frames have announced."""
        self._message_opcode = _CONTINUATION
        """Of the open message; `_CONTINUATION` when there is none."""
        self._control = bytearray()
        self._is_in_frame = False
        self._is_final = False
        self._opcode = _CONTINUATION
        self._left_bytes = 0
        """Payload of the current frame that has not come yet."""
        self._mask = b""
        """The mask for the next payload byte and the three after it."""
        self.is_over = False
        """A `Close` or a `Fault` was found: what else comes is ignored."""
        self.ignored_messages = 0
        """Binary messages, which ACP ignores."""

    def feed(self, data: bytes | bytearray) -> list[Received]:
        """Take the next bytes of the stream; return what they complete, in order."""
        found: list[Received] = []
        stream = self._held + data
        at = 0
        while not self.is_over:
            if not self._is_in_frame:
                head_bytes = self._begin(stream, at, found)
                if not head_bytes:
                    break
                at += head_bytes
            at += self._take(stream, at)
            if self._left_bytes:
                break
            self._is_in_frame = False
            self._finish(found)
        self._held = b"" if self.is_over else bytes(stream[at:])
        return found

    def _begin(self, stream: bytes, at: int, found: list[Received]) -> int:
        """Read a frame's head; returns its size, 0 if it is not all there or is a fault."""
        there_bytes = len(stream) - at
        if there_bytes < 2:
            return 0
        first, second = stream[at], stream[at + 1]
        if why := self._head_fault(first, second):
            self._fail(found, PROTOCOL_ERROR, why)
            return 0
        length_bytes = {_LENGTH_2: 2, _LENGTH_8: 8}.get(second & _LENGTH, 0)
        head_bytes = 2 + length_bytes + _MASK_BYTES
        if there_bytes < head_bytes:
            return 0
        size_bytes = second & _LENGTH
        if length_bytes:
            size_bytes = int.from_bytes(stream[at + 2 : at + 2 + length_bytes], "big")
            if size_bytes < (_LENGTH_2 if length_bytes == 2 else 1 << 16) or size_bytes >> 63:
                self._fail(found, PROTOCOL_ERROR, "a frame's length is not in its shortest form")
                return 0
        opcode = first & _OPCODE
        if not opcode & _CONTROL:
            self._message_bytes += size_bytes
            self._message_opcode = opcode or self._message_opcode
            if self._message_bytes > self._message_bytes_max:
                why = f"a message of more than {self._message_bytes_max} bytes"
                self._fail(found, TOO_BIG, why)
                return 0
        self._opcode, self._is_final = opcode, bool(first & _FINAL)
        self._mask = stream[at + head_bytes - _MASK_BYTES : at + head_bytes]
        self._left_bytes, self._is_in_frame = size_bytes, True
        return head_bytes

    def _head_fault(self, first: int, second: int) -> str:
        """What is wrong with the first two bytes of a frame (sections 5.1 to 5.5)."""
        opcode = first & _OPCODE
        if first & _RESERVED:
            return "a reserved bit is set, and no extension was agreed on"
        if not second & _MASKED:
            return "a client's frame must be masked"
        if opcode & _CONTROL:
            if opcode not in {_CLOSE, _PING, _PONG}:
                return "an unknown control frame"
            is_whole = first & _FINAL and second & _LENGTH <= CONTROL_BYTES_MAX
            return "" if is_whole else "a control frame that is fragmented or too long"
        if opcode == _CONTINUATION:
            return "" if self._message_opcode else "a continuation of no message"
        if opcode not in {_TEXT, _BINARY}:
            return "an unknown data frame"
        return "a new message before the last one's end" if self._message_opcode else ""

    def _take(self, stream: bytes, at: int) -> int:
        """Unmask what is there of the current frame's payload; returns how much that was."""
        part = stream[at : at + self._left_bytes]
        size_bytes = len(part)
        if size_bytes:
            self._left_bytes -= size_bytes
            if self._opcode & _CONTROL:
                self._control += _masked(part, self._mask)
            elif self._message_opcode == _TEXT:
                self._message += _masked(part, self._mask)
            turn = size_bytes % _MASK_BYTES
            self._mask = self._mask[turn:] + self._mask[:turn]
        return size_bytes

    def _finish(self, found: list[Received]) -> None:
        """The current frame is complete."""
        if self._opcode & _CONTROL:
            payload = bytes(self._control)
            self._control.clear()
            if self._opcode == _CLOSE:
                self._close(found, payload)
            else:
                found.append(Ping(payload) if self._opcode == _PING else Pong(payload))
            return
        if not self._is_final:
            return
        message, opcode = bytes(self._message), self._message_opcode
        self._message = bytearray()
        self._message_bytes, self._message_opcode = 0, _CONTINUATION
        if opcode == _BINARY:
            self.ignored_messages += 1
        elif is_utf8(message):
            found.append(message)
        else:
            self._fail(found, NOT_UTF8, "a text message must be UTF-8")

    def _close(self, found: list[Received], payload: bytes) -> None:
        """Read a close frame's payload: nothing, or a code and a reason (section 5.5.1)."""
        code = int.from_bytes(payload[:2], "big") if payload else NO_CODE
        if len(payload) == 1 or (payload and not _is_close_code(code)):
            self._fail(found, PROTOCOL_ERROR, "a close frame with a code that may not be sent")
        elif not is_utf8(payload[2:]):
            self._fail(found, NOT_UTF8, "a close frame's reason must be UTF-8")
        else:
            self.is_over = True
            found.append(Close(code, payload[2:].decode()))

    def _fail(self, found: list[Received], code: int, reason: str) -> None:
        self.is_over = True
        self._message = bytearray()
        found.append(Fault(code, reason))


def is_utf8(data: bytes) -> bool:
    """Whether a text frame may carry these bytes (section 8.1)."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_close_code(code: int) -> bool:
    """Whether a close frame may carry this code (section 7.4 and IANA's registry)."""
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999


def _masked(data: bytes, mask: bytes) -> bytes:
    """Mask or unmask; one XOR of two long numbers, because a loop takes 50 ns a byte."""
    size = len(data)
    key = (mask * (size // _MASK_BYTES + 1))[:size]
    number = int.from_bytes(data, "little") ^ int.from_bytes(key, "little")
    return number.to_bytes(size, "little")


def text_frames(lines: Iterable[bytes]) -> bytes:
    """Unmasked frames, one final text frame a line, in one piece. The lines must be UTF-8."""
    lines = list(lines)
    parts = [b""] * (2 * len(lines))
    parts[::2] = map(_text_head, map(len, lines))
    parts[1::2] = lines
    return b"".join(parts)


def ping_frame(payload: bytes) -> bytes:
    """An unmasked ping with at most `CONTROL_BYTES_MAX` bytes."""
    return _control_frame(_PING, payload)


def pong_frame(payload: bytes) -> bytes:
    """An unmasked pong with at most `CONTROL_BYTES_MAX` bytes."""
    return _control_frame(_PONG, payload)


def close_frame(code: int, reason: str = "") -> bytes:
    """An unmasked close frame, its reason cut to fit; without a code for `NO_CODE`."""
    if code == NO_CODE:
        return _control_frame(_CLOSE, b"")
    assert _is_close_code(code), code
    text = reason.encode("utf-8", "replace")[: CONTROL_BYTES_MAX - 2]
    # The cut may have gone through a character.
    text = text.decode("utf-8", "ignore").encode()
    return _control_frame(_CLOSE, code.to_bytes(2, "big") + text)


def _control_frame(opcode: int, payload: bytes) -> bytes:
    assert len(payload) <= CONTROL_BYTES_MAX
    return _head(opcode, len(payload)) + payload


_head_2 = struct.Struct("!BBH").pack
_head_8 = struct.Struct("!BBQ").pack


@lru_cache(_HEADS_MAX)
def _text_head(size_bytes: int) -> bytes:
    # A stream's lines have few different sizes, and one head costs as much as all else of a line.
    return _head(_TEXT, size_bytes)


def _head(opcode: int, size_bytes: int) -> bytes:
    if size_bytes < _LENGTH_2:
        return bytes((_FINAL | opcode, size_bytes))
    if size_bytes < 1 << 16:
        return _head_2(_FINAL | opcode, _LENGTH_2, size_bytes)
    return _head_8(_FINAL | opcode, _LENGTH_8, size_bytes)
