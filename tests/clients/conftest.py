"""Fixtures: clients on real SDKs, and a home for them and their agent."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.clients.client import Language
from tests.clients.installed import may_skip, node, why_missing
from tests.clients.serving import Way
from tests.hermes.home import Home


@pytest.fixture
def npm() -> str:
    """The Node for npm's clients; the test skips, or in CI fails, where they are not installed."""
    found = node()
    if found is None:
        (pytest.skip if may_skip() else pytest.fail)(why_missing())
    return found


@pytest.fixture(params=["python", "typescript"])
def language(request: pytest.FixtureRequest) -> Language:
    """Each SDK in turn."""
    language = cast("Language", request.param)
    if language == "typescript":
        request.getfixturevalue("npm")
    return language


@pytest.fixture(
    params=[
        ("python", "websocket"),
        ("typescript", "unix"),
        ("typescript", "attach over websocket"),
    ],
    ids=" over ".join,
)
def way(request: pytest.FixtureRequest) -> tuple[Language, Way]:
    """Each SDK and each way to a daemon that it has."""
    language, way = cast("tuple[Language, Way]", request.param)
    if language == "typescript":
        request.getfixturevalue("npm")
    return language, way


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.make(tmp_path / "home")
