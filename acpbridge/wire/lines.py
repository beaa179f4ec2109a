"""Cut a stream of bytes into lines.

The rule of this module: split on LF only, keep every byte of a line, and hold no more than one
line of at most the limit in memory (field cases 98 to 105, S14).
"""

from __future__ import annotations

from attrs import frozen

HEAD_BYTES_MAX = 64 * 1024
"""What is kept of the beginning of a line over the limit."""

TAIL_BYTES_MAX = 1024
"""What is kept of its end: some clients write the id last."""

_BOM = b"\xef\xbb\xbf"
_CR = ord("\r")
_SLACK_BYTES = len(_BOM) + len(b"\r")
"""Bytes that a line may still lose at its ends before it is measured."""


@frozen
class Oversize:
    """A line over the limit, which was discarded."""

    head: bytes
    """Its first bytes, at most `HEAD_BYTES_MAX`."""
    size_bytes: int
    """Its whole size without the line's end."""
    tail: bytes = b""
    """Its last bytes, at most `TAIL_BYTES_MAX`; they may overlap `head`."""


class LineDecoder:
    """Cuts chunks of any size into lines of at most `line_bytes_max` bytes.

    A line comes without its LF, without one CR before it, and at the very start of the stream
    without one byte order mark. Blank lines are dropped. How the stream was cut into chunks
    makes no difference to what comes out.
    """

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._is_first = True
        self._held = bytearray()
        """The current line so far; of a line over the limit only its last bytes."""
        self._head = bytearray()
        self._size_bytes = 0
        """The size of the current line so far if it is over the limit, else 0."""

    def feed(self, data: bytes | bytearray) -> list[bytes | Oversize]:
        """Take the next bytes of the stream; return the lines that they complete, in order."""
        lines = bytes(data).split(b"\n")
        rest = lines.pop()
        done: list[bytes | Oversize] = []
        if lines and (self._held or self._is_first):
            self._hold(lines.pop(0))
            self._finish(done)
        if len(data) <= self._line_bytes_max and _CR not in data:
            # Nothing to measure and nothing to strip: the usual case.
            done.extend([line for line in lines if line and not line.isspace()])
        else:
            for line in lines:
                self._hold(line)
                self._finish(done)
        if rest:
            self._hold(rest)
        return done

    def end(self) -> list[bytes | Oversize]:
        """Return the last line if the stream ended without LF; then begin a new stream."""
        done: list[bytes | Oversize] = []
        self._finish(done)
        self._is_first = True
        return done

    def _hold(self, part: bytes) -> None:
        """Add to the current line; over the limit keep only its head, its tail and its size."""
        self._held += part
        if self._size_bytes:
            self._head += part[: HEAD_BYTES_MAX + len(_BOM) - len(self._head)]
            self._size_bytes += len(part)
        elif len(self._held) > self._line_bytes_max + _SLACK_BYTES:
            self._head = self._held[: HEAD_BYTES_MAX + len(_BOM)]
            self._size_bytes = len(self._held)
        if self._size_bytes:
            del self._held[: -TAIL_BYTES_MAX - len(b"\r")]

    def _finish(self, done: list[bytes | Oversize]) -> None:
        """End the current line and append it to `done` unless it is blank."""
        line, head, size_bytes = bytes(self._held), bytes(self._head), self._size_bytes
        self._held, self._head, self._size_bytes = bytearray(), bytearray(), 0
        begin = len(_BOM) if self._is_first and (head or line).startswith(_BOM) else 0
        self._is_first = False
        end = len(line) - line.endswith(b"\r")
        if size_bytes:
            size_bytes -= begin + len(line) - end
            head = head[begin : begin + min(HEAD_BYTES_MAX, size_bytes)]
            # The tail is cut so that it never reaches back before the line's first byte.
            begin = max(end - min(TAIL_BYTES_MAX, size_bytes), 0)
            done.append(Oversize(head, size_bytes, line[begin:end]))
            return
        line = line[begin:end]
        if len(line) > self._line_bytes_max:
            tail = line[-TAIL_BYTES_MAX:]
            done.append(Oversize(line[:HEAD_BYTES_MAX], len(line), tail))
        elif line and not line.isspace():
            done.append(line)
