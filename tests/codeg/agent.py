"""The scripted agent, with turns that can be cancelled before their first step.

    python -m tests.codeg.agent MODE [--state FILE]

A client that cancels in the millisecond of its prompt makes an agent read both at once. The
scripted agent then throws into a generator that has not begun, and crashes; here each turn is
brought to its first wait as it begins.
"""

from __future__ import annotations

import sys
from itertools import pairwise

from tests.hermes import scripted
from tests.hermes.scripted_store import Store
from tests.hermes.scripted_turns import Session


class Agent(scripted.Agent):
    """The same agent; only `begin` differs."""

    def begin(self, session: Session, owner: object, text: str, notice: str | None = None) -> None:
        """Start a turn and play it to its first wait, which is before its first step."""
        super().begin(session, owner, text, notice)
        assert session.turn is not None
        session.turn.resume()


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    sys.exit(Agent(mode, Store(dict(pairwise(words)).get("--state"), None)).serve())
