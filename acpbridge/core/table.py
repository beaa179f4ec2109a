"""THE transition table: what each happening means in each phase. Total by test.

A row is a phase, a column a trigger, a cell the function that acts. `ignore` says that nothing
is to be done and why that is right; `never` says that it cannot happen, and counts it if it does.
What is not in the cells: the load window, the hold behind a receipt text and the frames of a
revival are kept away before a trigger is fired (`bridge.py`).
"""

from __future__ import annotations

from acpbridge.core import answering, cancel, queue, recovery, steering, turn, work
from acpbridge.core.model import Bridge, Cause, Handler, Phase, Session, Trigger


def ignore(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Nothing to do: a timer that is out of date, or news that change nothing here."""


def never(bridge: Bridge, session: Session, cause: Cause) -> None:
    """Cannot happen; counted and named, so that it is a report and not a silent loss."""
    bridge.note("unexpected_event", "error", session=session.id, phase=session.phase.value)


def mark(bridge: Bridge, session: Session, cause: Cause) -> None:
    """MARKER where no request owns the turn."""
    work.mark(bridge, session)


_T = Trigger

_STALE_TIMERS: dict[Trigger, Handler] = {
    _T.QUIET: ignore,
    _T.MARKED: ignore,
    _T.GRACE: ignore,
    _T.TRAIL: ignore,
    _T.WAIT_MAX: ignore,
    _T.SETTLE: ignore,
}

TABLE: dict[Phase, dict[Trigger, Handler]] = {
    Phase.IDLE: {
        **_STALE_TIMERS,
        _T.WANT: queue.send_next,
        _T.READY: never,
        _T.CHUNK: turn.idle_chunk,
        _T.WORK: turn.open_ownerless,
        _T.ECHO: turn.open_ownerless_by_echo,
        _T.MARKER: ignore,
        _T.ANSWER: never,
        _T.CANCEL: cancel.cancel_nothing,
        _T.STEER: steering.unwritten,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: ignore,
        _T.UNREVIVED: never,
    },
    Phase.RUNNING: {
        **_STALE_TIMERS,
        _T.WANT: steering.want,
        _T.READY: queue.write,
        _T.CHUNK: turn.work_on,
        _T.WORK: turn.work_on,
        _T.ECHO: turn.echo,
        _T.MARKER: ignore,
        _T.ANSWER: answering.answered,
        _T.CANCEL: cancel.cancel_running,
        _T.GRACE: answering.grace_over,
        _T.STEER: steering.write,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: never,
        _T.UNREVIVED: never,
    },
    Phase.HELD: {
        **_STALE_TIMERS,
        _T.WANT: queue.wait,
        _T.READY: never,
        _T.CHUNK: turn.held_work,
        _T.WORK: turn.held_work,
        _T.ECHO: turn.echo,
        _T.MARKER: mark,
        _T.ANSWER: never,
        _T.CANCEL: cancel.cancel_held,
        _T.QUIET: turn.quiet_over,
        _T.MARKED: turn.marked_over,
        _T.GRACE: answering.grace_over,
        _T.STEER: steering.unwritten,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: never,
        _T.UNREVIVED: never,
    },
    Phase.TRAILING: {
        **_STALE_TIMERS,
        _T.WANT: turn.wait_trailing,
        _T.READY: never,
        _T.CHUNK: turn.trail_on,
        _T.WORK: turn.open_ownerless,
        _T.ECHO: turn.open_ownerless_by_echo,
        _T.MARKER: ignore,
        _T.ANSWER: never,
        _T.CANCEL: cancel.cancel_nothing,
        _T.TRAIL: turn.trail_over,
        _T.STEER: steering.unwritten,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: never,
        _T.UNREVIVED: never,
    },
    Phase.OWNERLESS: {
        **_STALE_TIMERS,
        _T.WANT: turn.wait_ownerless,
        _T.READY: never,
        _T.CHUNK: turn.work_on,
        _T.WORK: turn.work_on,
        _T.ECHO: turn.echo,
        _T.MARKER: mark,
        _T.ANSWER: never,
        _T.CANCEL: cancel.cancel_ownerless,
        _T.QUIET: turn.quiet_over,
        _T.MARKED: turn.marked_over,
        _T.WAIT_MAX: turn.waited_enough,
        _T.STEER: steering.unwritten,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: never,
        _T.UNREVIVED: never,
    },
    Phase.CANCELLING: {
        **_STALE_TIMERS,
        _T.WANT: queue.wait,
        _T.READY: never,
        _T.CHUNK: turn.work_on,
        _T.WORK: turn.work_on,
        _T.ECHO: turn.echo,
        _T.MARKER: mark,
        _T.ANSWER: answering.answered,
        _T.CANCEL: cancel.cancel_again,
        _T.QUIET: turn.quiet_over,
        _T.MARKED: turn.marked_over,
        _T.SETTLE: cancel.settle_failed,
        _T.GRACE: answering.grace_over,
        _T.STEER: never,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: never,
        _T.UNREVIVED: never,
    },
    Phase.WEDGED: {
        **_STALE_TIMERS,
        _T.WANT: recovery.recover,
        _T.READY: never,
        _T.CHUNK: recovery.works_after_all,
        _T.WORK: recovery.works_after_all,
        _T.ECHO: recovery.works_after_all,
        _T.MARKER: ignore,
        _T.ANSWER: answering.answered,
        _T.CANCEL: cancel.cancel_nothing,
        _T.STEER: never,
        _T.VERDICT: steering.answered,
        _T.SILENT: steering.silent,
        _T.GONE: recovery.lose,
        _T.REVIVED: recovery.revived,
        _T.UNREVIVED: recovery.unrevived,
    },
    Phase.LOST: {
        **_STALE_TIMERS,
        _T.WANT: recovery.revive,
        _T.READY: never,
        _T.CHUNK: ignore,
        _T.WORK: ignore,
        _T.ECHO: ignore,
        _T.MARKER: ignore,
        _T.ANSWER: never,
        _T.CANCEL: cancel.cancel_nothing,
        _T.STEER: never,
        _T.VERDICT: never,
        _T.SILENT: ignore,
        _T.GONE: recovery.lose,
        _T.REVIVED: recovery.revived,
        _T.UNREVIVED: recovery.unrevived,
    },
}
