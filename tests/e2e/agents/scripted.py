"""A small ACP agent whose prompts are its commands. Standard library only.

    say TEXT        one chunk of TEXT, then the end of the turn
    echo            one chunk that is the prompt's own text
    flood N BYTES   N numbered chunks of BYTES each
    stderr N        N bytes on stderr before the answer
    exit CODE       one chunk, then the process ends in the middle of the turn
    cut N           one chunk, then the process ends N bytes before the end of its answer's line
    hang            one chunk, and no answer ever

Options: --ignore-eof and --ignore-term make it stubborn; --child starts a sleeper that ignores
SIGTERM, holds none of its pipes and is named, with the agent and its parent, in initialize's
result as `_meta.pids`; --args TEXT is only reported.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from typing import Any

SLEEPER = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); signal.pause()"


def write(frame: dict[str, Any]) -> None:
    text = json.dumps({"jsonrpc": "2.0", **frame}, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


def chunk(text: str) -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    write({"method": "session/update", "params": {"sessionId": "s-1", "update": update}})


def cut(count: int, answer: dict[str, Any]) -> None:
    """Die within the answer; the line feed counts."""
    chunk("going")
    frame = {"jsonrpc": "2.0", **answer, "result": {"stopReason": "end_turn"}}
    sys.stdout.buffer.write(f"{json.dumps(frame)}\n".encode()[:-count])
    sys.stdout.buffer.flush()
    sys.exit(1)


def prompt(text: str) -> bool:
    """Do what a prompt says; False when it is never to be answered."""
    command, _, rest = text.partition(" ")
    if command == "flood":
        count, size = map(int, rest.split())
        for number in range(count):
            chunk(f"{number:08d}" + "x" * (size - 8))
    elif command == "stderr":
        sys.stderr.write("e" * int(rest) + "\n")
        sys.stderr.flush()
        chunk("done")
    elif command == "exit":
        chunk("going")
        sys.exit(int(rest))
    else:
        chunk(text if command == "echo" else rest or command)
    return command != "hang"


def start_child() -> int:
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child.pid


def initialized(options: argparse.Namespace) -> dict[str, Any]:
    pids = [os.getpid(), os.getppid()]
    if options.child:
        pids.append(start_child())
    return {
        "protocolVersion": 1,
        "agentInfo": {"name": "scripted", "version": "1.0"},
        "agentCapabilities": {"loadSession": True},
        "_meta": {"pids": pids, "args": options.args},
    }


def serve(options: argparse.Namespace) -> None:
    for line in sys.stdin.buffer:
        frame = json.loads(line)
        method, answer = frame.get("method"), {"id": frame.get("id")}
        if method == "initialize":
            write({**answer, "result": initialized(options)})
        elif method == "session/new":
            write({**answer, "result": {"sessionId": "s-1"}})
        elif method == "session/load":
            chunk("history")
            write({**answer, "result": {}})
        elif method == "session/prompt":
            try:
                text = frame["params"]["prompt"][0]["text"]
            except (KeyError, TypeError, IndexError):
                write({**answer, "error": {"code": -32602, "message": "Invalid params"}})
                continue
            if text.startswith("cut "):
                cut(int(text.removeprefix("cut ")), answer)
            if prompt(text):
                write({**answer, "result": {"stopReason": "end_turn"}})
        elif "id" in frame:
            write({**answer, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ignore-eof", action="store_true")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--args", default="")
    options = parser.parse_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(options)
    while options.ignore_eof:
        signal.pause()


if __name__ == "__main__":
    main()
