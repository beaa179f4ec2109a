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
from acpbridge.core.work import late_after_inference, quiet_s, touch, watch_quiet
from acpbridge.wire import acp
from acpbridge.wire.frame import Frame


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
            prompt.receipt = "redirected"
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
    bridge.disarm("trail", session)
    session.phase = Phase.OWNERLESS
    session.turn = Turn(bridge.now, bridge.now)
    bridge.note("ownerless_turn", session=session.id)
    if cause.variant != acp.USER_MESSAGE_CHUNK:
        touch(bridge, session, cause)
    watch_quiet(bridge, session)
    if session.head() is not None:
        wait_ownerless(bridge, session, None)


def open_ownerless_by_echo(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A `user_message_chunk` without a turn opens an ownerless one."""
    open_ownerless(bridge, session, cause)
    echo(bridge, session, cause)


def wait_ownerless(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT in an ownerless turn: send if the agent serialises honestly, else wait (R1, R5)."""
    if bridge.fifo:
        queue.send_next(bridge, session)
        return
    head = session.head()
    if head is None or session.turn is None:
        return
    began_s = max(head.accepted_s, session.turn.started_s)
    bridge.arm("wait_max", session, began_s + bridge.policy.oob_wait_max_s - bridge.now)
    queue.watch(bridge, session)


def wait_trailing(bridge: Bridge, session: Session, cause: Cause) -> None:
    """WANT while chunks trail: the same, but the wait is a moment."""
    if bridge.fifo:
        queue.send_next(bridge, session)


def waited_enough(bridge: Bridge, session: Session, cause: Cause) -> None:
    """`oob_wait_max` is over: the prompt goes in any case (R5)."""
    bridge.note("sent_into_ownerless_turn", "warning", session=session.id)
    queue.send_next(bridge, session)


# -- echoes and markers ---------------------------------------------------------------------
def echo(bridge: Bridge, session: Session, cause: Cause) -> None:
    """A `user_message_chunk`: the segment before it has ended, and maybe ours begins (R9)."""
    assert isinstance(cause, Frame)
    turn = session.turn
    if turn is None:
        turn = session.turn = Turn(bridge.now, bridge.now)
    if not turn.echoing:
        turn.echoing = True
        turn.echo = ""
        turn.content = turn.marked = False
        bridge.disarm("marker", session)
        end_segment(bridge, session, "echo")
    turn.echo += prompts.echo_text(cause)
    _match_echo(bridge, session, turn.echo.strip())
    watch_quiet(bridge, session)


def _match_echo(bridge: Bridge, session: Session, text: str) -> None:
    for prompt in session.at_agent:
        if prompt.stage is Stage.KEPT and prompt.text == text:
            prompt.stage = Stage.SEGMENT
            prompt.worked_since_receipt = True
            bridge.persist(prompt, session, "started")
            return
    if text in session.ghosts:
        # R19: the client has cancelled it; the agent runs it all the same.
        session.ghosts.remove(text)
        bridge.note("cancelled_prompt_ran", "warning", session=session.id)
        cancel.stop_ghost(bridge, session)


def end_segment(bridge: Bridge, session: Session, how: str) -> None:
    """The running segment of an ownerless or outer turn has ended with `how` (R9).

    `how` is "echo", "marker", "outer" or "quiet". While an outer owner is open, what was put
    into its own segment waits for its response.
    """
    outer_open = session.owner() is not None
    for prompt in list(session.at_agent):
        if prompt.stage is Stage.SEGMENT:
            tag = "inferred" if how == "quiet" else "drained"
        elif prompt.stage is Stage.JOINED and not outer_open:
            if how == "quiet" and not prompt.worked_since_receipt:
                continue
            tag = {"quiet": "inferred", "outer": "shared"}.get(how, "marked")
        else:
            continue
        complete(bridge, session, prompt, tag)


def complete(
    bridge: Bridge, session: Session, prompt: Prompt, tag: str, stop: str = acp.END_TURN
) -> None:
    """Answer a prompt whose work has ended without a response of its own (R8: 2 to 5)."""
    if tag == "inferred":
        session.inferred = True
    bridge.note("completed", session=session.id, prompt=prompt.number, completion=tag)
    line = replies.completion(prompt.id, stop, completion=tag)
    present.answer(bridge, session, prompt, line, stop)


def turn_over(bridge: Bridge, session: Session, how: str) -> None:
    """A turn without an owner has ended with `how`."""
    end_segment(bridge, session, how)
    if session.at_agent:
        session.phase = Phase.HELD
        session.turn = Turn(bridge.now, bridge.now)
        return
    remember_end(bridge, session)
    prompts.settle(bridge, session)


def marked_over(bridge: Bridge, session: Session, cause: Cause) -> None:
    """The end marker was followed by enough silence (R9)."""
    if session.turn is not None and session.turn.marked:
        turn_over(bridge, session, "marker")


def quiet_over(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Quiet for long enough, with nothing better to go by (R8: 5)."""
    turn = session.turn
    if turn is None or session.owner() is not None:
        return
    if turn.last_work_s + quiet_s(bridge, session) > bridge.now:
        watch_quiet(bridge, session)
        return
    turn_over(bridge, session, "quiet")


def remember_end(bridge: Bridge, session: Session) -> None:
    """Keep what later chunks are compared with: when the turn ended, and its messages (R13)."""
    session.answered_s = bridge.now
    session.answered_messages = session.turn.messages if session.turn else set()
