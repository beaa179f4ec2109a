"""The hold behind a chunk that reads like a receipt (R10).

While a prompt of ours is unanswered, such a chunk and every later frame of its session wait for
that prompt's answer, a quarter of a second at most. If the answer is bare, the text was the
agent's receipt: it alone is dropped, the rest goes on in order.
"""

from __future__ import annotations

from acpbridge.core import answers
from acpbridge.core.model import Bridge, Prompt, Session
from acpbridge.wire.frame import Frame, Kind


def begin(bridge: Bridge, session: Session, prompt: Prompt, frame: Frame, kind: str) -> None:
    """Hold the chunk; what it would be is noted on the prompt that it may answer."""
    prompt.receipt = kind
    session.hold.append(frame)
    bridge.arm("hold", session, bridge.policy.receipt_hold_s)


def answer(bridge: Bridge, session: Session, frame: Frame) -> list[Frame] | None:
    """What goes on after this answer, if it makes the held text a receipt; None if it does not."""
    prompt = session.newest_open()
    pending = bridge.pending.get(frame.id)
    is_ours = prompt is not None and pending is not None and pending.prompt is prompt
    if not is_ours or frame.kind is not Kind.RESPONSE or not answers.is_bare(frame.result):
        return None
    bridge.disarm("hold", session)
    held, session.hold = session.hold, []
    bridge.count("receipt_text_dropped")
    return held[1:]
