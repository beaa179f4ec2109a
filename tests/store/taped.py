"""Tapes made for a test: rows in short, and the tapes that the project has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from acpbridge.store.tape_reader import Recording, read_tape

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
HEADER = {"tape": 1, "agent": "a", "version": "1", "scenario": "s", "recorded": "2026-11-29"}

Json = dict[str, Any]
Row = tuple[float, str, Json | str]
"""(seconds, "client" or "agent", a frame or a line that is none)"""


def write_tape(path: Path, rows: list[Row], header: Json | None = None) -> Path:
    """Write a tape file; frames get their `jsonrpc` member."""
    lines: list[Json] = [HEADER if header is None else header]
    for t, side, what in rows:
        body: Json = {"line": what} if isinstance(what, str) else {"frame": rpc(what)}
        lines.append({"t": t, "from": side, **body})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def recording(tmp_path: Path, rows: list[Row]) -> Recording:
    return read_tape(write_tape(tmp_path / "tape.jsonl", rows))


def rpc(frame: Json) -> Json:
    return {"jsonrpc": "2.0", **frame}


def line(frame: Json) -> bytes:
    return json.dumps(rpc(frame)).encode()


def request(id_: Any, method: str, **params: Any) -> Json:
    return {"id": id_, "method": method, "params": params}


def prompt(id_: Any, text: str, session: str = "s") -> Json:
    blocks = [{"type": "text", "text": text}]
    return request(id_, "session/prompt", sessionId=session, prompt=blocks)


def cancel(session: str = "s") -> Json:
    return {"method": "session/cancel", "params": {"sessionId": session}}


def answer(id_: Any, **result: Any) -> Json:
    return {"id": id_, "result": result}


def done(id_: Any, reason: str = "end_turn") -> Json:
    return answer(id_, stopReason=reason)


def chunk(text: str, session: str = "s", kind: str = "agent_message_chunk") -> Json:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": kind, "content": content}
    return {"method": "session/update", "params": {"sessionId": session, "update": update}}


def all_tapes() -> list[Path]:
    """Every tape that real agents left, in order."""
    return sorted(FIXTURES.glob("*-*/*.jsonl"))


def name_of(path: Path) -> str:
    return f"{path.parent.name.split('-')[0]}/{path.stem}"
