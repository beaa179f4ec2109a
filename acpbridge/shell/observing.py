"""Put `clientCapabilities._meta.acpbridge.observe` into a client's `initialize`.

Every other byte stays: lines before it and all that comes behind it pass as they are.
"""

from __future__ import annotations

from acpbridge.wire import acp
from acpbridge.wire.frame import Frame, peek
from acpbridge.wire.splice import with_member

HELD_BYTES_MAX = 1024 * 1024
"""A first line that is longer is no `initialize`: nothing is looked at any more."""

_INTO = ("params", "clientCapabilities", "_meta", "acpbridge")


class Observing:
    """A client's bytes on their way, in pieces of any size."""

    def __init__(self) -> None:
        self._held = b""
        self._is_done = False

    def feed(self, data: bytes | bytearray) -> bytes:
        """The bytes that may go on; a line that is not whole yet waits until it is."""
        if self._is_done:
            return bytes(data)
        *lines, self._held = (self._held + data).split(b"\n")
        passed: list[bytes] = []
        for index, line in enumerate(lines):
            if acp.INITIALIZE.encode() in line:
                frame = peek(line, strict=True)
                if isinstance(frame, Frame) and frame.method == acp.INITIALIZE:
                    self._is_done = True
                    rest, self._held = [*lines[index + 1 :], self._held], b""
                    return b"\n".join([*passed, observed(line), *rest])
            passed.append(line)
        if len(self._held) > HELD_BYTES_MAX:
            self._is_done = True
            passed.append(self._held)
            return b"\n".join(passed)
        return b"".join(line + b"\n" for line in passed)


def observed(line: bytes) -> bytes:
    """The request with the member set, and the objects around it made where there are none."""
    value = b"true"
    name = "observe"
    for depth in range(len(_INTO), -1, -1):
        path = _INTO[:depth]
        try:
            return with_member(line, path, name, value)
        except KeyError:
            if not path:
                return line
            value = b'{"' + name.encode() + b'":' + value + b"}"
            name = path[-1]
    return line
