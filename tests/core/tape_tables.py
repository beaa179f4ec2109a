"""What is remarkable on the 161 tapes, row by row as it was looked up in them.

Names are those of `Tape.name`, ids the JSON text of a request's id. The rules over the tapes
(`tapes.py`) and the bridge must both agree with these tables (`test_tapes.py`).
"""

from __future__ import annotations

RECEIPTS = {
    ("hermes/cancel-during-tool", "4"): "wedged",
    ("hermes/cancel-during-tool-with-queued", "4"): "cancelled",
    ("hermes/cancel-immediately", "4"): "wedged",
    ("hermes/cancel-while-queued-runs", "4"): "cancelled",
    ("hermes/cancel-with-queued", "4"): "cancelled",
    ("hermes/cancel-with-queued", "5"): "cancelled",
    ("hermes/http-pool", "4"): "drained",
    ("hermes/idle-cancel-recovery", "4"): "waits",
    ("hermes/image-mid-turn", "4"): "drained",
    ("hermes/image-mid-turn", "5"): "drained",
    ("hermes/mid-turn-prompt", "4"): "drained",
    ("hermes/mid-turn-three-prompts", "4"): "drained",
    ("hermes/mid-turn-three-prompts", "5"): "drained",
    ("hermes/mid-turn-three-prompts", "6"): "drained",
    ("hermes/permission-request", "4"): "drained",
    ("hermes/slash-queue", "4"): "drained",
    ("hermes/slash-queue", "5"): "drained",
    ("hermes/slash-steer", "4"): "shared",
    ("hermes/slash-steer", "6"): "shared",
    ("hermes/wedge-recovery", "4"): "wedged",
    ("hermes/wedge-recovery", "6"): "wedged",
    ("hermes/wedge-recovery", "8"): "wedged",
}
"""Every receipt of the 161 tapes, and what its prompt is told in the end when nothing queues.

`waits`: the bridge had swallowed the cancel that really wedged that agent, so nothing proves a
wedge (R24) and it waits in words. A bridge that queues never gets there (test_tapes_hermes.py).
"""

WEDGES = {
    ("hermes/cancel-during-tool", "3"): "cancelled",
    ("hermes/cancel-during-tool-with-queued", "3"): "cancelled",
    ("hermes/cancel-idle", "3"): "wedged",
    ("hermes/cancel-immediately", "3"): "cancelled",
    ("hermes/cancel-just-after-end", "4"): "wedged",
    ("hermes/idle-cancel-recovery", "3"): "wedged",
    ("hermes/permission-cancel", "3"): "cancelled",
    ("hermes/wedge-recovery", "3"): "cancelled",
}
"""Every -32603 that leaves a Hermes session wedged, and what its prompt is told (R24)."""

UNKNOWN = {
    ("hermes/meta-and-ids", '"m2"'): "session-lost",
    ("hermes/prompt-unknown-session", "2"): "session-lost",
    ("hermes/resume#2", "8"): "session-lost",
}
"""Every `refusal` that says that the session is unknown (R25)."""

UNANSWERED = {
    ("claude/agent-killed-mid-turn", "3"): "killed",
    ("claude/stdin-eof-mid-turn", "3"): "closed",
    ("codex/agent-killed-mid-turn", "3"): "killed",
    ("codex/sigterm-mid-turn", "3"): "killed",
    ("codex/stdin-eof-mid-turn", "3"): "closed",
    ("hermes/agent-killed-mid-turn", "3"): "killed",
    ("hermes/agent-term-mid-turn", "3"): "killed",
    ("hermes/mid-turn-burst", "3"): "deadlock",
    ("hermes/mid-turn-burst", "4"): "deadlock",
    ("hermes/mid-turn-burst", "5"): "deadlock",
    ("hermes/mid-turn-prompt-cancel-burst", "3"): "cancelled deadlock",
    ("hermes/mid-turn-prompt-cancel-burst", "4"): "cancelled deadlock",
    ("hermes/stdin-eof-mid-turn", "3"): "closed",
}
"""Every prompt that its agent never answered, and why: the agent was killed, its stdin was closed,
or it stands still for ever."""

OWNERLESS = {
    "claude/background-task": 1,  # a background command ended
    "claude/cancel-detached-turn": 1,  # a steer without the opt-in ran by itself
    "claude/cancel-steer-one-write": 1,  # a steer behind a cancel ran after the cancelled turn
    "claude/prompt-during-detached-turn": 1,
    "claude/steer-at-turn-end-no-optin": 7,
    "claude/steer-errors": 1,  # the one steer of it that was taken as "no opt-in"
    "claude/steer-idle-no-optin": 1,
    "claude/steer-into-background-turn": 1,  # a background command ended
    "codex/cancel-detached-turn": 1,
    "codex/prompt-during-detached-turn": 1,
    "codex/steer-at-turn-end-no-optin": 9,
    "codex/steer-errors": 1,
    "codex/steer-idle-no-optin": 1,
}
"""Turns for which no prompt is open. Hermes 0.19.0 has none: it drains inside a prompt."""

HIDDEN = {"hermes/cancel-with-queued": 10}
"""Frames of cancelled prompts that ran after all: two echoes with four chunks each (R19)."""

REWORDED = {
    ("hermes/meta-and-ids", '"m2"'),
    ("hermes/meta-and-ids", '"m3"'),
    ("hermes/slash-queue", "4"),
    ("hermes/slash-queue", "5"),
    ("hermes/slash-steer", "4"),
    ("hermes/slash-steer", "6"),
    ("hermes/slash-steer", "7"),
}
"""Requests that do not leave with the client's bytes: `/queue x` and `/steer x` are x (R3), and
`_meta` keys that Hermes takes for arguments are dropped."""

WAITED = {"hermes/slash-queue"}
"""An idle `/queue x` gets a receipt and is drained behind the next prompt, three seconds later."""

LISTED_TWICE = ("hermes/compact-rotation", "10")
"""A session/list with one conversation under two ids, one of them the tip of a rotation (R25)."""

KEPT_BACK = {
    "claude/cancel-steer-one-write": ["4"],
    "codex/cancel-steer-one-write": ["4"],
}
"""Steers of the client behind a cancel: the bridge answers them itself, for the one agent ran this
behind the cancelled turn and the other would have been asked for nothing (R16)."""

DISBELIEVED = {
    ("hermes/load-unknown", "2"),
    ("hermes/load-unknown", "3"),
    ("hermes/resume#2", "6"),
}
"""Successful answers to load, fork and resume that found no session."""

DOUBTED = {"hermes/prompt-unknown-session": 1}
"""Answers that were held for a moment because they were empty (R11): one, to a blank prompt."""

ENDS = {
    "killed": ["agent-exited"],
    "closed": ["agent-exited"],
    "deadlock": [],
    "cancelled deadlock": ["wedged"],
}
"""What the prompts of UNANSWERED get: a client that closed its end may still read; a turn
that is silent stays Running and is seen to; one that was cancelled is given up after
`cancel_settle` (R18)."""
