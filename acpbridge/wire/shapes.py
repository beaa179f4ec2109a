"""The fast path: know a text chunk by its first and last bytes.

The rule of this module: a learned shape must say exactly what the parser would say. A shape is a
line that was parsed, cut open at its text; putting another text of plain characters between the
same two halves gives JSON that differs in that text alone.
"""

from __future__ import annotations

import orjson
from attrs import frozen

from acpbridge.wire.acp import AGENT_MESSAGE_CHUNK, AGENT_THOUGHT_CHUNK, SESSION_UPDATE
from acpbridge.wire.frame import Frame, Kind, Malformed, peek
from acpbridge.wire.ids import NO_ID
from acpbridge.wire.scan import find_unique

SHAPES_MAX = 8
"""Shapes that one reader keeps; a stream has one for each open session and message."""

_LEARNED = (AGENT_MESSAGE_CHUNK, AGENT_THOUGHT_CHUNK)
_NOTIFICATION = Kind.NOTIFICATION
_TEXT_PATH = ("params", "update", "content", "text")

LEARN_REST_LINES = 32
"""Chunks that pass unlearned after a search in vain, and after each one once all places are taken:
a search costs as much as parsing fifteen lines, and with more streams than places every line would
ask for one."""


@frozen(eq=False)
class _Shape:
    prefix: bytes
    """The line up to and including the opening quote of the text."""
    suffix: bytes
    """The line from the closing quote of the text on."""
    text_at: int
    session: str
    variant: str


class Shapes:
    """The shapes of one agent's stream, most recently used first."""

    def __init__(self) -> None:
        self._shapes: list[_Shape] = []
        self._rest_lines = 0

    def peek(self, line: bytes) -> Frame | Malformed:
        """Return what the agent's line is: by a learned shape, else by a parser."""
        shapes = self._shapes
        for shape in shapes:
            if not (line.startswith(shape.prefix) and line.endswith(shape.suffix)):
                continue
            text_at, end = shape.text_at, len(line) - len(shape.suffix)
            try:
                # The text with its quotes. orjson refuses an inner quote, a control byte and what
                # is no UTF-8, three times as fast as a regular expression finds them; where the
                # two halves overlap, what is cut out is no string.
                text = orjson.loads(line[text_at - 1 : end + 1])
            except orjson.JSONDecodeError:
                continue
            # An escape or a character of several bytes makes the text shorter than its bytes.
            if text and (len(text) == end - text_at or line.find(b"\\", text_at, end) < 0):
                if shape is not shapes[0]:
                    shapes.remove(shape)
                    shapes.insert(0, shape)
                return Frame(
                    line,
                    _NOTIFICATION,
                    SESSION_UPDATE,
                    NO_ID,
                    shape.session,
                    shape.variant,
                    True,
                    text_at,
                )
            # The shape is right and the text is not plain: there is nothing to learn.
            return peek(line, strict=False)
        frame = peek(line, strict=False)
        if isinstance(frame, Frame) and frame.variant in _LEARNED and frame.kind is _NOTIFICATION:
            if self._rest_lines:
                self._rest_lines -= 1
            else:
                self._learn(frame)
        return frame

    def _learn(self, frame: Frame) -> None:
        """Keep the shape of this chunk if its text is plain and no reader could see another."""
        line = frame.raw
        content = frame.update.get("content")
        if not isinstance(content, dict) or content.get("type") != "text":
            return
        text = content.get("text")
        if not isinstance(text, str) or not text:
            return
        token = b'"%b"' % text.encode("utf-8", "surrogatepass")
        if token not in line:
            # A text with escapes (a new line is one) is common: it is not worth the search.
            return
        span = find_unique(line, *_TEXT_PATH)
        if span is None or line[span[0] : span[1]] != token:
            self._rest_lines = LEARN_REST_LINES
            return
        shape = _Shape(
            line[: span[0] + 1], line[span[1] - 1 :], span[0] + 1, frame.session, frame.variant
        )
        self._shapes.insert(0, shape)
        del self._shapes[SHAPES_MAX:]
        if len(self._shapes) == SHAPES_MAX:
            self._rest_lines = LEARN_REST_LINES
