"""How fast `acpbridge diagnose` reads, and with how much memory.

    .venv/bin/python tests/bench/diagnose_speed.py [MIB]

Writes a server log of that size (default 512) into a temporary folder, with a turn in every
thousandth line and ten swallowed sends, the same as JSON lines, the same with gzip, and a tape,
and looks through each in a process of its own. Prints MB/s of the text (10^6 bytes), and the peak
of the process's memory beside what it is for an empty file.
"""

# ruff: noqa: T201 - what it prints is what it is for

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
SWALLOWED = 10

_RUN = """
import pathlib, re, sys
from acpbridge.cli.main import main
try:
    main(["diagnose", "--json", sys.argv[1]])
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    print(re.search(r"VmHWM:\\s+(\\d+)", status)[1], file=sys.stderr)
"""


def server_lines(size: int) -> Iterator[str]:
    """Lines of a Codeg server's stderr, about `size` bytes of them."""
    written = number = 0
    every = max(1, size // 160 // SWALLOWED)
    swallowed = 0
    while written < size:
        at = f"2026-08-28T{number // 3_600_000 % 24:02d}:{number // 60_000 % 60:02d}:"
        at += f"{number // 1000 % 60:02d}.{number % 1000:03d}000Z"
        session = f'session=Some("8c41e6d0-2b7f-4d35-a0c9-{number // 2000 % 50:012d}")'
        where = "INFO codeg_lib::acp::session_state: [ACP]"
        if swallowed < SWALLOWED and number % every == every - 1:
            swallowed += 1
            session = f'session=Some("{swallowed}")'
            soon = at[:-4] + "700Z"
            yield f"{at}  {where} status_changed {session} Connected -> Prompting\n"
            line = f"{soon}  {where} turn_complete {session} stop_reason=empty background=0\n"
        elif number % 2000 == 1000:
            line = f"{at}  {where} status_changed {session} Connected -> Prompting\n"
        elif number % 2000 == 1999:
            line = f"{at}  {where} turn_complete {session} stop_reason=end_turn background=0\n"
        else:
            line = f"{at} DEBUG codeg_lib::web::ws: [WS] client 17 got event {number} of 412 bytes"
            line += " topic=conversation/1187 queue=0 dropped=0\n"
        written += len(line)
        number += 1
        yield line


def as_json(line: str) -> str:
    """The same line as Codeg's daily file has it."""
    at, level, target, message = line.rstrip("\n").split(None, 3)
    fields = {"message": message}
    row = {"timestamp": at, "level": level, "fields": fields, "target": target.rstrip(":")}
    return json.dumps(row, separators=(",", ":")) + "\n"


def tape_lines(size: int) -> Iterator[str]:
    """A tape of one long turn, chunk by chunk."""
    yield '{"tape":1,"agent":"hermes-agent","version":"0.19.0","scenario":"x","recorded":"x"}\n'
    ask = '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s",'
    ask += '"prompt":[{"type":"text","text":"go"}]}}'
    yield f'{{"t":0.5,"from":"client","frame":{ask}}}\n'
    written = number = 0
    while written < size:
        frame = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
        frame += f'{{"content":{{"text":"word {number} of a long answer ","type":"text"}},'
        frame += '"sessionUpdate":"agent_message_chunk"}}}'
        line = f'{{"t":{1 + number / 1000:.4f},"from":"agent","frame":{frame}}}\n'
        written += len(line)
        number += 1
        yield line
    end = '{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}'
    yield f'{{"t":{1 + number / 1000:.4f},"from":"agent","frame":{end}}}\n'


def measure(path: Path, size: int) -> tuple[int, float, float]:
    """(findings, seconds, MiB of memory at the peak) of one look through a file."""
    begin_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, path], capture_output=True, text=True, check=False
    )
    took_s = time.perf_counter() - begin_s
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout)
    assert report["files"][0]["bytes"] == size
    return report["found"], took_s, int(done.stderr.split()[-1]) / 1024


def main() -> None:
    """Write the files, look through each, print a table."""
    size = int(sys.argv[1] if len(sys.argv) > 1 else 512) * MIB
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        with (here / "server.log").open("w") as plain, (here / "server.json").open("w") as packed:
            for line in server_lines(size):
                plain.write(line)
                packed.write(as_json(line))
        text = (here / "server.log").read_bytes()
        (here / "server.log.gz").write_bytes(gzip.compress(text, 1))
        with (here / "one.jsonl").open("w") as tape:
            tape.writelines(tape_lines(size // 4))
        (here / "empty").touch()
        _, start_s, base_mib = measure(here / "empty", 0)
        print(f"an empty file: {start_s:.2f} s, {base_mib:.0f} MiB")
        for name in ("server.log", "server.json", "server.log.gz", "one.jsonl"):
            path = here / name
            size = len(text) if name.endswith(".gz") else os.path.getsize(path)  # noqa: PTH202
            found, took_s, peak_mib = measure(path, size)
            speed = size / 1e6 / max(took_s - start_s, 1e-9)
            print(
                f"{name:<14} {size / 1e6:7.0f} MB  {took_s:6.2f} s  {speed:6.0f} MB/s  "
                f"{peak_mib:4.0f} MiB (+{peak_mib - base_mib:.0f})  {found} found"
            )


if __name__ == "__main__":
    main()
