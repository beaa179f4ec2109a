"""The player: ids and sessions, what is the same line, and what is said of what is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from acpbridge.store.playback import MISMATCH_KIND, Taken
from acpbridge.store.tape_reader import read_tape
from tests.store.player import ALL, Client, words
from tests.store.taped import (
    Json,
    Row,
    answer,
    cancel,
    chunk,
    done,
    prompt,
    recording,
    request,
    rpc,
)

if TYPE_CHECKING:
    from pathlib import Path

NEW, MADE = request(1, "session/new", cwd="/w"), answer(1, sessionId="s")


# --- ids --------------------------------------------------------------------------------------
@pytest.mark.parametrize("live_id", [7, "x", 1.5, None])
def test_a_response_has_the_id_of_the_live_request(live_id: object, tmp_path: Path) -> None:
    rows: list[Row] = [(0.0, "client", prompt(1, "a")), (0.1, "agent", done(1))]
    client = Client(recording(tmp_path, rows))

    assert [rpc(done(live_id))] == client.send(prompt(live_id, "a"))


def test_an_id_is_spliced_by_its_own_bytes(tmp_path: Path) -> None:
    """1.0 is not 1 for the client that wrote it, and the rest of the line stays as it was."""
    raw = b'{"id" : 1, "result":{"id":1 ,"stopReason":"end_turn"}}'
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b'{"tape":1}\n{"t":0,"from":"client","frame":{"id":1,"method":"x"}}\n'
        b'{"t":0,"from":"agent","frame":' + raw + b"}\n"
    )
    player = Client(read_tape(path)).player
    player.take(b'{"method":"x","id":1.0}', 100.0)

    assert (raw.replace(b": 1,", b": 1.0,"),) == player.speak(100.0, ALL).lines


def test_a_cancelled_request_is_found_under_its_live_id(tmp_path: Path) -> None:
    withdrawn: Json = {"method": "$/cancel_request", "params": {"requestId": 1}}
    rows: list[Row] = [
        (0.0, "client", prompt(1, "a")),
        (0.1, "client", withdrawn),
        (0.2, "agent", done(1, "cancelled")),
    ]
    client = Client(recording(tmp_path, rows))
    client.send(prompt("abc", "a"))
    live = {**withdrawn, "params": {"requestId": "abc"}}

    assert ["abc: cancelled"] == words(client.send(live))
    assert client.player.mismatches == 0


def test_a_session_that_is_loaded_keeps_the_clients_name(tmp_path: Path) -> None:
    """Both ways, and wherever the agent's frames name it."""
    load = request(1, "session/load", sessionId="s", cwd="/w", mcpServers=[])
    proof = {"method": "_x", "params": {"_meta": {"root": "s", "text": "s and more"}}}
    rows: list[Row] = [
        (0.0, "client", load),
        (0.1, "agent", chunk("old")),
        (0.2, "agent", answer(1)),
        (0.3, "client", prompt(2, "a")),
        (0.4, "agent", chunk("x")),
        (0.5, "agent", proof),
        (0.6, "agent", done(2)),
    ]
    client = Client(recording(tmp_path, rows))
    mine = request(1, "session/load", sessionId="mine", cwd="/elsewhere", mcpServers=[])

    assert [rpc(chunk("old", "mine")), rpc(answer(1))] == client.send(mine)
    heard = client.send(prompt(2, "a", "mine"))
    assert rpc(chunk("x", "mine")) == heard[0]
    assert {"root": "mine", "text": "s and more"} == heard[1]["params"]["_meta"]
    assert client.player.mismatches == 0


def test_a_session_of_the_tape_is_not_loaded_in_place_of_another(tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", NEW),
        (0.1, "agent", MADE),
        (0.2, "client", request(2, "session/load", sessionId="other")),
        (0.3, "agent", answer(2)),
    ]
    client = Client(recording(tmp_path, rows))
    client.send(NEW)
    (error,) = client.send(request(2, "session/load", sessionId="s"))

    assert 'sessionId is "s" here and "other" there' in error["error"]["message"]


# --- what is matched --------------------------------------------------------------------------
def test_another_client_may_play_the_part(tmp_path: Path) -> None:
    initialize = request(1, "initialize", protocolVersion=1, clientInfo={"name": "tape"})
    rows: list[Row] = [
        (0.0, "client", initialize),
        (0.1, "agent", answer(1, protocolVersion=1)),
        (0.2, "client", request(2, "session/new", cwd="/workspace", mcpServers=[])),
        (0.3, "agent", answer(2, sessionId="s")),
    ]
    client = Client(recording(tmp_path, rows))
    zed = request("a", "initialize", protocolVersion=2, clientInfo={"name": "Zed"})
    servers = [{"name": "x", "env": [{"name": "TOKEN", "value": "secret"}]}]

    assert ["a"] == [one["id"] for one in client.send(zed)]
    new = request("b", "session/new", cwd="/home", mcpServers=servers)
    assert ["b"] == [one["id"] for one in client.send(new)]


def test_of_equal_prompts_the_exact_one_is_taken(tmp_path: Path) -> None:
    """hermes/meta-and-ids: the same text three times, with other surroundings."""
    texts = ["plain", "tagged"]
    rows: list[Row] = []
    for at, (text, meta) in enumerate(zip(texts, ({}, {"_meta": {"a": 1}}), strict=True)):
        asked = prompt(at, "same")
        rows += [
            (at, "client", {**asked, "params": {**asked["params"], **meta}}),
            (at + 0.1, "agent", chunk(text)),
            (at + 0.2, "agent", done(at)),
        ]
    client = Client(recording(tmp_path, rows), patience_s=0.0)
    asked = prompt(7, "same")

    tagged = {**asked, "params": {**asked["params"], "_meta": {"a": 1}}}

    assert ["tagged", "7: end_turn"] == words(client.send(tagged))
    assert ["plain", "7: end_turn"] == words(client.send(asked))


def test_a_secret_that_was_taken_out_of_the_tape_matches(tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", prompt(1, "use --token <scrubbed> now")),
        (0.1, "agent", done(1)),
    ]
    client = Client(recording(tmp_path, rows))

    assert ["1: end_turn"] == words(client.send(prompt(1, "use --token abc123 now")))


@pytest.mark.parametrize("raw", [b"not json", b"[1]", b"\xff"])
def test_a_line_that_is_no_object_is_matched_by_its_bytes(raw: bytes, tmp_path: Path) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    rows: list[Row] = [
        (0.0, "client", text),
        (0.1, "agent", {"id": None, "error": {"code": -32700, "message": "no"}}),
    ]
    client = Client(recording(tmp_path, rows))

    assert client.take(raw) == Taken()
    assert [-32700] == [one["error"]["code"] for one in client.hear()]
    (answer_,) = client.take(raw).answers
    assert json.loads(answer_)["id"] is None
    assert client.notes == ["a line that is no JSON object, which the tape does not have"]


# --- what is not ------------------------------------------------------------------------------
CLOSEST = (
    'the tape does not have this session/prompt; closest is line 2 (session/prompt "count to '
    'nine"): prompt[0].text is "count to ten" here and "count to nine" there'
)
NEXT = (
    "the tape does not have this session/set_mode: the method differs; the tape has "
    'line 2 (session/prompt "count to nine") next'
)
SMALL: list[Row] = [
    (0.0, "client", prompt(1, "count to nine")),
    (0.1, "agent", done(1)),
    (0.2, "client", prompt(2, "sing")),
    (0.3, "agent", done(2)),
]


@pytest.mark.parametrize(
    ("frame", "code", "number", "message"),
    [
        (
            prompt(9, "count to ten"),
            -32602,
            2,
            CLOSEST,
        ),
        (
            prompt(9, "sing", session="t"),
            -32602,
            4,
            'closest is line 4 (session/prompt "sing"): sessionId is "t" here and "s" there',
        ),
        (
            request(9, "session/set_mode", sessionId="s", modeId="x"),
            -32601,
            2,
            NEXT,
        ),
    ],
)
def test_a_mismatch_names_the_closest_line_and_what_differs(
    frame: Json, code: int, number: int, message: str, tmp_path: Path
) -> None:
    client = Client(recording(tmp_path, SMALL))
    (error,) = client.send(frame)

    assert error["id"] == 9
    assert code == error["error"]["code"]
    assert error["error"]["message"].endswith(message)
    assert error["error"]["data"] == {"acpbridge": {"kind": MISMATCH_KIND, "line": number}}
    assert client.notes == [error["error"]["message"]]


def test_the_replay_goes_on_behind_a_mismatch(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, SMALL))
    client.send(prompt(9, "count to ten"))

    assert ["1: end_turn"] == words(client.send(prompt(1, "count to nine")))
    assert ["2: end_turn"] == words(client.send(prompt(2, "sing")))
    assert client.player.mismatches == 1


def test_what_was_sent_already_is_named_so(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, SMALL))
    client.send(prompt(1, "count to nine"))
    (error,) = client.send(prompt(2, "count to nine"))

    assert '"count to nine"): that one was sent already' in error["error"]["message"]


def test_what_comes_behind_the_end_is_named_so(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, SMALL))
    client.send(prompt(1, "count to nine"), prompt(2, "sing"))
    (error,) = client.send(request(3, "session/list"))

    assert error["error"]["message"] == (
        "the tape does not have this session/list: everything on it was sent"
    )
    assert error["error"]["data"] == {"acpbridge": {"kind": MISMATCH_KIND}}


def test_a_notification_is_told_and_not_answered(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, SMALL))

    assert [] == client.send(cancel())
    assert (1, 1) == (len(client.notes), client.player.mismatches)


@pytest.mark.parametrize(
    ("live", "recorded", "words_"),
    [
        (request(1, "x"), {"method": "x", "params": {}}, "that one is a notification"),
        ({"method": "x", "params": {}}, request(1, "x"), "that one is a request"),
    ],
)
def test_a_request_is_no_notification(
    live: Json, recorded: Json, words_: str, tmp_path: Path
) -> None:
    client = Client(recording(tmp_path, [(0.0, "client", recorded)]))
    client.send(live)

    assert client.notes[0].endswith(words_)


def test_a_prompt_that_the_tape_never_answers_is_told(tmp_path: Path) -> None:
    client = Client(recording(tmp_path, [(0.0, "client", prompt(1, "a"))]))

    assert [] == client.send(prompt(1, "a"))
    assert client.notes == ['the tape has no answer to its line 2 (session/prompt "a")']
