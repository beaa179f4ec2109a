from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from acpbridge.errors import UsageFault
from acpbridge.store import tape as tape_module
from acpbridge.store.tape import HELD_LINES_MAX, Tape, open_tape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
INITIALIZED = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,'
    b'"agentInfo":{"name":"hermes-agent","version":"0.19.0"}}}'
)


@pytest.fixture
def tape(tmp_path: Path) -> Iterator[Tape]:
    tape = open_tape(tmp_path / "simple-turn.jsonl", recorded="2026-11-29")
    yield tape
    tape.close()


def text_of(tape: Tape) -> list[bytes]:
    return tape.path.read_bytes().splitlines()


def lines_of(tape: Tape) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(tape)]


def body_of(tape: Tape, line: bytes) -> dict[str, Any]:
    """What the tape keeps of one line, without its time and side."""
    tape.write([(0.0, "agent", line)])
    tape.close()
    (_, entry) = lines_of(tape)
    return {key: value for key, value in entry.items() if key not in {"t", "from"}}


def test_the_header_is_the_first_line_and_names_the_agent(tape: Tape) -> None:
    """It is written when initialize is answered, and the lines before it right behind it."""
    tape.write([(0.001, "client", INITIALIZE)])
    assert [] == text_of(tape)
    tape.write([(0.49941, "agent", INITIALIZED)])

    header = (
        b'{"tape":1,"agent":"hermes-agent","version":"0.19.0","scenario":"simple-turn",'
        b'"recorded":"2026-11-29"}'
    )
    assert [
        header,
        b'{"t":0.0010,"from":"client","frame":' + INITIALIZE + b"}",
        b'{"t":0.4994,"from":"agent","frame":' + INITIALIZED + b"}",
    ] == text_of(tape)


@pytest.mark.parametrize(
    ("result", "agent", "version"),
    [
        (b'{"protocolVersion":1}', "unknown", "unknown"),
        (b'{"protocolVersion":1,"agentInfo":null}', "unknown", "unknown"),
        (b'{"protocolVersion":1,"agentInfo":{"name":"x","version":7}}', "x", "unknown"),
    ],
)
def test_an_agent_that_does_not_say_its_name(
    result: bytes, agent: str, version: str, tape: Tape
) -> None:
    tape.write([(0.0, "agent", b'{"id":1,"result":' + result + b"}")])
    header = lines_of(tape)[0]

    assert (agent, version) == (header["agent"], header["version"])


def test_the_header_waits_for_a_bounded_number_of_lines(tape: Tape) -> None:
    """63 lines wait, the 64th does not."""
    tape.write([(0.0, "client", b'{"id":%d}' % number) for number in range(HELD_LINES_MAX - 1)])
    assert [] == text_of(tape)
    tape.write([(0.0, "client", b'{"id":99}')])

    assert len(text_of(tape)) == HELD_LINES_MAX + 1
    assert lines_of(tape)[0]["agent"] == "unknown"


def test_only_one_header_is_written(tape: Tape) -> None:
    """A restarted agent is initialized again."""
    tape.write([(0.0, "agent", INITIALIZED), (1.0, "agent", INITIALIZED)])
    tape.close()

    assert 1 == sum("tape" in line for line in lines_of(tape))


def test_a_tape_of_nothing_has_a_header(tape: Tape) -> None:
    tape.close()

    assert [1] == [line["tape"] for line in lines_of(tape)]


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1}',
        b'{ "id" : 1, "text": "a\\u00e9\\/b" }',
        b'{"n":1915883588174806058,"f":0.1,"e":[],"o":{},"t":true,"z":null}',
        '{"text":"größe 🙂"}'.encode(),
    ],
)
def test_an_object_that_survives_parsing_is_a_frame_with_its_own_bytes(
    line: bytes, tape: Tape
) -> None:
    tape.write([(0.0, "agent", line)])
    tape.close()

    assert text_of(tape)[1] == b'{"t":0.0000,"from":"agent","frame":' + line + b"}"


@pytest.mark.parametrize(
    "line",
    [
        b"[log] hi",
        b"42",
        b"[1]",
        b'{"id":1',
        b'{"id":5,"id":6}',
        b'{"n":0.1000}',
        b'{"n":1e400}',
        b'{"n":123456789012345678901234567890}',
        b'{"text":"\\ud83d"}',
        b"\xff\xfe broken \x00",
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
    ],
)
def test_anything_else_is_a_line_with_every_byte(line: bytes, tape: Tape) -> None:
    """Numbers, duplicate keys and broken text come back exactly."""
    kept = body_of(tape, line)

    assert line == kept["line"].encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("depth", [100, 300, 600, 900, 1000, 5000])
@pytest.mark.parametrize("value", [b"1", b"0.10"])
def test_no_depth_is_too_deep(depth: int, value: bytes, tape: Tape) -> None:
    """The bridge passes 1,000 levels on; the tape must not stumble over them."""
    line = b'{"a":' * depth + value + b"}" * depth
    tape.write([(0.0, "agent", line)])
    tape.close()
    kept = text_of(tape)[1]

    assert kept.endswith(
        (b'"frame":' + line + b"}", b'"line":' + json.dumps(line.decode()).encode() + b"}")
    )


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (
            b'{"params":{"env":{"A":"hunter2"}}}',
            {"frame": {"params": {"env": {"A": "<scrubbed>"}}}},
        ),
        (
            b'{"token":"hunter2","token":"hunter2"}',
            {"frame": {"token": "<scrubbed>"}},
        ),
        (b'{"env":{"A":"hunter2"},"env":{}}', {"line": "<scrubbed> 32 characters"}),
        (b"[log] token=hunter2", {"line": "[log] token=<scrubbed>"}),
    ],
)
def test_secrets_never_reach_the_file(line: bytes, kept: dict[str, Any], tape: Tape) -> None:
    """Not even the first one of two members with the same name."""
    assert kept == body_of(tape, line)
    assert b"hunter2" not in tape.path.read_bytes()


def test_only_its_owner_can_read_it(tape: Tape) -> None:
    assert 0o600 == stat.S_IMODE(tape.path.stat().st_mode)


def test_a_tape_that_is_there_is_not_written_over(tape: Tape) -> None:
    """A client's probe process must not destroy the tape of a conversation."""
    second = open_tape(tape.path, recorded="2026-11-29")
    third = open_tape(tape.path, recorded="2026-11-29")
    for one in (tape, second, third):
        one.close()

    assert ["simple-turn.jsonl", "simple-turn.2.jsonl", "simple-turn.3.jsonl"] == [
        one.path.name for one in (tape, second, third)
    ]
    assert "simple-turn" == lines_of(third)[0]["scenario"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="choose another --record") as caught:
        open_tape(tmp_path / "no" / "such.jsonl", recorded="2026-11-29")

    assert caught.value.code == "tape_unusable"


def test_names_run_out_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()
    for number in range(2, tape_module._NAMES_MAX + 1):
        (tmp_path / f"t.{number}.jsonl").touch()
    with pytest.raises(UsageFault, match="move them away"):
        open_tape(tmp_path / "t.jsonl", recorded="2026-11-29")


def test_a_full_disk_is_an_os_error(tmp_path: Path) -> None:
    tape = Tape(os.open("/dev/full", os.O_WRONLY), tmp_path, scenario="x", recorded="2026-11-29")
    with pytest.raises(OSError, match="No space"):
        tape.write([(0.0, "agent", INITIALIZED)])
    with pytest.raises(OSError, match="No space"):
        tape.close()
