"""Four planted bugs: what a simulator that cannot find them is worth nothing.

Each is a context manager that puts another function in the place of one of the core's. They are
the bugs that the bridge exists to prevent: a prompt that nobody remembers, an answer that is none,
a frame that comes before one that was written earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from acpbridge.core import admission, answers, present, steering
from acpbridge.core.answers import Verdict
from acpbridge.core.model import Bridge, Prompt, Session
from acpbridge.core.steer_answers import Outcome
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame
from tests.sim.planted import instead


@contextmanager
def dropped_queue_entry() -> Iterator[None]:
    """Of three prompts that wait in a session, the last one is forgotten."""
    admit = admission.admit

    def admit_but_forget(bridge: Bridge, frame: Frame) -> None:
        admit(bridge, frame)
        session = bridge.sessions[frame.session]
        if len(session.queue) == 3:
            session.queue.pop()

    with instead(admission, "admit", admit_but_forget):
        yield


@contextmanager
def completion_before_the_end() -> Iterator[None]:
    """A receipt is taken for the answer: the bug for which the bridge was built (R10)."""
    judge = answers.judge

    def judge_without_doubt(bridge: Bridge, session: Session, prompt: Prompt) -> Verdict:
        verdict = judge(bridge, session, prompt)
        return Verdict.REAL if verdict in (Verdict.QUEUED, Verdict.REDIRECTED) else verdict

    with instead(answers, "judge", judge_without_doubt):
        yield


@contextmanager
def overtaking_frame() -> Iterator[None]:
    """A plan is shown behind the update that follows it."""
    update = present.update
    late: dict[Session, Frame] = {}

    def update_the_other_way_round(bridge: Bridge, session: Session, frame: Frame) -> None:
        if frame.variant == acp.PLAN and session not in late:
            late[session] = frame
            return
        update(bridge, session, frame)
        if session in late:
            update(bridge, session, late.pop(session))

    with instead(present, "update", update_the_other_way_round):
        yield


@contextmanager
def repeated_steer() -> Iterator[None]:
    """A steer of which the agent has said nothing clear goes once more, as a prompt (R14)."""
    actions = steering._ACTIONS
    original = actions[Outcome.UNKNOWN]
    actions[Outcome.UNKNOWN] = actions[Outcome.REFUSED]
    try:
        yield
    finally:
        actions[Outcome.UNKNOWN] = original


MUTANTS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "a dropped queue entry": (dropped_queue_entry, ("I1", "I10")),
    "a completion before the end": (completion_before_the_end, ("I2", "I3", "I4")),
    "an overtaking frame": (overtaking_frame, ("I6",)),
    "a repeated steer": (repeated_steer, ("I3", "R14")),
}
"""Each bug with the invariants of which one must name it."""
