"""A random life: a client and an agent that do anything at any moment, from one seed.

Nothing here knows how the bridge decides; it only writes frames, lets time pass, kills, and keeps
count of what was asked, answered and written. The same seed lives the same life again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from acpbridge.core.model import Prompt, Stage
from acpbridge.core.phases import Phase
from tests.core.script import (
    CAPABILITIES,
    INFOS,
    QUEUED,
    REDIRECTED,
    Json,
    Talk,
    answer,
    cancel,
    chunk,
    echo,
    ended,
    error,
    new_result,
    notify,
    permission,
    prompt,
    request,
    tool,
    tool_update,
    update,
    usage,
    wedge,
)

WAITS_S = (0.01, 0.05, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 5.0, 10.0, 31.0, 61.0, 120.0)
ROUNDS_MAX = 400
"""Steps that an obedient agent gets to answer everything at the end of a life."""


def key(id_: Any) -> str:
    """An id as a client tells it apart: by its JSON text."""
    return json.dumps(id_)


class Life:
    """One bridge between a client and an agent that are up to anything."""

    def __init__(self, seed: int) -> None:
        r = self.random = Random(seed)
        self.talk = Talk(
            r.choice(["hermes", "hermes", "generic", "claude", "codex"]),
            r.choice(["generic", "codeg"]),
            restart=r.random() < 0.85,
            on_disconnect=r.choice(["stop", "finish"]),
            midturn=r.choice(["auto", "auto", "queue", "reject"]),
            breaker_deaths=r.choice([5, 50]),
            queue_prompts_max=r.choice([2, 64]),
        )
        self.sessions = ["s1"]
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.texts: dict[str, int] = {}
        """Prompt text to its place in the order of arrival."""
        self.writes: Counter[str] = Counter()
        self.written: defaultdict[str, list[str]] = defaultdict(list)
        """By the client's session: the texts in the order of their writing."""
        self.of_text: dict[str, str] = {}
        self.owed: list[tuple[int, Json]] = []
        """(run, request) that the agent has and that is not answered."""
        self.cards: list[Json] = []
        self.count = 0
        self.moves: list[tuple[int, Callable[[], None]]] = self._moves()
        self._begin()

    # -- what both sides got ----------------------------------------------------------------
    def look(self) -> None:
        """Take in what went out since the last look."""
        for line in self.talk.seen():
            if "method" not in line:
                self.answered[key(line["id"])] += 1
            elif "id" in line:
                self.cards.append(line)
        for line in self.talk.got():
            if line.get("method") == "session/prompt":
                text = line["params"]["prompt"][0]["text"]
                self.writes[text] += 1
                self.written[self.of_text[text]].append(text)
            if "method" in line and "id" in line:
                self.owed.append((self.talk.bridge.run, line))
        run = self.talk.bridge.run
        self.owed = [(of, line) for of, line in self.owed if of == run]

    def check(self) -> None:
        """What must hold after every single step."""
        bridge = self.talk.bridge
        stages = [one.stage for session in bridge.sessions.values() for one in session.at_agent]
        running = sum(stage in (Stage.WRITTEN, Stage.SENDING) for stage in stages)

        assert {} == {id_: n for id_, n in self.answered.items() if n > self.asked[id_]}
        assert 0 == self.talk.count("unexpected_event"), self.talk.notes
        assert running == bridge.running
        for session in bridge.sessions.values():
            sizes = [len(one.frame.raw) for one in session.queue if isinstance(one, Prompt)]
            assert sum(sizes) == session.queue_bytes
        total = sum(session.queue_bytes for session in bridge.sessions.values())
        assert total == bridge.queue_bytes

    def unanswered(self) -> dict[str, int]:
        """I1: how many answers each id is still owed."""
        owed = {id_: n - self.answered[id_] for id_, n in self.asked.items()}
        return {id_: n for id_, n in owed.items() if n}

    def is_paused(self) -> bool:
        """Whether a restarted agent has refused a setting, and the client had no say since."""
        return any(one.paused for one in self.talk.bridge.sessions.values())

    def holds_a_receipt(self) -> bool:
        """Whether a prompt waits, visibly, for what the agent promised with a receipt (R10)."""
        sessions = self.talk.bridge.sessions.values()
        held = {one.stage for session in sessions for one in session.at_agent}
        return not held.isdisjoint({Stage.KEPT, Stage.JOINED})

    # -- a life -----------------------------------------------------------------------------
    def live(self, steps: int) -> None:
        """Do anything, so many times, unless the bridge has ended."""
        weights = [weight for weight, _ in self.moves]
        acts = [act for _, act in self.moves]
        for _ in range(steps):
            if self.talk.exit_code is None:
                self.random.choices(acts, weights)[0]()
                self.look()
                self.check()

    def settle(self) -> None:
        """From now on the disk, the agent and the client do their duty until nothing is owed."""
        talk = self.talk
        talk.disk = True
        talk.persisted()
        self.look()
        for _ in range(ROUNDS_MAX):
            if talk.exit_code is not None:
                break
            if talk.bridge.agent_state.value == "stopping":
                talk.die("stopped")
            elif self.owed:
                talk.agent(*self._duty(self.owed.pop(0)[1]))
            elif self.cards:
                talk.client(answer(self.cards.pop()["id"], {}))
            else:
                talk.wait(5.0)
            self.look()
        self.check()

    def end(self) -> None:
        """A signal ends the bridge."""
        if self.talk.exit_code is None:
            self.talk.stop()
        if self.talk.exit_code is None:
            self.talk.die("stopped")
        self.look()
        self.check()

    def _begin(self) -> None:
        self._ask(request("i", "initialize", {"protocolVersion": 1}))
        self.look()
        if self.random.random() < 0.95:
            self.talk.agent(*self._duty(self.owed.pop(0)[1]))
        self._ask(request("n", "session/new", {"cwd": "/w", "mcpServers": []}))
        self.look()
        self.talk.agent(answer(self.owed.pop()[1]["id"], new_result("s1")))
        self.look()

    # -- the client's moves -----------------------------------------------------------------
    def _ask(self, frame: Json) -> None:
        self.asked[key(frame["id"])] += 1
        self.talk.client(frame)

    def _id(self) -> Any:
        self.count += 1
        if self.random.random() < 0.1:
            return json.loads(self.random.choice(list(self.asked)))
        return self.random.choice([self.count, f"c{self.count}", float(self.count)])

    def _prompt(self) -> None:
        id_, session = self._id(), self.random.choice(self.sessions)
        text = f"t{self.count}"
        self.texts[text], self.of_text[text] = self.count, session
        said = text if self.random.random() < 0.95 or self.talk.agent_name != "hermes" else ""
        self._ask(prompt(id_, said or f"/queue {text}", session))

    def _request(self, *methods: str) -> Callable[[], None]:
        def act() -> None:
            params = {"sessionId": self.random.choice(self.sessions), "cwd": "/w", "modeId": "m"}
            self._ask(request(self._id(), self.random.choice(methods), params))

        return act

    def _cancel(self) -> None:
        self.talk.client(cancel(self.random.choice(self.sessions)))

    def _take_back(self) -> None:
        id_ = json.loads(self.random.choice(list(self.asked)))
        self.talk.client(notify("$/cancel_request", {"requestId": id_}))

    def _note(self) -> None:
        self.talk.client(notify("_x/y", {"sessionId": self.random.choice(self.sessions)}))

    def _answer_card(self) -> None:
        if self.cards:
            card = self.random.choice(self.cards)
            if self.random.random() < 0.8:
                self.cards.remove(card)
            self.talk.client(answer(card["id"], {"x": 1}))

    # -- the agent's moves --------------------------------------------------------------------
    def _somewhere(self) -> str:
        sessions = [session.agent_id for session in self.talk.bridge.sessions.values()]
        return self.random.choice(sessions or ["s1"])

    def _say(self, *makers: Callable[[str], Json | bytes]) -> Callable[[], None]:
        return lambda: self.talk.agent(self.random.choice(makers)(self._somewhere()))

    def _echo(self, session: str) -> Json:
        return echo(self.random.choice(list(self.texts) or ["x"]), session)

    def _any_id(self) -> Any:
        self.count += 1
        return self.random.choice([self.count, 1])

    def _rotation(self, session: str) -> Json:
        told = {"acpSessionId": session, "currentHermesSessionId": f"tip{self.count}"}
        meta = {"hermes": {"sessionProvenance": told}}
        return update("session_info_update", session, title="x", _meta=meta)

    def _receipt(self) -> None:
        self.talk.agent(chunk(self.random.choice([QUEUED, REDIRECTED]), self._somewhere()))
        if self.random.random() < 0.8:
            self._end_prompt(lambda id_: ended(id_, usage=False))()

    def _end_prompt(self, make: Callable[[Any], Json]) -> Callable[[], None]:
        def act() -> None:
            prompts = [one for one in self.owed if one[1]["method"] == "session/prompt"]
            if prompts:
                chosen = self.random.choice(prompts)
                self.owed.remove(chosen)
                self.talk.agent(make(chosen[1]["id"]))

        return act

    def _answer(self) -> None:
        if not self.owed:
            return
        at = self.random.randrange(len(self.owed)) if self.random.random() < 0.3 else 0
        line = self.owed.pop(at)[1]
        roll = self.random.random()
        if roll < 0.75 or line["method"] == "session/prompt":
            self.talk.agent(*self._duty(line))
        elif roll < 0.9:
            self.talk.agent(answer(line["id"], {}))
        else:
            self.talk.agent(error(line["id"], -32002))

    def _duty(self, line: Json) -> list[Json]:
        """What an obedient agent says to this request."""
        id_, method = line["id"], line["method"]
        session = line.get("params", {}).get("sessionId", "")
        if method == "session/prompt":
            stop = self.random.choice(["end_turn", "end_turn", "end_turn", "cancelled", "refusal"])
            return [chunk("x", session), ended(id_, stop, usage=self.random.random() < 0.8)]
        if method == "initialize":
            result = {"agentInfo": INFOS[self.talk.agent_name], "agentCapabilities": CAPABILITIES}
            return [answer(id_, {"protocolVersion": 1, **result})]
        if method in ("session/load", "session/resume"):
            return [chunk("old", session), answer(id_, new_result(session))]
        if method in ("session/new", "session/fork"):
            self.count += 1
            if key(id_) in self.asked:
                self.sessions.append(f"n{self.count}")
            return [answer(id_, new_result(f"n{self.count}"))]
        return [answer(id_, {})]

    # -- the world's moves ----------------------------------------------------------------------
    def _wait(self) -> None:
        self.talk.wait(self.random.choice(WAITS_S))

    def _disk(self) -> None:
        self.talk.disk = not self.talk.disk
        if self.talk.disk:
            (self.talk.persisted if self.random.random() < 0.8 else self.talk.persist_failed)()

    def _stopped(self) -> None:
        if self.talk.bridge.agent_state.value == "stopping":
            self.talk.die("stopped")

    def _moves(self) -> list[tuple[int, Callable[[], None]]]:
        """(weight, act); the weights keep a turn alive long enough for something to go wrong."""
        busy = {"reason": "session_busy"}
        return [
            (28, self._prompt),
            (12, self._cancel),
            (6, self._take_back),
            (4, self._request("session/load", "session/resume")),
            (8, self._request("session/set_mode", "session/new", "_x/z")),
            (3, self._request("session/close", "session/delete", "session/fork")),
            (4, self._note),
            (6, self._answer_card),
            (32, self._answer),
            (24, self._say(lambda on: chunk("word", on), lambda on: chunk("", on))),
            (8, self._say(lambda on: tool("k", on), lambda on: tool_update("k", on))),
            (6, self._say(usage, lambda on: update("plan", on, entries=[]))),
            (8, self._say(self._echo)),
            (6, self._say(lambda on: permission(self._any_id(), on))),
            (2, self._say(lambda on: notify("$/cancel_request", {"requestId": self.count}))),
            (4, self._say(lambda on: b"noise", lambda on: ended(999), self._rotation)),
            (10, self._receipt),
            (6, self._end_prompt(wedge)),
            (4, self._end_prompt(lambda id_: error(id_, -32000, "busy", busy))),
            (4, self._end_prompt(lambda id_: error(id_, -32603, "x"))),
            (4, self.talk.die),
            (2, self._stopped),
            (28, self._wait),
            (4, self._disk),
        ]


def phases(life: Life) -> set[Phase]:
    """Where the sessions of a life stand."""
    return {session.phase for session in life.talk.bridge.sessions.values()}
