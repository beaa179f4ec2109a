"""An agent that does what Codeg does not survive. Standard library only.

    python -m tests.codeg.hostile DEED

DEED is what happens at a prompt ("error", "reason", "bytes", "session", "quit", "silence"), at
the opening of a session ("new") or at its load ("load").
"""

from __future__ import annotations

import json
import sys
from typing import Any

NOISE = b"\xff\xfe\n"


def answer(request: object, result: object) -> None:
    """One response on stdout."""
    write({"id": request, "result": result})


def write(body: dict[str, Any]) -> None:
    """One frame on stdout."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **body}).encode() + b"\n")
    sys.stdout.buffer.flush()


def prompted(deed: str, request: object) -> None:
    """Do the deed in place of a turn."""
    match deed:
        case "error":
            write({"id": request, "error": {"code": -32603, "message": "Internal error"}})
        case "reason":
            answer(request, {"stopReason": "steered"})
        case "bytes":
            sys.stdout.buffer.write(NOISE)
            sys.stdout.buffer.flush()
        case "session":
            write({"method": "session/update", "params": {"sessionId": 7, "update": {}}})
        case "quit":
            sys.exit(0)
        case "silence":
            pass
        case _:
            answer(request, {"stopReason": "end_turn"})


def main(deed: str) -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        body = json.loads(line)
        request = body.get("id")
        match body.get("method"):
            case "initialize":
                answer(request, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
            case "session/new":
                answer(request, {"sessionId": 7 if deed == "new" else "s"})
            case "session/load":
                answer(request, None if deed == "load" else {})
            case "session/prompt":
                prompted(deed, request)


if __name__ == "__main__":
    main(sys.argv[1])
