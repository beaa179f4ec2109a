"""Look through files of any kind that we know, and say what is wrong. Pure but for the reading.

The rule of this module: a file is what its content says. A tape begins with its header or with a
tape's line; in everything else the lines of Codeg and of Hermes are looked for side by side, since
one file may hold both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attrs import define, field

from acpbridge.errors import UsageFault
from acpbridge.store.diagnosis.codeg import Codeg
from acpbridge.store.diagnosis.finding import STUCK_S, Finding
from acpbridge.store.diagnosis.hermes import Hermes
from acpbridge.store.diagnosis.log import lines_with
from acpbridge.store.diagnosis.source import Block, Source
from acpbridge.store.diagnosis.stamps import Stamp, last_stamp
from acpbridge.store.diagnosis.tape import TapeReader

_TAPE = re.compile(rb'\s*\{\s*"(?:tape"\s*:|t"\s*:\s*[\d.]+\s*,\s*"from"\s*:)')
_SIGNS = {"codeg": (b"codeg_lib", b"codeg-server"), "hermes": (b"acp_adapter", b"hermes_cli")}
"""What stands in a file of each even where nothing happened."""
_TAIL_BYTES = 1 << 16
"""The end of a log in which its last time is looked for."""


@define(eq=False)
class Looked:
    """What one file was and how much of it was read."""

    file: str
    kinds: list[str] = field(factory=list)
    """tape, codeg, hermes; empty where nothing in it is known to us."""
    lines: int = 0
    bytes: int = 0
    """Of the text, unpacked."""
    damaged: int = 0
    """Lines of a tape that could not be read."""


@define(eq=False)
class Diagnosis:
    """Feed it files, oldest first: a turn may begin in one log and end in the next."""

    stuck_s: float = STUCK_S
    codeg: Codeg = field(init=False)
    hermes: Hermes = field(init=False)
    looked: list[Looked] = field(factory=list, init=False)
    prompts: int = field(default=0, init=False)
    """Prompts on tapes."""
    running: int = field(default=0, init=False)
    """Turns that had begun shortly before their file ended."""
    _last: dict[str, Stamp] = field(factory=dict, init=False)
    """The last time of the logs of each kind; their clocks need not have the same zone."""

    def __attrs_post_init__(self) -> None:
        self.codeg = Codeg(self.stuck_s)
        self.hermes = Hermes(self.stuck_s)

    def look(self, source: Source, on_block: Callable[[], None] | None = None) -> Iterator[Finding]:
        """Read one file to its end.

        Raises:
            UsageFault: It cannot be read to its end; what was found before is good.
        """
        looked = Looked(source.name)
        self.looked.append(looked)
        tape: TapeReader | None = None
        fault: UsageFault | None = None
        tail = b""
        blocks = source.blocks(on_block)
        while True:
            try:
                block = next(blocks, None)
            except UsageFault as error:
                block, fault = None, error
            if block is None:
                break
            looked.lines, looked.bytes = source.lines, source.bytes_read
            if block.first == 1 and _TAPE.match(block.data):
                tape = TapeReader(source.name, self.stuck_s)
                looked.kinds.append("tape")
            if tape is not None:
                yield from _tape_lines(tape, block)
            else:
                yield from self._log_lines(block, looked)
                tail = block.data[-_TAIL_BYTES:]
        last = last_stamp(tail, len(tail))
        if last is not None:
            self._last.update(dict.fromkeys(looked.kinds, last))
        if tape is not None:
            yield from tape.end()
            self.prompts += tape.prompts
            self.running += tape.running
            looked.damaged = tape.damaged
        if fault is not None:
            raise fault

    def end(self) -> Iterator[Finding]:
        """All files are read: judge what the logs left open."""
        yield from self.codeg.end(self._last.get("codeg"))
        yield from self.hermes.end(self._last.get("hermes"))
        self.running += self.codeg.running + self.hermes.running

    def _log_lines(self, block: Block, looked: Looked) -> Iterator[Finding]:
        if not looked.kinds:
            looked.kinds += [
                kind for kind, signs in _SIGNS.items() if any(sign in block.data for sign in signs)
            ]
        for line in lines_with(Codeg.WORDS + Hermes.WORDS, block, looked.file):
            is_codeg = line.word in Codeg.WORDS
            kind = "codeg" if is_codeg else "hermes"
            if kind not in looked.kinds:
                looked.kinds.append(kind)
            yield from self.codeg.read(line) if is_codeg else self.hermes.read(line)


def _tape_lines(tape: TapeReader, block: Block) -> Iterator[Finding]:
    for number, line in enumerate(block.data.split(b"\n"), start=block.first):
        if line.strip() and not (number == 1 and line.lstrip().startswith(b'{"tape"')):
            yield from tape.read(number, line)
