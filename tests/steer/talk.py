"""What a client of a steering agent says and sees, on top of `tests.hermes.peer`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, cast

import trio
from attrs import define, field

from tests.hermes.home import Home, How
from tests.hermes.peer import Peer
from tests.hermes.record import Body, Seen, Sent, story
from tests.hermes.script import label, script

STEERING = "_session/steering"
OPT_IN: Body = {"steering": {"idleBehavior": "promptRequired"}}
HELD = script("one", ["say", "A0 "], ["gate", "g"], ["say", "A1"])
"""A prompt whose turn runs until the test opens the gate; "A0 " says that it runs."""
LEFT = script("left", ["say", "B0 "], ["say", "B1"])
"""A text to steer with: it brings its own answer."""
CODEX_WARNING = "Warning: Model metadata for "
"""codex says so before every turn of a model that it does not know: ours."""


@define(eq=False)
class SteerPeer(Peer):
    """A client that steers, and keeps the bytes of every line."""

    lines: list[bytes] = field(factory=list)
    """What the process wrote to stdout, in order, without the newlines."""

    @classmethod
    async def begin(
        cls,
        nursery: trio.Nursery,
        home: Home,
        agent: Sequence[str],
        how: How,
        options: Sequence[str] = (),
    ) -> Self:
        """`Peer.start` for this class."""
        peer = cls(home, how, list(agent), list(options), nursery)
        await peer.spawn()
        return peer

    def steer_frame(self, session: str, text: str, opts_in: bool = True) -> tuple[Body, Sent]:
        """Build a steer of one text block."""
        params: Body = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        if opts_in:
            params["_meta"] = OPT_IN
        return self.frame(STEERING, params, label(text))

    async def steer(self, session: str, text: str, opts_in: bool = True) -> Sent:
        """Send a steer and go on."""
        body, sent = self.steer_frame(session, text, opts_in)
        await self.send_many(body)
        return sent

    async def result(self, sent: Sent) -> Body:
        """Wait for the answer to a request; it must be a result."""
        body = (await self.answer(sent)).body
        assert "result" in body, body
        return cast("Body", body["result"])

    async def steered(self, session: str, text: str, opts_in: bool = True) -> str:
        """Steer and return the outcome word."""
        result = await self.result(await self.steer(session, text, opts_in))
        return cast("str", result["outcome"])

    def told(self, session: str) -> list[str]:
        """The story of a session, without codex's words about the scripted model's name."""
        return story(without_warnings(self.frames), self._sent, session)

    async def _take(self, line: bytes, at_s: float) -> None:
        self.lines.append(line)
        await super()._take(line, at_s)


def allowing(request: Body) -> Body:
    """The result that allows what a ``session/request_permission`` asks for, this once."""
    options = request["params"]["options"]
    chosen = next(option["optionId"] for option in options if option["kind"] == "allow_once")
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


def without_warnings(frames: Iterable[Seen]) -> list[Seen]:
    """The frames less codex's warning, which is a chunk without a ``messageId``."""
    return [
        seen
        for seen in frames
        if not (seen.text.startswith(CODEX_WARNING) and "messageId" not in seen.update)
    ]
