"""`acpbridge replay`: be the agent of a tape."""

from __future__ import annotations

import math
import sys
from typing import NoReturn

import click

from acpbridge.errors import UsageFault

PATIENCE_S = 1.0


@click.command()
@click.option("--speed", type=float, metavar="N", help="N times as fast as recorded.  [default: 1]")
@click.option("--fast", is_flag=True, help="Wait for nothing but the client.")
@click.option(
    "--patience",
    "patience_s",
    type=click.FloatRange(min=0),
    default=PATIENCE_S,
    metavar="SECONDS",
    help="How long to wait for a line of the client that others do not need.  [default: 1]",
)
@click.argument("tape", metavar="TAPE", type=click.Path(path_type=str))
def replay(tape: str, speed: float | None, fast: bool, patience_s: float) -> NoReturn:
    """Speak as the agent of a TAPE: an agent command for any client, and for `run --`.

    Example: acpbridge run -- acpbridge replay --fast tape.jsonl

    What the client sends is found on the tape by method and content; its ids and the sessions
    that it loads may differ. What the tape does not have is answered with an error that names the
    closest recorded line and what differs, on stderr too, and the replay goes on.
    """
    if fast and speed is not None:
        raise UsageFault("speed_twice", "--speed and --fast exclude each other; give one of them")
    if speed is not None and not (math.isfinite(speed) and speed > 0):
        raise UsageFault("no_speed", f"--speed is {speed:g}; give a number above 0, or --fast")
    from pathlib import Path  # noqa: PLC0415 - `--version` needs none of it

    from acpbridge.shell.replay import replay_stdio  # noqa: PLC0415
    from acpbridge.store.tape_reader import read_tape  # noqa: PLC0415

    recording = read_tape(Path(tape))
    rate = math.inf if fast else speed or 1.0
    sys.exit(replay_stdio(recording, speed=rate, patience_s=patience_s))
