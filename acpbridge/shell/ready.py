"""How a daemon that was started in the background tells who started it how that went.

One line on a pipe, whose number is the daemon's `--ready-fd`: `ready`, `taken`, or `fault`, the
exit code, the fault's name and its hint. A pipe that ends without a line says that it died.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import ClassVar

from attrs import frozen

from acpbridge.errors import AcpBridgeError

READY = "ready"
TAKEN = "taken"
"""Another process owns the path."""

OWNED = "socket_in_use"
"""The code of the fault that means it."""

_FAULT = "fault"


class Ready:
    """The daemon's end; says one thing, once.

    Args:
        fd: None where nobody waits.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        if fd is not None:
            # The agent is no concern of who waits.
            os.set_inheritable(fd, False)

    def say(self, word: str) -> None:
        """Say it, if nothing was said before, and let go of the pipe."""
        if self._fd is None:
            return
        # Whoever started us may have lost patience.
        with suppress(OSError):
            os.write(self._fd, word.encode("utf-8", "replace") + b"\n")
        os.close(self._fd)
        self._fd = None

    def say_fault(self, fault: AcpBridgeError) -> None:
        """Say why there will be no daemon."""
        if fault.code == OWNED:
            self.say(TAKEN)
            return
        hint = fault.hint.replace("\n", "; ")
        self.say(f"{_FAULT} {fault.exit_code} {fault.code} {hint}")


@frozen
class Told:
    """What the line says."""

    word: str
    """`READY`, `TAKEN`, or empty where the daemon died without a word."""
    fault: AcpBridgeError | None = None


def told(line: str) -> Told:
    """Read the daemon's line."""
    word, _, rest = line.strip().partition(" ")
    if word != _FAULT:
        return Told(word if word in {READY, TAKEN} else "")
    code, _, rest = rest.partition(" ")
    name, _, hint = rest.partition(" ")
    exit_code_ = int(code)

    class Fault(AcpBridgeError):
        exit_code: ClassVar[int] = exit_code_

    return Told("", Fault(name, hint))
