"""Where an agent lives in a test, and the command lines that start it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attrs import frozen

ROOT = Path(__file__).parents[2]

How = Literal["direct", "bridged"]

HERMES_CONFIG = """\
model:
  provider: custom
  default: scripted-model
  base_url: {url}
  api_key: no-key-needed
  context_length: 200000
"""


@frozen
class Home:
    """The folders of one agent; all that it may read or write is below ``root``."""

    root: Path

    @classmethod
    def make(cls, root: Path, model_url: str | None = None) -> Home:
        """Create the folders, and Hermes' configuration if there is a model to use."""
        home = cls(root)
        for folder in (home.hermes, home.work, home.scratch, home.state):
            folder.mkdir(parents=True, exist_ok=True)
        if model_url is not None:
            (home.hermes / "config.yaml").write_text(HERMES_CONFIG.format(url=model_url))
        return home

    @property
    def hermes(self) -> Path:
        """Hermes' own folder: configuration and sessions."""
        return self.root / "home" / ".hermes"

    @property
    def work(self) -> Path:
        """The working directory of the process and of its sessions."""
        return self.root / "work"

    @property
    def scratch(self) -> Path:
        """TMPDIR: Hermes leaves shell snapshots there."""
        return self.root / "scratch"

    @property
    def state(self) -> Path:
        """The state directory of a bridge in front of the agent."""
        return self.root / "state"

    def environment(self) -> dict[str, str]:
        """The whole environment: no key, no proxy, no configuration of the person's own.

        Coverage's variables are left out, too: it takes 0.3 s to start in each of hundreds of
        processes, and the lines of a bridge that is one are counted in `tests/e2e`.
        """
        return {
            "PATH": os.defpath,
            "HOME": str(self.root / "home"),
            "HERMES_HOME": str(self.hermes),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.scratch),
            "no_proxy": "127.0.0.1",
            "NO_PROXY": "127.0.0.1",
            "PYTHONPATH": str(ROOT),
            "ACPBRIDGE_STATE_DIR": str(self.state),
        }


def hermes_executable() -> Path | None:
    """Real Hermes as `.ci/hermes` installs it, or where ACPBRIDGE_TEST_HERMES points."""
    path = Path(os.environ.get("ACPBRIDGE_TEST_HERMES", ROOT / ".venv-hermes" / "bin" / "hermes"))
    return path if os.access(path, os.X_OK) else None


def scripted_command(*words: str) -> list[str]:
    """The command of the scripted agent: modes and options as `scripted.py` lists them.

    It needs the repository on PYTHONPATH, as `Home.environment` has it.
    """
    return [sys.executable, "-m", "tests.hermes.scripted", *words]


def command_line(how: How, agent: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """What to spawn: the agent itself, or the bridge with ``options`` in front of it."""
    if how == "direct":
        return list(agent)
    return [sys.executable, "-m", "acpbridge", "run", *options, "--", *agent]
