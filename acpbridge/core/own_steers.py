"""The `_session/steering` requests that a client sends by itself (R14, R16).

They pass where the agent advertises steering, byte for byte. Only while a cancelled turn ends they
do not: there the agent could lose them, or run them behind the cancel.
"""

from __future__ import annotations

from acpbridge.core import openings, present
from acpbridge.core.model import Bridge, Phase, Session
from acpbridge.wire import acp, codec
from acpbridge.wire.frame import Frame


def kept_back(bridge: Bridge, session: Session | None, frame: Frame) -> bool:
    """Answer or hold a client's steer that must not go now; False where it may go."""
    if not bridge.steering:
        # Hermes would answer null, which reads as success.
        text = "This agent does not advertise steering; send a session/prompt instead."
        line = codec.error(frame.id, acp.METHOD_NOT_FOUND, text)
        present.respond(bridge, present.id_of(bridge, frame), line)
        return True
    if session is None or session.phase is not Phase.CANCELLING:
        return False
    if _opts_in(frame):
        said = {"outcome": "promptRequired", "_meta": {"acpbridge": {"reason": "cancelling"}}}
        line = codec.result(frame.id, said)
        present.respond(bridge, present.id_of(bridge, frame), line)
    elif len(session.steers_held) >= bridge.policy.waiting_frames_max:
        why = "Too much waits for the cancelled turn already (waiting_frames_max)"
        openings.refuse_frame(bridge, frame, "queue-full", why)
    else:
        present.reserve_id(bridge, frame)
        session.steers_held.append(frame)
    return True


def _opts_in(frame: Frame) -> bool:
    meta = frame.params.get("_meta")
    steering = meta.get("steering") if isinstance(meta, dict) else None
    return isinstance(steering, dict) and steering.get("idleBehavior") == "promptRequired"


def goes(bridge: Bridge, session: Session) -> None:
    """It is written now: until it is answered the session is not Idle."""
    session.steer_until_s = bridge.now + bridge.policy.steer_answer_s
    if not session.loading:
        # A steer can start a turn: from its write on, content is no replay (tape steer-errors).
        session.load_until_s = 0.0
