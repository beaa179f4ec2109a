"""Where a diagnosis reads: files, gzip or not, and stdin, in blocks of whole lines.

The rule of this module: memory does not grow with the file. What is read is at most one block and
one unfinished line, and a line past the limit is cut to its head.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, cast

from attrs import define, field, frozen

from acpbridge.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDIN = "-"
BLOCK_BYTES = 1 << 20
"""One read."""
LINE_BYTES_MAX = 8 << 20
"""A longer line is cut to this: it still counts as a line, and its head is still looked at."""

_GZIP_MAGIC = b"\x1f\x8b"


class Text(Protocol):
    """What gives the bytes of a text."""

    def read1(self, size: int, /) -> bytes:
        """At most `size` bytes, what is there now; none at the end."""

    def close(self) -> None:
        """Give back what it holds."""


class File(Text, Protocol):
    """A text that knows how far it has been read."""

    def tell(self) -> int:
        """Bytes read until now."""


@frozen
class Block:
    """Whole lines, each with its end."""

    data: bytes
    first: int
    """Number of the first line, 1-based."""


@define(eq=False)
class Source:
    """One open file to look through. Its methods block. Close it, or use it in a `with`."""

    name: str
    """As the user wrote it; "-" is stdin."""
    bytes_total: int | None
    """Of the file as it lies there; None where nobody knows (stdin, a pipe)."""
    _raw: File
    """As it lies there."""
    _text: Text
    """The same, unpacked."""
    _is_ours: bool = True
    lines: int = field(default=0, init=False)
    """Lines handed out until now."""
    bytes_read: int = field(default=0, init=False)
    """Of the text, unpacked."""

    @classmethod
    def open(cls, name: str) -> Source:
        """Open a file by its name, or stdin by "-".

        Raises:
            UsageFault: It cannot be opened.
        """
        if name == STDIN:
            stdin = cast("io.BufferedReader", sys.stdin.buffer)
            return cls(name, None, stdin, _unpacked(stdin), is_ours=False)
        try:
            raw = Path(name).open("rb")  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise unreadable(name, error.strerror or str(error)) from error
        size = raw.seek(0, io.SEEK_END) if raw.seekable() else None
        if size is not None:
            raw.seek(0)
        return cls(name, size, raw, _unpacked(raw))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what `open` opened; stdin stays open."""
        if self._is_ours:
            self._text.close()
            self._raw.close()

    @property
    def bytes_done(self) -> int:
        """How far into `bytes_total` the reading is."""
        return self.bytes_read if self.bytes_total is None else self._raw.tell()

    def blocks(self, on_block: Callable[[], None] | None = None) -> Iterator[Block]:
        """All lines, in blocks; `on_block` is called before each, for a progress bar.

        Raises:
            UsageFault: It cannot be read to its end; the blocks before that are good.
        """
        rest: list[bytes] = []
        rest_bytes = 0
        while data := self._read():
            if on_block is not None:
                on_block()
            cut = data.rfind(b"\n") + 1
            if cut:
                yield self._block(b"".join((*rest, data[:cut])))
                rest, rest_bytes, data = [], 0, data[cut:]
            # Only the head of an endless line is kept.
            kept = data[: LINE_BYTES_MAX - rest_bytes]
            if kept:
                rest.append(kept)
                rest_bytes += len(kept)
        if rest:
            yield self._block(b"".join(rest))

    def _block(self, data: bytes) -> Block:
        block = Block(data, self.lines + 1)
        self.lines += data.count(b"\n") + (not data.endswith(b"\n"))
        return block

    def _read(self) -> bytes:
        try:
            # read1: what a pipe has now, so that a live log is followed and not waited for.
            data = self._text.read1(BLOCK_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise unreadable(self.name, f"{reason}, after line {self.lines}") from error
        self.bytes_read += len(data)
        return data


def unreadable(name: str, reason: str) -> UsageFault:
    """The fault for a file that cannot be read."""
    shown = "stdin" if name == STDIN else name
    return UsageFault("file_unreadable", f"cannot read {shown}: {reason}")


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader | gzip.GzipFile:
    """The stream of the text: unpacked where the first two bytes say gzip, whatever its name."""
    try:
        is_packed = raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    except OSError:
        # The first read will say it again, and tell the file's name.
        is_packed = False
    return gzip.GzipFile(fileobj=raw, mode="rb") if is_packed else raw
