"""The player: what is said when, to its own client and to others."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.tape_reader import read_tape
from tests.store.player import ALL, Client, words
from tests.store.taped import (
    Json,
    Row,
    all_tapes,
    answer,
    cancel,
    chunk,
    done,
    line,
    name_of,
    prompt,
    recording,
    request,
)

if TYPE_CHECKING:
    from pathlib import Path

ASKS = request(0, "session/request_permission", sessionId="s", options=[])
CHOSEN = answer(0, outcome={"outcome": "selected", "optionId": "allow"})
TOLD = (
    "another answer than line 4 (the answer to the agent's request 0): "
    'result.outcome.optionId is "deny" here and "allow" there; the tape goes on with its own'
)
MIDTURN: list[Row] = [
    (0.0, "client", prompt(1, "a")),
    (1.0, "agent", chunk("A0")),
    (1.5, "client", prompt(2, "b")),
    (1.51, "agent", chunk("Queued")),
    (1.51, "agent", done(2)),
    (2.0, "agent", chunk("A1")),
    (3.0, "agent", chunk("b", kind="user_message_chunk")),
    (4.0, "agent", chunk("B0")),
    (5.0, "agent", done(1)),
]


# --- the tape's own client --------------------------------------------------------------------
@pytest.mark.parametrize("path", all_tapes(), ids=name_of)
def test_every_tape_says_to_its_own_client_what_it_said(path: Path) -> None:
    """Byte for byte and in order, with every wait left out."""
    tape = read_tape(path)
    client = Client(tape)
    heard: list[bytes] = []
    expected: list[bytes] = []
    for entry in tape.entries:
        if entry.side == "agent":
            expected.append(entry.raw)
            continue
        heard += client.player.speak(client.now_s, ALL).lines
        assert expected == heard, f"before line {entry.number}"
        assert client.take(entry.raw).answers == ()
    heard += client.player.speak(client.now_s, ALL).lines

    assert expected == heard
    assert client.player.mismatches == 0
    assert [note for note in client.notes if "has no answer" not in note] == []


@pytest.mark.parametrize("path", all_tapes(), ids=name_of)
def test_every_tape_answers_a_client_that_waits_for_each_answer(path: Path) -> None:
    """As a bridge does. Only what the client left out itself may be missing: its cancels."""
    tape = read_tape(path)
    client = Client(tape, speed=1000.0)
    answered = {entry.id for entry in tape.entries if entry.side == "agent" and entry.is_response}
    for entry in tape.entries:
        if entry.side == "client":
            assert client.take(entry.raw).answers == ()
            frames = [frame for _, frame in client.wait()]
            if entry.is_request and entry.id in answered:
                ids = [frame["id"] for frame in frames if "method" not in frame]
                waits = any("waits for the client's" in note for note in client.notes)
                assert json.loads(entry.id) in ids or waits, f"line {entry.number}"
    client.wait()
    agent = [entry for entry in tape.entries if entry.side == "agent"]

    assert client.player.spoken == len(agent)
    assert client.player.mismatches == 0


# --- time -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("speed", "expected"), [(1.0, [0.5, 2.0, 2.5]), (2.0, [0.25, 1.0, 1.25]), (math.inf, [0.0] * 3)]
)
def test_an_answer_comes_with_its_recorded_delay(
    speed: float, expected: list[float], tmp_path: Path
) -> None:
    """Behind the line that caused it, whenever that came."""
    rows: list[Row] = [
        (7.0, "client", prompt(1, "a")),
        (7.5, "agent", chunk("x")),
        (9.0, "agent", chunk("y")),
        (9.5, "agent", done(1)),
    ]
    client = Client(recording(tmp_path, rows), speed=speed)
    assert [] == client.wait(5.0)
    client.take(line(prompt(1, "a")))

    assert expected == [at - 5.0 for at, _ in client.wait()]


def test_what_the_agent_says_unasked_comes_at_its_time(tmp_path: Path) -> None:
    rows: list[Row] = [(0.5, "agent", "Starting …"), (1.0, "client", prompt(1, "a"))]
    client = Client(recording(tmp_path, rows), speed=1.0)
    said = client.player.speak(100.4, ALL)
    assert ((), 100.5) == (said.lines, said.again_s)

    assert ("Starting …".encode(),) == client.player.speak(100.5, ALL).lines


def test_sessions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """A delay in one holds nothing up in another that stands later on the tape."""
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a")),
        (0.0, "client", prompt(2, "b", session="t")),
        (9.0, "agent", chunk("A")),
        (9.1, "agent", chunk("B", session="t")),
    ]
    client = Client(recording(tmp_path, rows), speed=1.0)
    client.take(line(prompt(2, "b", session="t")))
    client.wait(4.0)
    client.take(line(prompt(1, "a")))

    assert [(9.1, "B"), (13.0, "A")] == [(at, words([one])[0]) for at, one in client.wait()]


def test_no_more_lines_than_asked_for_are_said_at_once(tmp_path: Path) -> None:
    rows: list[Row] = [(0.0, "agent", f"{at}") for at in range(5)]
    player = Client(recording(tmp_path, rows)).player
    first = player.speak(100.0, 3)

    assert (3, 2) == (len(first.lines), len(player.speak(first.again_s, 3).lines))


# --- a client that goes its own way -----------------------------------------------------------
def test_a_second_prompt_at_its_place_gets_what_it_got(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, MIDTURN))

    assert ["A0"] == words(client.send(prompt(1, "a")))
    expected = ["Queued", "2: end_turn", "A1", "b", "B0", "1: end_turn"]
    assert expected == words(client.send(prompt(2, "b")))


def test_a_second_prompt_that_is_held_back_stops_nothing(tmp_path: Path) -> None:
    """A bridge sends it when the first is answered: then comes what belongs to it."""
    client = Client(recording(tmp_path, MIDTURN), speed=1.0)
    client.take(line(prompt(1, "a")))

    assert [(1.0, "A0"), (3.0, "A1"), (5.0, "1: end_turn")] == [
        (at, words([frame])[0]) for at, frame in client.wait()
    ]
    assert client.notes == ['goes on without the client\'s line 4 (session/prompt "b")']
    client.take(line(prompt(2, "b")))
    assert ["Queued", "2: end_turn", "b", "B0"] == words([one for _, one in client.wait()])
    assert client.player.spoken == 7


@pytest.mark.parametrize(("waited_s", "count"), [(0.99, 0), (1.0, 2)])
def test_patience_ends_at_its_number(waited_s: float, count: int, tmp_path: Path) -> None:
    """A1 and the end of the first turn need nothing of the second prompt."""
    client = Client(recording(tmp_path, MIDTURN), patience_s=1.0)
    client.send(prompt(1, "a"))
    client.now_s += waited_s

    assert count == len(client.hear())


def test_what_the_client_left_out_is_not_answered(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, MIDTURN))
    client.send(prompt(1, "a"))
    client.wait()

    assert client.player.summary() == (
        "said 3 of 7 lines; of the client's lines 1 were on the tape, 0 were not, "
        "and 1 of the tape's did not come"
    )


def test_lines_in_another_order_are_found(tmp_path: Path) -> None:
    """Two sessions, whose client begins with the second one."""
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a")),
        (0.1, "agent", done(1)),
        (0.2, "client", prompt(2, "b", session="t")),
        (0.3, "agent", done(2)),
    ]
    client = Client(recording(tmp_path, rows))
    client.send(prompt(7, "b", session="t"))

    assert ["7: end_turn"] == words([frame for _, frame in client.wait()])
    assert ["8: end_turn"] == words(client.send(prompt(8, "a")))


def test_a_cancel_that_ends_a_turn_is_waited_for(tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a")),
        (0.1, "client", cancel()),
        (0.2, "agent", done(1, "cancelled")),
    ]
    client = Client(recording(tmp_path, rows))
    assert [] == client.send(prompt(1, "a"))

    assert [] == client.wait()
    assert client.notes == ["waits for the client's line 3 (session/cancel)"]
    assert ["1: cancelled"] == words(client.send(cancel()))


def test_a_permission_is_waited_for_without_an_end(tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a")),
        (0.1, "agent", ASKS),
        (0.2, "client", CHOSEN),
        (0.3, "agent", chunk("x")),
        (0.4, "agent", done(1)),
    ]
    client = Client(recording(tmp_path, rows))
    assert ["asks"] == words(client.send(prompt(1, "a")))
    client.now_s += 1_000
    assert [] == client.hear()
    assert client.notes == ["waits for the client's line 4 (the answer to the agent's request 0)"]

    assert ["x", "1: end_turn"] == words(client.send(CHOSEN))


def test_another_answer_to_the_agent_is_told_and_taken(tmp_path: Path) -> None:
    """An answer cannot be answered, and the tape has only one way to go on."""
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a")),
        (0.1, "agent", ASKS),
        (0.2, "client", CHOSEN),
        (0.4, "agent", done(1)),
    ]
    client = Client(recording(tmp_path, rows))
    client.send(prompt(1, "a"))
    denied = answer(0, outcome={"outcome": "selected", "optionId": "deny"})

    assert ["1: end_turn"] == words(client.send(denied))
    assert client.notes == [TOLD]


@pytest.mark.parametrize(
    ("frame", "note"),
    [
        (answer(0), "the tape has no answer to the agent's line 3 (session/request_permission)"),
        (answer(5), "an answer to no open request of the agent, id 5"),
        ({"result": {}}, "an answer to no open request of the agent, id absent"),
    ],
)
def test_an_answer_that_the_tape_does_not_have(frame: Json, note: str, tmp_path: Path) -> None:
    rows: list[Row] = [(0.0, "client", prompt(1, "a")), (0.1, "agent", ASKS)]
    client = Client(recording(tmp_path, rows))
    client.send(prompt(1, "a"))
    client.notes.clear()

    assert [] == client.send(frame)
    assert ([note], 1) == (client.notes, client.player.mismatches)


def test_at_the_end_of_stdin_nothing_is_waited_for(tmp_path: Path) -> None:
    """What has all it needs is said; what the client would have had to ask for is not."""
    client = Client(recording(tmp_path, MIDTURN), speed=1.0)
    client.send(prompt(1, "a"))
    client.player.hurry()

    assert ["A0", "A1", "1: end_turn"] == words(client.hear())
    assert client.notes == []
    assert math.isinf(client.player.speak(client.now_s, ALL).again_s)
