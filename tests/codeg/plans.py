"""What a random prompt asks for, and what its own turn then has to show.

Every word that an agent says carries the serial of its prompt, ``#12-3`` for the fourth word of
prompt 12: a word in another prompt's turn, a missing and a doubled one are all seen.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from tests.hermes.script import Step, script

WORD = re.compile(r"#(\d+)-")
QUOTED = re.compile(r'"\w+ (\d+) @@')
DANGEROUS = {"command": "rm -rf ./build"}
"""What real Hermes asks a permission for."""
DEATHS_MAX = 4
HARMLESS = {"command": "true"}
GO_ON = "echo:[System:Thepreviousresponsewascutoff"
"""What the scripted model answers, without white space, when Hermes takes a stream for broken."""

Make = Callable[[random.Random, int], "Plan"]


@frozen
class Plan:
    """A prompt. ``shows`` is all text of its turn, messages and thoughts, without white space."""

    serial: int
    kind: str
    text: str
    shows: str
    outcome: str = "end_turn"
    is_whole: bool = True
    """False where the agent breaks off: then the turn shows at least the beginning."""

    def is_shown_by(self, words: str, *, has_leaks: bool) -> bool:
        """Whether this is what the turn has to show, without white space.

        With ``has_leaks`` the agent has written words of a cancelled turn into this one. Hermes
        may then take its own stream for broken, anywhere in it, and asks the model to go on.
        """
        if not has_leaks:
            return words == self.shows if self.is_whole else words.startswith(self.shows)
        head, asked, _ = words.partition(GO_ON)
        return self.shows.startswith(head) if asked else words.startswith(self.shows)


def owners(text: str) -> set[int]:
    """The serials of the prompts whose words are in ``text``."""
    return {int(serial) for serial in WORD.findall(text)}


def quoted(text: str) -> list[int]:
    """The serials of the prompts whose beginning stands in quotes in a notice of the bridge."""
    return [int(serial) for serial in QUOTED.findall(text)]


def bare_words(text: str) -> str:
    """Text without white space: agents join the parts of a turn in their own ways."""
    return "".join(text.split())


class _Draft:
    """Steps and, beside them, what they will show."""

    def __init__(self, rng: random.Random, serial: int) -> None:
        self.rng = rng
        self.serial = serial
        self.steps: list[Step] = []
        self.shows = ""
        self.words = 0

    def say(self, kind: str = "say") -> None:
        word = self._word()
        self.shows += word
        self.steps.append([kind, word + " "])

    def stream(self, count: int, delay_s: float) -> None:
        word = self._word() + "."
        self.shows += "".join(f"{word}{number}" for number in range(count))
        self.steps.append(["stream", count, delay_s, word])

    def permission(self, title: str) -> None:
        """The answer is a word of the agent's, too."""
        word = self._word() + "."
        self.shows += f"{word}allow_once"
        self.steps.append(["permission", title, word])

    def rest(self, seconds_max: float) -> None:
        self.steps.append(["sleep", round(self.rng.uniform(0.0, seconds_max), 4)])

    def plan(self, kind: str, outcome: str = "end_turn", *, is_whole: bool = True) -> Plan:
        text = script(f"{kind} {self.serial}", *self.steps)
        return Plan(self.serial, kind, text, self.shows, outcome, is_whole)

    def _word(self) -> str:
        self.words += 1
        return f"#{self.serial}-{self.words - 1}"


def _chat(draft: _Draft, rest_s: float) -> None:
    """The ordinary: some thoughts, words, streams and rests; at least one word."""
    for _ in range(draft.rng.randint(0, 4)):
        match draft.rng.choice(("say", "say", "stream", "rest")):
            case "say":
                draft.say()
            case "stream":
                draft.stream(draft.rng.randint(1, 12), draft.rng.choice((0.0, 0.001, 0.004)))
            case _:
                draft.rest(rest_s)
    draft.say()


def scripted() -> Make:
    """Prompts for the scripted agent, in any of its modes; for one row.

    The agent may die in a few of them: with `DEATHS_MAX` + 1 the bridge's breaker (R23) would
    rightly end the connection.
    """
    deaths = 0

    def make(rng: random.Random, serial: int) -> Plan:
        nonlocal deaths
        kinds = ("chat", "think", "tool", "permission", "silent", "limit", "fail", "die")
        [kind] = rng.choices(kinds, (60, 8, 12, 8, 4, 3, 3, 2 if deaths < DEATHS_MAX else 0))
        deaths += kind == "die"
        return _scripted(kind, rng, serial)

    return make


def _scripted(kind: str, rng: random.Random, serial: int) -> Plan:
    draft = _Draft(rng, serial)
    match kind:
        case "silent":
            return draft.plan(kind)
        case "think":
            draft.say("think")
            _chat(draft, 0.03)
        case "tool":
            draft.say()
            draft.steps.append(["tool", "a tool", {"sleep": round(rng.uniform(0.0, 0.05), 4)}])
            draft.say()
        case "permission":
            draft.say()
            draft.permission("remove it all")
            draft.say()
        case "limit":
            draft.say()
            draft.steps.append(["stop", "max_tokens"])
            return draft.plan(kind, "max_tokens")
        case "fail":
            draft.say()
            draft.steps.append(["fail", -32603, "Internal error", "scripted"])
            return draft.plan(kind, is_whole=False)
        case "die":
            draft.say()
            draft.rest(0.02)
            draft.steps.append(["die", 1])
            return draft.plan(kind, is_whole=False)
        case _:
            _chat(draft, 0.05)
    return draft.plan(kind)


def chats(rng: random.Random, serial: int) -> Plan:
    """Prompts that every agent takes: words, streams and rests."""
    return _scripted("chat", rng, serial)


def hermes(rng: random.Random, serial: int) -> Plan:
    """A prompt for real Hermes with the scripted model."""
    draft = _Draft(rng, serial)
    [kind] = rng.choices(("chat", "think", "tool", "permission"), (70, 10, 14, 6))
    match kind:
        case "think":
            draft.say("think")
            _chat(draft, 0.1)
        case "tool" | "permission":
            draft.say()
            command = DANGEROUS if kind == "permission" else HARMLESS
            draft.steps.append(["tool", "terminal", command])
            draft.say()
        case _:
            _chat(draft, 0.2)
    return draft.plan(kind)


def stderr_tail(root: Path, count: int = 1500) -> str:
    """The end of what the process wrote to stderr."""
    path = root / "stderr.log"
    return path.read_text(errors="replace")[-count:] if path.exists() else ""
