"""One crash schedule: a client, bridges that are killed one after the other, agents, and a disk.

`World(seed).run()` plays it and raises `Violation` where a prompt is lost or runs twice. The disk
keeps what was committed, and nothing else outlives a kill but the agent's conversations and what
the client remembers.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from acpbridge.core.effects import Adopt, Effect, Tell
from acpbridge.core.events import AgentExited, ClientClosed, ClientSent
from acpbridge.wire.frame import Frame, peek
from tests.core.script import Json, cancel, dumps, prompt, request
from tests.crash import verdict
from tests.crash.agent import Agent, text_of
from tests.crash.life import Killed, Life
from tests.crash.memory import MemoryJournal, Shelf
from tests.crash.schedule import draw
from tests.sim.violation import must
from tests.store.journal.rows import Edges

if TYPE_CHECKING:
    from collections.abc import Callable

    from acpbridge.store.journal import Journal

ROUNDS_MAX = 4_000
"""Moves in which everything must come to rest."""
STEERING = ("session/prompt", "_session/steering")


class World:
    """One schedule. `dialogue` is filled only if `verbose`."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.chance = Random(seed)
        self.draw = draw(self.chance)
        self.verbose = verbose
        self.dialogue: list[str] = []
        self.shelf = Shelf()
        self.conversation: list[str] | None = None
        """What the agents remember of the session; None while it was never opened."""
        self.has_session = False
        """The client knows its session."""
        self.number = 0
        """Of the life."""
        self.life: Life
        self.agent: Agent | None = None
        self.edges = Edges()
        self.texts: list[str] = []
        """What the client has asked for, in order; a text is named once and may be asked again."""
        self.open: dict[object, str] = {}
        """Requests of this life without an answer: (id, text or method)."""
        self.answers: dict[str, list[tuple[int, Json]]] = {}
        """By text: (life, response)."""
        self.said: list[tuple[int, str]] = []
        """(life, text) of every chunk that the client saw."""
        self.cancelled: set[str] = set()
        """Texts that the client has cancelled."""
        self.written: Counter[str] = Counter()
        self.unrun: Counter[str] = Counter()
        """How often an agent has proved that it did not run a text."""
        self.firsts: dict[int, list[str]] = {}
        """By life: texts in the order of their first write in it."""
        self.adopted: set[int] = set()
        """Prompts that were given another try since they were told of, by their id."""
        self.counters: Counter[str] = Counter()
        """What the bridges have noted."""
        self.crashes = 0
        self.ids = 0
        self.clock_ms = 0

    # -- a whole schedule -------------------------------------------------------------------
    def run(self) -> None:
        """Play it; raises `Violation`."""
        for kill in self.draw.kills:
            self._live(kill)
        self._live(0, last=True)
        verdict.at_the_end(self)

    def _live(self, kill: int, *, last: bool = False) -> None:
        self.number += 1
        self.open.clear()
        self.edges = Edges()
        self.life = Life(self, f"n{self.number}", self.draw, Path())
        self.life.kill_at = kill
        self.say(f"-- life {self.number}, kill at {kill}")
        try:
            self.life.begin()
            self._open()
            if last:
                self._last()
            else:
                self._moves()
            self._leave()
        except Killed:
            self.crashes += 1
            self.say(f"-- killed at boundary {self.life.boundaries}")
            self.kill_run(self.life.nonce)
        self.counters.update(self.life.bridge.counters)
        self.agent = None

    def journal(self, nonce: str, boundary: Callable[[], None]) -> Journal:
        """What a life opens."""
        return MemoryJournal(self.shelf, nonce, boundary)

    def kill_run(self, nonce: str) -> None:
        """Its lock falls."""
        self.shelf.dead.add(nonce)

    def _open(self) -> None:
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self._until(lambda: not self.open)
        if not self.has_session:
            self.ask("session/new", {"cwd": "/w", "mcpServers": []})
            self._until(lambda: self.has_session)
            return
        method = "session/resume" if self.draw.resumes else "session/load"
        self.ask(method, {"sessionId": "s1", "cwd": "/w", "mcpServers": []})
        if self.chance.random() < 0.5:
            self._until(lambda: not self.open)
        if self.draw.keys:
            for text in [one for one in self.texts if self._asks_again(one)]:
                self._prompt(text)

    def _asks_again(self, text: str) -> bool:
        """A key makes it safe to ask again where no result came, also behind an error."""
        answers = self.answers.get(text, [])
        if any("result" in frame for _, frame in answers):
            return False
        return not answers or self.chance.random() < 0.5

    def _until(self, is_done: Callable[[], bool]) -> None:
        for _ in range(ROUNDS_MAX):
            if is_done():
                return
            self._move()
        raise AssertionError("I10: the opening does not come to its end")

    def _moves(self) -> None:
        asks = self.draw.prompts if self.number == 1 else 2
        for _ in range(self.draw.steps):
            if self.life.exit_code is not None:
                return
            luck = self.chance.random()
            if luck < 0.2 and asks:
                asks -= 1
                self._new_prompt()
            elif luck < 0.22 and self.open:
                self._cancel()
            elif luck < 0.23 and self.agent is not None:
                self._agent_dies()
            else:
                self._move()

    def _last(self) -> None:
        """Everybody is kind from here on; one more prompt, and everything comes to rest."""
        if self.agent is not None:
            self.agent.kind = True
        if self.chance.random() < 0.5:
            self._new_prompt()
        self._rest()
        self._new_prompt()
        self._rest()

    def _rest(self) -> None:
        quiet = 0
        for _ in range(ROUNDS_MAX):
            if self.agent is not None:
                self.agent.kind = True
            busy = self.agent is not None and self.agent.has_something()
            if self.life.stops or busy or self.life.is_disk_busy():
                quiet = 0
                self._move()
            elif self.open or quiet < 3:
                quiet += not self.open
                self.life.wait(30.0)
            else:
                return
            if self.life.exit_code is not None:
                return
        must(not self.open, "I10", f"unanswered at rest: {self.open}")

    def _leave(self) -> None:
        """The client closes its end."""
        if self.life.exit_code is None:
            self.life.feed(ClientClosed())
        while self.life.exit_code is None:
            must(bool(self.life.stops), "I10", "the bridge does not end")
            self.life.stopped()
        self.life.end()

    def _move(self) -> None:
        life, agent = self.life, self.agent
        if life.stops:
            life.stopped()
            return
        moves: list[tuple[float, Callable[[], object]]] = [(0.3, lambda: life.wait(0.3))]
        if agent is not None and agent.has_something():
            moves.append((2.0, agent.move))
        if life.is_disk_busy():
            moves.append((2.0 / self.draw.slow_disk, life.disk_moves))
        weights = [weight for weight, _ in moves]
        self.chance.choices([act for _, act in moves], weights)[0]()

    # -- the client -------------------------------------------------------------------------
    def ask(self, method: str, params: Json) -> None:
        """A request that is no prompt."""
        self.ids += 1
        self.open[self.ids] = method
        self._write(request(self.ids, method, params))

    def _new_prompt(self) -> None:
        self.texts.append(f"p{len(self.texts) + 1}")
        self._prompt(self.texts[-1])

    def _prompt(self, text: str) -> None:
        self.ids += 1
        self.open[self.ids] = text
        frame = prompt(self.ids, text)
        if self.draw.keys:
            frame["params"]["_meta"] = {"acpbridge": {"promptKey": f"k-{text}"}}
        self._write(frame)

    def _cancel(self) -> None:
        self.cancelled.update(self.open.values())
        self._write(cancel())

    def _write(self, frame: Json) -> None:
        line = dumps(frame)
        self.say(f"client > {line.decode()}")
        seen = peek(line, strict=True)
        assert isinstance(seen, Frame)
        self.life.feed(ClientSent(seen))

    def to_client(self, line: bytes) -> None:
        """It reads everything that was written, also by a bridge that is dead by then."""
        self.say(f"client < {line.decode()}")
        frame: Json = json.loads(line)
        if "method" in frame:
            content = frame["params"]["update"].get("content")
            if isinstance(content, dict):
                self.said.append((self.number, content["text"]))
            return
        must(frame["id"] in self.open, "I1", f"a second answer: {line!r}")
        name = self.open.pop(frame["id"])
        if name == "session/new":
            self.has_session = True
        elif name in self.texts:
            self.answers.setdefault(name, []).append((self.number, frame))

    # -- the agent --------------------------------------------------------------------------
    def agent_starts(self) -> None:
        """A new process."""
        self.agent = Agent(self, self.life.bridge.run)

    def _agent_dies(self) -> None:
        self.agent = None
        self.say("-- the agent dies")
        self.life.feed(AgentExited(self.life.bridge.run, "killed by SIGKILL"))

    def to_agent(self, line: bytes) -> None:
        """What is in the pipe counts as read, whoever dies now."""
        self.say(f"            agent < {line.decode()}")
        frame: Json = json.loads(line)
        if frame.get("method") in STEERING:
            text = text_of(frame["params"])
            verdict.may_write(self, text)
            self.written[text] += 1
            firsts = self.firsts.setdefault(self.number, [])
            if text not in firsts:
                firsts.append(text)
        if self.agent is not None:
            self.agent.inbox.append(frame)

    def proven(self, text: str) -> None:
        """An agent says that nothing of this text has run."""
        self.unrun[text] += 1

    # -- the disk ---------------------------------------------------------------------------
    def asked(self, effect: Effect) -> None:
        """An effect goes to the disk."""
        if isinstance(effect, Tell):
            verdict.may_tell(self, effect.kept)
        elif isinstance(effect, Adopt):
            self.adopted.add(effect.kept)

    def wall_ms(self) -> int:
        """A clock that only counts."""
        self.clock_ms += 1
        return self.clock_ms

    def say(self, text: str) -> None:
        """One line of the dialogue."""
        if self.verbose:
            self.dialogue.append(text)
