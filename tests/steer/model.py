"""A scripted model server on loopback for a steering agent, in either dialect.

The last user text with a program (`tests.hermes.script`) decides what is answered, so a steer
carries its own answer. A tool step ends one HTTP answer; the agent's next request goes on after
it, which is known from the tool calls in the conversation. Steps:

    ["say", text]                    one piece of text
    ["gate", name]                   hold the open answer until `SteerModel.release`
    ["tool", name, arguments]        one tool call; ends this answer
    ["status", code, text]           an HTTP error in place of an answer

A request without tools is for a title: it gets a fixed text and is kept apart. A conversation
without a program, or after its program is used up, is answered in words that say so.
"""

from __future__ import annotations

import json
from functools import partial

import trio
from attrs import define, field

from tests.hermes.gates import WAIT_S, ScriptedModel, bounded
from tests.hermes.script import Step, program, segments
from tests.steer.dialect import Dialect, Item
from tests.steer.serving import HUNG_UP, Connection, Request

TITLE = "Scripted title"
NO_PROGRAM = "(no program reached the model)"
USED_UP = "(the program is over)"


@define(eq=False)
class Asked:
    """One request that reached the model, and what became of its answer."""

    at_s: float
    items: list[Item]
    has_tools: bool
    end: trio.Event = field(factory=trio.Event)
    is_whole: bool = False
    """Whether the answer was given to its last word; False while it runs, or when it was cut."""

    @property
    def texts(self) -> list[str]:
        """The tests' own user texts (those with a program), oldest first.

        What the agent says beside and around them is left out: claude wraps a steer that met a
        tool in words of its own. A test's own text is one line.
        """
        users = [item.text for item in self.items if item.kind == "user"]
        lines = [line for text in users for line in text.splitlines()]
        return [line for line in lines if program(line) is not None]

    @property
    def remembered(self) -> str:
        """What the agent remembers of the model's own words, joined."""
        return "".join(item.text for item in self.items if item.kind == "assistant")


@define(eq=False)
class SteerModel(ScriptedModel[Asked]):
    """A steering agent's model: the API of one dialect."""

    dialect: Dialect = field(kw_only=True)
    strays: list[str] = field(factory=list)
    """Calls of anything else, as "METHOD path"."""

    @property
    def url(self) -> str:
        """The server's root, without a path."""
        return self.root

    async def wholes(self, within_s: float = WAIT_S) -> list[bool]:
        """For each turn's request whether it was answered to the last word.

        Waits until no answer is under way: the agent can be quicker than the server's own
        record of what it gave away. Raises TimeoutError.
        """
        for asked in self.asked:
            await bounded(asked.end.wait, within_s, "a model's answer did not end")
        return [asked.is_whole for asked in self.asked]

    def times(self, text: str) -> int:
        """How often a text stands in the newest conversation that knows it; 0 if none does.

        A request repeats the whole conversation, so 2 means that the agent took a text twice.
        """
        counts = [asked.texts.count(text) for asked in self.asked]
        return next((count for count in reversed(counts) if count), 0)


async def start_steer_model(nursery: trio.Nursery, dialect: Dialect) -> SteerModel:
    """Serve on a free loopback port until the nursery is cancelled."""
    server = SteerModel(dialect=dialect)
    await server.listen(nursery, partial(_serve, server))
    return server


async def _serve(server: SteerModel, stream: trio.SocketStream) -> None:
    """One connection: request after request until either side is done with it."""
    connection = Connection(stream)
    try:
        while (request := await connection.receive()) is not None:
            await _respond(server, connection, request)
            if not connection.next_cycle():
                return
    except HUNG_UP:
        return  # An agent that was stopped leaves its connections as they are.


async def _respond(server: SteerModel, connection: Connection, request: Request) -> None:
    if request.method != "POST" or not request.target.endswith(server.dialect.endpoint):
        server.strays.append(f"{request.method} {request.target}")
        await connection.send_nothing(404)
        return
    body = json.loads(request.body)
    asked = Asked(trio.current_time(), server.dialect.items(body), bool(body.get("tools")))
    server.note(asked)
    answer = partial(_answer, server, connection, asked, str(body.get("model")))
    await connection.until_hung_up(answer)
    asked.end.set()


async def _answer(server: SteerModel, connection: Connection, asked: Asked, model: str) -> None:
    steps = _steps_for(asked)
    if steps and steps[0][0] == "status":
        await connection.send_json(steps[0][1], server.dialect.fault(steps[0][2]))
        asked.is_whole = True
        return
    serial = len(server.asked) + len(server.aside)
    voice = server.dialect.voice(connection.send_event, serial, model)
    await connection.begin_events()
    await voice.begin()
    for step in steps:
        match step:
            case ["say", text]:
                await voice.say(text)
            case ["gate", name]:
                await server.pass_gate(name)
            case ["tool", name, arguments]:
                await voice.call(name, arguments)
            case _:
                # The text reaches the test as the model's answer, so a typo is seen at once.
                await voice.say(f"(unknown step {step!r})")
    await voice.end()
    # Now, and not behind the end of the HTTP answer: codex may hang up in between.
    asked.is_whole = True
    await connection.end_events()


def _steps_for(asked: Asked) -> list[Step]:
    if not asked.has_tools:
        return [["say", TITLE]]
    calls = 0
    for item in reversed(asked.items):
        calls += item.kind == "call"
        steps = program(item.text) if item.kind == "user" else None
        if steps is not None:
            rest = segments(steps)
            return rest[calls] if calls < len(rest) else [["say", USED_UP]]
    return [["say", NO_PROGRAM]]
