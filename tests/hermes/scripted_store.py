"""What the scripted agent keeps over a restart, and what it logs for the test.

The state file is one JSON object, written anew at every change; the log is JSON lines:

    {"run": pid, "got": frame}                     every frame that was read
    {"run": pid, "ran": text, "session": id}       a prompt text that really began to run
"""

# pathlib would be a good part of this program's start.
# ruff: noqa: PTH105, PTH110, PTH123

from __future__ import annotations

import json
import os
from typing import Any


class Store:
    """Conversations by Hermes' own id. Without a path nothing outlives the process."""

    def __init__(self, state_path: str | None, log_path: str | None) -> None:
        self._state_path = state_path
        self._log_path = log_path
        self.records: dict[str, Any] = {}
        if state_path is not None and os.path.exists(state_path):
            with open(state_path) as file:
                self.records = json.load(file)

    def add(self, cwd: str, record_id: str, parent: str | None = None, copy_of: str = "") -> None:
        """Begin a conversation: new, a continuation of ``parent``, or a copy."""
        above = self.records.get(parent) if parent is not None else None
        history = list(self.records[copy_of]["history"]) if copy_of else []
        self.records[record_id] = {
            "cwd": cwd,
            "root": above["root"] if above else record_id,
            "parent": parent,
            "depth": above["depth"] + 1 if above else 0,
            "history": history,
        }
        self._save()

    def remember(self, record_id: str, role: str, text: str) -> None:
        """Add to a conversation; adjacent chunks of one role become one message."""
        history = self.records[record_id]["history"]
        if history and history[-1][0] == role:
            history[-1][1] += text
        else:
            history.append([role, text])
        self._save()

    def tips(self) -> dict[str, Any]:
        """The conversations that no other one continues."""
        parents = {record["parent"] for record in self.records.values()}
        return {key: record for key, record in self.records.items() if key not in parents}

    def provenance(self, acp_id: str, record_id: str) -> dict[str, Any]:
        """The ``_meta`` that tells which of Hermes' conversations an ACP session is."""
        record = self.records[record_id]
        told = {
            "acpSessionId": acp_id,
            "currentHermesSessionId": record_id,
            "rootHermesSessionId": record["root"],
            "parentHermesSessionId": record["parent"],
            "sessionKind": "continuation" if record["parent"] else "root",
            "compressionDepth": record["depth"],
        }
        return {"hermes": {"sessionProvenance": told}}

    def log(self, **entry: object) -> None:
        if self._log_path is not None:
            with open(self._log_path, "a") as file:
                file.write(json.dumps({"run": os.getpid(), **entry}) + "\n")

    def _save(self) -> None:
        if self._state_path is not None:
            # Renamed into place: a kill in the middle must not leave half a state.
            fresh = f"{self._state_path}.new"
            with open(fresh, "w") as file:
                json.dump(self.records, file)
            os.replace(fresh, self._state_path)
