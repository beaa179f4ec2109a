"""Tapes of a few rows for the tests of the diagnosis."""

from __future__ import annotations

import json
from typing import Any

from acpbridge.store.diagnosis import Finding
from tests.store.diagnosing import diagnosed

HEADER = '{"tape":1,"agent":"hermes-agent","version":"x","scenario":"x","recorded":"x"}\n'


def row(t: float, side: str, **frame: Any) -> str:
    body = {"jsonrpc": "2.0", **frame}
    return json.dumps({"t": t, "from": side, "frame": body}, separators=(",", ":")) + "\n"


def prompt(t: float, id_: int, text: str = "do it", session: str = "s") -> str:
    blocks = [{"type": "text", "text": text}] if text else []
    params = {"sessionId": session, "prompt": blocks}
    return row(t, "client", id=id_, method="session/prompt", params=params)


def answer(t: float, id_: int, stop: str = "end_turn", **more: Any) -> str:
    return row(t, "agent", id=id_, result={"stopReason": stop, **more})


def usage(t: float, id_: int) -> str:
    """A completion as Hermes, claude and codex really write it."""
    return answer(t, id_, usage={"inputTokens": 1, "outputTokens": 1, "totalTokens": 2})


def update(t: float, kind: str, session: str = "s", **more: Any) -> str:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **more}}
    return row(t, "agent", method="session/update", params=params)


def says(t: float, text: str, kind: str = "agent_message_chunk", session: str = "s") -> str:
    return update(t, kind, session, content={"type": "text", "text": text})


def found_in(*rows: str, stuck_s: float = 600.0) -> list[Finding]:
    return diagnosed(HEADER + "".join(rows), stuck_s=stuck_s)
