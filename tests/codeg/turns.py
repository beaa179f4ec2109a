"""What a client like Codeg remembers of a turn, and of everything that belongs to none."""

from __future__ import annotations

from math import inf
from typing import Literal

from attrs import define, field, frozen

from tests.hermes.record import Body, Seen

STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
"""Codeg's closed enum; any other word kills its connection."""
OUTPUT = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"})
"""What counts as an answer; a turn without any of it is "empty"."""
METADATA = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "plan",
        "session_info_update",
        "usage_update",
    }
)
"""What applies at any time and ends or answers nothing."""
ECHO = "user_message_chunk"

Row = Literal["in_progress", "pending_review", "cancelled"]
"""What the conversation's row in Codeg's list says."""


@define(eq=False)
class Turn:
    """One prompt as its sender sees it. ``outcome`` is empty while the turn is live."""

    serial: int
    id: str
    text: str
    began_s: float
    shown: list[Seen] = field(factory=list)
    """Updates that were rendered inside this turn, in the order in which they were read."""
    lost: list[Seen] = field(factory=list)
    """Output that was written before the response and read after it: rendered nowhere."""
    outcome: str = ""
    """A stop reason, or "empty"; "cancelled" from the very moment of a local cancel."""
    row: Row = "in_progress"
    was_cancelled: bool = False
    was_raced: bool = False
    """Output and the response were ready together: Codeg had to be lucky."""
    ended_s: float = 0.0
    answers: list[Body] = field(factory=list)
    """Every response to the prompt's id, also those that come after a local cancel."""

    answered_s: float = inf
    """When the first of them was read."""

    @property
    def is_live(self) -> bool:
        """Whether Codeg believes that the agent works on it."""
        return not self.outcome

    @property
    def has_output(self) -> bool:
        """Whether anything was rendered that Codeg takes for an answer."""
        return any(seen.kind in OUTPUT for seen in self.shown)

    def end(self, outcome: str, now_s: float) -> None:
        """Close the turn by a stop reason of the agent, as Codeg's lifecycle does."""
        if outcome == "end_turn" and not self.has_output:
            outcome = "empty"
        self.outcome, self.ended_s = outcome, now_s
        if outcome == "end_turn":
            self.row = "pending_review"
        elif outcome != "cancelled":
            self.row = "cancelled"
        # A `cancelled` that nobody asked for writes nothing: the row stays in progress for ever.

    def cancel(self, now_s: float) -> None:
        """Close the turn here and now; what the agent says about it later is swallowed."""
        self.was_cancelled, self.outcome, self.row = True, "cancelled", "cancelled"
        self.ended_s = now_s


@frozen
class Dropped:
    """Content that came while no prompt was pending; ``after`` is the last turn's serial."""

    seen: Seen
    after: int
