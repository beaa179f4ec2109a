"""Real Hermes behind the shim: started as `hermes acp`, and bridged all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from acpbridge.store.shim import install, version_of
from tests.hermes.conftest import Open
from tests.hermes.home import Home, hermes_executable
from tests.hermes.model import ModelServer
from tests.hermes.peer import Peer
from tests.hermes.script import script

pytestmark = [pytest.mark.hermes, pytest.mark.process]

BRIDGE = (sys.executable, "-P", "-m", "acpbridge")
RECEIPT = "Queued for the next turn"


@pytest.fixture
def shim(tmp_path: Path, open_hermes: Open) -> Path:
    """A shim in front of real Hermes; `open_hermes` has seen to it that there is one."""
    executable = hermes_executable()
    assert executable is not None
    return install(tmp_path / "shims", executable, BRIDGE).path


async def test_a_second_prompt_is_answered_by_its_own_turn(
    nursery: trio.Nursery, tmp_path: Path, model: ModelServer, shim: Path
) -> None:
    home = Home.make(tmp_path / "home", model.url)
    peer = await Peer.start(nursery, home, [str(shim), "acp"])
    await peer.initialize()
    session = await peer.new_session()
    first = await peer.prompt(session, script("first", ["say", "Working"], ["gate", "g"]))
    await peer.wait_text("Working")
    second = await peer.prompt(session, script("second", ["say", "Here it is."]))
    await peer.fence()
    early = peer.answers(second)
    model.release("g")
    await peer.answer(first)
    await peer.answer(second)
    await peer.stop()

    assert [] == early
    assert "says Here it is." in peer.story(session)
    assert not [seen for seen in peer.frames if RECEIPT in seen.text]


async def test_what_is_no_protocol_reaches_hermes_itself(tmp_path: Path, shim: Path) -> None:
    home = Home.make(tmp_path / "home")
    executable = hermes_executable()
    assert executable is not None

    done = await trio.run_process(
        [str(shim), "acp", "--check"],
        capture_stdout=True,
        stdin=subprocess.DEVNULL,
        env=home.environment(),
    )

    assert b"Hermes ACP check OK" in done.stdout
    assert version_of(executable) == version_of(shim) is not None
