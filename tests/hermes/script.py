"""Programs that ride in a prompt's text: ``any words @@[["say", "x"], ["gate", "g"]]``.

The same notation drives the model server (`model.py`) and the scripted agent (`scripted.py`).
Standard library only: the scripted agent must start fast.
"""

from __future__ import annotations

import json
from typing import Any

MARK = "@@"

Step = list[Any]


def script(label: str, *steps: Step) -> str:
    """Build a prompt text: a label for people, then the program."""
    return f"{label} {MARK}{json.dumps(list(steps))}"


def program(text: str) -> list[Step] | None:
    """Read the last program in ``text``; None if there is none that parses."""
    at = text.rfind(MARK + "[")
    if at < 0:
        return None
    try:
        steps, _ = json.JSONDecoder().raw_decode(text, at + len(MARK))
    except ValueError:
        return None
    if not all(isinstance(step, list) and step for step in steps):
        return None
    return list(steps)


def segments(steps: list[Step]) -> list[list[Step]]:
    """Cut a program after each tool step: one list for each request of the turn."""
    parts: list[list[Step]] = [[]]
    for step in steps:
        parts[-1].append(step)
        if step[0] in ("tool", "tools"):
            parts.append([])
    return parts


def label(text: str) -> str:
    """The words in front of the program: how tests and accounts call a prompt."""
    return text.split(MARK, 1)[0].strip()
