"""The command line as a process, up to the point where an agent would be started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import acpbridge

pytestmark = pytest.mark.process


def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "acpbridge", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": "/usr/bin:/bin", **environ},
    )


def test_version() -> None:
    done = run("--version")

    assert (0, f"acpbridge {acpbridge.__version__}\n", "") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )


def test_version_does_not_wait_for_trio() -> None:
    """A client's status page asks for it."""
    code = "import sys, acpbridge.cli.main; print('trio' in sys.modules, 'attrs' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout == "False False\n"


@pytest.mark.parametrize("command", [(), ("run",)])
def test_help_shows_an_example(command: tuple[str, ...]) -> None:
    done = run(*command, "--help")

    assert done.returncode == 0
    assert "Example: " in done.stdout


@pytest.mark.parametrize(
    ("args", "environ", "code", "part"),
    [
        (("run",), {}, 2, "acpbridge: say which agent to run, as in: acpbridge run -- hermes acp"),
        (("run", "--"), {}, 2, "say which agent to run"),
        (("run", "--nope", "--", "cat"), {}, 2, "No such option"),
        (("run", "--midturn", "now", "--", "cat"), {}, 2, "'now' is not one of"),
        (("run", "--answer-quiet", "x", "--", "cat"), {}, 2, "'x' is not a valid float"),
        (("run", "--wait-quiet", "-1", "--", "cat"), {}, 2, "--wait-quiet = -1.0: expected"),
        (("run", "--agent-profile", "x", "--", "cat"), {}, 2, "expected one of generic, hermes"),
        (("run", "--config", "/no/such", "--", "cat"), {}, 2, "/no/such: No such file"),
        (("run", "--", "cat"), {"ACPBRIDGE_MIDTRUN": "x"}, 2, "did you mean ACPBRIDGE_MIDTURN?"),
        (("run", "--record", "/no/such/t", "--", "cat"), {}, 2, "choose another --record"),
        (("run", "--log-file", "/no/such/l", "--", "cat"), {}, 2, "choose another --log-file"),
        (("run", "--state-dir", "/dev/null/x", "--", "cat"), {}, 4, "choose --state-dir"),
        (("attach", "--spawn"), {}, 2, "--spawn starts an agent: name it, as in: acpbridge"),
        (("attach", "--", "cat"), {}, 2, "leave cat away, or say --spawn"),
        (("attach", "--spawn", "--ws", "ws://x", "--", "cat"), {}, 2, "only one of --spawn and"),
    ],
)
def test_a_mistake_is_told_on_stderr(
    args: tuple[str, ...], environ: dict[str, str], code: int, part: str
) -> None:
    """Never on stdout, which belongs to the protocol; never as a traceback."""
    done = run(*args, **environ)

    assert (code, "") == (done.returncode, done.stdout)
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_options_reach_the_settings(tmp_path: Path) -> None:
    """A value that a file gives and the command line overrides with nonsense is refused."""
    (tmp_path / "c.toml").write_text("empty_grace_s = 'x'\n")
    done = run("run", "--config", f"{tmp_path}/c.toml", "--no-restart", "--", "cat")

    assert 'empty_grace_s = "x": expected seconds' in done.stderr


@pytest.mark.parametrize("fd", ["0<&-", "1>&-"])
def test_a_closed_stream_is_told(fd: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {fd}', "sh", sys.executable, "-m", "acpbridge", "run", "cat"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 2
    assert "stdin and stdout must be open" in done.stderr
