"""The fast path changes nothing but the time that it takes.

The same dialogues are played with every line parsed and with chunks known by their shape: what
both sides see, what is recorded, what is counted and which timers run must be the same.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.core.events import AgentSent, AgentStreamed
from acpbridge.profiles import agent_named
from acpbridge.wire.frame import Frame
from acpbridge.wire.shapes import Chunks
from tests.core.as_written import AS_WRITTEN
from tests.core.moves import MOVES, world
from tests.core.reach import PLACES, at, forget, kinds, running
from tests.core.script import (
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    cancel,
    chunk,
    dumps,
    echo,
    ended,
    prompt,
    tool,
    usage,
)
from tests.core.table_cells import CELLS, Cell


def told(talk: Talk) -> tuple[Any, ...]:
    """All that can be seen of a dialogue from outside."""
    notes = [(note.name, note.level) for note in talk.notes]
    return (talk.dialogue, talk.persists, notes, talk.bridge.counters, sorted(talk.timers.items()))


# -- it is taken, and where it is not -------------------------------------------------------------
def streaming(agent: str = "hermes", client: str = "generic", **policy: Any) -> Talk:
    """A turn in full flow: from here on plain chunks need no thought."""
    talk = Talk(agent, client, **policy)
    running(talk)
    talk.agent(chunk("a"), chunk("b"))
    forget(talk)
    return talk


@pytest.mark.parametrize("agent", ["hermes", "claude", "codex", "generic"])
@pytest.mark.parametrize("client", ["generic", "codeg"])
def test_a_stream_takes_the_fast_path_byte_for_byte(agent: str, client: str) -> None:
    """Section 5: "an anchored prefix is enough", for Hermes with its receipt texts too."""
    talk = streaming(agent, client)
    frames = [chunk(f'word {number} — ⏩\n"') for number in range(10)]
    before_s = talk.bridge.now
    talk.wait(1.0)
    talk.agent(*frames)

    assert [dumps(frame) for frame in frames] == talk.client_lines
    assert before_s == talk.bridge.now, "a step that was thought about sets the clock"


@pytest.mark.parametrize(
    "frame",
    [
        chunk(QUEUED),
        chunk(REDIRECTED),
        chunk("⏩ Steer queued for the active turn: x"),
        chunk("No active turn — queued for the next turn. (1 queued)"),
        chunk("Queued for the next turn. (that much is the head)"),
        chunk(""),
        chunk("x", "s2"),
        usage(),
        tool(),
        echo("x"),
        ended(1),
    ],
)
def test_what_needs_thought_is_thought_about(frame: Json) -> None:
    """R10: what may be a receipt; and every frame that is no plain chunk of this turn."""
    talk = streaming()
    talk.wait(1.0)
    talk.agent(frame)

    assert talk.now == talk.bridge.now


def is_cancelled(talk: Talk) -> None:
    talk.client(cancel())


def writes_more(talk: Talk) -> None:
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))


@pytest.mark.parametrize(
    ("act", "client"),
    [
        (is_cancelled, "codeg"),
        (writes_more, "generic"),
        (lambda talk: talk.agent(usage(), ended(1)), "generic"),
    ],
    ids=["muted", "two at the agent", "answered"],
)
def test_it_is_not_taken_where_a_chunk_means_more(act: Any, client: str) -> None:
    """Whatever happens in between, the next chunk is looked at again first."""
    talk = streaming("hermes", client, on_disconnect="finish")
    act(talk)
    forget(talk)
    for _ in range(3):
        talk.wait(1.0)
        talk.agent(chunk("c"))

        assert talk.now == talk.bridge.now


def test_a_turn_that_is_finished_goes_on_streaming() -> None:
    """R23, on_disconnect finish: the client writes no more, and may still read."""
    talk = streaming("hermes", on_disconnect="finish")
    talk.leave()
    forget(talk)
    talk.agent(*(chunk("c") for _ in range(5)))

    assert 5 == len(talk.client_lines)


def test_frames_of_another_run_are_dropped() -> None:
    """R22: what a dead process wrote is nobody's turn any more."""
    talk = streaming()
    frame = talk.shapes.peek(dumps(chunk("c")))
    assert isinstance(frame, Frame)
    assert frame.plain
    talk.feed(AgentSent(talk.bridge.run - 1, frame))

    assert [] == talk.seen()


def test_a_profile_with_a_pattern_without_a_head_never_takes_it() -> None:
    """Profiles: such a pattern makes every chunk worth a look."""
    talk = Talk(evolve(agent_named("generic"), receipts_queued=(r".* noted\.",)))
    running(talk)
    talk.agent(chunk("a"), chunk("b"))
    talk.wait(1.0)
    talk.agent(chunk("c"))

    assert talk.now == talk.bridge.now
    talk.agent(chunk("one noted."), ended(1, usage=False))
    assert "one noted." not in kinds(talk.seen())


def test_the_gap_before_an_answer_knows_of_fast_chunks() -> None:
    """Client profiles, `answer_gap`: it counts from the last update, however that came."""
    talk = streaming("hermes", "codeg")
    talk.wait(1.0)
    talk.agent(chunk("c"), ended(1))
    talk.wait(0.09)

    assert ["c"] == kinds(talk.seen())
    talk.wait(0.01)
    assert [(1, "end_turn")] == kinds(talk.seen())


def test_a_turn_that_ends_behind_held_chunks_leaves_no_fast_path() -> None:
    """Found by the search below: what was held and the answer are taken in by one step."""
    talk = at("running")
    talk.agent(chunk(QUEUED), chunk("plain"), ended(1), chunk("plain"))

    assert [QUEUED, "plain", (1, "end_turn"), "plain"] == kinds(talk.seen())
    assert {} == talk.bridge.fast


# -- it is the same ---------------------------------------------------------------------------
@pytest.mark.parametrize("client", ["generic", "codeg"])
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_every_cell_s_dialogue_is_the_same_without_it(cell: Cell, client: str) -> None:
    """The dialogues of the transition table, with a stream before and behind each."""
    both = []
    for shaped in (True, False):
        talk = Talk("hermes", client, shaped=shaped, **cell.policy)
        PLACES[cell.place][1](talk)
        if cell.as_written:
            talk.bridge.table = AS_WRITTEN
        talk.agent(*(chunk("before") for _ in range(3)))
        cell.act(talk)
        talk.agent(*(chunk("behind") for _ in range(3)))
        talk.wait(100.0)
        both.append(told(talk))

    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("agent", "client"), [("hermes", "codeg"), ("hermes", "generic"), ("claude", "codeg")]
)
@given(moves=st.lists(st.sampled_from(MOVES), max_size=40))
def test_any_dialogue_is_the_same_without_it(
    agent: str, client: str, moves: list[Json | float | str]
) -> None:
    """A search for an order of things in which a chunk known by its shape is another chunk."""
    both = []
    for shaped in (True, False):
        talk = Talk(agent, client, shaped=shaped)
        world(talk).make(moves)
        both.append(told(talk))

    assert both[0] == both[1]


# -- chunks in a row ----------------------------------------------------------------------------
def test_a_receipt_text_in_a_row_is_held_and_what_stands_around_it_passes() -> None:
    """R10: the text alone is dropped once it proves to be a receipt, the rest goes on in order."""
    talk = Talk("hermes", "generic")
    running(talk)
    talk.bridge.table = AS_WRITTEN
    talk.client(prompt(2, "two"))
    talk.agent(chunk("a"))
    forget(talk)
    talk.agent(chunk("b"), chunk("c"), chunk(QUEUED), chunk("d"), chunk("e"), ended(2, usage=False))

    assert [dumps(chunk(text)) for text in "bcde"] == talk.client_lines


@pytest.mark.parametrize("shaped", [True, False])
def test_a_row_is_as_good_as_its_lines(*, shaped: bool) -> None:
    """The same reads with and without the fast path: a receipt text among plain chunks."""
    talk = Talk("hermes", "codeg", shaped=shaped)
    running(talk)
    talk.agent(chunk("a"))
    talk.agent(*(chunk(text) for text in ("b", "c", QUEUED, "d", "e")))
    talk.wait(1.0)
    talk.agent(chunk("f"), chunk("g"), ended(1))
    talk.wait(1.0)

    texts = [frame["params"]["update"]["content"]["text"] for frame in talk.seen()[:-1]]
    assert ["a", "b", "c", QUEUED, "d", "e", "f", "g"] == texts


def test_a_row_of_another_run_is_dropped() -> None:
    """R22: what a dead process wrote is nobody's turn any more."""
    talk = streaming()
    (chunks,) = talk.shapes.look([dumps(chunk("c")), dumps(chunk("d"))])
    assert isinstance(chunks, Chunks)
    talk.feed(AgentStreamed(talk.bridge.run - 1, chunks))

    assert [] == talk.seen()
