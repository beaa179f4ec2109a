"""Steers at the edge of a turn: written at drawn moments around its end, and judged one by one.

A round holds an owner's turn at a gate, opens the gate, and writes the second text at an offset
that the seed draws: some come while the turn runs, some as it ends, some after. Nothing waits
by the clock except for that offset. What is true of a round is read from three records: the
order of frames at the client, the number of answers, and the conversation that the model was
sent at the end, where each text must stand exactly once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import trio
from attrs import frozen

from tests.hermes.record import Body, Seen, Sent
from tests.hermes.script import script
from tests.steer.model import SteerModel
from tests.steer.talk import SteerPeer

Fate = Literal[
    "shared",
    "unproven",
    "own turn",
    "unknown",
    "injected",
    "injected, silent",
    "promptRequired",
    "other",
]
"""What the answer to the second text claims. A bare agent says one of the last three but one."""

REACHES: dict[Fate, tuple[int, int]] = {
    "shared": (1, 1),
    "unproven": (1, 1),
    "own turn": (1, 1),
    "unknown": (0, 1),
    "injected": (1, 1),
    "injected, silent": (1, 1),
    "promptRequired": (0, 0),
    "other": (0, 1),
}
"""How often, least and most, a text of this fate may stand in the model's conversation."""
STEERED: frozenset[Fate] = frozenset({"shared", "unproven", "injected", "injected, silent"})
"""Fates of a text that joined the running turn."""

CALIBRATIONS = 5
ROUNDS_PER_SESSION = 25
"""Bounds the conversation, which every request carries from its beginning."""
ROUND_S = 30.0
EARLIEST, LATEST = -0.5, 1.25
"""The range of offsets, in units of the time from the model's last words to the turn's end."""


@frozen
class Round:
    """What was seen of one steer."""

    number: int
    offset_s: float
    """From the opening of the gate to the write of the second text."""
    fate: Fate
    faults: tuple[str, ...]
    """What was untrue, in words; empty is good."""


@frozen
class Report:
    """What a run came to."""

    tail_s: float
    """From the model's last words to the owner's answer, undisturbed: the middle of five."""
    rounds: tuple[Round, ...]

    @property
    def fates(self) -> Counter[Fate]:
        """How many rounds had which fate."""
        return Counter(one.fate for one in self.rounds)

    @property
    def faults(self) -> list[str]:
        """Every fault with its round, and a shortfall of the run itself."""
        found = [f"steer {one.number}: {fault}" for one in self.rounds for fault in one.faults]
        joined = sum(one.fate in STEERED for one in self.rounds)
        if joined in (0, len(self.rounds)):
            # All on one side of the edge: the run says nothing about the edge.
            found.append(f"{joined} of {len(self.rounds)} steers joined a turn: no edge was met")
        return found


@frozen(eq=False)
class _Open:
    """A round that is answered, but not yet judged."""

    number: int
    offset_s: float
    text: str
    owner: Sent
    second: Sent
    written: int
    """The place among the frames where the second text was written."""
    owner_answer: Seen
    answer: Seen


async def run_edge(
    peer: SteerPeer, model: SteerModel, steers: int, seed: int, through_bridge: bool
) -> Report:
    """Run ``steers`` rounds on an initialized peer.

    Raises:
        TimeoutError: a round was not answered within ROUND_S.
        AgentGone: the process ended.
    """
    chance = random.Random(seed)
    tail_s = await _calibrate(peer, model)
    rounds: list[Round] = []
    while len(rounds) < steers:
        session = await peer.new_session()
        opened = []
        for number in range(len(rounds), min(len(rounds) + ROUNDS_PER_SESSION, steers)):
            offset_s = chance.uniform(EARLIEST, LATEST) * tail_s
            opened.append(await _round(peer, model, session, number, offset_s, through_bridge))
        rounds += await _close(peer, model, session, opened)
    return Report(tail_s, tuple(rounds))


async def _calibrate(peer: SteerPeer, model: SteerModel) -> float:
    """How long a turn goes on after the model's last words: the middle of some turns, in s."""
    session = await peer.new_session()
    tails: list[float] = []
    for turn in range(CALIBRATIONS):
        gate = f"calibration {turn}"
        sent = await peer.prompt(session, script(gate, ["gate", gate], ["say", "end"]))
        await model.reached(gate)
        start_s = trio.current_time()
        model.release(gate)
        tails.append((await peer.answer(sent, ROUND_S)).at_s - start_s)
    return sorted(tails)[len(tails) // 2]


async def _round(
    peer: SteerPeer,
    model: SteerModel,
    session: str,
    number: int,
    offset_s: float,
    through_bridge: bool,
) -> _Open:
    gate = f"gate {number}"
    owner_text = script(f"owner {number}", ["say", f"O{number}."], ["gate", gate], ["say", "end"])
    text = script(f"steer {number}", ["say", f"S{number}."])
    owner = await peer.prompt(session, owner_text)
    await peer.wait_text(f"O{number}.", ROUND_S)
    await model.reached(gate)

    release_s = trio.current_time() + max(0.0, -offset_s)
    if offset_s < 0:
        second, written = await _write(peer, session, text, through_bridge)
        await trio.sleep_until(release_s)
        model.release(gate)
    else:
        model.release(gate)
        await trio.sleep_until(release_s + offset_s)
        second, written = await _write(peer, session, text, through_bridge)
    ends = [await peer.answer(sent, ROUND_S) for sent in (owner, second)]
    return _Open(number, offset_s, text, owner, second, written, ends[0], ends[1])


async def _write(
    peer: SteerPeer, session: str, text: str, through_bridge: bool
) -> tuple[Sent, int]:
    """Send the second text; returns the request and its place among the frames.

    A client knows no steering: through the bridge the text is a plain prompt.
    """
    written = len(peer.frames)
    return await (peer.prompt if through_bridge else peer.steer)(session, text), written


async def _close(
    peer: SteerPeer, model: SteerModel, session: str, opened: Sequence[_Open]
) -> list[Round]:
    """Ask once more, and look at the conversation that the agent sends: it tells all."""
    last = script(f"last of {session}", ["say", "over"])
    await peer.answer(await peer.prompt(session, last), ROUND_S)
    asked = await model.wait_asked(lambda one: last in one.texts)
    return [_judge(peer, one, asked.texts.count(one.text)) for one in opened]


def _judge(peer: SteerPeer, one: _Open, times: int) -> Round:
    """Hold one round's answers against the frames until now and the model's conversation."""
    spoken = [
        index
        for index, seen in enumerate(peer.frames[one.written :], start=one.written)
        if f"S{one.number}." in seen.text
    ]
    ends = (peer.frames.index(one.owner_answer), peer.frames.index(one.answer))
    fate = fate_of(one.answer.body, has_spoken=bool(spoken) and spoken[0] < ends[0])
    faults = order_faults(fate, spoken, ends) + reach_faults(fate, times)
    if one.owner_answer.body.get("result", {}).get("stopReason") != "end_turn":
        faults.append(f"the owner was answered {one.owner_answer.body}")
    answers = [len(peer.answers(sent)) for sent in (one.owner, one.second)]
    if answers != [1, 1]:
        faults.append(f"the owner and it were answered {answers} times")
    return Round(one.number, one.offset_s, fate, tuple(faults))


def fate_of(body: Body, has_spoken: bool) -> Fate:
    """What a response to the second text claims, from a bridge or from a bare agent.

    Args:
        body: The whole response frame.
        has_spoken: Whether the text's own answer was shown before the owner's response; a bare
            agent says ``injected`` in both cases.
    """
    if "error" in body:
        data = body["error"].get("data")
        kind = (data.get("acpbridge") or {}).get("kind") if isinstance(data, dict) else None
        return "unknown" if kind == "delivery-unknown" else "other"
    result = body["result"]
    match result.get("outcome"):
        case "injected":
            return "injected" if has_spoken else "injected, silent"
        case "promptRequired":
            return "promptRequired"
    ours = (result.get("_meta") or {}).get("acpbridge") or {}
    match ours.get("completion"), ours.get("delivery"):
        case "shared", None:
            return "shared"
        case "shared", "unproven":
            return "unproven"
        case None, None if result.get("stopReason") == "end_turn":
            return "own turn"
    return "other"


def order_faults(fate: Fate, spoken: Sequence[int], ends: tuple[int, int]) -> list[str]:
    """What in the order of frames contradicts a fate.

    Args:
        fate: What the response claims.
        spoken: Places of the frames that hold the text's own answer.
        ends: Places of the owner's response and of the text's.
    """
    owner, own = ends
    if len(spoken) > 1:
        return [f"{fate}, but it was answered in words {len(spoken)} times: TWICE"]
    match fate:
        case "shared":
            if not spoken:
                return ["shared, but it was never answered in words"]
            return [] if spoken[0] < min(ends) else ["shared, but answered before its words"]
        case "injected":
            return [] if spoken[0] < owner else ["injected, but words came after the owner's end"]
        case "own turn":
            if not spoken:
                return ["said to have had a turn, but it was never answered in words"]
            return (
                []
                if owner < spoken[0] < own
                else ["its own turn, but not its words between the answers"]
            )
        case "unproven" | "injected, silent" | "promptRequired":
            return [f"{fate}, but it was answered in words"] if spoken else []
        case "unknown":
            return []
    return ["answered in a way that no rule has"]


def reach_faults(fate: Fate, times: int) -> list[str]:
    """Whether a text stood in the model's conversation as often as its fate allows."""
    least, most = REACHES[fate]
    if times < least:
        return [f"{fate}, but LOST: it is not in the model's conversation"]
    if times > most:
        return [f"{fate}, but it reached the model {times} times: TWICE or unsaid"]
    return []
