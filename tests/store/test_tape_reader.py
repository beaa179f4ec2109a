from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from acpbridge.errors import UsageFault
from acpbridge.store import tape_reader
from acpbridge.store.tape import open_tape
from acpbridge.store.tape_reader import FAULTS_SHOWN_MAX, Regrown, read_tape
from tests.core import tapes as fixtures
from tests.store.taped import HEADER, all_tapes, chunk, name_of, prompt, rpc, write_tape

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", all_tapes(), ids=name_of)
def test_every_tape_reads_as_the_tests_of_the_core_read_it(path: Path) -> None:
    """Two readers, written apart, agree on every frame, the ones that were cut included."""
    mine, theirs = read_tape(path), fixtures.read(path)

    assert path.stem == mine.scenario
    assert len(theirs.lines) == len(mine.entries)
    for entry, line in zip(mine.entries, theirs.lines, strict=True):
        assert (line.t, line.side) == (entry.t_s, entry.side)
        assert line.frame == entry.body == json.loads(entry.raw)
        assert (line.method, line.session) == (entry.method, entry.session)
        assert line.id == entry.id.decode()


def test_a_recorded_tape_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    """What `run --record` writes, with what is no JSON object among it."""
    lines = [
        b'{"jsonrpc":"2.0" , "id":1.0,"method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","id":1.0,"result":{"protocolVersion":1}}',
        b"Traceback: \xff\xfe no UTF-8",
        b'{"id":1,"id":2,"method":"x"}',
        '{"jsonrpc":"2.0","method":"größe","params":{"n":12345678901234567890123}}'.encode(),
        b"[1,2]",
    ]
    tape = open_tape(tmp_path / "t.jsonl", recorded="2026-11-29")
    tape.write((0.1 * at, "agent" if at else "client", line) for at, line in enumerate(lines))
    tape.close()

    entries = read_tape(tape.path).entries

    assert lines == [entry.raw for entry in entries]
    assert [True, True, False, False, False, False] == [one.body is not None for one in entries]
    assert list(range(2, 8)) == [entry.number for entry in entries]


def test_what_an_entry_tells(tmp_path: Path) -> None:
    path = write_tape(
        tmp_path / "t.jsonl",
        [
            (0.0, "client", prompt("x", "hello")),
            (0.1, "agent", chunk("hi")),
            (0.2, "agent", {"id": "x", "result": {"stopReason": "end_turn"}}),
            (0.3, "agent", "plain words"),
            (0.4, "client", {"id": 7, "method": 5, "params": [1]}),
        ],
    )

    asked, told, answered, noise, odd = read_tape(path).entries

    assert (asked.is_request, asked.is_response, asked.id) == (True, False, b'"x"')
    assert (asked.method, asked.session) == ("session/prompt", "s")
    assert (told.is_request, told.is_response, told.id) == (False, False, b"")
    assert (answered.is_request, answered.is_response) == (False, True)
    assert answered.result == {"stopReason": "end_turn"}
    assert (noise.is_request, noise.is_response, noise.id, noise.params) == (False, False, b"", {})
    assert (odd.method, odd.params, odd.session) == ("", {}, "")


def test_a_cut_text_remembers_its_head(tmp_path: Path) -> None:
    """So that the text that was really sent can be told from another one."""
    path = write_tape(tmp_path / "t.jsonl", [(0.0, "client", prompt(1, "abc...<elided 4 chars>"))])

    (entry,) = read_tape(path).entries
    text = entry.params["prompt"][0]["text"]

    assert text == "abcabca"
    assert isinstance(text, Regrown)
    assert text.stands_for("abcWXYZ")
    assert text.stands_for("abc...<elided 4 chars>")
    assert not text.stands_for("abcWXY")
    assert not text.stands_for("xbcWXYZ")


def test_a_text_that_only_mentions_a_cut_stays(tmp_path: Path) -> None:
    texts = ["...<elided 4 chars> and on", "...<elided 4 chars>"]
    rows = [(0.0, "agent", chunk(text)) for text in texts]

    entries = read_tape(write_tape(tmp_path / "t.jsonl", list(rows))).entries

    assert texts == [entry.params["update"]["content"]["text"] for entry in entries]


# --- refused ----------------------------------------------------------------------------------
def refusal(path: Path) -> tuple[str, str]:
    with pytest.raises(UsageFault) as caught:
        read_tape(path)
    assert "\n" not in str(caught.value)
    return caught.value.code, caught.value.hint


@pytest.mark.parametrize(
    "first",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"tape":"1"}',
        '{"tape":true}',
        '{"tape":0}',
        '{"t":0,"from":"client","frame":{}}',
        '{"meta":true,"recorded":false}',
    ],
)
def test_a_file_without_a_header_is_no_tape(first: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(first + "\n")
    code, hint = refusal(tmp_path / "t.jsonl")

    assert code == "no_tape"
    assert 'line 1 must be its header, {"tape":1,…}' in hint


def test_a_newer_tape_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = write_tape(tmp_path / "t.jsonl", [], {**HEADER, "tape": 2})
    code, hint = refusal(path)

    assert code == "tape_too_new"
    assert f"{path} is of format 2, and this acpbridge reads format 1" in hint
    assert hint.endswith("install a newer acpbridge")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ('{"t":1,"from":"agent","fra', "is no JSON, or cut off"),
        ("[]", "is no JSON object"),
        ('{"from":"agent","frame":{}}', 'has no number of seconds as "t"'),
        ('{"t":"1","from":"agent","frame":{}}', 'has no number of seconds as "t"'),
        ('{"t":true,"from":"agent","frame":{}}', 'has no number of seconds as "t"'),
        ('{"t":1e999,"from":"agent","frame":{}}', 'has no number of seconds as "t"'),
        ('{"t":1,"from":"bridge","frame":{}}', 'has neither "client" nor "agent" as "from"'),
        ('{"t":1,"from":"agent"}', 'must have either a "frame" or a "line"'),
        ('{"t":1,"from":"agent","frame":{},"line":""}', 'must have either a "frame" or a "line"'),
        ('{"t":1,"from":"agent","frame":[]}', 'has a "frame" that is no object'),
        ('{"t":1,"from":"agent","line":{}}', 'has a "line" that is no text'),
        (
            '{"t":1,"from":"agent","frame":{"__elided__":"much","head":"{"}}',
            "has a cut frame that does not tell its size and head",
        ),
        (
            '{"t":1,"from":"agent","frame":{"__elided__":"90 bytes","head":"x"}}',
            "has a cut frame whose head does not end in a text",
        ),
    ],
)
def test_a_damaged_line_is_named_by_its_number(row: str, fault: str, tmp_path: Path) -> None:
    """Line 3, since the header is line 1; the good ones around it do not hide it."""
    path = write_tape(tmp_path / "t.jsonl", [(0.0, "agent", chunk("a"))])
    with path.open("a") as file:
        file.write(row + "\n\n" + json.dumps({"t": 2, "from": "agent", "frame": rpc({})}) + "\n")
    code, hint = refusal(path)

    assert code == "tape_damaged"
    assert f"{path} is damaged: line 3 {fault}; put them right or remove them" in hint


@pytest.mark.parametrize("more", [0, 1])
def test_many_damaged_lines_are_counted(more: int, tmp_path: Path) -> None:
    path = write_tape(tmp_path / "t.jsonl", [])
    with path.open("a") as file:
        file.write("x\n" * (FAULTS_SHOWN_MAX + more))
    _, hint = refusal(path)

    assert f"line {FAULTS_SHOWN_MAX + 1} is no JSON" in hint
    assert f"line {FAULTS_SHOWN_MAX + 2} is" not in hint
    assert ("and 1 more" in hint) == bool(more)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    code, hint = refusal(tmp_path / "none.jsonl")

    assert code == "tape_unreadable"
    assert "No such file" in hint
    assert refusal(tmp_path)[0] == "tape_unreadable"


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    """A sparse file: it takes no room on the disk."""
    path = tmp_path / "t.jsonl"
    with path.open("wb") as file:
        os.truncate(file.fileno(), tape_reader.TAPE_BYTES_MAX + 1)

    assert refusal(path)[0] == "tape_too_large"
