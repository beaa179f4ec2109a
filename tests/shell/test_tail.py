"""What a tail remembers and shows, frame by frame."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpbridge.shell.tail import Tail, choose
from acpbridge.wire.frame import Frame, peek


def frame(seq: int, *, epoch: str = "e1", session: str = "s", **more: Any) -> Frame:
    meta = {"acpbridge": {"epoch": epoch, "seq": seq, "traceId": ""}}
    params = {"sessionId": session, "update": {"sessionUpdate": "plan", "n": seq}, "_meta": meta}
    found = peek(json.dumps({"jsonrpc": "2.0", "params": params, **more}).encode(), strict=False)
    assert isinstance(found, Frame)
    return found


def event(seq: int, **more: Any) -> Frame:
    return frame(seq, **{"method": "session/update", **more})


class Shown:
    """A tail, and what it has shown."""

    def __init__(self, session: str = "s") -> None:
        self.seqs: list[Any] = []
        self.said: list[str] = []
        self.tail = Tail(self._show, self.said.append, session)

    def _show(self, one: Frame) -> None:
        self.seqs.append(one.params.get("update", {}).get("n"))


def answer(
    *frames: Frame, latest: int, epoch: str = "e1", truncated: bool = False
) -> dict[str, Any]:
    return {
        "frames": [one.body for one in frames],
        "latestSeq": latest,
        "epoch": epoch,
        "truncated": truncated,
    }


def test_an_event_is_shown_once() -> None:
    """Live ones that the replay had already are passed over; a request comes again on purpose."""
    shown = Shown()
    shown.tail.caught_up(answer(event(1), event(2), latest=2))
    shown.tail.take(event(2))
    shown.tail.take(event(3))
    shown.tail.take(frame(3, method="session/request_permission", id=1))

    assert [1, 2, 3, 3] == shown.seqs
    assert ("e1", 3) == (shown.tail.epoch, shown.tail.seq)
    assert [] == shown.said


def test_a_new_epoch_starts_over_and_says_so() -> None:
    shown = Shown()
    shown.tail.caught_up(answer(event(5), latest=5))
    shown.tail.caught_up(answer(event(1, epoch="e2"), latest=1, epoch="e2"))

    assert [5, 1] == shown.seqs
    assert ["the daemon was started anew"] == shown.said
    assert ("e2", 1) == (shown.tail.epoch, shown.tail.seq)


def test_a_hole_is_told_of() -> None:
    shown = Shown()
    shown.tail.caught_up(answer(event(900), latest=900, truncated=True))

    assert ["what came before is not kept any more"] == shown.said


def test_other_sessions_are_not_shown() -> None:
    shown = Shown()
    shown.tail.take(event(1, session="other"))
    withdrawn = peek(
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}', strict=False
    )
    assert isinstance(withdrawn, Frame)
    shown.tail.take(withdrawn)

    assert [None] == shown.seqs


@pytest.mark.parametrize(
    ("stats", "session"),
    [
        ({}, ""),
        ({"sessions": [{"sessionId": "a"}, {"sessionId": "b"}], "turns": []}, "b"),
        ({"sessions": [{"sessionId": "b"}], "turns": [{"sessionId": "a"}]}, "a"),
        ({"sessions": [{"sessionId": 5}], "turns": ["x"]}, ""),
    ],
)
def test_which_session_is_followed(stats: dict[str, Any], session: str) -> None:
    assert session == choose(stats)
