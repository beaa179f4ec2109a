"""What we know of clients beyond the protocol: frozen data, never branches in code."""

from __future__ import annotations

from attrs import frozen


@frozen
class ClientProfile:
    """One client as its source or its wire shows it."""

    name: str
    client_names: tuple[str, ...] = ()
    """Values of `clientInfo.name` in the initialize request."""

    errors_as_text: bool = False
    """A prompt's error is said as a message chunk and an `end_turn` (design, errors)."""
    answer_gap_s: float = 0.0
    """The least time between a session's last update and a prompt's response."""
    answer_gap_max_s: float = 1.0
    """Updates that go on arriving stretch that gap by at most this much."""
    needs_output: bool = False
    """An `end_turn` needs at least one visible update before it."""
    keeps_late_content: bool = False
    """Content outside an open prompt is kept and put in front of the next one's stream."""
    hides_cancelled_work: bool = False
    """Work of a cancelled turn is never shown after the client's cancel."""
    hides_resume_content: bool = False
    """Content between a resume and its answer is withheld."""
    hides_echo: bool = False
    """A live `user_message_chunk` is withheld (the client would record it twice)."""
    null_as_object: bool = False
    """A `null` result of load, resume or a setting becomes `{}`."""
    cancelled_only_if_asked: bool = False
    """A `cancelled` that the client did not ask for becomes `end_turn`."""
    told_of_withdrawal: bool = True
    """`$/cancel_request` tells the client that an agent's request is withdrawn."""


GENERIC = ClientProfile(name="generic")

CODEG = ClientProfile(
    name="codeg",
    client_names=("codeg",),
    errors_as_text=True,
    answer_gap_s=0.1,
    needs_output=True,
    keeps_late_content=True,
    hides_cancelled_work=True,
    hides_resume_content=True,
    hides_echo=True,
    null_as_object=True,
    cancelled_only_if_asked=True,
    told_of_withdrawal=False,
)
"""Codeg 0.27.0 as read from its source; it sends no clientInfo, so an option names it."""

CLIENTS: dict[str, ClientProfile] = {profile.name: profile for profile in (GENERIC, CODEG)}
