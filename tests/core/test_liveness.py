"""Whatever happens in whatever order: everything is answered once, and the session stays usable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.ledger import ledger
from tests.core.moves import MOVES, World, world
from tests.core.reach import texts
from tests.core.script import Json, Talk, answer, cancel, chunk, ended, prompt


def settle(one: World) -> None:
    """The agent ends what it owes, the client answers and cancels, and time passes."""
    talk = one.talk
    for _ in range(3):
        while one.owes:
            one.answers("ended")
            one.obey()
        talk.client(answer(7, {"outcome": {"outcome": "cancelled"}}), cancel())
        one.wait(400.0)


@pytest.mark.parametrize(
    ("agent", "client"), [("hermes", "codeg"), ("hermes", "generic"), ("claude", "codeg")]
)
@given(moves=st.lists(st.sampled_from(MOVES), max_size=40))
def test_every_prompt_is_answered_once_and_the_next_one_runs(
    agent: str, client: str, moves: list[Json | float | str]
) -> None:
    """I1, I10: after any fault the next prompt on the same connection has its answer too."""
    talk = Talk(agent, client)
    one = world(talk)
    one.make(moves)
    settle(one)
    book = ledger(talk)
    asked = [frame.frame["id"] for frame in book.of("client>") if _is_prompt(frame.frame)]

    assert dict.fromkeys(asked, 1) == {id_: len(book.answers(id_)) for id_ in asked}, talk.show()
    assert 0 == talk.count("unexpected_event"), talk.show()
    if talk.exit_code is None:
        _runs_one_more(one)


def _runs_one_more(one: World) -> None:
    talk = one.talk
    talk.client(prompt("last", "last"))
    one.obey()
    one.wait(400.0)
    if "last" in one.owes:
        talk.agent(chunk("an answer"))
        one.owes.remove("last")
        talk.agent(ended("last"))
        talk.wait(10.0)

    assert 1 == len(ledger(talk).answers("last")), talk.show()


@pytest.mark.parametrize("agent", ["hermes", "claude", "generic"])
@given(moves=st.lists(st.sampled_from(MOVES), max_size=40))
def test_no_prompt_is_written_twice_unless_the_agent_proved_that_it_did_not_run(
    agent: str, moves: list[Json | float | str]
) -> None:
    """I3: each further write stands behind a note that says why."""
    talk = Talk(agent)
    world(talk).make(moves)
    again = sum(count - 1 for count in ledger(talk).writes().values())

    assert again <= talk.count("prompt_taken_back"), talk.show()


@given(moves=st.lists(st.sampled_from(MOVES), max_size=40))
def test_prompts_are_written_in_the_client_s_order(moves: list[Json | float | str]) -> None:
    """I5: nothing overtakes; a prompt that is written again stands where it stood."""
    talk = Talk("hermes")
    world(talk).make(moves)
    written = texts([one.frame for one in ledger(talk).of("agent<")])[1:]
    first = [text for at, text in enumerate(written) if text not in written[:at]]

    assert sorted(first, key=lambda text: int(text[1:])) == first, talk.show()


def _is_prompt(frame: Json) -> bool:
    return frame.get("method") == "session/prompt"
