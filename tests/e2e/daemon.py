"""A real `acpbridge serve`, and clients that attach to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.bridge import SCRIPTED, BridgeProcess, command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

SHORT = {"ACPBRIDGE_AGENT_EOF_S": "0.3", "ACPBRIDGE_AGENT_TERM_S": "0.3"}


@asynccontextmanager
async def daemon(
    folder: Path,
    *options: str,
    agent: tuple[str, ...] = SCRIPTED,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[BridgeProcess]:
    """A daemon whose state is in this folder, once it listens."""
    argv = ("serve", "--state-dir", str(folder), *options, "--", *agent)
    async with command(*argv, environ={**SHORT, **(environ or {})}) as ours:
        await ours.said(b"listening ")
        yield ours


@asynccontextmanager
async def attached(folder: Path, *options: str) -> AsyncIterator[BridgeProcess]:
    """A client of the daemon whose state is in this folder."""
    async with command("attach", "--state-dir", str(folder), *options) as ours:
        yield ours


def socket_of(folder: Path) -> Path:
    """Where it listens."""
    return folder / "daemon.sock"
