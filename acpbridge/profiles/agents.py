"""What we know of agents beyond the protocol: frozen data, never branches in code.

Every entry names what was measured or read. A field that no agent needs any more is deleted.
Configuration extends an entry; it never changes the code that reads it.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from attrs import frozen

BusyHabit = Literal["fifo", "receipt", "refuses", "redirect", "aborts"]
"""What an agent does with a prompt that meets a running turn: serialises it honestly, answers
it with a receipt, refuses it, folds it into the turn, or aborts the turn for it."""

SteerBy = Literal["", "prompt", "command", "method"]
"""How a prompt gets into a running turn without `_meta.steering`: not at all, as a second
`session/prompt`, as one with a slash command before it, by a method of the vendor's own."""

EndMarker = Literal["", "usage", "usage_cost", "thread_status"]
"""What ends a turn that no request of ours owns: nothing, a `usage_update` after content, a
`usage_update` with `cost`, or codex's threadStatus."""


def _texts(*patterns: str) -> tuple[str, ...]:
    return patterns


@frozen(slots=False)
class AgentProfile:
    """One agent, or a family of agents, as seen on the wire."""

    name: str
    agent_names: tuple[str, ...] = ()
    """Values of `agentInfo.name` in the initialize result."""
    busy: BusyHabit = "aborts"
    fifo_since: str = ""
    """First version for which `busy = "fifo"` is true; older ones count as "aborts"."""

    receipts_queued: tuple[str, ...] = ()
    """Regular expressions over a whole chunk text: "I keep your message for later" (R10)."""
    receipts_redirected: tuple[str, ...] = ()
    """Regular expressions: "I have put your message into the running turn" (R10)."""
    busy_reasons: tuple[str, ...] = ("session_busy",)
    """Values of `error.data.reason` that prove that a prompt was refused unrun (R7)."""
    echo_without_text: str = ""
    """What the echo of a prompt without any text says (R8: 3)."""
    completions_carry_usage: bool = False
    """Real completions carry `usage`, so a bare one is remarkable (R12)."""
    commands: frozenset[str] = frozenset()
    """Slash commands that the agent knows, besides those it advertises."""
    plain_commands: frozenset[str] = frozenset()
    """Commands whose argument is taken as the prompt itself (R3)."""

    end_marker: EndMarker = ""
    marker_quiet_s: float = 1.0
    """After a usage marker this long without work ends the turn (R9)."""
    never_closed_kinds: frozenset[str] = frozenset()
    """Kinds of `tool_call` that never get their last update (R6)."""

    snapshot_call_prefixes: tuple[str, ...] = ()
    """A `tool_call` whose id begins so shows a subagent's state and is no work."""

    cancel_after_s: float = 0.0
    """A cancel waits for the prompt's first work or this long after its write (R16)."""
    cancel_gap_s: float = 0.0
    """No other request or notification of the session this close to a cancel (R16)."""
    honours_cancel_request: bool = False
    """`$/cancel_request` of a prompt ends it (R20)."""
    late_cancel_poisons: bool = False
    """A cancel that crosses a turn's end cancels the next prompt unasked (R21)."""
    steer_by: SteerBy = ""
    """For an agent that does not advertise steering, under `midturn = "steer"` only (I4). No entry
    of ours sets it: which builds honour it, their version does not tell."""
    steer_command: str = "/steer"
    """What stands before the text with `steer_by = "command"`."""
    steer_method: str = ""
    """The request with `steer_by = "method"`: `sessionId` and `prompt`, an answer with `status`."""
    steer_since: str = ""
    """First version whose turns stay whole when a prompt is put into them; older ones are not
    steered, whatever they advertise (R1)."""
    steer_opt_in_since: str = ""
    """First version that knows `_meta.steering.idleBehavior`; the opt-in goes to no older one."""
    steer_refusals: frozenset[int] = frozenset()
    """Error codes of a steer that prove that it was not consumed (R14)."""
    steer_refused_outcomes: frozenset[str] = frozenset()
    """Outcomes of a steer that prove that it was not consumed, besides `promptRequired` (R14)."""
    wedge_errors: tuple[tuple[int, str], ...] = ()
    """(code, part of the message) of the error that leaves the session wedged (R24)."""

    turns_max: int = 0
    """Turns that one process runs at once; 0 means no limit known."""
    argument_meta_keys: frozenset[str] = frozenset()
    """Keys of a request's `_meta` that the agent would take as arguments; dropped."""
    load_proof: str = ""
    """A member that the result of a load which found the session always has (R25)."""
    provenance: tuple[str, ...] = ()
    """Path, inside a result or an update, of an object that names real session ids (R25)."""
    refusal_means_lost: bool = False
    """A `refusal` without work says that the session is unknown (R25)."""

    @cached_property
    def receipt_patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """(kind, compiled pattern) in the order in which they are tried."""
        return tuple(
            (kind, re.compile(text))
            for kind, texts in (
                ("queued", self.receipts_queued),
                ("redirected", self.receipts_redirected),
            )
            for text in texts
        )

    @cached_property
    def receipt_heads(self) -> tuple[str, ...]:
        """The literal beginning of each receipt text, so that most chunks need no look.

        A pattern without a literal head makes every chunk worth a look.
        """
        return tuple(_literal_head(pattern.pattern) for _, pattern in self.receipt_patterns)

    def receipt_kind(self, text: str) -> str:
        """Say which receipt the whole text is: "queued", "redirected" or "" for none."""
        for kind, pattern in self.receipt_patterns:
            if pattern.fullmatch(text):
                return kind
        return ""


_SPECIAL = frozenset(".^$*+?{}[]()|")
"""What ends the literal head of a pattern."""


def _literal_head(pattern: str) -> str:
    """The characters with which every text that matches begins; empty where that is unsure."""
    if "|" in pattern:
        return ""
    head: list[str] = []
    at = 0
    while at < len(pattern) and pattern[at] not in _SPECIAL:
        if pattern[at] == "\\":
            at += 1
            if pattern[at].isalnum():
                # A backslash makes a letter or digit a class; anything else it leaves as it is.
                break
        head.append(pattern[at])
        at += 1
    if pattern[at : at + 1] in ("?", "*", "{"):
        # This quantifier makes the last character optional.
        del head[-1:]
    return "".join(head)


GENERIC = AgentProfile(name="generic")
"""An agent of which nothing is known is treated as one that aborts on a second prompt."""

_HERMES_COMMANDS = frozenset(
    {"help", "model", "tools", "context", "reset", "compact", "compress"}
    | {"version", "steer", "queue"}
)

HERMES = AgentProfile(
    name="hermes",
    agent_names=("hermes-agent",),
    # Its version number does not tell whether a build redirects (git builds say 0.19.0).
    busy="redirect",
    receipts_queued=_texts(
        r"Queued for the next turn\. \(\d+ queued\)",
        r"No active turn — queued for the next turn\. \(\d+ queued\)",
    ),
    receipts_redirected=_texts(
        r"Redirected the active turn with your correction\.",
        r"⏩ Steer queued for the active turn: (?s:.*)",
    ),
    # Tape image-mid-turn: the image itself is lost there.
    echo_without_text="[Image attachment]",
    completions_carry_usage=True,
    commands=_HERMES_COMMANDS,
    plain_commands=frozenset({"queue", "steer"}),
    end_marker="usage",
    never_closed_kinds=frozenset({"read", "edit"}),
    snapshot_call_prefixes=("hermes-subagent:",),
    # Cancelled before its stream has begun, 0.19.0 lets that stream go on inside the next turn, or
    # cuts that one off: 7 of 1,000 turns at 0.1 s on a busy machine, none of 1,000 at 1 s.
    cancel_after_s=1.0,
    cancel_gap_s=0.02,
    late_cancel_poisons=True,
    wedge_errors=((-32603, "'NoneType' object has no attribute 'startswith'"),),
    turns_max=4,
    argument_meta_keys=frozenset(
        {"self", "params", "method", "conn", "kwargs", "cursor", "value", "cwd", "prompt"}
        | {"session_id", "message_id", "mode_id", "model_id", "config_id", "method_id"}
        | {"mcp_servers", "additional_directories", "protocol_version"}
        | {"client_capabilities", "client_info"}
    ),
    load_proof="models",
    provenance=("_meta", "hermes", "sessionProvenance"),
    refusal_means_lost=True,
)
"""Hermes 0.19.0 as recorded, and 0.20 and newer as read; fixtures/hermes-0.19.0."""

CLAUDE = AgentProfile(
    name="claude",
    agent_names=("@agentclientprotocol/claude-agent-acp", "@zed-industries/claude-code-acp"),
    busy="fifo",
    completions_carry_usage=True,
    end_marker="usage_cost",
    honours_cancel_request=True,
    # 0.61.0 to 0.64.2 answer the owner at once and go on without it (claude-agent-acp#934).
    steer_since="0.65.0",
    steer_opt_in_since="0.64.0",
)
"""claude-agent-acp 0.101.0 as recorded; fixtures/claude-agent-acp-0.101.0."""

CODEX = AgentProfile(
    name="codex",
    agent_names=("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp"),
    busy="fifo",
    fifo_since="2.3.0",
    completions_carry_usage=True,
    end_marker="thread_status",
    marker_quiet_s=0.0,
    honours_cancel_request=True,
    steer_opt_in_since="2.4.0",
    # "is closing", "was cancelled before the steering turn started", no images: refused unread.
    steer_refusals=frozenset({-32600}),
)
"""codex-acp 2.6.0 as recorded; fixtures/codex-acp-2.6.0."""

AGENTS: dict[str, AgentProfile] = {
    profile.name: profile for profile in (GENERIC, HERMES, CLAUDE, CODEX)
}
