"""The shim as a client starts it: real shells, fake Hermes executables, the real bridge."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acpbridge.store.shim import DEPTH_MAX, install

pytestmark = pytest.mark.process

SCRIPTED = Path(__file__).parent / "agents" / "scripted.py"
BRIDGE = (sys.executable, "-P", "-m", "acpbridge")
FOLDERS = ["plain", 'it\'s a "$HOME" `x`']
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]

REPORT = """\
if [ "$1" = acp ]; then exec {python} {scripted} --args "$*"; fi
printf '%s\\n' "$#" "$@" "mark=$MARK" "pid=$$" "cwd=$PWD"
exit 7
"""
"""A Hermes that is the scripted agent under `acp`, and otherwise says how it was started."""


def fake_hermes(folder: Path, text: str = REPORT) -> Path:
    path = folder / "hermes"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text.format(python=sys.executable, scripted=SCRIPTED)}")
    path.chmod(0o755)
    return path


def environment(tmp_path: Path, *folders: Path, **more: str) -> dict[str, str]:
    counted = {key: value for key, value in os.environ.items() if key.startswith("COVERAGE_")}
    path = os.pathsep.join([*map(str, folders), os.defpath])
    return counted | {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", **more}


@pytest.fixture(params=FOLDERS)
def shim(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An installed shim in front of a fake Hermes, in folders with every kind of name."""
    real = fake_hermes(tmp_path / request.param / "real")
    return install(tmp_path / request.param / "shims", real, BRIDGE).path


def run(
    *command: str | Path, env: dict[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def cli(*args: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run(*BRIDGE, "shim", *args, env=env)


# -- everything but acp ------------------------------------------------------------------------
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--version",),
        ("model", "two words", "", "it's", 'a "b"', "$HOME", "-n"),
        ("acpx",),
        ("-p", "work", "acp"),
        ("acp", "--setup"),
        ("acp", "--version"),
        ("acp", "--check"),
        ("acp", "-h"),
    ],
)
def test_other_subcommands_reach_the_real_one(
    tmp_path: Path, shim: Path, shell: str, args: tuple[str, ...]
) -> None:
    """Word for word, with the environment, the working folder and the exit code."""
    text = 'printf \'%s\\n\' "$#" "$@" "mark=$MARK" "cwd=$PWD"\nexit 7\n'
    fake_hermes(shim.parent.parent / "real", text)
    start = [shell, *(["sh"] if shell == "busybox" else []), str(shim)]

    done = run(*start, *args, env=environment(tmp_path, MARK="a b"), cwd=tmp_path)

    assert 7 == done.returncode
    assert [str(len(args)), *args, "mark=a b", f"cwd={tmp_path}"] == done.stdout.splitlines()
    assert "" == done.stderr


def test_it_is_found_on_a_path(tmp_path: Path, shim: Path) -> None:
    done = run("hermes", "model", env=environment(tmp_path, shim.parent))

    assert (7, "1") == (done.returncode, done.stdout.splitlines()[0])


def test_a_signal_and_its_death_are_the_real_one_s(tmp_path: Path, shim: Path) -> None:
    """exec: the process that the client knows is the real one."""
    fake_hermes(shim.parent.parent / "real", "echo $$\nexec sleep 60\n")
    with subprocess.Popen(
        [shim, "gateway"], env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)

    assert (process.pid, -signal.SIGTERM) == (said, process.returncode)


# -- acp ---------------------------------------------------------------------------------------
def converse(
    command: list[str | Path], requests: list[tuple[str, dict[str, Any]]], **how: Any
) -> list[dict[str, Any]]:
    """Send requests one after the other and return their responses."""
    answers = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for number, (method, params) in enumerate(requests):
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(frame).encode() + b"\n")
            process.stdin.flush()
            while True:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                answer = json.loads(line)
                if answer.get("id") == number and "method" not in answer:
                    answers.append(answer)
                    break
        process.stdin.close()
        process.stderr.read()
    assert 0 == process.returncode
    return answers


INITIALIZE = ("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
NEW = ("session/new", {"cwd": "/", "mcpServers": []})


def test_acp_goes_through_the_bridge_with_the_codeg_profile(tmp_path: Path, shim: Path) -> None:
    """Codeg drops a connection whose prompt is answered with an error: so it is said as text."""
    dies = {"sessionId": "s-1", "prompt": [{"type": "text", "text": "exit 5"}]}
    environ = environment(tmp_path, shim.parent)

    first, _, last = converse(
        ["hermes", "acp", "--accept-hooks", "two words"],
        [INITIALIZE, NEW, ("session/prompt", dies)],
        env=environ,
        cwd=tmp_path,
    )

    pids = first["result"]["_meta"]["pids"]
    assert "acp --accept-hooks two words" == first["result"]["_meta"]["args"]
    assert "end_turn" == last["result"]["stopReason"]
    assert "agent-exited" == last["result"]["_meta"]["acpbridge"]["kind"]
    assert pids[0] != pids[1], "the agent is a child of the bridge"


def test_a_project_s_modules_are_not_imported(tmp_path: Path, shim: Path) -> None:
    """A client starts the agent in the project's folder, whatever lies there."""
    for name in ("acpbridge", "click", "trio", "types"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the project')\n")

    (answer,) = converse([shim, "acp"], [INITIALIZE], env=environment(tmp_path), cwd=tmp_path)

    assert "result" in answer


# -- what must not happen ----------------------------------------------------------------------
@pytest.mark.parametrize("args", [("acp",), ("--version",)])
def test_a_real_one_that_is_gone_is_told_in_one_line(
    tmp_path: Path, shim: Path, args: tuple[str, ...]
) -> None:
    real = shim.parent.parent / "real" / "hermes"
    real.unlink()

    done = run(shim, *args, env=environment(tmp_path))

    assert (127, "") == (done.returncode, done.stdout)
    (line,) = done.stderr.splitlines()
    assert f"the real hermes is gone from {real}" in line
    assert "acpbridge shim install" in line


def test_a_bridge_that_is_gone_is_told_in_one_line(tmp_path: Path) -> None:
    """It does not run unbridged in silence; everything else still works."""
    real = fake_hermes(tmp_path / "real")
    shim = install(tmp_path / "shims", real, (str(tmp_path / "no" / "acpbridge"),)).path

    done = run(shim, "acp", env=environment(tmp_path))

    assert (127, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert f"acpbridge is gone from {tmp_path / 'no' / 'acpbridge'}" in done.stderr
    assert 7 == run(shim, "model", env=environment(tmp_path)).returncode


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("args", [("acp",), ("--version",)])
def test_a_shim_that_would_start_itself_refuses(
    tmp_path: Path, shim: Path, args: tuple[str, ...], shell: str
) -> None:
    """Somebody links the real one's place to the shim."""
    real = shim.parent.parent / "real" / "hermes"
    real.unlink()
    real.symlink_to(shim)
    start = [shell, *(["sh"] if shell == "busybox" else []), str(shim)]

    done = run(*start, *args, env=environment(tmp_path))

    assert (126, "") == (done.returncode, done.stdout)
    (line,) = done.stderr.splitlines()
    assert f"{real} is a shim too" in line


@pytest.mark.parametrize("text", ['exec hermes "$@"', 'hermes "$@"', 'hermes "$@"\nexit $?'])
def test_a_wrapper_that_starts_the_shim_again_is_stopped(
    tmp_path: Path, shim: Path, text: str
) -> None:
    """A Hermes that is a script of the user's own, and looks for hermes on PATH."""
    real = fake_hermes(shim.parent.parent / "real", text + "\n")

    done = run(shim, "--version", env=environment(tmp_path, shim.parent))

    assert (126, "") == (done.returncode, done.stdout)
    assert f"{real} starts this shim again" in done.stderr


def test_an_agent_may_start_hermes_by_itself(tmp_path: Path, shim: Path) -> None:
    """A tool call that runs `hermes` finds the shim; that is no loop."""
    text = 'if [ "$1" = inner ]; then echo inner; else hermes inner; fi\n'
    fake_hermes(shim.parent.parent / "real", text)

    done = run(shim, "outer", env=environment(tmp_path, shim.parent))

    assert (0, "inner\n") == (done.returncode, done.stdout)
    assert DEPTH_MAX > 2


def test_a_foreign_depth_is_refused_and_not_reckoned_with(tmp_path: Path, shim: Path) -> None:
    environ = environment(tmp_path, _ACPBRIDGE_SHIM_DEPTH="$(touch x)")

    assert 126 == run(shim, "model", env=environ, cwd=tmp_path).returncode
    assert not (tmp_path / "x").exists()


# -- the commands ------------------------------------------------------------------------------
@pytest.fixture(params=FOLDERS)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a fake Hermes in `bin`, and room for shims."""
    fake_hermes(tmp_path / request.param / "bin", "echo Hermes Agent v0.20.5\n")
    return tmp_path / str(request.param)


def test_install_status_uninstall(tmp_path: Path, place: Path) -> None:
    real, shims = place / "bin" / "hermes", place / "shims"
    environ = environment(tmp_path, shims, real.parent)

    before = cli("status", "--dir", shims, env=environ)
    done = cli("install", "--dir", shims, env=environ)
    again = cli("install", "--dir", shims, env=environ)
    after = cli("status", "--dir", shims, env=environ)
    removed = cli("uninstall", "--dir", shims, env=environ)
    absent = cli("uninstall", "--dir", shims, env=environ)

    assert [1, 0, 0, 0, 0, 0] == [
        one.returncode for one in (before, done, again, after, removed, absent)
    ]
    assert f"a client starts  {real} (0.20.5), unbridged" in before.stdout
    assert done.stdout.startswith(f"written: {shims / 'hermes'}\n")
    assert again.stdout.startswith("kept: ")
    assert f"a client starts  {shims / 'hermes'} (shim 1)" in after.stdout
    assert f"{real} (0.20.5)" in after.stdout
    assert "(0.1.0)" in after.stdout
    assert after.stdout.endswith("hermes acp is bridged\n")
    assert removed.stdout == f"removed: {shims / 'hermes'}\n"
    assert absent.stdout == f"there is no hermes in {shims}\n"
    assert not (shims / "hermes").exists()


def test_the_printed_commands_can_be_pasted(tmp_path: Path, place: Path) -> None:
    shims = place / "shims"
    environ = environment(tmp_path, place / "bin")
    done = cli("install", "--dir", shims, env=environ)
    export = next(line for line in done.stdout.splitlines() if "export PATH=" in line)

    pasted = run(
        "sh", "-c", f"{export.removeprefix('  in a shell')}; command -v hermes", env=environ
    )

    assert f"{shims / 'hermes'}\n" == pasted.stdout


def test_the_path_of_a_service_is_looked_at(tmp_path: Path, place: Path) -> None:
    shims = place / "shims"
    environ = environment(tmp_path, shims, place / "bin")
    cli("install", "--dir", shims, env=environ)

    done = cli("status", "--dir", shims, "--path", str(place / "bin"), env=environ)

    assert 1 == done.returncode
    assert f"to do            {shims} is not on this PATH" in done.stdout
    assert f"installed        {shims / 'hermes'}" in done.stdout


def test_the_default_folder_is_told(tmp_path: Path, place: Path) -> None:
    environ = environment(tmp_path, place / "bin", XDG_DATA_HOME=str(place / "data"))

    done = cli("install", env=environ)

    assert f"written: {place / 'data' / 'acpbridge' / 'shim' / 'hermes'}" in done.stdout
    assert 0 == cli("uninstall", env=environ).returncode


def test_a_named_hermes_wins(tmp_path: Path, place: Path) -> None:
    other = fake_hermes(place / "other", "echo 1.2.3\n")
    environ = environment(tmp_path, place / "bin")

    done = cli("install", "--dir", place / "shims", "--hermes", other, env=environ)

    assert f"all else     {other} (1.2.3)" in done.stdout


def test_a_real_one_that_went_away_is_told_by_status(tmp_path: Path, place: Path) -> None:
    shims = place / "shims"
    environ = environment(tmp_path, shims, place / "bin")
    cli("install", "--dir", shims, env=environ)
    (place / "bin" / "hermes").unlink()

    done = cli("status", "--dir", shims, env=environ)

    assert 1 == done.returncode
    assert f"{place / 'bin' / 'hermes'} (gone)" in done.stdout
    assert "to do            the real hermes is gone" in done.stdout


def test_mistakes_are_told_in_one_line(tmp_path: Path, place: Path) -> None:
    empty = environment(tmp_path)
    full = environment(tmp_path, place / "bin")
    told = [
        cli("install", "--dir", place / "shims", env=empty),
        cli("install", "--dir", place / "bin", env=full),
        cli("install", "--dir", place / "shims", "--hermes", place / "no", env=full),
        cli("uninstall", "--dir", place / "bin", env=full),
    ]

    assert [2, 2, 2, 2] == [one.returncode for one in told]
    assert [1, 1, 1, 1] == [len(one.stderr.splitlines()) for one in told]
    assert ["(hermes_missing)", "(shim_foreign)", "(hermes_unusable)", "(shim_foreign)"] == [
        one.stderr.split()[-1] for one in told
    ]


@pytest.mark.parametrize("command", [(), ("install",), ("uninstall",), ("status",)])
def test_help_shows_an_example(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "Example: acpbridge shim" in cli(*command, "--help", env=environment(tmp_path)).stdout
