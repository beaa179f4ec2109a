"""Swallowed sends in logs of Codeg: the incident, every form of its lines, every limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from acpbridge.store.diagnosis import Diagnosis
from acpbridge.store.diagnosis.bursts import GROUPS_MAX
from acpbridge.store.diagnosis.codeg import OPEN_MAX
from tests.store.diagnosing import INCIDENT, A, B, diagnosed, kinds, look_at, marks, source

WHERE = "INFO codeg_lib::acp::session_state: [ACP]"


def begins(at: str, session: str = A) -> str:
    return f'{at}  {WHERE} status_changed session=Some("{session}") Connected -> Prompting\n'


def ends(at: str, session: str = A, reason: str = "end_turn") -> str:
    words = f'turn_complete session=Some("{session}") stop_reason={reason}'
    return f"{at}  {WHERE} {words} background_outstanding=0\n"


def becomes(at: str, before: str, after: str, session: str = A) -> str:
    return f'{at}  {WHERE} status_changed session=Some("{session}") {before} -> {after}\n'


def day(clock: str) -> str:
    return f"2026-08-28T{clock}Z"


def coloured(line: str) -> str:
    """As tracing-subscriber writes it to a stderr for which NO_COLOR is not set."""
    at, level, target, message = line.split(None, 3)
    dim, off = "\x1b[2m", "\x1b[0m"
    return f"{dim}{at}{off} \x1b[32m {level}{off} {dim}{target[:-1]}{off}{dim}:{off} {message}"


def as_json(line: str) -> str:
    """As it stands in Codeg's daily file."""
    at, level, target, message = line.rstrip("\n").split(None, 3)
    row = {"timestamp": at, "level": level, "fields": {"message": message}, "target": target[:-1]}
    return json.dumps(row, separators=(",", ":")) + "\n"


def collected(line: str) -> str:
    """As journalctl shows it, with a time and a zone of its own in front."""
    return f"2026-08-28T09:00:00+0900 host codeg-server[812]: {line}"


def windows(line: str) -> str:
    return line.replace("\n", "\r\n")


# -- the incident ------------------------------------------------------------------------------
def test_the_incident_is_found_complete() -> None:
    """xintaofei/codeg#590: two empty turns of 1.9 ms and 0.7 ms, in one burst."""
    first, second, burst = look_at(INCIDENT)

    assert ["swallowed", "swallowed", "burst"] == kinds([first, second, burst])
    assert {A} == {first.session, second.session, burst.session}
    assert (1.9, "empty", "2026-08-28T00:05:52.311846Z") == (
        first.facts["duration_ms"],
        first.facts["stop_reason"],
        first.at,
    )
    assert (0.7, "end_turn") == (second.facts["duration_ms"], second.facts["stop_reason"])
    assert 2 == burst.facts["sends"]
    assert [25, 27, 30, 31] == [*marks(first), *marks(second)] == marks(burst)


def test_the_real_turn_of_the_incident_is_not_among_them() -> None:
    """3 min 37 s, from line 15 to line 21, and three short ones of another session."""
    found = look_at(INCIDENT)
    lines = INCIDENT.read_text().splitlines()

    assert "Connected -> Prompting" in lines[14]
    assert "stop_reason=end_turn" in lines[20]
    assert not {15, 21} & {line for finding in found for line in marks(finding)}


def test_the_incident_names_file_and_line() -> None:
    first, *_ = look_at(INCIDENT)

    assert f"{INCIDENT}:25" == str(first.marks[0])
    assert f"{INCIDENT}:25" == first.as_json()["lines"][0]


@pytest.mark.parametrize("form", [coloured, as_json, collected, windows])
def test_every_form_of_the_lines_says_the_same(form: Callable[[str], str]) -> None:
    plain = INCIDENT.read_text().splitlines(keepends=True)
    expected = look_at(INCIDENT)

    found = diagnosed("".join(form(line) for line in plain))

    assert [(one.kind, one.at, one.session, one.facts) for one in expected] == [
        (one.kind, one.at, one.session, one.facts) for one in found
    ]
    assert [marks(one) for one in expected] == [marks(one) for one in found]


def test_a_line_without_its_tag_and_with_a_cut_id_is_read() -> None:
    """People paste what they think matters, as the report itself did."""
    session = "session=...e7130a64..."
    text = (
        f"2026-08-28T00:05:52.311846Z  status_changed {session} Connected -> Prompting\n"
        f"2026-08-28T00:05:52.313746Z  turn_complete {session} stop_reason=end_turn\n"
    )

    (found,) = diagnosed(text)

    assert ("swallowed", "...e7130a64...", 1.9) == (
        found.kind,
        found.session,
        found.facts["duration_ms"],
    )


# -- pairs -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("00:00:00.019999", ["swallowed"]),
        ("00:00:00.020000", []),
        ("00:00:00.000000", ["swallowed"]),
        ("00:03:37.000000", []),
    ],
)
def test_a_pair_is_swallowed_below_20_ms(end: str, expected: list[str]) -> None:
    text = begins(day("00:00:00.000000")) + ends(day(end))

    assert expected == kinds(diagnosed(text))


@pytest.mark.parametrize("reason", ["empty", "end_turn", "cancelled", "refusal", "max_tokens"])
def test_a_pair_is_swallowed_whatever_its_reason(reason: str) -> None:
    """Nobody presses Stop within 20 ms, and a refusal is no run either."""
    (found,) = diagnosed(begins(day("00:00:00.000000")) + ends(day("00:00:00.000700"), A, reason))

    assert ("swallowed", reason) == (found.kind, found.facts["stop_reason"])


def test_sessions_do_not_meet() -> None:
    """The end of one session is not the end of another, however close."""
    text = begins(day("00:00:00.000000"), A) + begins(day("00:00:00.001000"), B)
    text += ends(day("00:01:00.000000"), A) + ends(day("00:01:00.000500"), B)

    assert [] == diagnosed(text)


def test_whole_seconds_prove_nothing() -> None:
    """A turn of 0.9 s and one of 1 ms look alike: said, not claimed."""
    diagnosis = Diagnosis()
    text = begins("2026-08-28T00:00:05Z") + ends("2026-08-28T00:00:05Z")

    assert [] == [*diagnosis.look(source([text.encode()])), *diagnosis.end()]
    assert (1, 1) == (diagnosis.codeg.turns, diagnosis.codeg.coarse)


def test_lines_without_a_time_prove_nothing() -> None:
    diagnosis = Diagnosis()
    text = begins("") + ends("")

    assert [] == [*diagnosis.look(source([text.encode()])), *diagnosis.end()]
    assert (1, 1) == (diagnosis.codeg.turns, diagnosis.codeg.coarse)


@pytest.mark.parametrize("at", ["2026-13-28T00:00:00.1Z", "2026-08-28T25:00:00.1Z"])
def test_a_time_that_does_not_exist_is_none(at: str) -> None:
    assert [] == diagnosed(begins(at) + ends(at))


def test_a_clock_that_was_set_back_proves_nothing() -> None:
    assert [] == diagnosed(begins(day("00:00:01.000000")) + ends(day("00:00:00.999000")))


def test_zones_are_reckoned_with() -> None:
    text = begins("2026-08-28T02:00:00.000000+02:00") + ends("2026-08-28T00:00:00.001500Z")

    (found,) = diagnosed(text)

    assert 1.5 == found.facts["duration_ms"]


def test_the_longest_turn_is_told() -> None:
    diagnosis = Diagnosis()
    list(diagnosis.look(source([INCIDENT.read_bytes()])))

    assert (6, 216.745637) == (diagnosis.codeg.turns, diagnosis.codeg.longest_s)


# -- bursts ------------------------------------------------------------------------------------
def pairs(*seconds: str, session: str = A) -> str:
    return "".join(
        begins(day(f"00:00:{at}.000000"), session) + ends(day(f"00:00:{at}.001000"), session)
        for at in seconds
    )


@pytest.mark.parametrize(
    ("seconds", "sends"),
    [(("00", "08"), [2]), (("00", "09"), []), (("00", "04", "12", "30", "31"), [3, 2])],
)
def test_a_burst_is_several_within_8_s(seconds: tuple[str, ...], sends: list[int]) -> None:
    bursts = [one for one in diagnosed(pairs(*seconds)) if one.kind == "burst"]

    assert sends == [one.facts["sends"] for one in bursts]
    assert all(2 * one.facts["sends"] == len(one.marks) for one in bursts)


def test_two_sessions_make_no_burst() -> None:
    text = pairs("00", session=A) + pairs("01", session=B)

    assert ["swallowed", "swallowed"] == kinds(diagnosed(text))


def test_a_long_burst_names_the_first_lines_only() -> None:
    seconds = [f"{at:02d}" for at in range(60)]

    (burst,) = [one for one in diagnosed(pairs(*seconds)) if one.kind == "burst"]

    assert (60, 100) == (burst.facts["sends"], len(burst.marks))


# -- stuck -------------------------------------------------------------------------------------
def test_a_turn_without_an_end_is_stuck_once_it_is_old() -> None:
    text = begins(day("00:00:00.000000")) + becomes(
        day("00:10:00.000000"), "Connected", "Connected", B
    )

    (found,) = diagnosed(text)

    assert ("stuck", A, [1]) == (found.kind, found.session, marks(found))
    assert "10 min 00 s later" in found.says


def test_a_young_turn_still_runs() -> None:
    """A log that is read while it grows ends in the middle of turns."""
    diagnosis = Diagnosis()
    text = begins(day("00:00:00.000000")) + becomes(day("00:09:59.0"), "Connected", "Connected", B)

    assert [] == [*diagnosis.look(source([text.encode()])), *diagnosis.end()]
    assert 1 == diagnosis.running


def test_the_age_can_be_set() -> None:
    assert ["stuck"] == kinds(diagnosed(begins(day("00:00:00.000000")), stuck_s=0))


def test_a_turn_that_the_next_prompt_overtakes_is_stuck() -> None:
    text = begins(day("00:00:00.000000")) + begins(day("00:00:30.000000"))
    text += ends(day("00:01:00.000000"))

    (found,) = diagnosed(text)

    assert ("stuck", [1, 2]) == (found.kind, marks(found))


def test_a_turn_that_a_restart_of_the_server_cut_off_is_stuck() -> None:
    text = begins(day("00:00:00.000000"))
    text += "2026-08-28T00:00:09.0Z  INFO codeg_server: [SERVER] codeg-server v0.28.1\n"
    text += begins(day("00:00:10.000000")) + ends(day("00:00:20.000000"))

    (found,) = diagnosed(text)

    assert ("stuck", [1, 2]) == (found.kind, marks(found))


@pytest.mark.parametrize(
    ("after", "expected"), [("Error", ["stuck"]), ("Disconnected", []), ("Prompting", [])]
)
def test_a_turn_may_end_with_its_connection(after: str, expected: list[str]) -> None:
    """A closed tab is nobody's fault; a failed connection took the send with it."""
    text = begins(day("00:00:00.000000")) + becomes(day("00:00:02.000000"), "Prompting", after)

    assert expected == kinds(diagnosed(text))


def test_a_turn_may_end_in_the_next_file() -> None:
    """Codeg begins a file every day."""
    late = begins("2026-08-27T23:59:50.000000Z")
    early = ends(day("00:00:10.000000")) + begins(day("03:00:00.0")) + ends(day("03:00:09.0"))

    assert [] == diagnosed(late, early)


def test_a_log_that_begins_in_a_turn_is_no_finding() -> None:
    assert [] == diagnosed(ends(day("00:00:10.000000")) + becomes(day("00:00:11.0"), "x", "y"))


def test_a_dropped_send_is_found() -> None:
    text = "2026-08-28T00:00:09.5Z  WARN codeg_lib::acp: [ACP] in-turn Prompt DROPPED: bug\n"

    (found,) = diagnosed(text)

    assert ("dropped", "2026-08-28T00:00:09.5Z", [1]) == (found.kind, found.at, marks(found))


# -- rotation ----------------------------------------------------------------------------------
def test_an_id_that_changes_in_between_is_found() -> None:
    text = begins(day("00:00:00.000000"), A) + ends(day("00:00:30.000000"), B)

    (found,) = diagnosed(text)

    assert ("rotated", A, B, [1, 2]) == (
        found.kind,
        found.session,
        found.facts["became"],
        marks(found),
    )
    assert 30_000 == found.facts["duration_ms"]


def test_two_ends_without_a_beginning_prove_no_rotation() -> None:
    text = begins(day("00:00:00.000000"), A)
    text += ends(day("00:00:30.000000"), B) + ends(day("00:11:00.000000"), "c")

    assert ["stuck"] == kinds(diagnosed(text))


def test_an_end_before_it_is_no_rotation() -> None:
    text = ends(day("00:00:00.000000"), B) + begins(day("00:00:01.000000"), A)

    assert ["stuck"] == kinds(diagnosed(text, stuck_s=0))


# -- limits ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("more", "first"), [(0, "0"), (1, "1")])
def test_the_oldest_of_too_many_open_turns_is_forgotten(more: int, first: str) -> None:
    at = day("00:00:00.000000")
    text = "".join(begins(at, str(number)) for number in range(OPEN_MAX + more))

    found = diagnosed(text, stuck_s=0)

    assert (OPEN_MAX, first) == (len(found), found[0].session)


@pytest.mark.parametrize(
    "line",
    [
        "2026-08-28T00:00:00.0Z status_changed session=x\n",
        "2026-08-28T00:00:00.0Z turn_complete session=x\n",
        "status_changed session=",
    ],
)
def test_a_line_that_only_begins_like_one_is_skipped(line: str) -> None:
    assert [] == diagnosed(line)


def test_a_session_without_an_id_is_empty() -> None:
    text = re.sub(r'Some\("[^"]*"\)', "None", pairs("00"))

    (found,) = diagnosed(text)

    assert ("swallowed", "") == (found.kind, found.session)


def test_bursts_of_too_many_sessions_are_closed_when_they_are_over() -> None:
    """The first session's two sends are a burst, however many others come behind it."""
    text = pairs("00", "01")
    for number in range(GROUPS_MAX):
        text += pairs("30", session=str(number))

    bursts = [one for one in diagnosed(text) if one.kind == "burst"]

    assert [A] == [one.session for one in bursts]
