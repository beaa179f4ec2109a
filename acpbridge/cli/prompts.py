"""`acpbridge prompts`: what became of every accepted prompt, and how to get its text back."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from acpbridge.cli.journal import STATE_DIR, cell, folder_of, plain
from acpbridge.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from acpbridge.store.journal import Archive, Full, Kept

STATES = (
    "undelivered",
    "accepted",
    "sending",
    "written",
    "started",
    "settled",
    "answered",
    "cancelled",
    "refused",
    "unknown",
)
_BELOW = click.option("--state-dir", metavar="DIR", help="As before the subcommand.")
_NUMBER = click.IntRange(1, 2**63 - 1)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


@click.group(invoke_without_command=True)
@STATE_DIR
@click.option("--state", type=click.Choice(STATES), help="Only prompts in this state.")
@click.option("--session", metavar="ID", help="Only those of this session.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@click.pass_context
def prompts(
    ctx: click.Context,
    state_dir: str | None,
    state: str | None,
    session: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """List what became of every prompt that a bridge has accepted, the newest first.

    Example: acpbridge prompts --state undelivered

    Works while bridges run. `show`, `text` and `forget` take a prompt's number from the list. What
    no running bridge has any more is shown as the next one will find it.
    """
    ctx.obj = state_dir
    if ctx.invoked_subcommand is not None:
        return
    with _archive(state_dir) as archive:
        found = archive.list_prompts(state=state or "", session=session or "", limit=limit)
    if as_json:
        for prompt in found:
            _say_json(_as_json(prompt))
        return
    if not found:
        click.echo("no prompts")
        return
    now_ms = _now_ms()
    rows: list[tuple[str, ...]] = [("", "STATE", "AGE", "HOW", "SESSION", "PROMPT")]
    rows += [_row(prompt, now_ms) for prompt in found]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[5]]).rstrip())


@prompts.command()
@click.argument("number", type=_NUMBER)
@_BELOW
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_obj
def show(above: str | None, number: int, state_dir: str | None, *, as_json: bool) -> None:
    """Show one prompt with its history, its text and its answer.

    Example: acpbridge prompts show 12
    """
    with _archive(state_dir or above) as archive:
        found = archive.prompt(number)
        text = archive.text(number)
    if found is None:
        raise _absent(number)
    if as_json:
        _say_json(_as_full_json(found, text or ""))
        return
    prompt = found.prompt
    click.echo(f"prompt {prompt.id}, {prompt.shown_state}, session {cell(prompt.session)}")
    click.echo(f"process {prompt.pid}, {'running' if prompt.is_live else 'ended'}")
    for step in found.history:
        reason = cell(step.reason)
        more = [step.completion, reason, f"turn {step.trace}" if step.trace else ""]
        click.echo(
            f"  {_stamp(step.at_ms)}  {step.state:<9}  {', '.join(filter(None, more))}".rstrip()
        )
    if found.answer:
        click.echo(f"answer: {plain(found.answer.decode('utf-8', 'replace'))}")
    click.echo(f"\n{plain(text or '')}")


@prompts.command()
@click.argument("number", type=_NUMBER)
@_BELOW
@click.pass_obj
def text(above: str | None, number: int, state_dir: str | None) -> None:
    """Write the text of a prompt to stdout, as it was sent, to pipe it elsewhere.

    Example: acpbridge prompts text 12 | wl-copy
    """
    with _archive(state_dir or above) as archive:
        found = archive.text(number)
    if found is None:
        raise _absent(number)
    sys.stdout.buffer.write(found.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


@prompts.command()
@click.argument("number", type=_NUMBER)
@_BELOW
@click.pass_obj
def forget(above: str | None, number: int, state_dir: str | None) -> None:
    """Delete a prompt and its text from the journal.

    Example: acpbridge prompts forget 12

    One that a running bridge still has is not deleted: cancel it in its client first.
    """
    with _archive(state_dir or above) as archive:
        done = archive.forget(number)
    if done == "absent":
        raise _absent(number)
    if done == "open":
        hint = f"a running bridge still has prompt {number}; cancel it in its client first"
        raise UsageFault("prompt_open", hint)
    click.echo(f"forgotten: prompt {number}")


@contextmanager
def _archive(state_dir: str | None) -> Iterator[Archive]:
    """The journal of the directory; one without a journal is a mistake that is told."""
    from acpbridge.store.journal import Archive  # noqa: PLC0415 - sqlite3 is slow to import

    folder = folder_of(state_dir)
    archive = Archive.open(folder)
    if archive is None:
        hint = f"no bridge has kept a journal in {folder}; name its place with --state-dir"
        raise UsageFault("no_journal", hint)
    try:
        yield archive
    finally:
        archive.close()


def _absent(number: int) -> UsageFault:
    hint = f"there is no prompt {number}; `acpbridge prompts` lists those that there are"
    return UsageFault("no_such_prompt", hint)


def _row(prompt: Kept, now_ms: int) -> tuple[str, ...]:
    return (
        str(prompt.id),
        prompt.shown_state,
        _age(now_ms - prompt.accepted_ms),
        prompt.completion,
        cell(prompt.session),
        cell(prompt.first_words),
    )


def _age(age_ms: int) -> str:
    """An age for people: 12s, 5m, 3h, 2d; a clock that went back says 0s."""
    age_s = max(age_ms, 0) // 1000
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if age_s >= unit_s:
            return f"{age_s // unit_s}{name}"
    return f"{age_s}s"


def _stamp(at_ms: int) -> str:
    whole = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms // 1000))
    return f"{whole}.{at_ms % 1000:03}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _as_json(prompt: Kept) -> dict[str, Any]:
    return {
        "id": prompt.id,
        "state": prompt.shown_state,
        "session": prompt.session,
        "acceptedMs": prompt.accepted_ms,
        "changedMs": prompt.changed_ms,
        "completion": prompt.completion,
        "reason": prompt.reason,
        "promptKey": prompt.key,
        "traceId": prompt.trace,
        "pid": prompt.pid,
        "isLive": prompt.is_live,
        "firstWords": prompt.first_words,
    }


def _as_full_json(full: Full, text: str) -> dict[str, Any]:
    steps = [
        {
            "state": step.state,
            "atMs": step.at_ms,
            "reason": step.reason,
            "completion": step.completion,
            "turn": step.turn,
            "traceId": step.trace,
        }
        for step in full.history
    ]
    answer = full.answer.decode("utf-8", "replace")
    return {**_as_json(full.prompt), "history": steps, "text": text, "answer": answer}


def _say_json(value: dict[str, Any]) -> None:
    import json  # noqa: PLC0415 - lists for people do not need it

    click.echo(json.dumps(value))
