"""`acpbridge demo` as a process: what a newcomer sees, in which time, with which exit code."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acpbridge.shell.demo import DIRECT_S, TOTAL_S
from tests.hermes.processes import arguments
from tests.shell.processes import children

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.process

DEMO = (sys.executable, "-m", "acpbridge", "demo")
SECOND = str(Path(__file__).parent / "agents" / "second.py")
BUSY = ("--", sys.executable, SECOND, "busy")
"""An agent that is shown in 4 s."""
BOUND_S = TOTAL_S + 10.0
START_S = 5.0
"""The demo counts its 20 s itself; an interpreter's start and end on a busy machine come on top."""

GOLDEN = """\
Two prompts to a scripted Hermes (no model, no key, fixed answers), the second
while the first is being worked on. Times in seconds.

 without acpbridge                     │  with acpbridge
───────────────────────────────────────┼───────────────────────────────────────
  #.## prompt 1: Count to 9.           │   #.## prompt 1: Count to 9.
  #.## agent: 1 2 3                    │   #.## agent: 1 2 3
  #.## prompt 2: What is 6 times 7?    │   #.## prompt 2: What is 6 times 7?
  #.## agent: Queued for the next      │   #.## (acpbridge holds it back)
       turn. (1 queued)                │   #.## agent: 4 5 6 7 8 9
  #.## ANSWERS prompt 2 after #.## s:  │   #.## ANSWERS prompt 1: end_turn
       end_turn, but nothing has run   │   #.## agent: 6 times 7 is 42.
  #.## agent: 4 5 6 7 8 9              │   #.## ANSWERS prompt 2 after #.## s:
  #.## too late, nobody listens:       │        end_turn, by its own turn
  #.## agent: 6 times 7 is 42.         │
  #.## ANSWERS prompt 1: end_turn      │

Without acpbridge the second prompt was answered after #.## s, and nothing had
run; with it, the second prompt was answered after #.## s, by its own turn: put
`acpbridge run --` in front of your agent's command (README, "Configure your
client").
"""


def masked(text: str) -> str:
    """Times as #; milliseconds look like seconds, and a line that they made longer is cut."""
    text = re.sub(r"\d+\.\d ms", "#.## s", text)
    text = re.sub(r"\d+\.\d\d", "#.##", text)
    return re.sub(r"[ ]+│", "│", text)


def demo(*args: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    return subprocess.run(
        [*DEMO, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        env={**kept, "COLUMNS": "80", "LC_ALL": "C.UTF-8", **(environ or {})},
    )


def test_a_newcomer_sees_the_problem_and_the_cure_in_20_seconds() -> None:
    begin_s = time.monotonic()
    done = demo()

    assert time.monotonic() - begin_s < TOTAL_S + START_S
    assert masked(GOLDEN) == masked(done.stdout)
    assert (0, "") == (done.returncode, done.stderr)


def test_the_readme_shows_what_it_prints() -> None:
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")

    assert masked(GOLDEN) in masked(text)


def at_a_terminal(*args: str, **environ: str) -> tuple[int, str]:
    """Run it on a pseudo-terminal of 80 columns and 24 lines; (exit code, all it wrote)."""
    parent, child = pty.openpty()
    kept = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    sizes = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        [*DEMO, *args], stdin=child, stdout=child, stderr=child, env={**kept, **sizes, **environ}
    )
    os.close(child)
    written = b""
    # The kernel says EIO where a pipe would say EOF.
    with suppress(OSError):
        while data := os.read(parent, 65536):
            written += data
    os.close(parent)
    return process.wait(timeout=BOUND_S), written.decode().replace("\r\n", "\n")


def test_at_a_terminal_it_is_drawn_while_it_happens_and_in_colour() -> None:
    code, text = at_a_terminal()
    # The last drawing is what stays: everything behind the last move up and clearing.
    last = text.rpartition("\x1b[J")[2]
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", last)

    assert code == 0
    assert len(re.findall(r"\x1b\[\d+F", text)) > 10, "drawn again for each thing that happens"
    assert "\x1b[1;31m" in last
    assert "\x1b[1;32m" in last
    assert text.count("\x1b[?25h") == 1, "the cursor is back"
    golden = GOLDEN.partition("\n\n")[2]
    assert masked(golden).split() == masked(plain).split()


@pytest.mark.parametrize(
    ("args", "environ"), [(("--no-color",), {}), ((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"})]
)
def test_colour_can_be_refused(args: tuple[str, ...], environ: dict[str, str]) -> None:
    code, text = at_a_terminal(*args, *BUSY, **environ)

    assert code == 0
    assert re.search(r"\x1b\[[0-9;]*m", text) is None
    if environ.get("TERM") == "dumb":
        assert "\x1b" not in text


def test_a_narrow_terminal_has_one_below_the_other() -> None:
    done = demo(*BUSY, environ={"COLUMNS": "40"})
    text = done.stdout

    assert done.returncode == 0
    assert max(map(len, text.splitlines())) <= 40
    places = [" without acpbridge\n", "REFUSES", " with acpbridge\n", "by its own turn"]
    assert sorted(places, key=text.index) == places


def test_a_terminal_without_unicode() -> None:
    done = demo(*BUSY, environ={"PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0
    assert done.stdout.isascii()
    assert " | " in done.stdout


# --- another agent ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "code", "part"),
    [
        ("fifo", 1, "This agent is honest by itself"),
        ("busy", 0, "Without acpbridge the second prompt was refused; with it, the second prompt"),
        ("abort", 0, "Without acpbridge the second prompt put an end to the first; with it,"),
        ("quick", 1, "its first turn was over before the second prompt could meet it"),
        ("closed", 1, "Nothing could be shown: it refused session/new: log in first."),
        ("dies", 1, "it ended by itself: no model is configured"),
        ("asks", 1, "This agent is honest by itself"),
        (
            "silent",
            0,
            "Without acpbridge the second prompt was never answered; with it, the second",
        ),
    ],
)
def test_what_another_agent_turned_out_to_be(mode: str, code: int, part: str) -> None:
    begin_s = time.monotonic()
    done = demo("--", sys.executable, SECOND, mode)

    assert time.monotonic() - begin_s < TOTAL_S + START_S
    assert part in " ".join(done.stdout.split())
    assert (code, "") == (done.returncode, done.stderr)


def test_what_the_agent_asks_for_is_refused() -> None:
    done = demo("--", sys.executable, SECOND, "asks", environ={"COLUMNS": "70"})
    text = " ".join(done.stdout.split())

    assert '(you answered {"outcome": {"outcome": "cancelled"}})' in text
    assert "(you answered -32601)" in text


def test_it_ends_in_20_seconds_whatever_the_agent_does() -> None:
    """Both conversations wait for an answer that never comes."""
    begin_s = time.monotonic()
    done = demo("--", sys.executable, SECOND, "once")

    assert DIRECT_S < time.monotonic() - begin_s < TOTAL_S + START_S
    words = " ".join(done.stdout.split())
    assert "the second prompt was never answered; with it, no better: it took too long" in words
    assert done.returncode == 1


def test_an_agent_that_is_not_there() -> None:
    done = demo("--", "/no/such/agent")

    assert done.returncode == 1
    assert "Nothing could be shown: /no/such/agent cannot be started" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_broken_off(number: signal.Signals) -> None:
    """In one word, and with nothing left behind."""
    process = subprocess.Popen(
        [*DEMO, "--", sys.executable, SECOND, "mute"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (pids := agents(process.pid)):
        assert process.poll() is None
    process.send_signal(number)
    _, stderr = process.communicate(timeout=BOUND_S)

    assert (1, "Aborted!") == (process.returncode, stderr.strip())
    assert [] == [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def agents(pid: int) -> list[int]:
    """The agents that it has started."""
    # A child that has not begun its own program has its parent's words; trio's import forks too.
    return [child for child in children(pid) if arguments(child)[1:] == [SECOND, "mute"]]


def test_settings_of_the_person_do_not_change_the_demo() -> None:
    """With `reject` the second prompt would be refused; with a tape one would be written."""
    environ = {"ACPBRIDGE_MIDTURN": "reject", "ACPBRIDGE_RECORD": "/no/such/folder/t"}
    done = demo(*BUSY, environ=environ)

    assert done.returncode == 0
