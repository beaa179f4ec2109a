"""`acpbridge status`: which bridges live on a state directory, and what has been left in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from acpbridge.cli.journal import STATE_DIR, cell, folder_of

if TYPE_CHECKING:
    from pathlib import Path

_LEFT = ("undelivered", "unknown", "settled")


@click.command()
@STATE_DIR
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def status(state_dir: str | None, *, as_json: bool) -> None:
    """Say which bridges live, what they have at work, and what dead ones have left.

    Example: acpbridge status

    A session that another bridge holds is named here with the process that holds it.
    """
    folder = folder_of(state_dir)
    found = _look(folder)
    if as_json:
        import json  # noqa: PLC0415 - people do not need it

        click.echo(json.dumps(found))
        return
    click.echo(f"state directory: {folder}")
    size_bytes = found["journalBytes"]
    click.echo(f"journal: {size_bytes / 2**20:.1f} MiB" if size_bytes else "journal: none yet")
    if not found["bridges"]:
        click.echo("no bridge is running")
    for bridge in found["bridges"]:
        click.echo(f"bridge, process {bridge['pid']}: {_held(bridge['sessions'])}")
    left = [f"{found['left'][state]} {state}" for state in _LEFT if found["left"].get(state)]
    click.echo(f"left: {', '.join(left)} (acpbridge prompts)" if left else "left: nothing")


def _held(sessions: dict[str, int]) -> str:
    if not sessions:
        return "nothing at work"
    return ", ".join(
        f"{count} prompt{'s' if count > 1 else ''} in session {cell(session)}"
        for session, count in sorted(sessions.items())
    )


def _look(folder: Path) -> dict[str, Any]:
    """Everything that is said, as values."""
    from acpbridge.store.journal import Archive  # noqa: PLC0415 - sqlite3 is slow to import
    from acpbridge.store.journal_run import live_pids  # noqa: PLC0415
    from acpbridge.store.journal_states import OPEN_STATES  # noqa: PLC0415

    bridges: dict[int, Counter[str]] = {pid: Counter() for pid in live_pids(folder, "")}
    left: Counter[str] = Counter()
    archive = Archive.open(folder)
    size_bytes = 0
    if archive is not None:
        try:
            prompts = archive.list_prompts()
            size_bytes = sum(path.stat().st_size for path in folder.glob(f"{archive.path.name}*"))
        finally:
            archive.close()
        for prompt in prompts:
            if prompt.is_live and not prompt.is_kept and prompt.shown_state in OPEN_STATES:
                bridges.setdefault(prompt.pid, Counter())[prompt.session] += 1
            elif prompt.shown_state in _LEFT and prompt.told_ms is None:
                left[prompt.shown_state] += 1
    shown = [{"pid": pid, "sessions": dict(held)} for pid, held in sorted(bridges.items())]
    return {
        "stateDir": str(folder),
        "journalBytes": size_bytes,
        "bridges": shown,
        "left": dict(left),
    }
