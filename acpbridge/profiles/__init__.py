"""Profiles: what we know of one agent or one client beyond the protocol."""

from __future__ import annotations

import re

from acpbridge.profiles.agents import AGENTS, AgentProfile
from acpbridge.profiles.agents import GENERIC as GENERIC_AGENT
from acpbridge.profiles.clients import CLIENTS, ClientProfile
from acpbridge.profiles.clients import GENERIC as GENERIC_CLIENT

__all__ = [
    "AGENTS",
    "CLIENTS",
    "GENERIC_AGENT",
    "GENERIC_CLIENT",
    "AgentProfile",
    "ClientProfile",
    "agent_called",
    "agent_named",
    "client_called",
    "client_named",
    "is_fifo",
    "reaches",
]


def agent_named(name: str) -> AgentProfile:
    """The agent profile of this name; KeyError where there is none."""
    return AGENTS[name]


def client_named(name: str) -> ClientProfile:
    """The client profile of this name; KeyError where there is none."""
    return CLIENTS[name]


def agent_called(agent_name: str) -> AgentProfile:
    """The profile whose `agentInfo.name` this is, else the generic one."""
    for profile in AGENTS.values():
        if agent_name in profile.agent_names:
            return profile
    return GENERIC_AGENT


def client_called(client_name: str) -> ClientProfile:
    """The profile whose `clientInfo.name` this is, else the generic one."""
    for profile in CLIENTS.values():
        if client_name in profile.client_names:
            return profile
    return GENERIC_CLIENT


def version_tuple(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing: "v2.10.0-beta" gives (2, 10).

    Zeros at the end are left out, so that 2.3 is not older than 2.3.0.
    """
    found = re.match(r"v?([0-9]+(?:\.[0-9]+)*)", version)
    numbers = [int(part) for part in found.group(1).split(".")] if found else []
    while numbers and not numbers[-1]:
        del numbers[-1]
    return tuple(numbers)


def reaches(version: str, since: str) -> bool:
    """Whether a version is `since` or newer, a pre-release being older than its release.

    Every version reaches an empty `since`; one that cannot be read reaches no other.
    """
    if not since:
        return True
    at, asked = version_tuple(version), version_tuple(since)
    is_early = re.match(r"v?[0-9.]+-", version) is not None
    return at > asked or (at == asked and not is_early)


def is_fifo(profile: AgentProfile, version: str) -> bool:
    """Whether this build serialises a second prompt honestly (R1)."""
    is_new_enough = version_tuple(version) >= version_tuple(profile.fifo_since)
    return profile.busy == "fifo" and is_new_enough
