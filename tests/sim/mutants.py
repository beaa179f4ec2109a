"""Planted bugs: what a simulator that cannot find them is worth nothing.

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
from acpbridge.core.hub import follow, returns
from acpbridge.core.hub.state import Hub
from acpbridge.core.model import Bridge, Prompt, Session
from acpbridge.core.steer_answers import Outcome
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame, RpcId
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


@contextmanager
def answer_to_another() -> Iterator[None]:
    """Now and then a response goes to a client that has asked for nothing."""
    answer = Hub.answer
    answered = 0

    def answer_somebody(
        hub: Hub, client: int, id_: RpcId, line: bytes, own: RpcId | None = None
    ) -> None:
        nonlocal answered
        answered += 1
        others = [one for one in hub.clients if one != client]
        is_astray = others and answered % 20 == 0
        answer(hub, others[0] if is_astray else client, id_, line, own)

    with instead(Hub, "answer", answer_somebody):
        yield


@contextmanager
def forgotten_absence() -> Iterator[None]:
    """Who comes back is not told what nobody has seen."""
    with instead(returns, "_tell_since", lambda *_: None):
        yield


@contextmanager
def shared_errand() -> Iterator[None]:
    """A file is asked of every client that comes."""
    with instead(follow, "_concerns", lambda *_: True):
        yield


MUTANTS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "a dropped queue entry": (dropped_queue_entry, ("I1", "I10")),
    "a completion before the end": (completion_before_the_end, ("I2", "I3", "I4")),
    "an overtaking frame": (overtaking_frame, ("I6",)),
    "a repeated steer": (repeated_steer, ("I3", "R14")),
}
"""Each bug with the invariants of which one must name it."""

MUTANTS_OF_CROWDS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "an answer to another": (answer_to_another, ("I1", "I10")),
    "a forgotten absence": (forgotten_absence, ("I6",)),
    "a shared errand": (shared_errand, ("observer", "owner")),
}
"""The same of the hub, where clients are many."""
