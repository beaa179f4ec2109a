"""One small dialogue for every cell of the transition table in which something is done.

A row says where the session stands (`reach.PLACES`), what happens, and what comes of it: what the
client sees, what the agent gets, and where the session stands then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from acpbridge.core.phases import Phase, Trigger
from tests.core.reach import called_wedged, forget, initialized, loaded, owed
from tests.core.script import (
    Talk,
    cancel,
    chunk,
    echo,
    ended,
    error,
    permission,
    prompt,
    tool,
    usage,
    wedge,
)

P, T = Phase, Trigger

Act = Callable[[Talk], Any]

KEEPS = "The agent keeps this message for after its running turn; waiting for its answer."
OWN_WORK = (
    "The agent is busy with work of its own; this message goes to it when that has ended, "
    "or in 300 s."
)


@frozen
class Cell:
    """One cell, and the dialogue that reaches it."""

    phase: Phase
    trigger: Trigger
    place: str
    act: Act
    seen: list[Any]
    """What the client sees, in short (`reach.kinds`)."""
    got: list[Any]
    """What the agent gets, in short."""
    then: Phase
    policy: dict[str, Any] = field(factory=dict)
    as_written: bool = False
    """With the other WANT column of `as_written.py`: two prompts of ours at the agent at once,
    as steering will have them (R14)."""

    def __str__(self) -> str:
        return f"{self.phase.value}-{self.trigger.value}"


def agent(*frames: Any) -> Act:
    return lambda talk: talk.agent(*frames)


def client(*frames: Any) -> Act:
    return lambda talk: talk.client(*frames)


def waits(seconds: float) -> Act:
    return lambda talk: talk.wait(seconds)


def dies(talk: Talk) -> None:
    talk.die()


def then(*acts: Act) -> Act:
    def act(talk: Talk) -> None:
        for one in acts:
            one(talk)

    return act


def unsaid(talk: Talk) -> None:
    forget(talk)


def disk_answers(talk: Talk) -> None:
    talk.disk = True
    talk.persisted()


def disk_sleeps(talk: Talk) -> None:
    talk.disk = False


CANCEL_KEPT = then(waits(0.5), client(cancel()), agent(chunk("other"), usage()), waits(5.0), unsaid)
"""A kept prompt is cancelled and its turn ends: what is left is a ghost (R19)."""


def load_refused(talk: Talk) -> None:
    talk.agent(error(owed(talk, "session/load")["id"], -32002, "no such session"))


def fork_refused(talk: Talk) -> None:
    talk.agent(error(owed(talk, "session/fork")["id"], -32603))


_IDLE = [
    Cell(P.IDLE, T.WANT, "idle", client(prompt(1)), [], ["session/prompt"], P.RUNNING),
    Cell(P.IDLE, T.CHUNK, "idle", agent(chunk("x")), ["x"], [], P.OWNERLESS),
    Cell(P.IDLE, T.WORK, "idle", agent(tool()), ["tool_call"], [], P.OWNERLESS),
    Cell(P.IDLE, T.ECHO, "idle", agent(echo("x")), ["x"], [], P.OWNERLESS),
    Cell(P.IDLE, T.CANCEL, "idle", client(cancel()), [], [], P.IDLE),
    Cell(P.IDLE, T.GONE, "idle", dies, [], [], P.LOST),
]

_RUNNING = [
    Cell(P.RUNNING, T.WANT, "running", client(prompt(2)), [], [], P.RUNNING),
    Cell(P.RUNNING, T.READY, "sending", disk_answers, [], ["session/prompt"], P.RUNNING),
    Cell(P.RUNNING, T.CHUNK, "running", agent(chunk("x")), ["x"], [], P.RUNNING),
    Cell(P.RUNNING, T.WORK, "running", agent(tool()), ["tool_call"], [], P.RUNNING),
    Cell(P.RUNNING, T.ECHO, "running", agent(echo("x")), ["x"], [], P.RUNNING),
    Cell(P.RUNNING, T.ANSWER, "running", agent(ended(1)), [(1, "end_turn")], [], P.IDLE),
    Cell(P.RUNNING, T.CANCEL, "working", client(cancel()), [], ["session/cancel"], P.CANCELLING),
    Cell(
        P.RUNNING,
        T.GRACE,
        "working",
        then(client(prompt(2)), agent(ended(2, usage=False)), waits(0.5)),
        [(2, "end_turn")],
        ["session/prompt"],
        P.RUNNING,
        as_written=True,
    ),
    Cell(P.RUNNING, T.GONE, "running", dies, [(1, "agent-exited")], [], P.LOST),
]

_HELD = [
    Cell(P.HELD, T.WANT, "segment", client(prompt(2)), [], [], P.HELD),
    Cell(P.HELD, T.CHUNK, "kept", agent(chunk("x")), ["x"], [], P.HELD),
    Cell(P.HELD, T.WORK, "joined", agent(tool()), ["tool_call"], [], P.HELD),
    Cell(P.HELD, T.ECHO, "kept", agent(echo("one")), ["one"], [], P.HELD),
    Cell(P.HELD, T.MARKER, "segment", agent(usage()), ["usage_update"], [], P.HELD),
    Cell(
        P.HELD,
        T.CANCEL,
        "kept",
        then(client(cancel()), waits(0.1)),
        [(1, "cancelled")],
        ["session/cancel"],
        P.CANCELLING,
    ),
    Cell(P.HELD, T.QUIET, "segment", waits(60.0), [(1, "end_turn")], [], P.IDLE),
    Cell(
        P.HELD,
        T.MARKED,
        "segment",
        then(agent(usage()), waits(1.0)),
        ["usage_update", (1, "end_turn")],
        [],
        P.IDLE,
    ),
    Cell(P.HELD, T.GRACE, "doubted", waits(0.5), [(1, "end_turn")], [], P.IDLE),
    Cell(P.HELD, T.GONE, "kept", dies, [(1, "agent-exited")], [], P.LOST),
]

_TRAILING = [
    Cell(P.TRAILING, T.WANT, "trailing", client(prompt(2)), [], [], P.TRAILING),
    Cell(P.TRAILING, T.CHUNK, "trailing", agent(chunk("x")), ["x"], [], P.TRAILING),
    Cell(P.TRAILING, T.WORK, "trailing", agent(tool()), ["tool_call"], [], P.OWNERLESS),
    Cell(P.TRAILING, T.ECHO, "trailing", agent(echo("x")), ["x"], [], P.OWNERLESS),
    Cell(P.TRAILING, T.CANCEL, "trailing", client(cancel()), [], [], P.TRAILING),
    Cell(P.TRAILING, T.TRAIL, "trailing", waits(0.25), [], [], P.IDLE),
    Cell(P.TRAILING, T.GONE, "trailing", dies, [], [], P.LOST),
]

_OWNERLESS = [
    Cell(P.OWNERLESS, T.WANT, "ownerless", client(prompt(1)), [], [], P.OWNERLESS),
    Cell(P.OWNERLESS, T.CHUNK, "ownerless", agent(chunk("x")), ["x"], [], P.OWNERLESS),
    Cell(P.OWNERLESS, T.WORK, "ownerless", agent(tool()), ["tool_call"], [], P.OWNERLESS),
    Cell(P.OWNERLESS, T.ECHO, "ownerless", agent(echo("x")), ["x"], [], P.OWNERLESS),
    Cell(P.OWNERLESS, T.MARKER, "ownerless", agent(usage()), ["usage_update"], [], P.OWNERLESS),
    Cell(
        P.OWNERLESS,
        T.CANCEL,
        "ownerless",
        then(waits(1.0), client(cancel())),
        [],
        ["session/cancel"],
        P.CANCELLING,
    ),
    Cell(P.OWNERLESS, T.QUIET, "ownerless", waits(60.0), [], [], P.IDLE),
    Cell(
        P.OWNERLESS,
        T.MARKED,
        "ownerless",
        then(agent(usage()), waits(1.0)),
        ["usage_update"],
        [],
        P.IDLE,
    ),
    Cell(
        P.OWNERLESS,
        T.WAIT_MAX,
        "ownerless",
        then(agent(permission(7)), client(prompt(1)), waits(300.0)),
        ["session/request_permission", OWN_WORK],
        ["session/prompt"],
        P.RUNNING,
    ),
    Cell(P.OWNERLESS, T.GONE, "ownerless", dies, [], [], P.LOST),
]

_CANCELLING = [
    Cell(P.CANCELLING, T.WANT, "cancelling", client(prompt(2)), [], [], P.CANCELLING),
    Cell(P.CANCELLING, T.CHUNK, "cancelling", agent(chunk("x")), ["x"], [], P.CANCELLING),
    Cell(P.CANCELLING, T.WORK, "cancelling", agent(tool()), ["tool_call"], [], P.CANCELLING),
    Cell(P.CANCELLING, T.ECHO, "cancelling", agent(echo("x")), ["x"], [], P.CANCELLING),
    Cell(P.CANCELLING, T.MARKER, "cancelling", agent(usage()), ["usage_update"], [], P.CANCELLING),
    Cell(
        P.CANCELLING,
        T.ANSWER,
        "cancelling",
        agent(ended(1, "cancelled")),
        [(1, "cancelled")],
        [],
        P.IDLE,
    ),
    Cell(P.CANCELLING, T.CANCEL, "cancelling", client(cancel()), [], [], P.CANCELLING),
    Cell(
        P.CANCELLING,
        T.QUIET,
        "ownerless",
        then(waits(1.0), client(cancel()), waits(5.0)),
        [],
        ["session/cancel"],
        P.IDLE,
    ),
    Cell(
        P.CANCELLING,
        T.MARKED,
        "ownerless",
        then(waits(1.0), client(cancel()), agent(usage()), waits(1.0)),
        ["usage_update"],
        ["session/cancel"],
        P.IDLE,
    ),
    Cell(P.CANCELLING, T.SETTLE, "cancelling", waits(29.5), [(1, "wedged")], [], P.WEDGED),
    Cell(
        P.CANCELLING,
        T.GRACE,
        "kept",
        then(
            CANCEL_KEPT,
            client(prompt(2)),
            agent(ended(2, usage=False), echo("one")),
            unsaid,
            waits(0.5),
        ),
        [(2, "end_turn")],
        ["session/cancel"],
        P.IDLE,
    ),
    Cell(P.CANCELLING, T.GONE, "cancelling", dies, [(1, "agent-exited")], [], P.LOST),
]

_WEDGED = [
    Cell(
        P.WEDGED,
        T.WANT,
        "wedged",
        then(client(prompt(2)), waits(0.1)),
        [],
        ["session/fork"],
        P.WEDGED,
        policy={"restart": False},
    ),
    Cell(
        P.WEDGED,
        T.ANSWER,
        "running",
        then(client(prompt(2)), agent(wedge(1), ended(2))),
        [(1, "wedged"), (2, "end_turn")],
        ["session/prompt"],
        P.WEDGED,
        as_written=True,
    ),
    Cell(
        P.WEDGED,
        T.CHUNK,
        "ownerless",
        then(called_wedged, agent(chunk("x"))),
        ["x"],
        [],
        P.HELD,
    ),
    Cell(
        P.WEDGED,
        T.WORK,
        "ownerless",
        then(called_wedged, agent(tool())),
        ["tool_call"],
        [],
        P.HELD,
    ),
    Cell(
        P.WEDGED,
        T.ECHO,
        "ownerless",
        then(called_wedged, agent(echo("one"))),
        ["one"],
        [],
        P.HELD,
    ),
    Cell(P.WEDGED, T.CANCEL, "wedged", client(cancel()), [], [], P.WEDGED),
    Cell(P.WEDGED, T.GONE, "wedged", dies, [], [], P.LOST),
    Cell(
        P.WEDGED,
        T.REVIVED,
        "cancelling",
        then(waits(30.0), agent(ended(1, "cancelled"))),
        [(1, "wedged")],
        [],
        P.IDLE,
    ),
    Cell(
        P.WEDGED,
        T.UNREVIVED,
        "wedged",
        then(client(prompt(2)), waits(0.1), fork_refused),
        [(2, "wedged")],
        [],
        P.WEDGED,
        policy={"restart": False},
    ),
]

_LOST = [
    Cell(P.LOST, T.WANT, "lost", client(prompt(1)), [], ["initialize"], P.LOST),
    Cell(P.LOST, T.CANCEL, "lost", client(cancel()), [], [], P.LOST),
    Cell(P.LOST, T.GONE, "reviving", dies, [], ["initialize"], P.LOST),
    Cell(
        P.LOST,
        T.REVIVED,
        "lost",
        then(client(prompt(1)), initialized, loaded),
        [],
        ["session/prompt"],
        P.RUNNING,
    ),
    Cell(
        P.LOST,
        T.UNREVIVED,
        "lost",
        then(client(prompt(1)), initialized, load_refused),
        [(1, "session-lost")],
        [],
        P.LOST,
    ),
]

CELLS = [*_IDLE, *_RUNNING, *_HELD, *_TRAILING, *_OWNERLESS, *_CANCELLING, *_WEDGED, *_LOST]
