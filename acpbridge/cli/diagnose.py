"""`acpbridge diagnose`: print what `store.diagnosis` finds in logs and tapes.

The report goes to stdout, as text or as one JSON object, while the files are read; progress and
faults go to stderr.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

import click

from acpbridge.errors import AcpBridgeError, UsageFault

if TYPE_CHECKING:
    from acpbridge.store.diagnosis import Diagnosis, Finding, Source

_PROGRESS_S = 0.1
"""The progress line is written at most this often."""
_NAMES = {"codeg": "Codeg log", "hermes": "Hermes log", "tape": "tape"}


class _Report(Protocol):
    def finding(self, finding: Finding) -> None: ...

    def end(self, diagnosis: Diagnosis, faults: list[str]) -> None: ...


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--stuck",
    "stuck_s",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Age at which a turn without an end counts as stuck when its log ends.",
)
def diagnose(files: tuple[str, ...], as_json: bool, stuck_s: float) -> None:
    """Find swallowed sends in logs of Codeg and Hermes and in tapes; - is stdin.

    Example: acpbridge diagnose ~/.codeg/logs/codeg-server.*.log

    Give the logs of one server oldest first, as * does; gzip is unpacked. What a file is, its
    content says. Exit code 0: nothing was found; 1: something was; 2: a file cannot be read, or
    is none of these.
    """
    from acpbridge.store.diagnosis import Diagnosis, Source  # noqa: PLC0415 - only here

    diagnosis = Diagnosis(stuck_s=stuck_s)
    report: _Report = _JsonReport() if as_json else _TextReport()
    progress = _Progress()
    faults: list[str] = []
    is_clean = True
    for name in files:
        try:
            with Source.open(name) as source:
                for finding in diagnosis.look(source, lambda: progress.show(source)):
                    is_clean = False
                    progress.clear()
                    report.finding(finding)
                progress.clear()
            _ask_for_content(diagnosis)
        except UsageFault as fault:
            progress.clear()
            faults.append(str(fault))
            click.echo(f"acpbridge: {fault}", err=True)
    for finding in diagnosis.end():
        is_clean = False
        report.finding(finding)
    report.end(diagnosis, faults)
    sys.exit(UsageFault.exit_code if faults else 0 if is_clean else AcpBridgeError.exit_code)


def _ask_for_content(diagnosis: Diagnosis) -> None:
    """A file with nothing known in it is more likely the wrong file than a healthy one.

    Raises:
        UsageFault: It is one.
    """
    looked = diagnosis.looked[-1]
    if looked.lines and not looked.kinds:
        hint = f"nothing of Codeg, of Hermes or of a tape in {looked.file}; give another file"
        raise UsageFault("file_unknown", hint)


class _Progress:
    """One line on a terminal's stderr, and nothing anywhere else."""

    def __init__(self) -> None:
        self._is_on = sys.stderr.isatty()
        self._is_shown = False
        self._begin_s = self._next_s = time.monotonic()

    def show(self, source: Source) -> None:
        now_s = time.monotonic()
        if not self._is_on or now_s < self._next_s:
            return
        self._next_s = now_s + _PROGRESS_S
        mib = source.bytes_read / (1 << 20)
        done = ""
        if source.bytes_total:
            done = f"{100 * source.bytes_done // source.bytes_total:3d} % "
        name = _clean(source.name)
        line = f"{done}{mib:,.0f} MiB {source.lines:,} lines  {name}"[:79]
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)
        self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._is_shown = False


class _TextReport:
    """For people: three lines for each finding, then what it comes to."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def finding(self, finding: Finding) -> None:
        self._counts[finding.kind] = self._counts.get(finding.kind, 0) + 1
        kind = click.style(f"{finding.kind:<10}", fg="red", bold=True)
        session = f"session {finding.session}" if finding.session else "session unknown"
        click.echo(f"{kind} {_clean(finding.at)}  {_clean(session)}")
        click.echo(f"    {_clean(finding.says)}")
        click.echo(f"    {_clean(' '.join(str(mark) for mark in finding.marks))}\n")

    def end(self, diagnosis: Diagnosis, faults: list[str]) -> None:
        from acpbridge.store.diagnosis import MEANINGS, span  # noqa: PLC0415 - only here

        for looked in diagnosis.looked:
            what = " and ".join(_NAMES[kind] for kind in looked.kinds) or "unknown"
            damaged = f", {looked.damaged} of them damaged" if looked.damaged else ""
            click.echo(f"{_clean(looked.file)}: {what}, {looked.lines:,} lines{damaged}")
        codeg, hermes = diagnosis.codeg, diagnosis.hermes
        if codeg.turns:
            click.echo(f"Codeg: {codeg.turns:,} turns, the longest {span(codeg.longest_s)}")
        if codeg.coarse:
            click.echo(f"{codeg.coarse:,} turns have no time, or one in whole seconds: not judged")
        if hermes.turns:
            click.echo(f"Hermes: {hermes.turns:,} turns")
        if diagnosis.prompts:
            click.echo(f"tapes: {diagnosis.prompts:,} prompts")
        if diagnosis.running:
            click.echo(f"{diagnosis.running:,} turns still ran when their file ended: not counted")
        if not self._counts:
            click.echo("nothing found" + (" in what could be read" if faults else ""))
            return
        click.echo("")
        for kind, count in sorted(self._counts.items()):
            click.echo(f"{count:>7,} {kind:<10} {MEANINGS[kind]}")


class _JsonReport:
    """For programs: one object, written as it is found, `findings` first."""

    def __init__(self) -> None:
        from json import dumps  # noqa: PLC0415 - `run` starts faster without it

        self._dumps = dumps
        self._count = 0
        click.echo('{"findings":[')

    def finding(self, finding: Finding) -> None:
        self._count += 1
        click.echo(("," if self._count > 1 else "") + self._dumps(finding.as_json()))

    def end(self, diagnosis: Diagnosis, faults: list[str]) -> None:
        files = [
            {"file": one.file, "kinds": one.kinds, "lines": one.lines, "bytes": one.bytes}
            for one in diagnosis.looked
        ]
        rest: dict[str, Any] = {
            "found": self._count,
            "files": files,
            "codeg_turns": diagnosis.codeg.turns,
            "codeg_turns_not_judged": diagnosis.codeg.coarse,
            "hermes_turns": diagnosis.hermes.turns,
            "tape_prompts": diagnosis.prompts,
            "still_running": diagnosis.running,
            "faults": faults,
        }
        click.echo(f"],{self._dumps(rest)[1:]}")


def _clean(text: str) -> str:
    """What a log says, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
