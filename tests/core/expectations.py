"""What both sides of the bridge see of each Hermes tape: files beside the tapes, and their writer.

    python -m tests.core.expectations [SCENARIO ...]

writes `fixtures/hermes-0.19.0/expected/SCENARIO.jsonl` from what the bridge does now. Then read
the difference, line by line, against the rules: an expectation that nobody has read proves nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.core.honest import Stage, perform
from tests.core.tapes import FIXTURES, Tape, elided, tapes

FOLDER = FIXTURES / "hermes-0.19.0" / "expected"


def hermes_tapes() -> list[Tape]:
    """The tapes that are played against the bridge as it really behaves."""
    return [tape for tape in tapes() if tape.agent == "hermes-0.19.0"]


def path_of(tape: Tape) -> Path:
    """Where the expectation of a tape stands."""
    return FOLDER / f"{tape.scenario}.jsonl"


def seen(stage: Stage) -> list[str]:
    """One line of JSON for each frame that left the bridge, in order, long texts cut."""
    rows = [{"to": side, "frame": elided(json.loads(raw))} for side, raw in stage.talk.log]
    return [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]


def main(names: list[str]) -> None:
    """Write the expectations of the named scenarios, or of all."""
    FOLDER.mkdir(exist_ok=True)
    for tape in hermes_tapes():
        if not names or tape.scenario in names:
            path_of(tape).write_text("\n".join(seen(perform(tape))) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
