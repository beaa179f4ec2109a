"""What a seed draws before anything happens: who takes part, and which faults are in the mix.

Each world has a few of the faults only ("swarm"): a world with all of them at once shows less.
"""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import define, field

AGENTS = (
    "honest",
    "busy",
    "aborts",
    "hermes-0.19",
    "hermes-0.20",
    "claude",
    "codex",
)
WEIGHTS = (3, 2, 2, 5, 7, 3, 3)

STEER_FAULTS = ("steer_silent", "steer_lies", "steer_dies")

FAULTS = (
    "late",
    "empty",
    "bare",
    "trail",
    "silent",
    "noise",
    "late_tools",
    "titles",
    "usage_outside",
    "asks",
    "takes_back",
    "rotates",
    "dies",
    "twice",
    "unknown_answers",
    "load_nothing",
    "ownerless",
    "deaf",
    "slow_start",
    "fails_start",
    "slow_tools",
    "open_tools",
    "errors",
    "odd_stops",
    "unlisted",
    "too_long",
    "engine_dies",
    "slow_opens",
    "bursts",
    "glacial",
    "replays_on_resume",
    "disk_late",
    "disk_fails",
    *STEER_FAULTS,
)

TROUBLE = ("asks", "slow_tools", "open_tools", "glacial", "silent", "rotates", "dies")

ENDS = ("bare", "empty", "trail", "ownerless", "errors", "disk_late", "disk_fails", "bursts")
STEER_MISCHIEF = ("cancel", "cancel_prompt", "take_back", "own_steers", "wishes", "commands")

MISCHIEF = (
    "cancel",
    "cancel_prompt",
    "prompt_cancel",
    "take_back",
    "load",
    "resume",
    "fork",
    "close",
    "settings",
    "unknown",
    "malformed",
    "reuse",
    "flood",
    "leave",
    "stop",
    "many_sessions",
    "ignores_asks",
    "answers_twice",
    "slow_answers",
    "commands",
    "stranger",
    "oversize",
    "own_steers",
    "wishes",
)


@define
class Mix:
    """One world's cast."""

    agent: str
    client: str
    policy: dict[str, Any]
    faults: frozenset[str]
    mischief: frozenset[str]
    ids: str
    """What the client's request ids look like."""
    pace_s: float
    """The mean time between two deeds of the client."""
    deeds: int
    span_s: float
    """How long the client goes on at most."""
    chosen: bool
    """The agent's profile is named by an option instead of found on the wire."""
    traits: dict[str, Any] = field(factory=dict)
    """What the agent can do and how it does it."""

    def has(self, name: str) -> bool:
        """Whether a fault or a mischief is in the mix."""
        return name in self.faults or name in self.mischief

    def text(self) -> str:
        """For the head of a dialogue."""
        policy = " ".join(f"{name}={value}" for name, value in self.policy.items())
        rows = (
            f"agent {self.agent}, client {self.client}, {self.deeds} deeds, ids {self.ids}",
            f"policy: {policy}",
            f"traits: {self.traits}",
            f"faults: {' '.join(sorted(self.faults))}",
            f"mischief: {' '.join(sorted(self.mischief))}",
        )
        return "\n".join(rows)

    @property
    def profile(self) -> str:
        """The name of the agent's profile."""
        head = self.agent.partition("-")[0]
        return head if head in ("hermes", "claude", "codex") else "generic"


def draw(chance: Random) -> Mix:
    """Draw a world."""
    agent = chance.choices(AGENTS, WEIGHTS)[0]
    client = "codeg" if chance.random() < 0.4 else "generic"
    share = chance.choice((0.0, 0.1, 0.2, 0.35, 0.5))
    faults = {name for name in FAULTS if chance.random() < share}
    if share and chance.random() < 0.4:
        faults.add("ownerless")
    share = chance.choice((0.1, 0.25, 0.4))
    mischief = {name for name in MISCHIEF if chance.random() < share}
    mischief |= {name for name in ("cancel", "cancel_prompt") if chance.random() < 0.4}
    if client == "codeg" and chance.random() < 0.7:
        mischief -= {"fork", "close", "flood", "reuse", "malformed", "many_sessions", "unknown"}
    pace_s = chance.choice((0.0005, 0.02, 0.3, 2.0, 15.0))
    span_s = chance.choice((1.0, 20.0, 120.0, 900.0))
    traits = _traits(chance, agent)
    if agent.startswith("hermes") and chance.random() < 0.5:
        # Cancels among turns that nobody asked for: where most of Hermes' trouble is.
        faults |= {"ownerless"} | {name for name in TROUBLE if chance.random() < 0.3}
        mischief = {"cancel", "cancel_prompt"} | {
            name for name in ("commands", "settings", "many_sessions") if chance.random() < 0.3
        }
        pace_s, span_s = chance.choice((0.3, 2.0, 6.0)), chance.choice((20.0, 120.0, 300.0))
        traits["by_itself"] = 0.7
    if traits["steers"] and chance.random() < 0.6:
        # Prompts that meet turns, and little else: where steers go wrong.
        faults = {name for name in (*TROUBLE, *STEER_FAULTS, *ENDS) if chance.random() < 0.25}
        mischief = {name for name in STEER_MISCHIEF if chance.random() < 0.4}
        pace_s, span_s = chance.choice((0.02, 0.2, 0.8)), chance.choice((20.0, 120.0))
        traits["impatient"] = True
    policy = _policy(chance)
    if traits["impatient"]:
        policy["midturn"] = chance.choice(("auto", "auto", "auto", "steer", "queue"))
    if traits["redirects"]:
        policy["midturn"] = "steer"
    return Mix(
        agent=agent,
        client=client,
        policy=policy,
        faults=frozenset(faults),
        mischief=frozenset(mischief),
        ids=chance.choice(("int", "uuid", "string", "mixed")),
        pace_s=pace_s,
        deeds=chance.randint(3, 40),
        span_s=span_s,
        chosen=client == "codeg" or traits["redirects"] or chance.random() < 0.5,
        traits=traits,
    )


NOT_OF_MANY = frozenset(
    {"own_steers", "leave", "stop", "stranger", "many_sessions", "fork", "flood"}
)
"""Mischief that crowds have in another way: one of many leaves, and the daemon stays."""


def crowded(chance: Random) -> Mix:
    """Draw a world of many clients: few deeds of each, one client profile, no limit on sessions."""
    mix = draw(chance)
    mix.client = "generic"
    mix.chosen = mix.chosen or mix.traits["redirects"]
    mix.mischief -= NOT_OF_MANY
    mix.deeds = min(mix.deeds, 8)
    mix.policy.pop("sessions_max", None)
    mix.policy["grace_s"] = chance.choice((0.5, 10.0, 120.0))
    mix.policy["orphan"] = chance.choice(("finish", "cancel"))
    if chance.random() < 0.15:
        mix.policy["log_events_max"] = chance.randint(1, 6)
    if chance.random() < 0.15:
        mix.policy["history_bytes_max"] = chance.randint(100, 1_000)
    return mix


def _policy(chance: Random) -> dict[str, Any]:
    policy: dict[str, Any] = {
        "midturn": chance.choices(("auto", "steer", "queue", "reject"), (5, 1, 3, 1))[0],
        "restart": chance.random() < 0.8,
        "on_disconnect": chance.choice(("stop", "finish")),
        "wait_notice": chance.random() < 0.8,
    }
    if chance.random() < 0.15:
        policy["queue_prompts_max"] = chance.randint(1, 4)
    if chance.random() < 0.1:
        policy["queue_bytes_max"] = chance.choice((300, 1000))
    if chance.random() < 0.1:
        policy["hold_frames_max"] = chance.randint(1, 4)
    if chance.random() < 0.1:
        policy["kept_frames_max"] = chance.randint(1, 6)
    if chance.random() < 0.1:
        policy["waiting_frames_max"] = chance.randint(1, 3)
    if chance.random() < 0.1:
        policy["sessions_max"] = chance.randint(2, 4)
    return policy


def _steers(chance: Random, agent: str) -> str:
    """Which kind of a steering agent it is: "" for none."""
    if agent.startswith("hermes"):
        return ""
    share = 0.9 if agent in ("claude", "codex") else 0.5
    kind = chance.choices(("safe", "old", "lookalike"), (6, 2, 1))[0]
    return kind if chance.random() < share else ""


def _traits(chance: Random, agent: str) -> dict[str, Any]:
    hermes = agent.startswith("hermes")
    known = agent in ("claude", "codex")
    return {
        "load": hermes or known or chance.random() < 0.7,
        "resume": hermes or known or chance.random() < 0.4,
        "fork": hermes or chance.random() < 0.5,
        "usage": hermes or known or chance.random() < 0.5,
        "messages": agent == "claude" or chance.random() < 0.3,
        "quick": chance.random() < 0.5,
        "by_itself": 0.3,
        "impatient": False,
        # A configuration says that this build folds a second prompt into its turn.
        "redirects": agent == "hermes-0.20" and chance.random() < 0.25,
        "steers": _steers(chance, agent),
        "poison": chance.choice(("error", "error", "cancelled", "none")),
        "wedges": agent == "hermes-0.19" or chance.random() < 0.7,
        "marks": chance.random() < 0.8,
        "echoes": chance.random() < 0.5,
        "prompt_ids": chance.choice(("int", "string")),
        # Hermes breaks on frames that arrive too close together; the bridge keeps them apart.
        "latency_s": chance.choice((0.0002, 0.002, 0.002 if hermes else 0.03)),
    }
