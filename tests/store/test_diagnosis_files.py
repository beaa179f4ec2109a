"""How files are read: in pieces, with gzip, damaged, endless, and of any kind."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import UsageFault
from acpbridge.store.diagnosis import Diagnosis, Finding, Source, span
from acpbridge.store.diagnosis.source import LINE_BYTES_MAX
from tests.store.diagnosing import FIXTURES, INCIDENT, diagnosed, kinds, look_at, source

MIB = 1 << 20
TAPE = FIXTURES / "hermes-0.19.0" / "mid-turn-three-prompts.jsonl"
NOISE = b'2026-08-28T00:00:00.000001Z DEBUG codeg_lib::web::ws: [WS] client 17 topic="x" queue=0\n'


def look(pieces: Iterator[bytes]) -> tuple[list[Finding], Diagnosis]:
    diagnosis = Diagnosis()
    return [*diagnosis.look(source(pieces)), *diagnosis.end()], diagnosis


@pytest.mark.parametrize("path", [INCIDENT, TAPE], ids=lambda path: path.name)
@given(data=st.data())
def test_pieces_make_no_difference(path: Path, data: st.DataObject) -> None:
    """Where a read ends must not matter: not in a line, a word, a number."""
    text = path.read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    found, diagnosis = look(iter([piece for piece in pieces if piece]))

    assert diagnosed(text.decode()) == [one_named(one, "log1") for one in found]
    assert text.count(b"\n") == diagnosis.looked[0].lines


def one_named(finding: Finding, file: str) -> Finding:
    """The same finding in a file of another name."""
    from attrs import evolve  # noqa: PLC0415 - only here

    return evolve(finding, marks=tuple(evolve(mark, file=file) for mark in finding.marks))


def test_a_last_line_without_an_end_is_a_line() -> None:
    found, diagnosis = look(iter([INCIDENT.read_bytes().rstrip(b"\n")]))

    assert ["swallowed", "swallowed", "burst"] == kinds(found)
    assert 37 == diagnosis.looked[0].lines


# -- gzip --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["codeg-server.log.gz", "codeg-server.log"])
def test_gzip_is_known_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(INCIDENT.read_bytes()))

    found = look_at(tmp_path / name)

    assert ["swallowed", "swallowed", "burst"] == kinds(found)
    assert f"{tmp_path / name}:25" == str(found[0].marks[0])


def test_gzip_may_come_in_members(tmp_path: Path) -> None:
    """`cat a.gz b.gz` is one."""
    lines = INCIDENT.read_bytes().splitlines(keepends=True)
    whole = gzip.compress(b"".join(lines[:26])) + gzip.compress(b"".join(lines[26:]))
    (tmp_path / "log.gz").write_bytes(whole)

    assert ["swallowed", "swallowed", "burst"] == kinds(look_at(tmp_path / "log.gz"))


@pytest.mark.parametrize("keep", ["head", "flipped"])
def test_damaged_gzip_is_told_after_what_it_still_had(tmp_path: Path, keep: str) -> None:
    packed = gzip.compress(INCIDENT.read_bytes() + NOISE * 100_000, 0)
    damaged = (
        packed[: len(packed) // 2] if keep == "head" else bytes([*packed[:-8], 1, *packed[-7:]])
    )
    (tmp_path / "log.gz").write_bytes(damaged)
    diagnosis = Diagnosis()
    found: list[Finding] = []

    with Source.open(str(tmp_path / "log.gz")) as opened, pytest.raises(UsageFault) as caught:
        found.extend(diagnosis.look(opened))

    assert ["swallowed", "swallowed"] == kinds(found)
    assert "file_unreadable" == caught.value.code
    assert str(tmp_path / "log.gz") in caught.value.hint


def test_a_damaged_tape_is_judged_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress(TAPE.read_bytes() + b"\n" * MIB, 0)
    (tmp_path / "tape.gz").write_bytes(packed[: len(packed) // 2])
    found: list[Finding] = []

    with Source.open(str(tmp_path / "tape.gz")) as opened, pytest.raises(UsageFault):
        found.extend(Diagnosis().look(opened))

    assert 3 == kinds(found).count("swallowed")


# -- what cannot be read -----------------------------------------------------------------------
@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_opened_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageFault, match=r"cannot read .*: (No such file|Is a directory)"):
        Source.open(str(tmp_path / name))


def test_a_file_that_fails_in_the_middle_is_told() -> None:
    def failing() -> Iterator[bytes]:
        yield NOISE
        raise OSError(5, "Input/output error")

    with pytest.raises(UsageFault, match="cannot read disk: Input/output error, after line 1"):
        list(Diagnosis().look(source(failing(), "disk")))


def test_an_unknown_file_is_of_no_kind() -> None:
    _, diagnosis = look(iter([b"some text\n" * 1000]))

    assert [] == diagnosis.looked[0].kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (NOISE, "codeg"),
        (b"2026-11-29 10:00:00 [INFO] acp_adapter.entry: Starting\n", "hermes"),
        (b'{"tape":1,"agent":"x"}\n', "tape"),
        (b'{ "tape": 1 }\n', "tape"),
        (b'{"t":1.5,"from":"agent","frame":{}}\n', "tape"),
    ],
)
def test_a_quiet_file_is_known_too(text: bytes, kind: str) -> None:
    """A day on which nothing was sent is no wrong file."""
    found, diagnosis = look(iter([text]))

    assert ([], [kind]) == (found, diagnosis.looked[0].kinds)


def test_one_file_may_hold_both_logs() -> None:
    """As a collector of a whole machine writes it."""
    wedge = (FIXTURES / "hermes-0.19.0-stderr" / "cancel-during-tool.log").read_bytes()
    found, diagnosis = look(iter([INCIDENT.read_bytes(), wedge]))

    assert ["swallowed", "swallowed", "wedged", "burst"] == kinds(found)
    assert ["codeg", "hermes"] == sorted(diagnosis.looked[0].kinds)


# -- size --------------------------------------------------------------------------------------
def long_log(blocks: int) -> Iterator[bytes]:
    """The incident in the middle of a lot of other lines, about a MiB a block."""
    block = NOISE * (MIB // len(NOISE))
    for number in range(blocks):
        yield block
        if number == blocks // 2:
            yield INCIDENT.read_bytes()


def peak_bytes(blocks: int) -> int:
    tracemalloc.start()
    found, _ = look(long_log(blocks))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert ["swallowed", "swallowed", "burst"] == kinds(found)
    return peak


def test_memory_does_not_grow_with_the_file() -> None:
    assert peak_bytes(128) <= peak_bytes(8) + 64 * 1024


def test_a_line_without_an_end_takes_no_more_than_its_limit() -> None:
    """64 MiB that never end, and a good line behind them."""
    tail = b"\n" + INCIDENT.read_bytes()
    tracemalloc.start()
    found, diagnosis = look(iter([b"x" * MIB] * 64 + [tail]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert ["swallowed", "swallowed", "burst"] == kinds(found)
    assert 26 == found[0].marks[0].line
    assert 38 == diagnosis.looked[0].lines
    assert peak < 4 * LINE_BYTES_MAX


def test_plain_text_is_read_at_50_mb_a_second() -> None:
    """Of processor time, so that a busy machine fails no test; measured: about 250."""
    pieces = list(long_log(64))
    size = sum(map(len, pieces))
    begin_s = time.process_time()
    found, _ = look(iter(pieces))
    took_s = time.process_time() - begin_s

    assert ["swallowed", "swallowed", "burst"] == kinds(found)
    assert size / 1e6 / took_s >= 50


# -- words -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0019, "1.9 ms"),
        (0.0007, "0.7 ms"),
        (4.21, "4.2 s"),
        (216.745637, "3 min 37 s"),
        (3599.9, "1 h 00 min"),
        (7500.0, "2 h 05 min"),
    ],
)
def test_lengths_of_time_are_said_as_people_do(seconds: float, text: str) -> None:
    assert text == span(seconds)
