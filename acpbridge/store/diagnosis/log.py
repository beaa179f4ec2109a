"""The few lines of a log that matter, found by search before anything is split. Pure.

Most of a log is something else, so a block is searched for fixed words as bytes, and only the
lines around them are cut out, numbered and read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from attrs import frozen

from acpbridge.store.diagnosis.finding import Mark
from acpbridge.store.diagnosis.source import Block
from acpbridge.store.diagnosis.stamps import Stamp, last_stamp

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


@frozen(slots=False, eq=False)
class Line:
    """One line that holds one of the words."""

    mark: Mark
    text: bytes
    """Without its end and without colours."""
    word: bytes
    """The first of the words in it."""

    @cached_property
    def said(self) -> bytes:
        """The line from the word on."""
        return self.text[self.text.find(self.word) :]

    @cached_property
    def stamp(self) -> Stamp | None:
        """The time in front of the word."""
        return last_stamp(self.text, self.text.find(self.word))


def lines_with(words: tuple[bytes, ...], block: Block, file: str) -> Iterator[Line]:
    """The lines of a block that hold one of `words`, in order, each once."""
    data = block.data
    found: list[tuple[int, bytes]] = []
    for word in words:
        at = data.find(word)
        while at >= 0:
            found.append((at, word))
            at = data.find(word, at + len(word))
    found.sort()
    number, counted, end = block.first, 0, -1
    for at, word in found:
        if at < end:
            # A second word of the same line: what comes first says what the line is.
            continue
        number += data.count(b"\n", counted, at)
        counted = at
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        text = data[data.rfind(b"\n", 0, at) + 1 : end].rstrip(b"\r")
        yield Line(Mark(file, number), _COLOUR.sub(b"", text), word)
