"""What must hold in a crash schedule: nothing lost, nothing run twice, told once, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.violation import must

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.crash.world import World
    from tests.store.journal.rows import Row


def rows_of(world: World, text: str) -> list[Row]:
    """The prompts of this text that were ever durable, oldest first."""
    words = b'"%b"' % text.encode()
    return [row for row in world.shelf.rows if words in row.content]


def may_write(world: World, text: str) -> None:
    """I3 and I8, at the moment at which its bytes go."""
    must(world.written[text] == world.unrun[text], "I3", f"{text} is written again")
    own = [row for row in rows_of(world, text) if row.run == world.life.nonce]
    is_durable = any(row.state != "accepted" for row in own)
    must(is_durable, "I8", f"{text} is written and no intent is on the disk")


def may_tell(world: World, kept: Iterable[int]) -> None:
    """A client is told once: what is told by the disk's own word is told no more."""
    by_id = {row.id: row for row in world.shelf.rows}
    for id_ in kept:
        row = by_id[id_]
        is_news = row.told_ms is None or id_ in world.adopted
        must(is_news, "R20", f"prompt {id_} is told of twice")
        world.adopted.discard(id_)
        named = any(life == world.number and f"({id_})" in text for life, text in world.said)
        counted = any(life == world.number and " more" in text for life, text in world.said)
        must(named or counted, "R20", f"prompt {id_} is called told, and is not")


def at_the_end(world: World) -> None:
    """Each prompt of each life has come to an end that somebody knows."""
    for text in world.texts:
        fate(world, text)
    if not world.draw.keys:
        for written in world.firsts.values():
            in_order = sorted(written, key=lambda text: int(text[1:]))
            must(written == in_order, "I5", f"written as {written}")


def fate(world: World, text: str) -> str:
    """How this prompt ended, in a word; raises where it did not."""
    if text in world.answers:
        return "answered"
    found = rows_of(world, text)
    if not found:
        # Read, and not on the disk when the bridge died: it must not have gone anywhere.
        must(not world.written[text], "I8", f"{text} ran and nobody knows of it")
        return "not taken"
    row = found[-1]
    what = f"{text} is lost: {row.history}"
    if row.state in ("cancelled", "refused"):
        told = text in world.cancelled or _is_said(world, row.reason)
        must(told, "I1", what)
    elif row.state == "answered":
        must("adopted" in row.history, "I1", f"{what}, called answered")
    elif row.state == "accepted":
        must(row.is_kept, "I10", f"{what}, and nobody has it")
        must(row.told_ms is not None, "R20", f"{what}, and nobody was told")
        must(not world.written[text] - world.unrun[text], "I3", f"{text} ran, and undelivered")
    else:
        must(row.told_ms is not None, "R20", f"{what}, and nobody was told")
    return row.state


def _is_said(world: World, reason: str) -> bool:
    return any(reason and reason[:60] in text for _, text in world.said)
