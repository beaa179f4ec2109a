"""Long random conversations of a client like Codeg, and the judge of what it saw.

Everything is drawn from one seed. What holds for every prompt that was not cancelled: its turn
ends, by the outcome that its plan has, shows its own words, all of them once and in order, and
no word of any other prompt; its row leaves "in progress"; the connection lives. What the bridge
says in its own name is judged by itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from math import inf

import trio
from attrs import define, field, frozen

from acpbridge.core.policy import Policy
from tests.codeg.client import Codeg, Died
from tests.codeg.plans import Make, Plan, bare_words, owners, quoted, stderr_tail
from tests.codeg.turns import OUTPUT, Turn
from tests.hermes.record import Seen

IN_FLIGHT_S = 0.25
"""Words that are read so soon after their turn's local cancel may have been written before the
bridge could know of it; a client cannot tell them from the next turn's, and neither can we."""
CANCEL_EOF_S = 2 * Policy().cancel_eof_s
"""The bridge's own, and as much again for what is slow on the way to it."""
FINDINGS_MAX = 10
LEAKS = "updates of cancelled turns, sent by the agent after its own `cancelled`"
TOLD = "prompts cancelled just before the row was closed, and told of"
TAPE_LINES = 40
TAPE_CHARS = 300


@frozen
class Habits:
    """How this user behaves: shares of all rounds, and times in seconds."""

    cancels: float = 0.35
    idle_cancels: float = 0.04
    probes: float = 0.01
    reopens: float = 0.01
    cancel_after_s: float = 0.08
    """The longest time from a prompt to a cancel that waits for nothing."""
    next_after_s: float = 0.005
    """The longest time from a cancel to the next prompt: Codeg's milliseconds."""
    think_s: float = 0.03
    """The longest time before a permission card is answered."""
    agent_leaks: bool = False
    """The agent goes on streaming a turn that it has itself answered `cancelled` (Hermes 0.19
    does). On the wire such words are the next turn's: they are counted, and no finding."""
    turn_s: float = 30.0
    """A turn that is not over by then is stuck."""


@frozen
class Finding:
    """What must not be, and the frames before it."""

    text: str
    tape: str


@define(eq=False)
class Talk:
    """One conversation over one row. `hold` it; then read ``findings`` and ``counts``."""

    codeg: Codeg
    rng: random.Random
    make: Make
    habits: Habits = field(factory=Habits)
    findings: list[Finding] = field(factory=list)
    counts: Counter[str] = field(factory=Counter)
    plans: list[Plan] = field(factory=list)
    _settled: int = 0
    """Turns up to this one belong to a process that was closed."""
    _closed_s: float = -inf
    """When the last of these was closed."""
    _told: set[int] = field(factory=set)
    """Serials of the prompts that a notice has quoted."""

    async def hold(self, turns: int, progress: Callable[[], None] = lambda: None) -> None:
        """Open the row and have this many turns on it; stops early at a death."""
        self.codeg.on_permission = lambda: self.rng.uniform(0.0, self.habits.think_s)
        try:
            await self.codeg.open()
            for _ in range(turns):
                await self._between()
                await self._turn()
                progress()
                if len(self.findings) >= FINDINGS_MAX:
                    break
            await self._settle()
        except Died as death:
            self._find(f"the connection died of {death}")
        self._close_accounts()
        await self.codeg.close()

    # --- the user ---

    async def _between(self) -> None:
        """What happens now and then while no turn is live, as far as Codeg believes."""
        draw, habits = self.rng.random(), self.habits
        if draw < habits.idle_cancels:
            self.counts["cancels while idle"] += 1
            self.codeg.cancel()
        elif draw < habits.idle_cancels + habits.probes:
            self.counts["settings probes"] += 1
            if not await self.codeg.probe():
                self._find(f"a settings probe died: {self.codeg.complaints[-1]}")
        elif draw < habits.idle_cancels + habits.probes + habits.reopens:
            await self.reopen()

    async def reopen(self) -> None:
        """Close the row and come back to it, once every prompt is answered."""
        self.counts["reopened rows"] += 1
        await self._settle()
        self._closed_s = trio.current_time()
        await self.codeg.reopen()
        self._settled = len(self.codeg.turns)

    def ask(self) -> tuple[Turn, Plan]:
        """Send the next prompt."""
        plan = self.make(self.rng, len(self.codeg.turns))
        self.plans.append(plan)
        self.counts[f"kind {plan.kind}"] += 1
        if any(not turn.answers for turn in self.codeg.turns[self._settled :]):
            self.counts["sent with a cancelled one unanswered"] += 1
        return self.codeg.prompt(plan.text), plan

    async def _turn(self) -> None:
        turn, plan = self.ask()
        if self.rng.random() < self.habits.cancels:
            await self._stop_soon(turn)
        elif not await self.codeg.ended(turn, self.habits.turn_s):
            self._find(f"{self._name(turn)} is stuck after {self.habits.turn_s} s")
            self.codeg.cancel()
        self.judge(turn, plan)

    async def _stop_soon(self, turn: Turn) -> None:
        """Cancel at a random moment; the end may be faster."""
        match self.rng.choice(("at once", "after output", "later", "later")):
            case "after output":
                await self.codeg.shows(turn, self.habits.turn_s)
                await self.codeg.pause(self.rng.choice((0.0, 0.002)))
            case "later":
                await self.codeg.ended(turn, self.rng.uniform(0.0, self.habits.cancel_after_s))
        if turn.is_live:
            self.codeg.cancel()
            self.counts["cancelled turns"] += 1
            if self.rng.random() < 1 / 2:
                await self.codeg.pause(self.rng.uniform(0.0, self.habits.next_after_s))

    async def _settle(self) -> None:
        """Let the agent's side answer what was cancelled: each request gets its response."""
        turns = self.codeg.turns[self._settled :]
        if not await self.codeg.settled(turns, self.habits.turn_s):
            open_ones = [self._name(turn) for turn in turns if not turn.answers]
            self._find(f"never answered, not even late: {open_ones}")

    # --- the judge ---

    def judge(self, turn: Turn, plan: Plan) -> None:
        """Find what must not be in a turn that has ended."""
        shown = [seen for seen in turn.shown if self._belongs(seen, turn)]
        has_leaks = self.habits.agent_leaks and len(shown) < len(turn.shown)
        said = [seen for seen in shown if not seen.is_notice]
        self._judge_notices(turn, [seen for seen in shown if seen.is_notice])
        foreign = {owner for seen in said for owner in owners(seen.text)} - {turn.serial}
        if foreign:
            self._find(f"{self._name(turn)} shows words of {sorted(foreign)}")
        words = bare_words("".join(seen.text for seen in said if seen.kind in OUTPUT))
        if turn.was_cancelled:
            if not plan.shows.startswith(words) and plan.is_whole:
                self._find(f"{self._name(turn)}, cancelled, shows {words}, not {plan.shows}")
            return
        self.counts[f"outcome {turn.outcome}"] += 1
        if turn.lost:
            lost = [seen.text or seen.kind for seen in turn.lost]
            self._find(f"{self._name(turn)} was answered within the race of {lost}")
        if turn.outcome != plan.outcome:
            self._find(f"{self._name(turn)} ended {turn.outcome}, not {plan.outcome}")
        if turn.row == "in_progress":
            self._find(f"the row of {self._name(turn)} is stuck in progress")
        if not plan.is_shown_by(words, has_leaks=has_leaks):
            self._find(f"{self._name(turn)} shows {words}, not {plan.shows}")

    def _judge_notices(self, turn: Turn, notices: list[Seen]) -> None:
        """Once, in a row opened anew: what was cancelled unsent just before the close (R20)."""
        for serial in [one for notice in notices for one in quoted(notice.text)]:
            self.counts[TOLD] += 1
            other = self.codeg.turns[serial]
            is_of_the_close = other.was_cancelled and serial < self._settled <= turn.serial
            is_late = self._closed_s - other.ended_s > CANCEL_EOF_S
            was_shown = any(serial in owners(seen.text) for seen in other.shown)
            if not is_of_the_close or is_late or was_shown or serial in self._told:
                self._find(f"{self._name(turn)} tells of {self._name(other)}")
            self._told.add(serial)

    def _belongs(self, seen: Seen, turn: Turn) -> bool:
        """Whether an update may be judged by the turn that shows it."""
        if seen.is_notice:
            return True
        for owner in owners(seen.text) - {turn.serial}:
            other = self.codeg.turns[owner] if owner < turn.serial else None
            if other and other.was_cancelled and seen.at_s - other.ended_s <= IN_FLIGHT_S:
                self.counts["updates in flight across a cancel"] += 1
                return False
            if other and self.habits.agent_leaks and _is_over(other, seen):
                self.counts[LEAKS] += 1
                return False
        return True

    def _close_accounts(self) -> None:
        """What can only be said at the end: strays, complaints, answers for every request."""
        codeg = self.codeg
        for dropped in codeg.dropped:
            of = owners(dropped.seen.text)
            if all(codeg.turns[owner].was_cancelled for owner in of) and codeg.turns:
                self.counts["dropped updates, all of cancelled turns"] += 1
            else:
                self._find(f"after turn {dropped.after}, while idle: {dropped.seen.body}")
        for complaint in codeg.complaints:
            self._find(f"the client complains: {complaint}")
        self.counts["turns"] += len(codeg.turns)
        self.counts["turns raced"] += sum(turn.was_raced for turn in codeg.turns)
        self.counts["permission requests"] += codeg.asked

    def _name(self, turn: Turn) -> str:
        return f"prompt {turn.serial} ({self.plans[turn.serial].kind})"

    def _find(self, text: str) -> None:
        lines = list(self.codeg.tape)[-TAPE_LINES:]
        told = [f"{at_s:9.3f} {side} {line[:TAPE_CHARS]}" for at_s, side, line in lines]
        tail = stderr_tail(self.codeg.home.root)
        self.findings.append(Finding(text, "\n".join([*told, "stderr ends", tail])))

    def text(self) -> str:
        """The findings with their frames; empty where there is none."""
        return "\n\n".join(f"{one.text}\n{one.tape}" for one in self.findings)


def _is_over(turn: Turn, seen: Seen) -> bool:
    """Whether the agent itself had answered a cancelled turn before this update came."""
    if not turn.was_cancelled or turn.answered_s > seen.at_s:
        return False
    result = turn.answers[0].get("result") or {}
    return result.get("stopReason") == "cancelled" and "_meta" not in result
