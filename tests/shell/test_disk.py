"""The disk's task, its thread and a real journal in a temporary directory."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, ClassVar

import pytest
import trio

from acpbridge.config import Limits
from acpbridge.core.effects import Adopt, FindKey, Persist, PersistAlias, Recover, Tell
from acpbridge.core.events import KeyFound, Persisted, PersistFailed, Recovered
from acpbridge.shell.disk import Disk
from acpbridge.shell.journaling import Journaling
from acpbridge.shell.notes import Notes, Sink
from acpbridge.store.journal import Archive
from tests.shell.clock import passes
from tests.store.journal.made import die

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trio.testing import MockClock

    from acpbridge.core.events import Event
    from acpbridge.shell.journaling import DiskEffect
    from acpbridge.store.journal import Journal

LINE = (
    b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","_meta":'
    b'{"token":"hush"},"prompt":[{"type":"text","text":"hello"}]}}'
)
LOOKS_MAX = 100
"""Looks at the file; the clock is fast and the thread is not."""


def accepted(number: int = 1, key: str = "") -> Persist:
    return Persist(0, number, "accepted", "s", LINE, key=key)


def sending(token: int, number: int = 1) -> Persist:
    return Persist(token, number, "sending", "s")


class Rig:
    """A disk in a nursery, and what it fed."""

    made: ClassVar[list[Rig]] = []

    def __init__(self, state_dir: Path, nonce: str = "one") -> None:
        self.made.append(self)
        self.state_dir = state_dir
        self.events: list[Event] = []
        self.came = trio.lowlevel.ParkingLot()
        self.sink = Sink(2, bytes_max=10_000)
        self.disk = Disk(
            Journaling(state_dir, nonce, 30.0, 1 << 28),
            feed=self._feed,
            notes=Notes(self.sink, level="info"),
            limits=Limits(),
        )

    def _feed(self, event: Event) -> None:
        self.events.append(event)
        self.came.unpark_all()

    async def ask(self, *effects: DiskEffect) -> Event:
        """Take effects and return the answer that comes last of their number."""
        count = len(self.events) + 1
        for effect in effects:
            self.disk.take(effect)
        await self.until(lambda: len(self.events) >= count)
        return self.events[-1]

    async def until(self, true: Callable[[], object]) -> None:
        """Return once it is true of the events; the disk's thread has no part in the clock."""
        with trio.fail_after(5_000):
            while not true():
                await self.came.park()

    @classmethod
    async def lived(cls, state_dir: Path, nonce: str, *asked: Sequence[DiskEffect]) -> Rig:
        """A disk that has answered these and runs no more; its lock is held until `kill`."""
        rig = cls(state_dir, nonce)
        async with trio.open_nursery() as life:
            life.start_soon(rig.disk.run)
            for effects in asked:
                await rig.ask(*effects)
            life.cancel_scope.cancel()
        return rig

    def kill(self) -> None:
        """As a kill does: the lock falls, and nothing is said."""
        die(self.journal)

    @property
    def journal(self) -> Journal:
        """The one that its thread has opened."""
        found = self.disk._journaling._journal
        assert found is not None
        return found

    def recovered(self) -> list[Recovered]:
        """What was found of former lives, where anything was."""
        return [one for one in self.events if isinstance(one, Recovered) and one.kept]

    def states(self) -> list[str]:
        """The states of all prompts, as another process reads them."""
        opened = Archive.open(self.state_dir)
        assert opened is not None
        with closing(opened) as archive:
            return [prompt.shown_state for prompt in archive.list_prompts()]

    def told(self) -> str:
        """What the log was told."""
        return b"".join(bytes(piece) for piece in self.sink._pieces).decode()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what a test has left open; a killed one is closed already."""
    yield
    for one in Rig.made:
        one.disk._journaling.close()
    Rig.made.clear()


@pytest.fixture
def fast_clock(mock_clock: MockClock) -> MockClock:
    """A thread is no blocked task, so an autojump clock would jump over its work."""
    mock_clock.rate = 100.0
    return mock_clock


@pytest.fixture
async def rig(tmp_path: Path, nursery: trio.Nursery) -> Rig:
    made = Rig(tmp_path / "state")
    nursery.start_soon(made.disk.run)
    return made


async def test_an_intent_is_in_the_file_when_it_is_answered(rig: Rig) -> None:
    """I8; and another process can see it."""
    assert Persisted(7) == await rig.ask(accepted(), sending(7))
    assert ["sending"] == rig.states()


async def test_what_nobody_waits_for_is_written_soon(rig: Rig, fast_clock: MockClock) -> None:
    await rig.ask(accepted(), sending(1))
    rig.disk.take(Persist(0, 1, "written", "s"))
    assert ["sending"] == rig.states()
    for _ in range(LOOKS_MAX):
        await passes(Limits().journal_gather_s * 2)
        if rig.states() == ["written"]:
            break

    assert ["written"] == rig.states()


async def test_the_end_writes_what_is_left(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state")
    rig.disk.take(accepted())
    await rig.disk.end()

    assert ["undelivered"] == rig.states(), "nobody is left who would send it"


async def test_a_disk_that_fails_refuses_in_words_and_is_tried_again(
    tmp_path: Path, nursery: trio.Nursery, fast_clock: MockClock
) -> None:
    """What nobody waited for is kept, and written when there is a disk again."""
    in_the_way = tmp_path / "state"
    in_the_way.write_text("no directory")
    rig = Rig(in_the_way)
    nursery.start_soon(rig.disk.run)
    failed = await rig.ask(accepted(), sending(1))
    assert isinstance(failed, PersistFailed)
    assert str(in_the_way) in failed.reason
    rig.disk.take(Persist(0, 1, "answered", "s", completion="not-durable"))
    in_the_way.unlink()
    with trio.fail_after(5_000):
        while "journal_works_again" not in rig.told():
            await passes(1)
    await passes(60)

    assert ["answered"] == rig.states()
    assert rig.told().count("journal_degraded") == 1
    assert rig.told().count("journal_works_again") == 1


async def test_every_question_is_answered_by_a_failing_disk(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """A load and a keyed prompt must not wait for a disk that is gone."""
    in_the_way = tmp_path / "state"
    in_the_way.write_text("no directory")
    rig = Rig(in_the_way)
    nursery.start_soon(rig.disk.run)

    assert Recovered("s") == await rig.ask(Recover("s"))
    assert isinstance(await rig.ask(FindKey(3, "s", "k")), PersistFailed)


async def test_the_alias_chain_of_a_session_is_found_again(rig: Rig) -> None:
    """R25: after a restart the tip is loaded."""
    answer = await rig.ask(PersistAlias("s", 1, "t"), PersistAlias("s", 2, "u"), Recover("s"))

    assert Recovered("s", generation=2, tip="u") == answer


async def test_a_session_with_a_result_is_known_to_have_had_a_turn(rig: Rig) -> None:
    """R25: an agent that loads it and replays nothing has lost it."""
    states = ("sending", "written", "started", "settled")
    ways = [Persist(0, 1, state, "s", completion="response") for state in states]
    assert Recovered("s", settled=False) == await rig.ask(Recover("s"))

    assert Recovered("s", settled=True) == await rig.ask(accepted(), *ways, Recover("s"))


async def test_a_key_leads_to_its_answer(rig: Rig) -> None:
    await rig.ask(accepted(key="k"), sending(1))
    for state in ("written", "started"):
        rig.disk.take(Persist(0, 1, state, "s"))
    rig.disk.take(
        Persist(0, 1, "settled", "s", completion="response", answer=b'{"stopReason":"end_turn"}')
    )
    found = await rig.ask(
        Persist(0, 1, "answered", "s", completion="response"), FindKey(9, "s", "k")
    )

    assert isinstance(found, KeyFound)
    assert found.prompt is not None
    assert ("answered", b'{"stopReason":"end_turn"}', 0) == (
        found.prompt.state,
        found.prompt.answer,
        found.prompt.pid,
    )
    assert KeyFound(10) == await rig.ask(FindKey(10, "s", "another"))


async def test_a_key_that_another_bridge_took_meanwhile_refuses_the_prompt(
    rig: Rig, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """The same key never runs twice, whoever looked first."""
    other = Rig(tmp_path / "state", "two")
    nursery.start_soon(other.disk.run)
    await other.ask(accepted(key="k"), sending(1))
    failed = await rig.ask(accepted(key="k"), sending(1))
    assert isinstance(failed, PersistFailed)
    assert "promptKey" in failed.reason

    assert Persisted(2) == await rig.ask(accepted(2), sending(2, 2))


async def test_what_a_dead_run_left_is_told_sent_or_adopted_once(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Undelivered prompts keep their text; unknown ones are only told of."""
    state_dir = tmp_path / "state"
    one, two = (accepted(), sending(1)), (accepted(2), accepted(3), sending(2, 3))
    (await Rig.lived(state_dir, "dead", one, two)).kill()
    rig = Rig(state_dir, "next")
    nursery.start_soon(rig.disk.run)
    found = await rig.ask(Recover("s"))
    assert isinstance(found, Recovered)
    assert [("unknown", b""), ("undelivered", b'[{"type":"text","text":"hello"}]')] == [
        (kept.state, kept.content) for kept in found.kept[:2]
    ]
    ids = [kept.id for kept in found.kept]
    again = await rig.ask(Tell(tuple(ids)), Recover("s"))
    assert isinstance(again, Recovered)
    assert [ids[1]] == [kept.id for kept in again.kept], "told of, and still undelivered"

    assert Persisted(4) == await rig.ask(Adopt(ids[1], 1, "s"), sending(4))
    failed = await rig.ask(Adopt(ids[1], 2, "s"), sending(5, 2))
    assert isinstance(failed, PersistFailed)
    assert "another bridge" in failed.reason


async def test_a_session_of_a_live_bridge_is_looked_at_until_its_lock_falls(
    tmp_path: Path, nursery: trio.Nursery, fast_clock: MockClock
) -> None:
    state_dir = tmp_path / "state"
    live = await Rig.lived(state_dir, "live", (accepted(), sending(1)))
    rig = Rig(state_dir, "second")
    nursery.start_soon(rig.disk.run)
    found = await rig.ask(Recover("s"))
    assert isinstance(found, Recovered)
    assert found.pid
    assert not found.kept
    live.kill()
    await rig.until(rig.recovered)

    assert [["unknown"]] == [[kept.state for kept in one.kept] for one in rig.recovered()]


async def test_at_its_start_a_run_takes_over_what_any_session_of_a_dead_one_left(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Nobody may ever load it again; `acpbridge prompts` and the log tell of it all the same."""
    state_dir = tmp_path / "state"
    one, two = (accepted(key="k"), sending(1)), (accepted(2, key="l"), Recover("s"))
    (await Rig.lived(state_dir, "dead", one, two)).kill()
    rig = Rig(state_dir, "next")
    nursery.start_soon(rig.disk.run)
    assert Recovered("") == await rig.ask(Recover(""))
    assert ["undelivered", "unknown"] == rig.states()
    assert "prompts_recovered" in rig.told()

    found = await rig.ask(Recover("s"))
    assert isinstance(found, Recovered)
    assert [("k", False), ("l", False)] == [(one.key, one.told) for one in found.kept]
    again = await rig.ask(Tell(tuple(one.id for one in found.kept)), Recover("s"))
    assert isinstance(again, Recovered)
    assert [("l", True)] == [(one.key, one.told) for one in again.kept]


async def test_what_was_sent_for_nobody_and_became_unknown_is_told_once(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """It is this run's, and no later run may tell of it again."""
    rig = Rig(tmp_path / "state")
    nursery.start_soon(rig.disk.run)
    unknown = [Persist(0, 1, state, "s") for state in ("written", "unknown")]
    await rig.ask(accepted(), sending(1), *unknown, Tell((1,)), Recover("s"))
    await rig.disk.end()
    later = Rig(tmp_path / "state", "later")
    nursery.start_soon(later.disk.run)

    assert Recovered("s") == await later.ask(Recover("s"))
