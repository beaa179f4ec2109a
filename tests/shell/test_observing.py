from __future__ import annotations

import json

import pytest

from acpbridge.shell.observing import HELD_BYTES_MAX, Observing, observed

INITIALIZE = b'{"jsonrpc":"2.0", "id":1e0,"method":"initialize","params":%s}'


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (b"{}", b'{"clientCapabilities":{"_meta":{"acpbridge":{"observe":true}}}}'),
        (
            b'{"clientCapabilities":{"fs" : {}}}',
            b'{"clientCapabilities":{"fs" : {},"_meta":{"acpbridge":{"observe":true}}}}',
        ),
        (
            b'{"clientCapabilities":{"_meta":{"x":1}}, "n":12345678901234567890123}',
            (
                b'{"clientCapabilities":{"_meta":{"x":1,"acpbridge":{"observe":true}}},'
                b' "n":12345678901234567890123}'
            ),
        ),
        (
            b'{"clientCapabilities":{"_meta":{"acpbridge":{"observe":false,"events":true}}}}',
            b'{"clientCapabilities":{"_meta":{"acpbridge":{"observe":true,"events":true}}}}',
        ),
    ],
)
def test_the_member_is_put_where_it_belongs_and_nothing_else_moves(
    params: bytes, expected: bytes
) -> None:
    assert INITIALIZE % expected == observed(INITIALIZE % params)


def test_params_that_are_no_object_are_replaced_by_one_that_says_it() -> None:
    found = json.loads(observed(INITIALIZE % b"[]"))

    assert found["params"]["clientCapabilities"]["_meta"]["acpbridge"]["observe"] is True


@pytest.mark.parametrize("size_bytes", [1, 7, 1000])
def test_pieces_of_any_size_come_out_as_one_stream(size_bytes: int) -> None:
    stream = b'{"x":"initialize"}\n' + INITIALIZE % b"{}" + b"\n" + INITIALIZE % b"{}" + b"\nrest"
    observing = Observing()
    found = b"".join(
        observing.feed(stream[at : at + size_bytes]) for at in range(0, len(stream), size_bytes)
    )
    lines = found.split(b"\n")

    assert [b'{"x":"initialize"}', observed(INITIALIZE % b"{}"), INITIALIZE % b"{}", b"rest"] == (
        lines
    )


def test_a_line_that_is_too_long_to_be_held_passes() -> None:
    observing = Observing()
    line = b"x" * (HELD_BYTES_MAX + 1)

    assert line == observing.feed(line)
    assert INITIALIZE % b"{}" == observing.feed(INITIALIZE % b"{}")
