"""What the agent's work and answers mean for a turn (R8 to R13, R21, R24).

Handlers of the transition table (`table.py`). Each is called as (bridge, session, cause) where
the table says so, changes the session and says what is to be done; none waits for anything.
"""

from __future__ import annotations

from acpbridge.core import cancel, present, prompts, queue, replies
from acpbridge.core.model import (
    Bridge,
    Cause,
    Phase,
    Prompt,
    Session,
    Stage,
    Turn,
)
from acpbridge.core.requests import release_steers
from acpbridge.core.work import late_after_inference, quiet_s, touch, watch_quiet
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame

CROSSING_S = 1.0
"""What the agent says this soon behind a cancel may have been on its way before (R24)."""


# -- work -----------------------------------------------------------------------------------
def work_on(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Work in a turn that we know of."""
    assert isinstance(cause, Frame)
    touch(bridge, session, cause)
    if session.cancel_due:
        cancel.try_cancel(bridge, session)
    watch_quiet(bridge, session)


def held_work(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Work while an answer is held: a doubted one was a receipt after all (R11, R12)."""
    for prompt in session.at_agent:
        if prompt.stage is Stage.DOUBTED:
            prompt.stage = Stage.JOINED
            prompt.answer = None
            bridge.persist(prompt, session, "started", "receipt: redirected")
            bridge.note("doubted_answer_was_receipt", session=session.id, prompt=prompt.number)
            bridge.disarm("grace", session)
    work_on(bridge, session, cause)


def idle_chunk(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A chunk without a turn: it trails the last answer, or opens an ownerless turn (R13)."""
    assert isinstance(cause, Frame)
    late_after_inference(bridge, session)
    soon = bridge.now - session.answered_s <= bridge.policy.trailing_s
    if not soon or _is_new_message(session, cause):
        open_ownerless(bridge, session, cause)
        return
    session.phase = Phase.TRAILING
    session.trailing_s = bridge.now
    bridge.arm("trail", session, bridge.policy.trailing_s)


def _is_new_message(session: Session, frame: Frame) -> bool:
    message = frame.update.get("messageId")
    return isinstance(message, str) and message not in session.answered_messages


def trail_on(bridge: Bridge, session: Session, cause: Cause) -> None:
    """More chunks behind an answer; too many of them are a turn of their own (R13)."""
    assert isinstance(cause, Frame)
    too_long = bridge.now - session.trailing_s > bridge.policy.trailing_max_s
    if too_long or _is_new_message(session, cause):
        open_ownerless(bridge, session, cause)
        return
    bridge.arm("trail", session, bridge.policy.trailing_s)


def trail_over(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Nothing trails any more."""
    prompts.settle(bridge, session)


def open_ownerless(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The agent works by itself: a turn without an owner begins."""
    assert isinstance(cause, Frame)
    late_after_inference(bridge, session)
    begin_ownerless(bridge, session)
    if cause.variant != acp.USER_MESSAGE_CHUNK:
        touch(bridge, session, cause)
    watch_quiet(bridge, session)
    if session.head() is not None:
        wait_ownerless(bridge, session, None)


def begin_ownerless(bridge: Bridge, session: Session) -> None:
    """A turn without an owner begins, by work or by the agent's word."""
    bridge.disarm("trail", session)
    session.phase = Phase.OWNERLESS
    session.turn = Turn(bridge.now, bridge.now)
    session.muted = session.ghost_runs = False
    _went_on(bridge, session)
    bridge.note("ownerless_turn", session=session.id)


def open_ownerless_by_echo(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A `user_message_chunk` without a turn opens an ownerless one."""
    open_ownerless(bridge, session, cause)
    echo(bridge, session, cause)


def wait_ownerless(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT in an ownerless turn: send if the agent serialises honestly, else wait (R1, R5)."""
    first = session.first_prompt()
    if first is None or session.turn is None:
        # Nothing waits, or a load alone does: that takes the turn's end (R4).
        return
    if bridge.fifo and first is session.head():
        queue.send_next(bridge, session)
        return
    # Also behind a load: that one gives way, for the prompt goes in any case (R5).
    began_s = max(first.accepted_s, session.turn.started_s)
    bridge.arm("wait_max", session, began_s + bridge.policy.oob_wait_max_s - bridge.now)
    queue.watch(bridge, session)


def wait_trailing(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT while chunks trail: the same, but the wait is a moment."""
    if bridge.fifo:
        queue.send_next(bridge, session)


def waited_enough(bridge: Bridge, session: Session, cause: Cause) -> None:
    """`oob_wait_max` is over: the prompt goes in any case (R5)."""
    if session.first_prompt() is None:
        return
    bridge.note("sent_into_ownerless_turn", "warning", session=session.id)
    queue.send_next(bridge, session)


# -- echoes and markers ---------------------------------------------------------------------
def echo(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A `user_message_chunk`: the segment before it has ended, and maybe ours begins (R9)."""
    assert isinstance(cause, Frame)
    turn = session.turn
    assert turn is not None
    said = prompts.echo_text(cause)
    if not turn.echoing:
        turn.echoing = True
        turn.echo = ""
        turn.content = turn.marked = False
        # The segment's silence counts from its beginning, however long the agent slept before.
        turn.last_work_s = bridge.now
        _ghost_over(bridge, session)
        bridge.disarm("marker", session)
        _went_on(bridge, session)
        end_segment(bridge, session, "echo", said.strip())
        _disown(bridge, session, turn)
    turn.echo += said
    _match_echo(bridge, session, turn.echo.strip())
    watch_quiet(bridge, session)


def _ghost_over(bridge: Bridge, session: Session) -> None:
    """The next segment begins: the cancelled one is over, and with it its own cancel (R19)."""
    if not session.ghost_runs:
        return
    session.ghost_runs = False
    if session.phase is not Phase.CANCELLING or any(one.cancelled for one in session.at_agent):
        return
    session.cancel_due = False
    bridge.disarm("settle", session)
    if session.owner() is not None:
        session.phase = Phase.RUNNING
    elif session.bound():
        session.phase = Phase.HELD
    else:
        session.phase = Phase.OWNERLESS
        wait_ownerless(bridge, session, None)
    release_steers(bridge, session)


def _disown(bridge: Bridge, session: Session, turn: Turn) -> None:
    """The last prompt of ours in this turn has ended and the turn goes on: it is ownerless."""
    if session.phase is not Phase.HELD or session.bound():
        return
    session.phase = Phase.OWNERLESS
    turn.started_s = bridge.now
    bridge.note("ownerless_turn", session=session.id)
    wait_ownerless(bridge, session, None)


def _match_echo(bridge: Bridge, session: Session, text: str) -> None:
    for prompt in session.at_agent:
        if prompt.stage in (Stage.KEPT, Stage.JOINED) and prompt.text == text:
            prompt.stage = Stage.SEGMENT
            prompt.worked_since_receipt = True
            bridge.persist(prompt, session, "started")
            return
    if text in session.ghosts:
        # R19: the client has cancelled it; the agent runs it all the same.
        session.ghosts.remove(text)
        bridge.note("cancelled_prompt_ran", "warning", session=session.id)
        cancel.stop_ghost(bridge, session)


def end_segment(bridge: Bridge, session: Session, how: str, echoed: str) -> None:
    """The running segment of an ownerless or outer turn has ended with `how` (R9).

    `how` is "echo", "marker" or "quiet"; `echoed` is what the echo says so far. While an outer
    owner is open, what was put into its own segment waits for its response. An echo of a
    redirected prompt's own text begins its segment and is not its end (R8: 3).
    """
    outer_open = session.owner() is not None
    for prompt in list(session.at_agent):
        if prompt.stage is Stage.SEGMENT:
            tag = "inferred" if how == "quiet" else "drained"
        elif prompt.stage is Stage.JOINED and not outer_open:
            if not prompt.worked_since_receipt and (how == "quiet" or prompt.steered):
                continue
            if echoed and prompt.text.startswith(echoed):
                continue
            tag = "inferred" if how == "quiet" else "marked"
        else:
            continue
        complete(bridge, session, prompt, tag)


def complete(
    bridge: Bridge,
    session: Session,
    prompt: Prompt,
    tag: str,
    stop: str = acp.END_TURN,
    **said: str,
) -> None:
    """Answer a prompt whose work has ended without a response of its own (R8: 2 to 5)."""
    if tag == "inferred":
        session.inferred = True
    bridge.note("completed", session=session.id, prompt=prompt.number, completion=tag)
    line = replies.completion(prompt.id, stop, completion=tag, **said)
    present.answer(bridge, session, prompt, line, stop, tag)


def turn_over(bridge: Bridge, session: Session, how: str) -> None:
    """A turn without an owner has ended with `how`."""
    end_segment(bridge, session, how, "")
    if session.bound():
        session.phase = Phase.HELD
        session.turn = Turn(bridge.now, bridge.now)
        return
    remember_end(bridge, session)
    prompts.settle(bridge, session)


def marked_over(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The end marker was followed by enough silence (R9)."""
    # A cancel that is younger than that silence came when the marker had been seen.
    was_over = bridge.now - session.cancel_sent_s < bridge.agent.marker_quiet_s
    _went_on(bridge, session, was_over=was_over)
    turn_over(bridge, session, "marker")


def _went_on(bridge: Bridge, session: Session, *, was_over: bool = False) -> None:
    """A turn began or ended well after a cancel that nothing has answered, or `was_over` before it.

    So the cancel has not wedged the session, and a receipt is no evidence that it has (R24); but
    it may have crossed the end of the turn that it was meant for (R21). What comes right behind
    the cancel was written before the agent read it, and says nothing.
    """
    crosses = bridge.now - session.cancel_sent_s < CROSSING_S
    if session.cancel_unanswered and session.owner() is None and (was_over or not crosses):
        session.cancel_unanswered = False
        session.crossed = True


def quiet_over(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Quiet for long enough, with nothing better to go by (R8: 5)."""
    turn = session.turn
    assert turn is not None
    if turn.last_work_s + quiet_s(bridge, session) > bridge.now:
        watch_quiet(bridge, session)
        return
    turn_over(bridge, session, "quiet")


def remember_end(bridge: Bridge, session: Session) -> None:
    """Keep what later chunks are compared with: when the turn ended, and its messages (R13)."""
    session.answered_s = bridge.now
    session.answered_messages = session.turn.messages if session.turn else set()
