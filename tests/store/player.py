"""A client on a player, with time in the test's hand."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from acpbridge.store.playback import Player, Taken
from tests.store.taped import Json, line

if TYPE_CHECKING:
    from acpbridge.store.tape_reader import Recording

ALL = 1_000_000


class Client:
    """A client on a player: sends, lets time pass, keeps all that came."""

    def __init__(
        self, tape: Recording, *, speed: float = math.inf, patience_s: float = 1.0
    ) -> None:
        self.now_s = 100.0
        self.player = Player(tape, speed=speed, patience_s=patience_s, began_s=self.now_s)
        self.notes: list[str] = []

    def send(self, *frames: Json) -> list[Json]:
        """What is answered at once, and what the agent then says without time passing."""
        came: list[Json] = []
        for frame in frames:
            came += [json.loads(one) for one in self.take(line(frame)).answers]
        return came + self.hear()

    def take(self, raw: bytes) -> Taken:
        taken = self.player.take(raw, self.now_s)
        self.notes += taken.notes
        return taken

    def hear(self) -> list[Json]:
        said = self.player.speak(self.now_s, ALL)
        self.notes += said.notes
        return [json.loads(one) for one in said.lines]

    def wait(self, until_s: float = math.inf) -> list[tuple[float, Json]]:
        """Let time pass; (seconds since the beginning, frame) of all that is said in it."""
        came: list[tuple[float, Json]] = []
        while True:
            said = self.player.speak(self.now_s, ALL)
            self.notes += said.notes
            came += [(round(self.now_s - 100.0, 3), json.loads(one)) for one in said.lines]
            if said.again_s > 100.0 + until_s or math.isinf(said.again_s):
                self.now_s = max(self.now_s, 100.0 + until_s) if until_s < math.inf else self.now_s
                return came
            self.now_s = max(self.now_s, said.again_s)


def words(frames: list[Json]) -> list[str]:
    """Frames as their texts, and as `1: end_turn` for answers."""
    told = []
    for frame in frames:
        if "method" in frame:
            told.append(frame["params"].get("update", {}).get("content", {}).get("text", "asks"))
        else:
            told.append(f"{frame['id']}: {frame.get('result', {}).get('stopReason', 'error')}")
    return told
