"""A tape played as it was written: every prompt goes to the agent when its client wrote it.

The agent of a tape answered a client that did not wait, so a bridge that queues could not be shown
those answers. Here, and only here, nothing waits: the transition table of the bridge under test has
one other column, WANT, which writes at once in every phase, and the profile's rules of when
something may be written are off. All else is the real table, the real profile and the real clock.
A user cannot get this: `midturn` has no such value, and tests/core/test_tapes.py says so.
"""

from __future__ import annotations

import json
from functools import cache

from attrs import define, evolve, field

from acpbridge.core import openings, queue
from acpbridge.core.model import Bridge, Cause, Handler, Phase, Session, Trigger
from acpbridge.core.table import TABLE
from acpbridge.profiles import AGENTS, AgentProfile
from tests.core.script import Json, Talk
from tests.core.tapes import Line, Tape

GRACE_S = 3.0
"""Longer than any time for which an answer is disbelieved."""


def write_at_once(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT in any phase: what stands at the head goes, except what the bridge has taken back."""
    head = session.head()
    if head is not None and head.taken_back:
        # Recovery would write to an agent that the tape does not have; without a restart and a
        # fork the bridge ends the wait with these very words.
        why = "The session is wedged and restart is off"
        openings.refuse_queue(bridge, session, "wedged", why)
        return
    queue.send_next(bridge, session, cause)


AS_WRITTEN: dict[Phase, dict[Trigger, Handler]] = {
    phase: {**row, Trigger.WANT: write_at_once} for phase, row in TABLE.items()
}


def profile_of(tape: Tape) -> AgentProfile:
    """The profile of a tape's agent, without what decides when a frame may be written, and how."""
    return evolve(
        AGENTS[tape.agent.split("-", maxsplit=1)[0]],
        cancel_after_s=0.0,
        cancel_gap_s=0.0,
        turns_max=0,
    )


@define
class Replay:
    """One agent process of a tape, played; and what both sides saw of it."""

    tape: Tape
    talk: Talk
    fed: list[bytes] = field(factory=list)
    """What the agent wrote, in order."""
    wire: dict[str, str] = field(factory=dict)
    """Ids of the client's open requests to the ids under which the bridge wrote them."""
    tape_id: dict[str, str] = field(factory=dict)
    """The reverse."""
    unwritten: list[str] = field(factory=list)
    """Ids of requests of the client that did not leave at once."""

    @property
    def client_lines(self) -> list[bytes]:
        return self.talk.client_lines

    def responses(self, id_: str) -> list[bytes]:
        """The responses that the client got under an id, in order."""
        return [line for line in self.client_lines if response_id(line) == id_]


def response_id(line: bytes) -> str:
    """The id of a response, in its JSON text; empty for anything else."""
    frame = json.loads(line)
    return "" if "method" in frame or "id" not in frame else json.dumps(frame["id"])


@cache
def play(process: Tape) -> Replay:
    """Play one process of a tape on the tape's own clock; timers fire in between.

    A moment longer than any doubt is let pass at the end. For looking only: tests share it.
    """
    talk = Talk(profile_of(process), restart=False, steer_answer_s=0.0)
    talk.bridge.table = AS_WRITTEN
    replay = Replay(process, talk)
    began_s = talk.now - process.lines[0].t
    for line in process.lines:
        talk.wait(max(0.0, began_s + line.t - talk.now))
        if line.side == "client":
            _client(replay, line)
        else:
            raw = _under_wire_id(replay, line)
            replay.fed.append(raw)
            talk.agent(raw)
    talk.wait(GRACE_S)
    return replay


def _client(replay: Replay, line: Line) -> None:
    talk = replay.talk
    seen = len(talk.agent_lines)
    talk.client(line.raw)
    if line.is_response or not line.id:
        return
    for written in talk.agent_lines[seen:]:
        frame: Json = json.loads(written)
        if frame.get("method") == line.method and "id" in frame:
            replay.wire[line.id] = json.dumps(frame["id"])
            return
    replay.unwritten.append(line.id)


def _under_wire_id(replay: Replay, line: Line) -> bytes:
    """A response of the tape, under the id under which the bridge asked."""
    wire_id = replay.wire.pop(line.id, line.id) if line.is_response else line.id
    if wire_id == line.id:
        return line.raw
    replay.tape_id[wire_id] = line.id
    return json.dumps(
        {**line.frame, "id": json.loads(wire_id)}, separators=(",", ":"), ensure_ascii=False
    ).encode()
