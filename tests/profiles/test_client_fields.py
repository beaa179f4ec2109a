"""Every field of a client profile does what its docstring promises: one dialogue for each.

Played with a profile that has only the default and with one that has only this value; what the
fields do together is Codeg's own test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, fields, fields_dict, frozen

from acpbridge.core.bridge import start, step
from acpbridge.core.events import ClientSent
from acpbridge.core.policy import Policy
from acpbridge.profiles import ClientProfile, client_named
from acpbridge.wire.frame import Frame, peek
from tests.core import reach
from tests.core.reach import forget, kinds
from tests.core.script import (
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    dumps,
    echo,
    ended,
    error,
    permission,
    prompt,
    request,
)


def talk_with(profile: ClientProfile, place: str) -> Talk:
    talk = Talk("hermes", profile)
    reach.PLACES[place][1](talk)
    forget(talk)
    return talk


def said(talk: Talk, seconds: float = 0.0) -> list[Any]:
    talk.wait(seconds)
    return kinds(talk.seen())


# -- the dialogues ------------------------------------------------------------------------------
def told_name(profile: ClientProfile) -> Any:
    talk = Talk("hermes", profile)
    talk.initialize()
    return [note.fields["client_profile"] for note in talk.notes if note.name == "initialized"]


def chosen_by_name(profile: ClientProfile) -> Any:
    """Which profile a client that names itself gets, where none was chosen by option."""
    bridge = start(Policy(), None, None, "n")
    info = {"clientInfo": {"name": (*profile.client_names, "?")[0]}}
    asked = peek(dumps(request(1, "initialize", info)), strict=True)
    assert isinstance(asked, Frame)
    step(bridge, 0.0, ClientSent(asked))
    return bridge.client.name


def failed(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.agent(error(1, -32000, "broke"))
    return said(talk)


def answered_after_a_chunk(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.agent(chunk("b"), ended(1))
    return said(talk), said(talk, 0.3)


def trickling(profile: ClientProfile) -> Any:
    """Chunks that go on behind an answer: how long they put it off."""
    talk = talk_with(evolve(profile, answer_gap_s=0.25), "working")
    talk.agent(chunk("b"), ended(1))
    for eighths in range(30):
        talk.wait(0.125)
        talk.agent(chunk("tail"))
        if (1, "end_turn") in kinds(talk.seen()):
            return eighths + 1
    return None


def without_output(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "running")
    talk.agent(ended(1))
    return said(talk)


def late(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "idle")
    talk.agent(chunk("late"))
    now = said(talk)
    talk.client(prompt(1, "one"))
    return now, said(talk)


def work_after_the_cancel(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.client(cancel())
    talk.agent(chunk("b"), ended(1, "cancelled"))
    return said(talk)


def resumed(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "idle")
    params = {"sessionId": "s1", "cwd": "/w", "mcpServers": []}
    talk.client(request("r", "session/resume", params))
    talk.agent(chunk("history"), answer("r", {"models": {}}))
    return said(talk)


def echoed(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.agent(echo("one"))
    return said(talk)


def null_result(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "idle")
    talk.client(reach.set_mode("m"))
    talk.agent(answer("m", None))
    return [one["result"] for one in talk.seen()]


def unasked_cancel(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.agent(ended(1, "cancelled"))
    return said(talk)


def withdrawn(profile: ClientProfile) -> Any:
    talk = talk_with(profile, "working")
    talk.agent(permission(7))
    forget(talk)
    talk.client(cancel())
    return said(talk)


# -- the table ----------------------------------------------------------------------------------
@frozen
class Row:
    field: str
    value: Any
    play: Callable[[ClientProfile], Any]
    without: Any
    """What comes of it with the field's default."""
    with_it: Any


WORDS = "The agent answered with an error: broke"
SILENT = "The agent ended its turn without any output."
ENDED: Any = (1, "end_turn")

ROWS = [
    Row("name", "mine", told_name, ["generic"], ["mine"]),
    Row("client_names", ("codeg",), chosen_by_name, "generic", "codeg"),
    Row("errors_as_text", True, failed, [(1, -32000)], [WORDS, ENDED]),
    Row("answer_gap_s", 0.25, answered_after_a_chunk, (["b", ENDED], []), (["b"], [ENDED])),
    Row("answer_gap_max_s", 0.5, trickling, 8, 4),
    Row("needs_output", True, without_output, [ENDED], [SILENT, ENDED]),
    Row("keeps_late_content", True, late, (["late"], []), ([], ["late"])),
    Row(
        "hides_cancelled_work",
        True,
        work_after_the_cancel,
        ["b", (1, "cancelled")],
        [(1, "cancelled")],
    ),
    Row("hides_resume_content", True, resumed, ["history", ("r", "ok")], [("r", "ok")]),
    Row("hides_echo", True, echoed, ["one"], []),
    Row("null_as_object", True, null_result, [None], [{}]),
    Row("cancelled_only_if_asked", True, unasked_cancel, [(1, "cancelled")], [ENDED]),
    Row("told_of_withdrawal", False, withdrawn, ["$/cancel_request"], []),
]


def test_every_field_has_a_row() -> None:
    """A field that no test reads is a fact about a client that nobody uses (profiles/README)."""
    assert {one.name for one in fields(ClientProfile)} == {row.field for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.field)
def test_a_field_does_what_it_promises(row: Row) -> None:
    """Alone: with the default the dialogue goes one way, with the value the other."""
    profile = client_named("generic")
    if row.field not in ("name", "client_names"):
        assert fields_dict(ClientProfile)[row.field].default == getattr(profile, row.field)

    assert row.without == row.play(profile)
    assert row.with_it == row.play(evolve(profile, **{row.field: row.value}))


def test_the_text_of_an_error_names_what_happened() -> None:
    """Design, errors: what happened, whether it may have run; and its kind beside the answer."""
    talk = talk_with(evolve(client_named("generic"), errors_as_text=True), "working")
    talk.die()
    text, answered = talk.seen()

    assert "may have run" in text["params"]["update"]["content"]["text"]
    assert _kind(answered) == "agent-exited"


def _kind(frame: Json) -> Any:
    return frame["result"]["_meta"]["acpbridge"]["kind"]
