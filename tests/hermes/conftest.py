"""Fixtures: a model server, and peers that are stopped when the test is over."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.hermes.home import Home, How, hermes_executable, scripted_command
from tests.hermes.model import ModelServer, start_model
from tests.hermes.peer import Peer

Open = Callable[..., Awaitable[Peer]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: waits for a real time that cannot be shortened")


def real_hermes() -> Path:
    """Real Hermes; without it a test is skipped, and fails where CI runs."""
    executable = hermes_executable()
    if executable is None:
        if "CI" in os.environ:
            pytest.fail("real Hermes is not installed: run .ci/hermes")
        pytest.skip("real Hermes is not installed: run .ci/hermes")
    return executable


@pytest.fixture
async def model(nursery: trio.Nursery) -> ModelServer:
    return await start_model(nursery)


@pytest.fixture
async def open_hermes(
    nursery: trio.Nursery, tmp_path: Path, model: ModelServer
) -> AsyncIterator[Open]:
    """Opens real Hermes, initialized; takes "direct" or "bridged", then the bridge's options."""
    agent = [str(real_hermes()), "acp"]
    peers: list[Peer] = []

    async def open_one(how: How, *options: str) -> Peer:
        home = Home.make(tmp_path / f"peer{len(peers)}", model.url)
        peers.append(await Peer.start(nursery, home, agent, how, options))
        await peers[-1].initialize()
        return peers[-1]

    yield open_one
    for peer in peers:
        await peer.stop()


@pytest.fixture
async def open_scripted(nursery: trio.Nursery, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the scripted agent, initialized; takes its mode, "direct" or "bridged", options.

    Its state and its log are ``state.json`` and ``log.jsonl`` in the home's root.
    """
    peers: list[Peer] = []

    async def open_one(mode: str, how: How = "direct", options: tuple[str, ...] = ()) -> Peer:
        home = Home.make(tmp_path / f"peer{len(peers)}")
        files = ["--state", str(home.root / "state.json"), "--log", str(home.root / "log.jsonl")]
        peers.append(await Peer.start(nursery, home, scripted_command(mode, *files), how, options))
        await peers[-1].initialize()
        return peers[-1]

    yield open_one
    for peer in peers:
        await peer.stop()
