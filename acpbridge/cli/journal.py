"""What the commands that look at the journal share: where it is, and how its words are shown."""

from __future__ import annotations

import re
from pathlib import Path

import click

STATE_DIR = click.option(
    "--state-dir",
    metavar="DIR",
    envvar="ACPBRIDGE_STATE_DIR",
    help="Where the bridges keep their journal.  [default: the user's state directory]",
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal would obey, what turns a text's direction, so that a command reads as another
one, and what no encoding can write; of a text all but its layout."""


def folder_of(state_dir: str | None) -> Path:
    """The directory that was named, else the user's own."""
    from acpbridge.store.state_dir import usual_state_dir  # noqa: PLC0415 - only where it is used

    return Path(state_dir).expanduser() if state_dir else usual_state_dir()


def plain(text: str) -> str:
    """A text as a terminal may have it: what it would obey is spelled out."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def cell(text: str) -> str:
    """The same on one line."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")
