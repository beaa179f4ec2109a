"""The fast path: know a text chunk by its first and last bytes.

The rule of this module: a learned shape must say exactly what the parser would say. A shape is a
line that was parsed, cut open at its text; putting the string of another text between the same two
halves gives JSON that differs in that text alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from operator import itemgetter
from typing import TypeGuard

import orjson
from attrs import frozen

from acpbridge.wire.acp import AGENT_MESSAGE_CHUNK, AGENT_THOUGHT_CHUNK, SESSION_UPDATE
from acpbridge.wire.frame import Frame, Kind, Malformed, peek
from acpbridge.wire.ids import NO_ID
from acpbridge.wire.lines import Oversize
from acpbridge.wire.scan import find_unique

SHAPES_MAX = 8
"""Shapes that one reader keeps; a stream has one for each open session and message."""

_LEARNED = (AGENT_MESSAGE_CHUNK, AGENT_THOUGHT_CHUNK)
_NOTIFICATION = Kind.NOTIFICATION
_TEXT_PATH = ("params", "update", "content", "text")

_ONLY_STRINGS = {str}
_ONLY_BYTES = {bytes}

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
    session: str
    variant: str


@frozen(eq=False)
class Chunks:
    """Text chunks of one shape in a row: none is empty, and no parser need see them."""

    session: str
    variant: str
    lines: Sequence[bytes]
    """The lines as received, without their ends."""
    texts: Sequence[str]
    """The text of each line."""
    prefix: bytes
    """What each line begins with, up to and including the opening quote of its text."""
    suffix: bytes
    """What each line ends with, from the closing quote on."""

    def frame(self, at: int) -> Frame:
        """The frame of the line at this place."""
        return _plain(self.lines[at], self.session, self.variant, self.texts[at])


def _plain(line: bytes, session: str, variant: str, text: str) -> Frame:
    return Frame(line, _NOTIFICATION, SESSION_UPDATE, NO_ID, session, variant, True, text)


class Shapes:
    """The shapes of one agent's stream, most recently used first."""

    def __init__(self) -> None:
        self._shapes: list[_Shape] = []
        self._rest_lines = 0

    def look(
        self, items: Sequence[bytes | Oversize]
    ) -> Iterator[Frame | Malformed | Oversize | Chunks]:
        """Say what the lines of one read are, in order; chunks in a row come as one."""
        at, end = 0, len(items)
        while at < end:
            item = items[at]
            if not isinstance(item, bytes):
                yield item
                at += 1
                continue
            shape = self._fitting(item)
            if shape is None:
                yield self._parsed(item)
                at += 1
                continue
            lines = _run(shape, items, at)
            texts = _texts(shape, lines) if len(lines) > 1 else []
            if texts:
                self._to_front(shape)
                yield Chunks(shape.session, shape.variant, lines, texts, shape.prefix, shape.suffix)
            else:
                for line in lines:
                    yield self.peek(line)
            at += len(lines)

    def _fitting(self, line: bytes) -> _Shape | None:
        for shape in self._shapes:
            if line.startswith(shape.prefix) and line.endswith(shape.suffix):
                return shape
        return None

    def peek(self, line: bytes) -> Frame | Malformed:
        """Return what the agent's line is: by a learned shape, else by a parser."""
        for shape in self._shapes:
            # The halves of one shape may fit the lines of another: its text then is no string.
            texts = _texts(shape, [line]) if _fits(shape, line) else []
            if texts:
                self._to_front(shape)
                return _plain(line, shape.session, shape.variant, texts[0])
        return self._parsed(line)

    def _parsed(self, line: bytes) -> Frame | Malformed:
        """What a line of no learned shape is; learns the shape of a chunk."""
        frame = peek(line, strict=False)
        if isinstance(frame, Frame) and frame.variant in _LEARNED and frame.kind is _NOTIFICATION:
            if self._rest_lines:
                self._rest_lines -= 1
            else:
                self._learn(frame)
        return frame

    def _to_front(self, shape: _Shape) -> None:
        shapes = self._shapes
        if shape is not shapes[0]:
            shapes.remove(shape)
            shapes.insert(0, shape)

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
        shape = _Shape(line[: span[0] + 1], line[span[1] - 1 :], frame.session, frame.variant)
        self._shapes.insert(0, shape)
        del self._shapes[SHAPES_MAX:]
        if len(self._shapes) == SHAPES_MAX:
            self._rest_lines = LEARN_REST_LINES


def _fits(shape: _Shape, line: bytes) -> bool:
    return line.startswith(shape.prefix) and line.endswith(shape.suffix)


def _are_lines(items: Sequence[bytes | Oversize]) -> TypeGuard[Sequence[bytes]]:
    return set(map(type, items)) == _ONLY_BYTES


def _run(shape: _Shape, items: Sequence[bytes | Oversize], at: int) -> Sequence[bytes]:
    """The lines in a row from this place on that have the shape's halves."""
    prefix, suffix = shape.prefix, shape.suffix
    if (
        not at
        and _are_lines(items)
        and all(map(bytes.startswith, items, repeat(prefix)))
        and all(map(bytes.endswith, items, repeat(suffix)))
    ):
        # Most reads of a stream bring nothing else, and this costs half as much.
        return items
    lines: list[bytes] = []
    for line in islice(items, at, None):
        if not isinstance(line, bytes) or not line.startswith(prefix) or not line.endswith(suffix):
            break
        lines.append(line)
    return lines


def _texts(shape: _Shape, lines: Sequence[bytes]) -> list[str]:
    """The texts between the shape's halves; none where one of them is not a string, or empty.

    All are parsed at once, as an array. What is cut out begins with a quote, so it is at least one
    string; the line feed between two of them, which JSON forbids in a string, keeps them from being
    one. So where nothing but strings is found, and no more than lines, each line had just one.
    """
    cut_out = itemgetter(slice(len(shape.prefix) - 1, 1 - len(shape.suffix)))
    try:
        found = orjson.loads(b"[%b]" % b"\n,".join(map(cut_out, lines)))
    except orjson.JSONDecodeError:
        return []
    is_exact = len(found) == len(lines) and set(map(type, found)) == _ONLY_STRINGS
    return found if is_exact and all(found) else []
