"""The conversation that every client of this folder holds, whatever it is made of."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.client import Client
from tests.clients.lines import story
from tests.hermes.home import Home, scripted_command
from tests.hermes.script import script

ONE = script("one", ["say", "A0 "], ["permission", "rm -rf ./build"], ["say", ", A1"])
TWO = script("two", ["say", "B"])
THREE = script("three", ["say", "C"], ["silence"])
FOUR = script("four", ["say", "never"])

CONVERSATION = [
    "says A0 ",
    "asks rm -rf ./build",
    "says allow_once, A1",
    "answers one: end_turn",
    "says B",
    "answers two: end_turn",
    "says C",
    "answers four: cancelled",
    "answers three: cancelled",
]
"""What a client sees of `converse`."""
HISTORY = [
    "user one",
    "says A0 allow_once, A1",
    "user two",
    "says B",
    "user three",
    "says C",
]
"""What the agent itself tells of it later."""


def agent_command(home: Home) -> list[str]:
    """An agent that can be scripted, and its memory and log below the home."""
    files = ["--state", str(home.root / "state.json"), "--log", str(home.root / "log.jsonl")]
    return scripted_command("bare", *files)


def reached(home: Home) -> list[str]:
    """What came to the agent, in order: methods, of prompts their labels, and answers."""
    log = Path(home.root / "log.jsonl").read_text("utf-8")
    bodies = [json.loads(line).get("got") for line in log.splitlines()]
    words = []
    for body in filter(None, bodies):
        method = body.get("method", "(answer)")
        if method == "session/prompt":
            method = body["params"]["prompt"][0]["text"].partition(" @@")[0]
        words.append(method)
    return words


async def begin(client: Client, home: Home, **more: object) -> str:
    """Initialize and open a session; returns its id."""
    await client.ask("initialize", **more)
    opened = await client.ask("new", cwd=str(home.work))
    return str(opened["sessionId"])


async def converse(client: Client, home: Home) -> str:
    """Begin, a permission, a prompt that meets a turn, a cancel of two; returns the session."""
    session = await begin(client, home)
    await client.tell("prompt", name="one", session=session, text=ONE)
    await client.asks()
    await client.tell("prompt", name="two", session=session, text=TWO)
    await client.tell("answer", option="allow_once")
    await client.result("two")
    await client.tell("prompt", name="three", session=session, text=THREE)
    await client.sees("C")
    await client.tell("prompt", name="four", session=session, text=FOUR)
    await client.tell("cancel", session=session)
    await client.result("three")
    await client.result("four")

    told = story(client.said)
    assert told == CONVERSATION, told
    begun = ["initialize", "session/new", "one", "(answer)", "two", "three", "session/cancel"]
    assert reached(home) == begun, "a prompt never meets a turn at the agent"
    return session
