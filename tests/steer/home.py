"""Where a steering agent lives in a test, and how each of the two is set up.

Everything an agent may read or write is below one temporary folder; it knows no key, no proxy
and no address but the scripted model's.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Literal, Self

from attrs import frozen

from tests.hermes.home import ROOT, Home
from tests.hermes.script import Step
from tests.steer.dialect import Dialect
from tests.steer.messages import MESSAGES
from tests.steer.responses import RESPONSES

Name = Literal["claude", "codex"]
NAMES: tuple[Name, ...] = ("claude", "codex")

DIALECTS: dict[Name, Dialect] = {"claude": MESSAGES, "codex": RESPONSES}
VERSIONS: dict[Name, str] = {"claude": "0.101.0", "codex": "2.6.0"}
"""What the tests were written against; `.ci/steer` installs these."""
PACKAGES: dict[Name, str] = {
    "claude": "@agentclientprotocol/claude-agent-acp",
    "codex": "@agentclientprotocol/codex-acp",
}
"""The adapters' npm packages; the agents call themselves so too."""

# Without it the mode is "auto": no permission is asked for, and a warning is shown.
CLAUDE_SETTINGS = {"permissions": {"defaultMode": "default"}}

# plugins and apps look things up on the network; a model that codex knows hides its tools.
CODEX_CONFIG = """\
model = "scripted-model"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_MODEL_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


@frozen
class SteerHome(Home):
    """The folders of one steering agent, and its environment."""

    name: Name
    model_url: str

    @classmethod
    def prepare(cls, root: Path, name: Name, model_url: str) -> Self:
        """Create the folders and the agent's configuration."""
        home = cls(root, name, model_url)
        for folder in (home.config, home.work, home.scratch, home.state, home.runtime):
            folder.mkdir(parents=True, exist_ok=True)
        if name == "claude":
            (home.config / "settings.json").write_text(json.dumps(CLAUDE_SETTINGS))
        else:
            (home.config / "config.toml").write_text(CODEX_CONFIG.format(url=model_url))
        return home

    @property
    def config(self) -> Path:
        """The agent's own folder: configuration and sessions."""
        return self.root / "home" / f".{self.name}"

    @property
    def runtime(self) -> Path:
        """Where sockets go."""
        return self.root / "run"

    def environment(self) -> dict[str, str]:
        """The whole environment: `Home.environment` without Hermes, and this agent's own."""
        base = super().environment()
        del base["HERMES_HOME"]
        house = self.root / "home"
        base |= {
            "XDG_CONFIG_HOME": str(house / ".config"),
            "XDG_CACHE_HOME": str(house / ".cache"),
            "XDG_DATA_HOME": str(house / ".local" / "share"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "NO_BROWSER": "1",
        }
        if self.name == "codex":
            # The default mode lets a reviewer model decide instead of asking the client.
            own = {"CODEX_HOME": str(self.config), "INITIAL_AGENT_MODE": "workspace-write"}
            return base | own | {"SCRIPTED_MODEL_KEY": "no-key-needed"}
        return base | {
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": self.model_url,
            "ANTHROPIC_API_KEY": "no-key-needed",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # Else every turn is followed by a model call with tools.
            "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }


def steer_folder() -> Path:
    """Where `.ci/steer` installs, or where ACPBRIDGE_TEST_STEER points."""
    return Path(os.environ.get("ACPBRIDGE_TEST_STEER", ROOT / ".steer"))


def steer_command(name: Name) -> list[str] | None:
    """The command of an installed agent; None if `.ci/steer` has not finished here."""
    folder = steer_folder()
    entry = folder / name / "node_modules" / PACKAGES[name] / "dist" / "index.js"
    found = sorted((folder / "node" / "node_modules").glob("node-*/bin/node"))
    node = str(found[0]) if found else shutil.which("node")
    if node is None or not entry.is_file() or not (folder / "installed").is_file():
        return None
    return [node, str(entry)]


def why_missing() -> str:
    """What to say, and to do, where `steer_command` finds nothing."""
    if shutil.which("npm") is None:
        return "npm is not on PATH, so the real steering agents cannot be installed"
    return "the real steering agents are not installed: run .ci/steer"


def may_skip() -> bool:
    """Whether tests may go without the agents: not in CI, except where there is no npm."""
    return "CI" not in os.environ or shutil.which("npm") is None


def shell_step(name: Name, command: str) -> Step:
    """A program's step that runs a shell command, with the tool that the agent has for it.

    Both agents ask the client for permission first.
    """
    if name == "claude":
        return ["tool", "Bash", {"command": command, "description": "run a command"}]
    asks = {"sandbox_permissions": "require_escalated", "justification": "May I run this?"}
    return ["tool", "exec_command", {"cmd": command, **asks}]


def teed(command: list[str], copy: Path) -> list[str]:
    """The same command with its output copied to a file, to compare bytes behind a bridge."""
    assert sys.platform != "win32", "a POSIX shell and tee are needed"
    return ["/bin/sh", "-c", '"$@" | tee -- "$0"', str(copy), *command]
