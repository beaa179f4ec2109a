"""Every number and choice of the bridge, in one frozen value.

The defaults are those of the rules (R1 to R26). Each field is a TOML key and an environment
variable (`ACPBRIDGE_` and the name in capitals); seconds and bytes are in the names.
"""

from __future__ import annotations

from attrs import frozen

MIB = 1024 * 1024

MIDTURN = ("auto", "steer", "queue", "reject")
"""What to do with a prompt that meets a running turn (R2)."""

UNDELIVERED = ("keep", "send")
"""What becomes of prompts that an earlier run accepted and never sent."""

ON_SILENT_RECEIPT = ("notify", "restart")
"""What to do with an agent that acknowledged a prompt and then shows nothing (R24)."""

ON_DISCONNECT = ("stop", "finish")
"""What becomes of a running turn when the client's end closes."""

ORPHAN = ("finish", "cancel")
"""What becomes of a turn whose last client has left the daemon, after the grace."""


@frozen
class Policy:
    """The limits, waits and choices that the core obeys."""

    # -- choices ----------------------------------------------------------------------------
    midturn: str = "auto"
    """What becomes of a prompt that meets a running turn (R2): `auto` puts it into the turn of an
    agent that says that it can be steered, `steer` also by the ways that only a configuration
    names (`steer_by`), `queue` lets it wait, `reject` refuses it. A prompt's own
    `_meta.acpbridge.midturn` goes before this."""
    restart: bool = True
    """Start a dead or wedged agent again (R23, R24)."""
    on_disconnect: str = "stop"
    """What becomes of a running turn when the client leaves: `stop` or `finish`."""
    undelivered: str = "keep"
    """What becomes of prompts that an earlier run accepted and never sent: `keep` tells of them,
    `send` sends them before any new prompt of their session."""
    on_silent_receipt: str = "notify"
    """After `silent_receipt_s`: `notify` tells the client, `restart` starts the agent again where
    no other session has a turn (R24)."""
    wait_notice: bool = True
    """Tell the client with one thought chunk that a prompt waits, and for what (I10)."""

    # -- a prompt waits and goes ------------------------------------------------------------
    queue_prompts_max: int = 64
    """Prompts that may wait in one session (R2)."""
    queue_bytes_max: int = 64 * MIB
    """Bytes of prompts that may wait in one session (R2)."""
    queue_total_bytes_max: int = 256 * MIB
    """Bytes of prompts that may wait in the whole process (R2)."""
    wait_quiet_s: float = 5.0
    """Without work for this long an ownerless turn is over, for agents that answer a busy
    prompt with a receipt or a refusal (R5)."""
    oob_wait_max_s: float = 300.0
    """A prompt waits at most this long for an ownerless turn (R5)."""
    notice_after_s: float = 2.0
    """A prompt that has waited this long says so (client profiles, R10)."""
    busy_first_s: float = 0.25
    """The first wait after a refusal as busy; it doubles (R7)."""
    busy_cap_s: float = 5.0
    """The longest wait between two attempts (R7)."""
    busy_max_s: float = 300.0
    """All attempts of one prompt end after this time (R7)."""
    busy_jitter: float = 0.2
    """The random part of a busy wait, as a fraction of it (R7)."""

    # -- an answer --------------------------------------------------------------------------
    answer_quiet_s: float = 60.0
    """Without work for this long a turn without any other end is answered `inferred` (R8)."""
    receipt_hold_s: float = 0.25
    """A chunk that reads like a receipt is held back at most this long (R10)."""
    hold_frames_max: int = 1024
    """Frames held behind such a chunk; one more lets all of them go (R10)."""
    empty_grace_s: float = 0.5
    """An empty answer is disbelieved for this long (R11)."""
    suspect_window_s: float = 0.25
    """A bare answer this soon after the write is suspect (R12)."""
    suspect_grace_s: float = 2.0
    """A suspect answer is disbelieved for this long (R12)."""
    trailing_s: float = 0.25
    """Chunks within this time of an answer trail it (R13)."""
    trailing_max_s: float = 2.0
    """Trailing for longer than this is an ownerless turn (R13)."""
    open_tool_max_s: float = 600.0
    """An open tool call delays an end by at most this long (R6)."""
    load_tail_s: float = 0.25
    """The load window's length after the answer to new, load, resume or fork."""
    quiet_factor_max: int = 16
    """The quiet times of a session double after a wrong inference, up to this factor (R9)."""

    # -- a steer ----------------------------------------------------------------------------
    steer_answer_s: float = 10.0
    """A steer without an answer for this long is `delivery-unknown` (R14)."""

    # -- cancel -----------------------------------------------------------------------------
    cancel_settle_s: float = 30.0
    """A cancelled turn must end within this time, else the session is wedged (R18)."""
    cancel_eof_s: float = 1.0
    """A cancel this shortly before the client's EOF leaves its queue undelivered (R20)."""

    # -- the agent's life -------------------------------------------------------------------
    restart_max_s: float = 30.0
    """Requests wait for a restarted agent at most this long (R23)."""
    silent_receipt_s: float = 120.0
    """An acknowledged prompt of which nothing is seen for this long is silent (R24)."""
    restart_first_s: float = 0.5
    """The wait before a second start within `breaker_window_s`; it doubles with each death."""
    restart_cap_s: float = 10.0
    """The longest wait before a start."""
    restart_jitter: float = 0.2
    """The random part of that wait, as a fraction of it."""
    breaker_deaths: int = 5
    """With this many deaths in `breaker_window_s` the agent is not started again (R23)."""
    breaker_window_s: float = 600.0
    """The time in which those deaths count (R23)."""
    finish_max_s: float = 600.0
    """With `on_disconnect = "finish"` the running turns get this long after the EOF."""

    # -- the daemon's clients ---------------------------------------------------------------
    orphan: str = "finish"
    """What becomes of a running turn when no client of its session came back within `grace_s`."""
    grace_s: float = 120.0
    """What the agent asks waits this long for a client of its session to come back."""
    idle_exit_s: float = 0.0
    """A daemon without a client and without a turn ends after this long; 0 means never."""
    client_requests_max: int = 4096
    """Requests of one client of the daemon that are open at a time; one more is refused."""
    clients_max: int = 64
    """Connections at a time; one more is refused in words."""

    # -- the event log ----------------------------------------------------------------------
    log_events_max: int = 512
    """Durable events kept of a session."""
    log_event_bytes_max: int = 2 * MIB
    """Bytes of durable events kept of a session."""
    log_text_bytes_max: int = MIB
    """Bytes of text deltas kept of a session."""
    log_sessions_max: int = 64
    """Sessions of which events are kept."""
    log_bytes_max: int = 64 * MIB
    """Bytes of events kept of all sessions."""
    history_bytes_max: int = 4 * MIB
    """Bytes kept of what the agent replayed at a session's load."""

    # -- input and output -------------------------------------------------------------------
    line_bytes_max: int = 64 * MIB
    """One line of either side."""
    kept_frames_max: int = 4096
    """Frames that a client profile withholds, a session (I6)."""
    kept_bytes_max: int = 16 * MIB
    """Bytes of frames that a client profile withholds, a session (I6)."""
    waiting_frames_max: int = 1024
    """Client frames that wait for a restarted agent or for a gap around a cancel."""
    sessions_max: int = 16_384
    """Sessions that the bridge remembers; past that the longest idle one is forgotten."""
