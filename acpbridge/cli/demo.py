"""`acpbridge demo`: the problem and the cure, seen in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from acpbridge.cli.demo_view import Style
    from acpbridge.shell.demo import Run

_HIDE, _SHOW, _CLEAR_DOWN, _CLEAR_LINE = "\x1b[?25l", "\x1b[?25h", "\x1b[J", "\x1b[K"


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--no-color", is_flag=True, help="Use no colour; so does NO_COLOR, or no terminal.")
@click.argument("agent", nargs=-1, type=click.UNPROCESSED, metavar="[-- AGENT...]")
def demo(agent: tuple[str, ...], no_color: bool) -> NoReturn:
    """Show what goes wrong without the bridge, and what goes right with it, in 20 seconds.

    Example: acpbridge demo

    Two prompts to one agent, the second while the first one runs: first to the agent itself, then
    through `acpbridge run`. Without AGENT it is a scripted Hermes, which needs no model and no
    key; with one, it is asked two harmless questions.
    """
    from acpbridge.cli.demo_view import judge, paragraph  # noqa: PLC0415 - only this needs it
    from acpbridge.shell.demo import Run, run_demo  # noqa: PLC0415 - trio costs 70 ms

    style = _style(no_color=no_color)
    who = " ".join(agent) if agent else "a scripted Hermes (no model, no key, fixed answers)"
    intro = (
        f"Two prompts to {who}, the second while the first is being worked on. Times in seconds."
    )
    click.echo(paragraph(intro, style) + "\n")
    screen = Screen(style, [Run("direct"), Run("bridged")])
    try:
        runs = run_demo(agent or None, screen.show)
        screen.finish(runs)
    finally:
        screen.leave()
    verdict = judge(*runs)
    click.echo(style.paint(paragraph(verdict.text, style), "good" if verdict.is_shown else "bad"))
    sys.exit(0 if verdict.is_shown else 1)


def _style(*, no_color: bool) -> Style:
    from acpbridge.cli.demo_view import Style  # noqa: PLC0415

    is_plain = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    try:
        "│─…".encode(sys.stdout.encoding or "ascii")
        has_unicode = True
    except UnicodeEncodeError:
        has_unicode = False
    width = shutil.get_terminal_size().columns
    return Style(width, sys.stdout.isatty() and not is_plain, has_unicode)


class Screen:
    """Draws the conversations while they go on, where the terminal allows it.

    Args:
        style: What the terminal can do.
        runs: Both runs, empty ones for those that have not begun.
    """

    def __init__(self, style: Style, runs: list[Run]) -> None:
        self._style = style
        self._runs = {run.how: run for run in runs}
        self._drawn = 0
        """Lines above the cursor that are ours to draw over."""
        self._is_live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, run: Run) -> None:
        """Draw anew after something happened in this run."""
        self._runs[run.how] = run
        if self._is_live:
            self._draw(is_last=False)

    def finish(self, runs: tuple[Run, Run]) -> None:
        """Draw for the last time."""
        self._runs = {run.how: run for run in runs}
        self._draw(is_last=True)

    def leave(self) -> None:
        """Put the cursor back; also when the demo is broken off."""
        if self._drawn:
            click.echo(_SHOW, nl=False)

    def _draw(self, *, is_last: bool) -> None:
        from acpbridge.cli.demo_view import lines  # noqa: PLC0415

        told = lines(list(self._runs.values()), self._style)
        if not is_last and len(told) >= shutil.get_terminal_size().lines:
            # What has scrolled away cannot be drawn over: the end shows all of it.
            return
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        if not is_last:
            text = "".join(f"{line}{_CLEAR_LINE}\n" for line in told)
            click.echo(_HIDE + up + text, nl=False)
            self._drawn = len(told)
            return
        click.echo(up + (_CLEAR_DOWN if self._drawn else "") + "\n".join(told) + "\n")
