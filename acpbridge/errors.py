"""What can stop the bridge itself, told in one line to the person who started it.

What a peer does wrong is no exception: the core answers it with a verdict. These are the
world's faults, and each knows the exit code that it ends the process with (design, commands:
0 asked to stop, 2 usage, 3 agent, 4 state directory; 5 is the daemon's).
"""

from __future__ import annotations

from typing import ClassVar


class AcpBridgeError(Exception):
    """A fault with a stable name and a remedy; raise one of the subclasses.

    `str()` of it is one line, "hint (code)", fit for stderr.
    """

    exit_code: ClassVar[int] = 1
    """What the process exits with when nothing below the command line handles the fault."""

    def __init__(self, code: str, hint: str) -> None:
        super().__init__(code, hint)
        self.code = code
        """Stable and snake_case, for programs."""
        self.hint = hint
        """For people: names the thing and the remedy, never a secret."""

    def __str__(self) -> str:
        return f"{self.hint} ({self.code})"


class UsageFault(AcpBridgeError):
    """The command line, the environment or the configuration file asks for nonsense."""

    exit_code = 2


class AgentFault(AcpBridgeError):
    """The agent could not be started, or it ended by itself while work was open."""

    exit_code = 3


class StateDirFault(AcpBridgeError):
    """The state directory cannot be created, locked, read or written."""

    exit_code = 4


class DaemonFault(AcpBridgeError):
    """No daemon listens, it went away, or it does not end."""

    exit_code = 5
