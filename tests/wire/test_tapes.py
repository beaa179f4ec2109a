"""Every line that was recorded from a real agent is a frame, by the parser and by its shape."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from acpbridge.wire.frame import Frame, Kind, peek
from acpbridge.wire.ids import NULL_ID, RpcId, Salvage, is_stable, salvage
from acpbridge.wire.scan import find
from acpbridge.wire.shapes import Shapes
from acpbridge.wire.splice import with_id, with_session

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TAPES = sorted(FIXTURES.glob("*/*.jsonl"))
SENDERS = {
    "client": "client",
    "agent": "agent",
    "client->agent": "client",
    "agent->client": "agent",
}
ELIDED = "__elided__"
"""Stands in a tape for a frame of megabytes, of which only the beginning was kept."""


def test_the_tapes_are_there() -> None:
    assert {
        "claude-agent-acp-0.101.0": 53,
        "codeg": 1,
        "codex-acp-2.6.0": 54,
        "hermes-0.19.0": 54,
    } == Counter(tape.parent.name for tape in TAPES)


def lines_of(tape: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (sender, the line as it was on the wire); the tape keeps each frame's own bytes."""
    header, *rows = tape.read_bytes().splitlines()
    assert "tape" in json.loads(header) or "meta" in json.loads(header)
    for row in rows:
        span = find(row, "frame")
        if span is None:
            assert "client-internal" == json.loads(row)["dir"]
            continue
        line = row[span[0] : span[1]]
        told = json.loads(row)
        assert told["frame"] == json.loads(line)
        if ELIDED in told["frame"]:
            continue
        yield SENDERS[told["from"] if "from" in told else told["dir"]], line


@pytest.mark.parametrize("tape", TAPES, ids=lambda tape: f"{tape.parent.name}/{tape.stem}")
def test_a_tape_passes_whole(tape: Path) -> None:
    shapes = Shapes()
    for sender, line in lines_of(tape):
        frame = peek(line, strict=sender == "client")

        assert isinstance(frame, Frame)
        assert frame.raw is line
        body = json.loads(line)
        assert body == frame.body
        assert body.get("method", "") == frame.method
        assert (json.dumps(body["id"]).encode() if "id" in body else b"") == frame.id
        assert frame.id == b"" or is_stable(frame.id)
        if sender == "agent":
            fast = shapes.peek(line)
            assert isinstance(fast, Frame)
            assert fast.raw is line
            assert (frame.kind, frame.method, frame.id, frame.session, frame.variant) == (
                fast.kind,
                fast.method,
                fast.id,
                fast.session,
                fast.variant,
            )
            assert (frame.text, frame.body) == (fast.text, fast.body)


@pytest.mark.parametrize("tape", TAPES, ids=lambda tape: f"{tape.parent.name}/{tape.stem}")
def test_splices_on_a_tape_can_be_taken_back(tape: Path) -> None:
    for sender, line in lines_of(tape):
        frame = peek(line, strict=sender == "client")
        assert isinstance(frame, Frame)
        if frame.session:
            renamed = peek(with_session(line, "another"), strict=False)
            assert isinstance(renamed, Frame)
            assert "another" == renamed.session
            assert line == with_session(renamed.raw, frame.session)
        if frame.kind is not Kind.NOTIFICATION and frame.id:
            private = with_id(line, RpcId(b'"run.7"'))
            assert line == with_id(private, frame.id)


def test_a_long_frame_is_known_by_the_head_that_its_tape_kept() -> None:
    tape = FIXTURES / "hermes-0.19.0" / "big-frames.jsonl"
    rows = map(json.loads, tape.read_bytes().splitlines()[1:])
    heads = [row["frame"]["head"].encode() for row in rows if ELIDED in row["frame"]]

    known = [salvage(head) for head in heads]

    assert [
        Salvage(Kind.NOTIFICATION, NULL_ID, "session/update"),
        Salvage(Kind.REQUEST, RpcId(b"4"), "session/prompt"),
    ] == sorted(known, key=lambda one: one.method, reverse=True)


@pytest.mark.parametrize(
    ("tape", "plain_min"),
    [
        ("claude-agent-acp-0.101.0/steer-into-background-turn", 38),
        ("codex-acp-2.6.0/steer-mid-turn-soft", 23),
        ("hermes-0.19.0/five-sessions", 35),
    ],
)
def test_most_chunks_of_a_stream_take_the_fast_path(tape: str, plain_min: int) -> None:
    """One search for each session and message, the rest by shape: about nine in ten."""
    shapes = Shapes()
    frames = [
        shapes.peek(line)
        for sender, line in lines_of(FIXTURES / f"{tape}.jsonl")
        if sender == "agent"
    ]

    assert plain_min <= sum(isinstance(frame, Frame) and frame.plain for frame in frames)
