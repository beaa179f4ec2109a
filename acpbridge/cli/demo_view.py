"""How `acpbridge demo` looks and what it concludes. Pure: runs in, lines and a verdict out.

Two columns where the terminal has room for them, else one below the other. Colour only repeats
what the words say. Times are seconds since the first prompt.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Literal

from attrs import define, evolve, field, frozen

from acpbridge.wire import acp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from acpbridge.shell.demo import Moment, Run

Tone = Literal["", "head", "mine", "bad", "good", "dim"]

SIDE_BY_SIDE_MIN = 72
"""Columns of a terminal that has room for both conversations."""
WIDTH_MAX = 100
"""Wider lines are harder to read."""
WIDTH_MIN = 24
SILENCE_MIN_S = 3.0
"""An agent that says nothing for so long after the first answer has no second one."""
TEXT_LINES_MAX = 3
"""Of one saying of an agent so much is shown."""

_TIME_WIDTH = 6
_CODES: dict[Tone, str] = {"head": "1", "mine": "36", "bad": "1;31", "good": "1;32", "dim": "2"}
_TITLES = {"direct": "without acpbridge", "bridged": "with acpbridge"}


@frozen
class Style:
    """What the terminal can do."""

    width: int
    has_colour: bool = False
    has_unicode: bool = True

    def paint(self, text: str, tone: Tone) -> str:
        """The text in its colour, if there are colours."""
        if not self.has_colour or not tone or not text:
            return text
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"

    @property
    def text_width(self) -> int:
        """Columns that are used."""
        return max(WIDTH_MIN, min(self.width, WIDTH_MAX))

    @property
    def is_side_by_side(self) -> bool:
        """Whether both conversations fit beside each other."""
        return self.width >= SIDE_BY_SIDE_MIN


@frozen
class Row:
    """One thing that happened, in words."""

    at_s: float
    who: str
    text: str
    tone: Tone = ""
    lines_max: int = TEXT_LINES_MAX


# --- rows -------------------------------------------------------------------------------------
def rows(run: Run) -> list[Row]:
    """The conversation as rows, adjacent texts of the agent joined."""
    teller = _Teller(run)
    for moment in run.moments:
        teller.tell(moment)
    if run.failure and run.moments:
        teller.rows.append(Row(run.moments[-1].at_s, "", f"({run.failure})", "bad"))
    return teller.rows


@define
class _Teller:
    run: Run
    rows: list[Row] = field(factory=list)
    _said: str = ""
    """What the last row is a saying of: says, thinks, or nothing."""
    _is_late: bool = False
    """The agent works on the second prompt, which was answered before."""

    def tell(self, moment: Moment) -> None:
        said, self._said = self._said, ""
        match moment.what:
            case "sends":
                self.rows.append(Row(moment.at_s, f"prompt {moment.prompt}:", moment.text, "mine"))
                if moment.prompt == 2 and self.run.how == "bridged":
                    self.rows.append(Row(moment.at_s, "", "(acpbridge holds it back)", "dim"))
            case "says" | "thinks":
                self._say(moment, joins=said == moment.what)
            case "calls":
                self.rows.append(Row(moment.at_s, "agent:", f"calls {moment.text}"))
            case "echoes":
                self._is_late = self.run.find("answers", 2) in self.run.moments[: self._at(moment)]
            case "answers":
                self.rows.append(_answer(self.run, moment))

    def _at(self, moment: Moment) -> int:
        return self.run.moments.index(moment)

    def _say(self, moment: Moment, *, joins: bool) -> None:
        self._said = moment.what
        if joins:
            self.rows[-1] = evolve(self.rows[-1], text=self.rows[-1].text + moment.text)
            return
        if moment.what == "thinks":
            self.rows.append(Row(moment.at_s, "agent:", moment.text, "dim"))
        elif self._is_late:
            self._is_late = False
            self.rows.append(Row(moment.at_s, "", "too late, nobody listens:", "bad"))
            self.rows.append(Row(moment.at_s, "agent:", moment.text))
        else:
            self.rows.append(Row(moment.at_s, "agent:", moment.text))


def _answer(run: Run, moment: Moment) -> Row:
    if moment.is_error:
        return Row(moment.at_s, "", f"REFUSES prompt {moment.prompt}: {moment.text}", "bad")
    if moment.prompt == 1:
        tone: Tone = "bad" if moment.text == acp.CANCELLED else ""
        return Row(moment.at_s, "", f"ANSWERS prompt 1: {moment.text}", tone)
    text = f"ANSWERS prompt 2 after {duration(waited_s(run))}: {moment.text}"
    if is_swallowed(run):
        return Row(moment.at_s, "", f"{text}, but nothing has run", "bad")
    if is_honest(run):
        return Row(moment.at_s, "", f"{text}, by its own turn", "good")
    return Row(moment.at_s, "", text)


# --- what it came to --------------------------------------------------------------------------
@frozen
class Verdict:
    """The last sentence, and whether the cure was shown."""

    is_shown: bool
    text: str


def waited_s(run: Run) -> float:
    """From the second prompt to its answer; 0 where there is none."""
    sent, answered = run.find("sends", 2), run.find("answers", 2)
    return answered.at_s - sent.at_s if sent and answered else 0.0


def duration(seconds: float) -> str:
    """A time for people: 0.4 ms, 2.81 s."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def is_swallowed(run: Run) -> bool:
    """Whether the second prompt was answered with a bare end_turn before the first was."""
    first, second = run.find("answers", 1), run.find("answers", 2)
    if second is None or second.is_error or not second.is_bare:
        return False
    return first is None or _order(run, first) > _order(run, second)


def has_met(run: Run) -> bool:
    """Whether the second prompt was sent while the first one's turn ran."""
    sent, answered = run.find("sends", 2), run.find("answers", 1)
    return sent is not None and (answered is None or _order(run, sent) < _order(run, answered))


def is_honest(run: Run) -> bool:
    """Whether both prompts were answered in order, the second after work of its own."""
    first, second = run.find("answers", 1), run.find("answers", 2)
    if first is None or second is None or first.is_error or second.is_error or not has_met(run):
        return False
    between = run.moments[_order(run, first) : _order(run, second)]
    has_worked = any(moment.what in {"says", "thinks", "calls"} for moment in between)
    return has_worked and acp.CANCELLED not in {first.text, second.text}


def _order(run: Run, moment: Moment) -> int:
    return run.moments.index(moment)


def judge(direct: Run, bridged: Run) -> Verdict:
    """What was seen, and where to go next, in one sentence."""
    if direct.find("sends", 2) is None:
        return Verdict(False, f"Nothing could be shown: {_reason(direct)}.")
    if is_honest(direct):
        return Verdict(
            False,
            "This agent is honest by itself: it kept the second prompt until the first was done; "
            "what acpbridge does beyond that is in the README.",
        )
    problem = _problem(direct)
    if problem is None:
        return Verdict(False, f"The problem could not be shown: {_reason(direct)}.")
    if not is_honest(bridged):
        return Verdict(
            False, f"Without acpbridge {problem}; with it, no better: {_reason(bridged)}."
        )
    return Verdict(
        True,
        f"Without acpbridge {problem}; with it, the second prompt was answered after "
        f"{duration(waited_s(bridged))}, by its own turn: put `acpbridge run --` in front of your "
        'agent\'s command (README, "Configure your client").',
    )


def _problem(run: Run) -> str | None:
    """What is wrong with an agent on its own; None if nothing was seen."""
    first, second = run.find("answers", 1), run.find("answers", 2)
    if is_swallowed(run):
        return (
            f"the second prompt was answered after {duration(waited_s(run))}, and nothing had run"
        )
    if second is not None and second.is_error:
        return "the second prompt was refused"
    if first is not None and first.text == acp.CANCELLED:
        return "the second prompt put an end to the first"
    if second is None and first is not None and run.lasted_s - first.at_s >= SILENCE_MIN_S:
        return "the second prompt was never answered"
    return None


def _reason(run: Run) -> str:
    if run.failure:
        return run.failure
    if not has_met(run):
        return "its first turn was over before the second prompt could meet it"
    if run.find("answers", 2) is None:
        return "the second prompt was not answered"
    return "the second prompt was not answered by a turn of its own behind the first"


def paragraph(text: str, style: Style) -> str:
    """A text broken into lines; commands are not broken at their dashes."""
    return textwrap.fill(text, style.text_width, break_on_hyphens=False)


# --- lines ------------------------------------------------------------------------------------
def lines(runs: Sequence[Run], style: Style) -> list[str]:
    """Both conversations as lines of at most the terminal's width; runs that wait are empty."""
    width = style.text_width
    if not style.is_side_by_side:
        return [line for run in runs for line in (*block(run, width, style), "")][:-1]
    bar, cross = ("│", "┼") if style.has_unicode else ("|", "+")
    each = (width - 3) // 2
    left, right = (_column(run, each, style) for run in runs)
    height = max(len(left), len(right))
    empty = (" " * each, " " * each)
    left += [empty] * (height - len(left))
    right += [empty] * (height - len(right))
    told = [
        f"{one[1]} {style.paint(bar, 'dim')} {other[1]}".rstrip()
        for one, other in zip(left, right, strict=True)
    ]
    told[1] = style.paint(f"{_rule(each + 1, style)}{cross}{_rule(each + 1, style)}", "dim")
    return told


def block(run: Run, width: int, style: Style) -> list[str]:
    """One conversation over the whole width."""
    return [painted.rstrip() for _, painted in _column(run, width, style)]


def _column(run: Run, width: int, style: Style) -> list[tuple[str, str]]:
    """(plain, painted) lines, each filled up to the width."""
    told: list[tuple[str, Tone]] = [(f" {_TITLES[run.how]}", "head")]
    told.append((_rule(width, style), "dim"))
    for row in rows(run):
        told += [(line, row.tone) for line in _wrapped(row, width, style)]
    filled = [(text.ljust(width), tone) for text, tone in told]
    return [(text, style.paint(text, tone)) for text, tone in filled]


def _rule(width: int, style: Style) -> str:
    return ("─" if style.has_unicode else "-") * width


def _wrapped(row: Row, width: int, style: Style) -> Iterator[str]:
    """One row as lines: the time, and the words behind it."""
    words = " ".join(f"{row.who} {row.text}".split())
    words = "".join(char if char.isprintable() else " " for char in words)
    if not style.has_unicode:
        words = words.encode("ascii", "replace").decode("ascii")
    wrapped = textwrap.wrap(
        words,
        width - _TIME_WIDTH - 1,
        max_lines=row.lines_max,
        placeholder=" …" if style.has_unicode else " ...",
    )
    for number, line in enumerate(wrapped or [""]):
        time = f"{row.at_s:{_TIME_WIDTH}.2f}" if not number else " " * _TIME_WIDTH
        yield f"{time} {line}"
