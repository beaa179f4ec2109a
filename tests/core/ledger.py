"""What must hold of every dialogue, read off the lines of both sides (I1, I3, I6).

These are the global checks G1, G2 and G5 of the field cases. Nothing here looks into the bridge.
"""

from __future__ import annotations

import json
from collections import Counter

from attrs import field, frozen

from acpbridge.core.present import CONTENT
from tests.core.script import Json, Talk


@frozen
class Said:
    """One line of a dialogue."""

    at_s: float
    by: str
    """ "client>" and "agent>" wrote it, "client<" and "agent<" got it."""
    frame: Json


@frozen
class Ledger:
    """A whole dialogue, sorted by who wrote and who got."""

    lines: list[Said] = field()

    def of(self, by: str) -> list[Said]:
        return [one for one in self.lines if one.by == by]

    def answers(self, id_: object) -> list[Said]:
        """The responses that the client got under an id."""
        return [
            one
            for one in self.of("client<")
            if "method" not in one.frame and one.frame.get("id") == id_
        ]

    def writes(self) -> Counter[str]:
        """How often each text was written to the agent as a prompt."""
        return Counter(
            one.frame["params"]["prompt"][0]["text"]
            for one in self.of("agent<")
            if one.frame.get("method") == "session/prompt"
        )


def ledger(talk: Talk) -> Ledger:
    """The dialogue so far; lines of the clock and lines that are no JSON are left out."""
    lines = []
    for entry in talk.dialogue:
        at_s, by, line = entry[:9], entry[10:].split(" ", 1)[0], entry[10:].split(" ", 1)[1]
        if by != "timer":
            lines.append(Said(float(at_s), by, json.loads(line)))
    return Ledger(lines)


def check(talk: Talk, *, still_open: tuple[object, ...] = ()) -> Ledger:
    """Every request of the client is answered once, no prompt is written twice, order is kept.

    `still_open` names the ids that wait rightly.
    """
    book = ledger(talk)
    for one in book.of("client>"):
        if "method" not in one.frame or "id" not in one.frame:
            continue
        id_ = one.frame["id"]
        answers = book.answers(id_)
        assert (0 if id_ in still_open else 1) == len(answers), (id_, talk.show())
    assert 1 == max(book.writes().values(), default=1), talk.show()
    _in_order(book, talk)
    return book


def _in_order(book: Ledger, talk: Talk) -> None:
    """What the client got of a turn's content stands in the agent's order (I6).

    Titles and usage are not compared: a client profile may keep content back, and not those.
    """
    said = [json.dumps(one.frame) for one in book.of("agent>") if _is_content(one.frame)]
    at = 0
    for one in book.of("client<"):
        line = json.dumps(one.frame)
        if line in said:
            assert line in said[at:], (line, talk.show())
            at = said.index(line, at) + 1


def _is_content(frame: Json) -> bool:
    update = frame.get("params", {}).get("update", {})
    return update.get("sessionUpdate") in CONTENT


def answered_after_s(book: Ledger, id_: object) -> float:
    """The time from a request of the client to its answer."""
    (asked,) = [one for one in book.of("client>") if one.frame.get("id") == id_]
    (answered,) = book.answers(id_)
    return answered.at_s - asked.at_s
