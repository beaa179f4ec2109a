"""How the demo looks, from made-up runs; golden, character by character."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

from acpbridge.cli.demo_view import (
    SIDE_BY_SIDE_MIN,
    WIDTH_MAX,
    WIDTH_MIN,
    Style,
    duration,
    judge,
    lines,
    paragraph,
)
from acpbridge.shell.demo import How, Moment, Run, What

PLAIN = Style(80)
RECEIPT = "Queued for the next turn. (1 queued)"


def moment(at_s: float, what: What, text: str = "", **more: int) -> Moment:
    is_bare = bool(more.get("is_bare", 0))
    return Moment(at_s, what, more.get("prompt", 0), text, bool(more.get("is_error")), is_bare)


def run(how: How, *moments: Moment, failure: str = "") -> Run:
    return Run(how, list(moments), failure)


SENT_1 = moment(0.0, "sends", "Count to 9.", prompt=1)
SENT_2 = moment(0.8, "sends", "What is 6 times 7?", prompt=2)
FIRST = (SENT_1, moment(0.3, "says", "1 "), moment(0.55, "says", "2 "), SENT_2)
END_1 = moment(3.61, "answers", "end_turn", prompt=1)
END_2 = moment(3.61, "answers", "end_turn", prompt=2)
SWALLOWED = moment(0.8004, "answers", "end_turn", prompt=2, is_bare=1)
LATE = moment(2.86, "says", "6 times 7 is 42.")

DIRECT = run(
    "direct",
    *FIRST,
    moment(0.8002, "says", RECEIPT),
    SWALLOWED,
    moment(1.05, "says", "3 "),
    moment(2.85, "echoes", "What is 6 times 7?"),
    LATE,
    END_1,
)
BRIDGED = run(
    "bridged",
    *FIRST,
    moment(1.05, "says", "3 "),
    evolve(END_1, at_s=2.56),
    LATE,
    END_2,
)
NONE = run("bridged")

SIDE_BY_SIDE = """\
 without acpbridge                     │  with acpbridge
───────────────────────────────────────┼───────────────────────────────────────
  0.00 prompt 1: Count to 9.           │   0.00 prompt 1: Count to 9.
  0.30 agent: 1 2                      │   0.30 agent: 1 2
  0.80 prompt 2: What is 6 times 7?    │   0.80 prompt 2: What is 6 times 7?
  0.80 agent: Queued for the next      │   0.80 (acpbridge holds it back)
       turn. (1 queued)                │   1.05 agent: 3
  0.80 ANSWERS prompt 2 after 0.4 ms:  │   2.56 ANSWERS prompt 1: end_turn
       end_turn, but nothing has run   │   2.86 agent: 6 times 7 is 42.
  1.05 agent: 3                        │   3.61 ANSWERS prompt 2 after 2.81 s:
  2.86 too late, nobody listens:       │        end_turn, by its own turn
  2.86 agent: 6 times 7 is 42.         │
  3.61 ANSWERS prompt 1: end_turn      │
"""
STACKED = """\
 without acpbridge
──────────────────────────────
  0.00 prompt 1: Count to 9.
  0.30 agent: 1 2
  0.80 prompt 2: What is 6
       times 7?
  0.80 agent: Queued for the
       next turn. (1 queued)
  0.80 ANSWERS prompt 2 after
       0.4 ms: end_turn, but
       nothing has run
  1.05 agent: 3
  2.86 too late, nobody
       listens:
  2.86 agent: 6 times 7 is 42.
  3.61 ANSWERS prompt 1:
       end_turn

 with acpbridge
──────────────────────────────
  0.00 prompt 1: Count to 9.
  0.30 agent: 1 2
  0.80 prompt 2: What is 6
       times 7?
  0.80 (acpbridge holds it
       back)
  1.05 agent: 3
  2.56 ANSWERS prompt 1:
       end_turn
  2.86 agent: 6 times 7 is 42.
  3.61 ANSWERS prompt 2 after
       2.81 s: end_turn, by
       its own turn
"""


def shown(*runs: Run, style: Style = PLAIN) -> str:
    return "".join(f"{line}\n" for line in lines(runs, style))


def test_side_by_side_at_80_columns() -> None:
    assert shown(DIRECT, BRIDGED) == SIDE_BY_SIDE


def test_one_below_the_other_where_it_is_narrow() -> None:
    assert shown(DIRECT, BRIDGED, style=Style(30)) == STACKED


@pytest.mark.parametrize(
    ("width", "is_beside"), [(SIDE_BY_SIDE_MIN - 1, False), (SIDE_BY_SIDE_MIN, True)]
)
def test_the_width_decides(width: int, is_beside: bool) -> None:
    assert is_beside == ("│" in shown(DIRECT, BRIDGED, style=Style(width)))


@pytest.mark.parametrize("width", [1, WIDTH_MIN, 40, 71, 72, 73, 80, 99, 100, 101, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    longest = max(map(len, lines((DIRECT, BRIDGED), Style(width))))

    assert longest <= max(WIDTH_MIN, min(width, WIDTH_MAX))


def test_without_unicode_everything_is_ascii() -> None:
    said = run("direct", SENT_1, moment(0.3, "says", "größer 🙂 " * 99))
    text = shown(said, NONE, style=Style(80, has_unicode=False))

    assert text.isascii()
    assert "gr??er ?" in text
    assert " ...\n" in text or " ... " in text
    assert text.splitlines()[1] == "-" * 39 + "+" + "-" * 39


def test_colour_changes_nothing_but_the_colour() -> None:
    coloured = shown(DIRECT, BRIDGED, style=Style(80, has_colour=True))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)

    assert "\x1b[1;31m  0.80 ANSWERS prompt 2 after 0.4 ms:" in coloured
    assert "\x1b[1;32m  3.61 ANSWERS prompt 2 after 2.81 s:" in coloured
    assert SIDE_BY_SIDE == "".join(f"{line.rstrip()}\n" for line in plain.splitlines())


def test_the_right_side_waits_empty() -> None:
    """While the first conversation goes on."""
    told = lines((run("direct", SENT_1), NONE), PLAIN)

    assert len(told) == 3
    assert told[2] == "  0.00 prompt 1: Count to 9.           │"


def test_a_long_saying_is_cut() -> None:
    told = lines((run("direct", SENT_1, moment(0.3, "says", "word " * 99)), NONE), PLAIN)

    assert len(told) == 2 + 1 + 3
    assert told[-1].endswith("word … │") or "…" in told[-1]


def test_what_the_agent_writes_cannot_move_the_cursor() -> None:
    text = shown(run("direct", SENT_1, moment(0.3, "says", "a\x1b[2Jb\nc\r")), NONE)

    assert "agent: a [2Jb c" in text


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (moment(1, "thinks", "hmm"), "agent: hmm"),
        (moment(1, "calls", "ls"), "agent: calls ls"),
        (moment(1, "answers", "busy", prompt=2, is_error=1), "REFUSES prompt 2: busy"),
        (moment(1, "answers", "cancelled", prompt=1), "ANSWERS prompt 1: cancelled"),
        (moment(1.8, "answers", "max_tokens", prompt=2), "ANSWERS prompt 2 after 1.00 s: max_"),
    ],
)
def test_what_else_can_come(last: Moment, words: str) -> None:
    assert words in shown(run("direct", *FIRST, last), NONE, style=Style(70))


def test_a_failure_is_shown_where_it_happened() -> None:
    text = shown(run("direct", SENT_1, failure="it ended by itself"), NONE)

    assert "  0.00 (it ended by itself)" in text


# --- the verdict ------------------------------------------------------------------------------
HONEST = run("direct", *FIRST, evolve(END_1, at_s=2.0), LATE, END_2)
CURED = (
    "; with it, the second prompt was answered after 2.81 s, by its own turn: put "
    '`acpbridge run --` in front of your agent\'s command (README, "Configure your client").'
)


def test_the_cure_is_shown() -> None:
    verdict = judge(DIRECT, BRIDGED)

    assert verdict.is_shown
    assert verdict.text == (
        "Without acpbridge the second prompt was answered after 0.4 ms, and nothing had run" + CURED
    )


@pytest.mark.parametrize(
    ("direct", "problem"),
    [
        (run("direct", *FIRST, SWALLOWED), "was answered after 0.4 ms, and nothing had run"),
        (
            run("direct", *FIRST, moment(0.9, "answers", "busy", prompt=2, is_error=1), END_1),
            "the second prompt was refused",
        ),
        (
            run("direct", *FIRST, moment(0.9, "answers", "cancelled", prompt=1), LATE, END_2),
            "the second prompt put an end to the first",
        ),
        (
            evolve(run("direct", *FIRST, END_1, failure="late"), lasted_s=7.0),
            "the second prompt was never answered",
        ),
    ],
)
def test_every_problem_has_its_words(direct: Run, problem: str) -> None:
    verdict = judge(direct, BRIDGED)

    assert verdict.is_shown
    assert problem in verdict.text
    assert verdict.text.endswith(CURED)


@pytest.mark.parametrize(
    ("direct", "bridged", "reason"),
    [
        (run("direct", failure="no such file"), NONE, "Nothing could be shown: no such file."),
        (HONEST, BRIDGED, "This agent is honest by itself"),
        (
            run("direct", *FIRST[:3], END_1, SENT_2, LATE, END_2),
            BRIDGED,
            "its first turn was over before the second prompt could meet it",
        ),
        (
            run("direct", *FIRST, failure="it took too long"),
            NONE,
            "The problem could not be shown: it took too long.",
        ),
        (run("direct", *FIRST), NONE, "the second prompt was not answered"),
        (evolve(run("direct", *FIRST, END_1), lasted_s=6.0), NONE, "was not answered"),
        (
            run("direct", *FIRST, LATE, moment(2, "answers", "end_turn", prompt=2), END_1),
            BRIDGED,
            "was not answered by a turn of its own behind the first",
        ),
        (DIRECT, evolve(DIRECT, how="bridged"), "with it, no better: "),
        (DIRECT, run("bridged", *FIRST, failure="it took too long"), "no better: it took too long"),
        (DIRECT, run("bridged", *FIRST, END_1, END_2), "no better: the second prompt was not ans"),
        (
            DIRECT,
            run("bridged", *FIRST, END_1, LATE, evolve(END_2, is_error=True)),
            "with it, no better: ",
        ),
        (
            DIRECT,
            run("bridged", *FIRST, END_1, LATE, evolve(END_2, text="cancelled")),
            "with it, no better: ",
        ),
        (DIRECT, run("bridged", *FIRST, LATE, END_2, END_1), "with it, no better: "),
        (DIRECT, NONE, "with it, no better: "),
    ],
)
def test_what_was_not_shown_has_a_reason(direct: Run, bridged: Run, reason: str) -> None:
    verdict = judge(direct, bridged)

    assert not verdict.is_shown
    assert reason in verdict.text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00042, "0.4 ms"), (0.9994, "999.4 ms"), (1.0, "1.00 s")]
)
def test_a_time_for_people(seconds: float, text: str) -> None:
    assert text == duration(seconds)


def test_a_command_is_not_broken_at_its_dashes() -> None:
    text = paragraph(judge(DIRECT, BRIDGED).text, Style(40))

    assert max(map(len, text.splitlines())) <= 40
    assert "acpbridge run --" in text.replace("\n", " ")
