"""Real Hermes behind a bridge that is killed: what the next bridge knows, and what it does not.

A killed bridge says nothing and finishes nothing; all that is left of it is its journal.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.hermes.conftest import Open, real_hermes
from tests.hermes.home import Home
from tests.hermes.model import ModelServer
from tests.hermes.peer import Peer
from tests.hermes.script import script
from tests.hermes.test_bridged import check

pytestmark = [pytest.mark.hermes, pytest.mark.process]

ROTATING = """\
compression:
  enabled: true
  in_place: false
  threshold: 0.75
  protect_last_n: 2
  protect_first_n: 0
  target_ratio: 0.1
"""
"""With a context of 64,000 tokens Hermes goes over to a new session of its own after some turns."""
FILLER = "lorem ipsum dolor sit amet " * 1500
TURNS_MAX = 8
LOOKS_MAX = 50
"""Looks at the journal, a process each, in which a message must have come to the disk."""
SECRET = "s3cr3t-do-not-keep"  # noqa: S105 - planted to be looked for


async def load(peer: Peer, session: str, secret: str = "") -> None:
    """Load the session as a client does that has come back."""
    servers = []
    if secret:
        headers = [{"name": "Authorization", "value": f"Bearer {secret}"}]
        servers = [
            {"type": "http", "name": "mcp", "url": "http://127.0.0.1:9/", "headers": headers}
        ]
    params = {"sessionId": session, "cwd": str(peer.home.work), "mcpServers": servers}
    await peer.request("session/load", params)


def listed(peer: Peer, *options: str) -> list[dict[str, Any]]:
    """What `acpbridge prompts --json` says, oldest first."""
    words = [sys.executable, "-m", "acpbridge", "prompts", "--json", *options]
    done = subprocess.run(words, env=peer.home.environment(), check=True, capture_output=True)
    return [json.loads(line) for line in done.stdout.splitlines()][::-1]


async def prompts_of(peer: Peer) -> list[tuple[str, str]]:
    """(state, first words) of every prompt."""
    found = await trio.to_thread.run_sync(listed, peer)
    return [(one["state"], one["firstWords"].split(" ")[0]) for one in found]


@pytest.mark.parametrize("policy", ["keep", "send"])
async def test_a_killed_bridge_loses_no_message_and_runs_none_twice(
    open_hermes: Open, model: ModelServer, policy: str
) -> None:
    """What ran is answered, what was with Hermes is unknown, what waited is kept, or sent."""
    peer = await open_hermes("bridged", "--undelivered", policy)
    session = await peer.new_session()
    await peer.answer(await peer.prompt(session, script("zero", ["say", "Z"])))
    await peer.prompt(session, script("one", ["say", "A"], ["gate", "never"]))
    await peer.wait_text("A")
    await peer.prompt(session, script("two", ["say", "B"]))
    await peer.prompt(session, script("three", ["say", "C"]))
    for _ in range(LOOKS_MAX):
        if ("accepted", "three") in await prompts_of(peer):
            break
    await peer.restart()
    await peer.initialize()
    await load(peer, session)
    last = await peer.prompt(session, script("four", ["say", "D"]))
    await peer.answer(last)

    ran = [text.split(" ")[0] for text in model.prompts()]
    later = ["two", "three", "four"] if policy == "send" else ["four"]
    assert ["zero", "one", *later] == ran
    kept = "answered" if policy == "send" else "undelivered"
    assert [
        ("answered", "zero"), ("unknown", "one"), (kept, "two"), (kept, "three"),
        ("answered", "four"),
    ] == await prompts_of(peer)  # fmt: skip
    told = "".join(str(one.body) for one in peer.frames if "may have run" in str(one.body))
    assert '"one' in told.replace("\\'", "'")
    assert model.asked[-1].user_texts[0].startswith("zero"), "the conversation goes on"


async def test_no_secret_of_a_client_is_in_the_state_directory(
    open_hermes: Open, model: ModelServer
) -> None:
    """S15: not in the journal, not in its -wal, not in a lock's file; also of what was replaced."""
    peer = await open_hermes("bridged")
    session = await peer.new_session()
    frame, sent = peer.prompt_frame(session, script("zero", ["say", "Z"]))
    frame["params"]["_meta"] = {"token": SECRET}
    await peer.send_many(frame)
    await peer.answer(sent)
    await peer.restart()
    await peer.initialize()
    await load(peer, session, SECRET)
    await peer.answer(await peer.prompt(session, script("one", ["say", "A"])))

    files = [path for path in peer.home.state.rglob("*") if path.is_file()]
    assert any(b"zero" in path.read_bytes() for path in files), "the prompts are there"
    assert [] == [path.name for path in files if SECRET.encode() in path.read_bytes()]
    modes = {oct(path.stat().st_mode & 0o777) for path in files}
    assert {"0o600"} == modes
    assert 0o700 == peer.home.state.stat().st_mode & 0o777


Rotating = Callable[[], Awaitable[Peer]]


@pytest.fixture
async def open_rotating(
    nursery: trio.Nursery, tmp_path: Path, model: ModelServer
) -> AsyncIterator[Rotating]:
    """Opens a real Hermes, bridged, that rotates its session when the context is full."""
    agent = [str(real_hermes()), "acp"]
    home = Home.make(tmp_path / "rotating", model.url)
    config = home.hermes / "config.yaml"
    text = config.read_text().replace("context_length: 200000", "context_length: 64000")
    config.write_text(text + ROTATING)
    peers: list[Peer] = []

    async def opened() -> Peer:
        peers.append(await Peer.start(nursery, home, agent, "bridged"))
        await peers[-1].initialize()
        return peers[-1]

    yield opened
    for peer in peers:
        await peer.stop()


async def test_a_rotated_conversation_is_whole_after_a_restart(
    open_rotating: Rotating, model: ModelServer
) -> None:
    """R25: loaded under its old id, Hermes would silently forget all since the rotation."""
    peer = await open_rotating()
    session = await peer.new_session()
    turns = 0
    while "currentHermesSessionId" not in _tip(peer, session) and turns < TURNS_MAX:
        turns += 1
        text = f"turn {turns} {FILLER}" + script("", ["say", f"answer {turns} " + FILLER[:9000]])
        await peer.answer(await peer.prompt(session, text))
    assert "currentHermesSessionId" in _tip(peer, session), "it has rotated"
    told = script("remember the word heliotrope", ["say", "I will."])
    await peer.answer(await peer.prompt(session, told))
    await peer.restart()
    await peer.initialize()
    await load(peer, session)
    last = await peer.prompt(session, script("which word", ["say", "That one."]))
    await peer.answer(last)

    asked = model.asked[-1]
    assert any("heliotrope" in text for text in asked.user_texts), "the model sees it"
    check(peer, last)


def _tip(peer: Peer, session: str) -> dict[str, Any]:
    """The provenance that names a session of Hermes' own, {} before the rotation."""
    for seen in reversed(peer.frames):
        update = (seen.body.get("params") or {}).get("update") or {}
        found = ((update.get("_meta") or {}).get("hermes") or {}).get("sessionProvenance") or {}
        if found.get("currentHermesSessionId", session) != session:
            assert isinstance(found, dict)
            return found
    return {}
