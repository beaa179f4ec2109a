"""Fixtures: each real steering agent with its scripted model, stopped when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import trio

from tests.hermes.home import How
from tests.steer.home import (
    DIALECTS,
    NAMES,
    Name,
    SteerHome,
    may_skip,
    steer_command,
    teed,
    why_missing,
)
from tests.steer.model import SteerModel, start_steer_model
from tests.steer.talk import SteerPeer

Open = Callable[..., Awaitable[SteerPeer]]

COPY = "agent.out"
"""The file in a bridged agent's home that holds the bytes the agent itself wrote."""
LINGER_S = 0.5
"""How long a process may take to leave. A codex stays for 2 s after the end of its input, and
only the test that is about a stop waits for it."""


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> Name:
    """Each agent in turn."""
    return cast("Name", request.param)


@pytest.fixture
def command(name: Name) -> list[str]:
    """The agent's command; the test skips, or in CI fails, where it is not installed."""
    found = steer_command(name)
    if found is None:
        (pytest.skip if may_skip() else pytest.fail)(why_missing())
    return found


@pytest.fixture
async def model(nursery: trio.Nursery, name: Name) -> SteerModel:
    return await start_steer_model(nursery, DIALECTS[name])


@pytest.fixture
async def open_agent(
    nursery: trio.Nursery, tmp_path: Path, name: Name, command: list[str], model: SteerModel
) -> AsyncIterator[Open]:
    """Opens the agent, initialized; takes "direct" or "bridged", then the bridge's options."""
    peers: list[SteerPeer] = []

    async def open_one(how: How, *options: str) -> SteerPeer:
        home = SteerHome.prepare(tmp_path / f"peer{len(peers)}", name, model.url)
        agent = teed(command, home.root / COPY) if how == "bridged" else command
        peers.append(await SteerPeer.begin(nursery, home, agent, how, options))
        await peers[-1].initialize()
        return peers[-1]

    yield open_one
    for peer in peers:
        await peer.stop(LINGER_S)
