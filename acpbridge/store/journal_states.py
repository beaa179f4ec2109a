"""The states of a recorded prompt and the edges between them. Pure; no sqlite3 here.

An edge is legal if the core can take it (`Bridge.persist` and its callers). `sending` is the
intent to send, `written` says that the bytes left us, `started` that the agent worked on it or
has it under a receipt, `settled` that its answer is known, `answered` that its client was told.
"""

from __future__ import annotations

from attrs import define, field, frozen

ACCEPTED, SENDING, WRITTEN, STARTED = "accepted", "sending", "written", "started"
SETTLED, ANSWERED = "settled", "answered"
CANCELLED, REFUSED, UNKNOWN = "cancelled", "refused", "unknown"

STATES = (
    ACCEPTED, SENDING, WRITTEN, STARTED, SETTLED, ANSWERED, CANCELLED, REFUSED, UNKNOWN,
)  # fmt: skip

AT_AGENT = (SENDING, WRITTEN, STARTED)
"""The agent may have it: what a dead run leaves so is unknown."""
OPEN_STATES = (ACCEPTED, *AT_AGENT)
"""No end is known, and a live run still moves it."""

UNDELIVERED = "undelivered"
"""What people call an accepted prompt that nobody is going to send by itself."""

STARTS = (ACCEPTED, REFUSED, ANSWERED)
"""States in which a row may begin: a prompt refused at the door is answered at once."""

ENDS = (CANCELLED, REFUSED, UNKNOWN)
"""Ends that stay: the `answered` behind one only says that the client was told of it."""

EDGES: dict[str, tuple[str, ...]] = {
    # A prompt that was taken back may turn out to be under a receipt (R24): accepted -> started.
    # It is answered from `accepted` where the disk refused the intent, or the queue was refused.
    ACCEPTED: (SENDING, STARTED, ANSWERED, CANCELLED, REFUSED),
    # A cancel drops a prompt whose bytes have not gone; a stop of the agent takes it back.
    SENDING: (ACCEPTED, WRITTEN, ANSWERED, CANCELLED, REFUSED, UNKNOWN),
    # Taken back after a refusal that proves that nothing ran (R7, R21, R24).
    WRITTEN: (ACCEPTED, STARTED, SETTLED, ANSWERED, CANCELLED, REFUSED, UNKNOWN),
    STARTED: (ACCEPTED, SETTLED, ANSWERED, CANCELLED, REFUSED, UNKNOWN),
    SETTLED: (ANSWERED,),
    # The client left: what was never written is undelivered, whatever it was told (R20).
    ANSWERED: (ACCEPTED,),
    CANCELLED: (ACCEPTED, ANSWERED),
    REFUSED: (ACCEPTED, ANSWERED),
    # A late verdict says that the agent did not take it (R14): nothing of it ran.
    UNKNOWN: (ANSWERED, REFUSED),
}
"""From a state to its next ones; back to `accepted` from an end only if never written."""

LATE_WORDS: dict[str, tuple[str, ...]] = {
    SETTLED: (STARTED, REFUSED, UNKNOWN),
    ANSWERED: (STARTED, REFUSED, UNKNOWN),
    UNKNOWN: (STARTED,),
}
"""What the agent may still say of a steer whose prompt has ended (R14): it goes into the history,
with its reason, and the end stays what it was. Only where its bytes were written."""

SKIPPED_MAX = 1_024
"""Numbers remembered of prompts that were not recorded in their order, the newest."""
REASON_CHARS_MAX = 1_000
"""What is kept of a reason."""


@frozen
class Entry:
    """One transition of one prompt of this run."""

    number: int
    """The prompt's number in this run, 1-based (`Persist.prompt`)."""
    state: str
    """One of `STATES`."""
    session: str
    """The session id that the client knows."""
    at_ms: int
    """Wall clock, milliseconds since 1970; data, never used to put anything in order."""
    content: bytes = b""
    """With `accepted`: the bytes of `params.prompt` (`journal_content.content_of`)."""
    reason: str = ""
    completion: str = ""
    """How its end was known: response, shared, drained, marked, inferred, or an error's kind."""
    turn: int = 0
    """The number of the turn, 0 for none."""
    trace: str = ""
    key: str = ""
    """With `accepted`: `_meta.acpbridge.promptKey`."""
    answer: bytes = b""
    """With `settled`: the JSON of the result."""


@frozen
class Alias:
    """The agent knows a session under another id from now on (R25)."""

    session: str
    generation: int
    agent_id: str
    at_ms: int


@define
class Numbers:
    """Which numbers of this run the journal has had: they come nearly in order.

    A prompt whose key is looked up is recorded behind prompts that came after it; one that shares
    another's answer is never recorded.
    """

    last: int = 0
    skipped: dict[int, None] = field(factory=dict)
    """Lower ones that it has not had, bounded by `SKIPPED_MAX`."""

    def is_new(self, number: int) -> bool:
        """Whether the prompt begins now; one that is neither new nor there was forgotten."""
        return number > self.last or number in self.skipped

    def add(self, number: int) -> None:
        """It has this one now."""
        self.skipped.pop(number, None)
        for gap in range(max(self.last + 1, number - SKIPPED_MAX), number):
            self.skipped[gap] = None
        while len(self.skipped) > SKIPPED_MAX:
            del self.skipped[next(iter(self.skipped))]
        self.last = max(self.last, number)

    def copy(self) -> Numbers:
        """For a transaction that may come to nothing."""
        return Numbers(self.last, dict(self.skipped))


class IllegalTransition(Exception):
    """A transition that the table does not have: a mistake of ours, nothing was written."""

    def __init__(self, number: int, old: str, new: str) -> None:
        super().__init__(f"prompt {number} cannot go from {old} to {new}")
        self.number = number
        self.old = old
        """A state, or "nothing"."""
        self.new = new


def sql_text(text: str) -> str:
    """The text as SQLite takes it: a lone surrogate, which a session id may hold, is spelled out.

    UTF-8 has no bytes for one, and a text of a peer must never end the process (field case 102).
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
