"""Where the clients that come from npm are, and what to say where they are not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.hermes.home import ROOT


def clients_folder() -> Path:
    """Where `.ci/clients` installs, or where ACPBRIDGE_TEST_CLIENTS points."""
    return Path(os.environ.get("ACPBRIDGE_TEST_CLIENTS", ROOT / ".clients"))


def node() -> str | None:
    """The Node that runs npm's clients; None if `.ci/clients` has not finished here."""
    folder = clients_folder()
    if not (folder / "installed").is_file():
        return None
    places = (folder, ROOT / ".steer")
    found = [path for place in places for path in place.glob("node/node_modules/node-*/bin/node")]
    return str(found[0]) if found else shutil.which("node")


def why_missing() -> str:
    """What to say, and to do, where `node` finds nothing."""
    if shutil.which("npm") is None:
        return "npm is not on PATH, so the TypeScript SDK and acpx cannot be installed"
    return "the TypeScript SDK and acpx are not installed: run .ci/clients"


def may_skip() -> bool:
    """Whether tests may go without npm's clients: not in CI, except where there is no npm."""
    return "CI" not in os.environ or shutil.which("npm") is None
