"""`acpbridge diagnose` as a person starts it: output, exit codes, pipes, a terminal."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from acpbridge.store.diagnosis import KINDS, MEANINGS

pytestmark = pytest.mark.process

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
INCIDENT = FIXTURES / "incident" / "codeg-server.log"
TAPE = FIXTURES / "hermes-0.19.0" / "mid-turn-prompt.jsonl"
HEALTHY = FIXTURES / "hermes-0.19.0" / "simple-turn.jsonl"
OTHER = FIXTURES.parent / "Dockerfile"
"""A file that is no log."""
COMMAND = (sys.executable, "-m", "acpbridge", "diagnose")


def run(*args: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, args)], input=stdin, capture_output=True, check=False, timeout=60
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def test_the_incident_is_reported() -> None:
    done = run(INCIDENT)

    assert (1, "") == (done.returncode, done.stderr)
    assert "the turn was over 1.9 ms after the send (stop_reason=empty)" in done.stdout
    assert "the turn was over 0.7 ms after the send (stop_reason=end_turn)" in done.stdout
    assert "2 swallowed sends within 5.6 s" in done.stdout
    assert f"{INCIDENT}:30 {INCIDENT}:31" in done.stdout
    assert "Codeg: 6 turns, the longest 3 min 37 s" in done.stdout
    assert "\x1b" not in done.stdout, "no colours in a pipe"


def test_a_healthy_file_is_no_finding() -> None:
    done = run(HEALTHY)

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.endswith("nothing found\n")


def test_json_is_one_object() -> None:
    done = run("--json", INCIDENT, TAPE, HEALTHY)
    report = json.loads(done.stdout)

    assert 1 == done.returncode
    assert ["swallowed", "swallowed", "swallowed", "burst"] == [
        one["kind"] for one in report["findings"]
    ]
    assert (4, 6, 2, []) == (
        report["found"],
        report["codeg_turns"],
        report["tape_prompts"] - 1,
        report["faults"],
    )
    assert {"file": str(INCIDENT), "kinds": ["codeg"], "lines": 37} == {
        key: value for key, value in report["files"][0].items() if key != "bytes"
    }
    assert {"queued", "later"} <= set(map(str, report["findings"][2].values()))


def test_json_without_findings_is_one_object_too() -> None:
    assert [] == json.loads(run("--json", HEALTHY).stdout)["findings"]


@pytest.mark.parametrize("packed", [False, True])
def test_stdin_is_read(packed: bool) -> None:
    text = INCIDENT.read_bytes()

    done = run("-", stdin=gzip.compress(text) if packed else text)

    assert 1 == done.returncode
    assert "-:25 -:27" in done.stdout


@pytest.mark.parametrize(
    ("args", "part"),
    [
        ((), "Missing argument 'FILE...'"),
        (("--stuck", "-1", INCIDENT), "--stuck"),
        (("--nope", INCIDENT), "No such option"),
        (("missing.log",), "acpbridge: cannot read missing.log: No such file or directory"),
        ((OTHER,), f"nothing of Codeg, of Hermes or of a tape in {OTHER}"),
    ],
)
def test_a_mistake_is_told_on_stderr(args: tuple[str, ...], part: str) -> None:
    done = run(*args)

    assert 2 == done.returncode
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_one_unreadable_file_does_not_hide_the_others() -> None:
    done = run("missing.log", INCIDENT)

    assert 2 == done.returncode
    assert "cannot read missing.log" in done.stderr
    assert "2 swallowed" in done.stdout


def test_an_empty_file_is_healthy(tmp_path: Path) -> None:
    (tmp_path / "codeg.log").touch()

    assert 0 == run(tmp_path / "codeg.log").returncode


def test_what_a_log_says_cannot_move_the_terminal(tmp_path: Path) -> None:
    """A session id is whatever an agent chose."""
    text = INCIDENT.read_bytes().replace(b"8c41e6d0", b"\x1b]0;x\x07\xc2\x9b1m\xff")
    (tmp_path / "codeg.log").write_bytes(text)

    done = run(tmp_path / "codeg.log")

    assert 1 == done.returncode
    assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout)


def test_a_reader_that_leaves_is_no_traceback() -> None:
    with subprocess.Popen(
        [*COMMAND, *[str(TAPE)] * 500], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert b"Traceback" not in errors


def test_a_terminal_sees_progress(tmp_path: Path) -> None:
    """On stderr, cleared before the report, no wider than 80 columns."""
    line = b"2026-08-28T00:00:00.000001Z DEBUG codeg_lib::web::ws: [WS] nothing of interest\n"
    (tmp_path / "codeg.log").write_bytes(line * 400_000)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, str(tmp_path / "codeg.log")], stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
        assert process.stdout is not None
        report = process.stdout.read()
    os.close(ours)
    steps = shown.decode().split("\r\x1b[K")

    assert (0, "") == (process.returncode, steps[0])
    assert "" == steps[-1], "the last thing is an empty line"
    assert any(" MiB " in step and "%" in step for step in steps)
    assert all(len(step) < 80 for step in steps)
    assert b"400,000 lines" in report


def _read(fd: int) -> bytes:
    """What a terminal has to show; Linux says EIO at its end."""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""


def test_help_shows_an_example() -> None:
    assert "Example: acpbridge diagnose" in run("--help").stdout


def test_every_kind_is_explained() -> None:
    assert set(KINDS) == set(MEANINGS)
