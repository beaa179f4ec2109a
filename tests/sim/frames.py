"""Lines with slots, and what the world remembers of each line.

A line is made once, as a template; how it must read under another id or session id follows from
the template and from nothing that the bridge does (I7). Odd members (numbers that an encoder would
change, a lone surrogate, a doubled key) make a line that was parsed and encoded again stand out.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from attrs import define, field

Json = dict[str, Any]

ID = "@ID@"
SID = "@SID@"
REQUEST = "@REQUEST@"
ODD = "@ODD@"

ODDITIES = (
    b"12345678901234567890123",
    b"1E2",
    b"0.10000000000000000000001",
    rb'"\ud83d"',
    b'{"a":1,"a":2}',
    rb'"\u00e9\/"',
    b"[ 1 ,2 ]",
)


@define
class Style:
    """How one side of a world writes JSON."""

    chance: Random
    spaced: bool
    shuffled: bool
    odd: float
    """The share of frames with an odd member."""

    def line(self, frame: Json) -> bytes:
        """A template of this frame; one line, whatever the style."""
        frame = {"jsonrpc": "2.0", **frame}
        oddity = b""
        if self.odd and self.chance.random() < self.odd:
            frame["_odd"] = ODD
            oddity = self.chance.choice(ODDITIES)
        if self.shuffled and self.chance.random() < 0.3:
            names = list(frame)
            self.chance.shuffle(names)
            frame = {name: frame[name] for name in names}
        separators = (", ", ": ") if self.spaced else (",", ":")
        text = json.dumps(frame, separators=separators, ensure_ascii=self.spaced)
        return text.encode().replace(b'"@ODD@"', oddity)


def filled(template: bytes, id_: bytes = b"", sid: str = "", request: bytes = b"") -> bytes:
    """The template's line under these ids, which are JSON texts; `sid` is a string's value."""
    line = template
    if id_:
        line = line.replace(b'"@ID@"', id_)
    if sid:
        line = line.replace(b'"@SID@"', json.dumps(sid).encode())
    if request:
        line = line.replace(b'"@REQUEST@"', request)
    return line


def id_text(value: Any) -> str:
    """An id as a JSON library writes it."""
    return json.dumps(value)


def update(variant: str, **rest: Any) -> Json:
    """A `session/update` notification, its session id a slot."""
    body = {"sessionUpdate": variant, **rest}
    return {"method": "session/update", "params": {"sessionId": SID, "update": body}}


def chunk(text: str, variant: str = "agent_message_chunk", **rest: Any) -> Json:
    """A text chunk."""
    return update(variant, content={"type": "text", "text": text}, **rest)


@define(eq=False)
class Ask:
    """One request of the client and what became of it."""

    n: int
    """Its place among everything that the client sent."""
    id: bytes
    method: str
    sid: str
    template: bytes
    sent_s: float
    client: int = 0
    """Whose it is, where there are several."""
    fed: bool = False
    """The bridge has read it."""
    written: int = 0
    """How often the bridge wrote it to an agent."""
    reply: bytes = b""
    """What the agent answered, under the client's id; the last answer that counts."""
    reply_serial: int = 0
    answer: bytes = b""
    """What the client got."""
    replied_s: float = 0.0
    """When the agent's answer was read."""
    refused: str = ""
    """The kind of an error of the bridge's own."""
    tag: str = ""
    stop: str = ""
    cancelled: bool = False
    """The client has cancelled it, or its session, while it was open."""
    cwd: str = ""
    token: int = 0
    """The last `Persist` of the intent to send it."""
    durable: bool = False
    denied: bool = False
    """The disk has refused it."""
    final: bool = False
    """Sent when all is kind again: it must run."""
    saw_output: bool = False
    at_agent: bool = False
    """Written, and the agent's answer has not been read."""
    too_long: bool = False
    """The agent's answer was a line over the limit."""
    noticed: bool = False
    """A notice of the bridge's own came while it was open."""
    bound: bool = False
    """The agent's answer was a receipt."""
    cancel_written: bool = False
    """A cancel of its turn was written while the agent had it open."""
    steered: bool = False
    """It was written as a steer."""
    steer_open: bool = False
    """The agent's answer to that steer has not been read."""
    joined: bool = False
    """The agent has said that it took the steer."""
    unproven: bool = False
    """Its answer says that nothing shows that it was read."""


@define(eq=False)
class Work:
    """What an agent did with the text of one prompt."""

    n: int
    text: str
    received: int = 0
    ran: int = 0
    ended: bool = False
    end_serial: int = 0
    """The agent's last frame for it."""
    killed: bool = False
    excuse: str = ""
    """Why the agent's word about it cannot be trusted, by name."""


@define(eq=False)
class Said:
    """One line of an agent."""

    serial: int
    run: int
    sid: str
    """The session id that the agent wrote, or ""."""
    for_client: str
    """The session id under which the client must see it, or ""."""
    line: bytes
    what: str
    """live, receipt, replay, own_replay, request, response, other."""
    content: bool = False
    output: bool = False
    fed: bool = False
    shown: int = 0
    posed: Posed | None = None
    """What it asks, if it is a request."""
    ask: Ask | None = None
    """What it answers, if it is a response."""
    too_long: bool = False
    """It counts as longer than the limit, whatever its length."""
    steer: Ask | None = None
    """The prompt whose steer it answers."""
    outcome: str = ""
    """What it says of that."""


@define(eq=False)
class Posed:
    """One request of an agent to the client."""

    sid: str
    """The client's name for the session."""
    run: int
    agent_id: bytes
    shown_id: bytes = b""
    answers: int = 0
    """How often the bridge answered it toward the agent."""
    withdrawn: bool = False
    over: bool = False
    """The agent waits for it no more."""
    method: str = ""
    then: Any = field(default=None, repr=False)
    template: bytes = b""
    said: Said | None = None
    withdrawal: Said | None = None
    withdrawal_template: bytes = b""
    client_lines: list[bytes] = field(factory=list)
    """The client's answers, as the agent must get them."""
