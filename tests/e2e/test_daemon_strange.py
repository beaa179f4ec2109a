"""What attach and stop do where something else listens than a daemon in good health."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from acpbridge.shell.unix import UnixListener, listen
from tests.e2e.bridge import SCRIPTED, command
from tests.e2e.daemon import socket_of

pytestmark = pytest.mark.process


@pytest.fixture
async def listener(tmp_path: Path) -> AsyncIterator[UnixListener]:
    found = listen(socket_of(tmp_path))
    yield found
    found.close()


class Other:
    """Listens in a daemon's place; what it is asked first goes to each script in turn."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self.heard: list[bytes] = []

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            data = bytes(await stream.receive_some())
            # A probe says nothing.
            if not data:
                return
            self.heard.append(data)
            answer = self._answers.pop(0)
            if answer is None:
                return
            await stream.send_all(answer)
            while await stream.receive_some():
                pass


async def test_a_daemon_that_ends_as_we_come_is_not_the_one(
    tmp_path: Path, listener: UnixListener, nursery: trio.Nursery
) -> None:
    """It has heard the client and said nothing: the next one is told the same."""
    other = Other(None, b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    nursery.start_soon(partial(trio.serve_listeners, other.serve, [listener]))
    argv = ("attach", "--state-dir", str(tmp_path), "--spawn", "--", *SCRIPTED)
    async with command(*argv) as client:
        answer = await client.answer(await client.ask("initialize"))
        await client.close_stdin()
        assert await client.code() == 0
    nursery.cancel_scope.cancel()

    assert {} == answer["result"]
    assert 2 == len(other.heard)
    assert other.heard[0] == other.heard[1]


@pytest.mark.parametrize(
    ("answer", "environ", "words"),
    [
        (None, {}, b"does not answer as a daemon"),
        (b'{"jsonrpc":"2.0","id":1,"result":5}\n', {}, b"does not answer as a daemon"),
        (b"no JSON\n", {}, b"does not answer as a daemon"),
        (
            b'{"jsonrpc":"2.0","id":1,"result":{"pid":1}}\n',
            {"ACPBRIDGE_STOP_WAIT_S": "0.2"},
            b"has not ended after 0.2 s (stop_wait_s): kill it",
        ),
    ],
)
async def test_stop_says_what_is_wrong(
    tmp_path: Path,
    listener: UnixListener,
    nursery: trio.Nursery,
    answer: bytes | None,
    environ: dict[str, str],
    words: bytes,
) -> None:
    nursery.start_soon(partial(trio.serve_listeners, Other(answer).serve, [listener]))
    async with command("stop", "--state-dir", str(tmp_path), environ=environ) as ours:
        assert await ours.code() == 5
        await ours.said(b"\n")
    nursery.cancel_scope.cancel()

    assert words in ours.stderr
    assert ours.stderr.count(b"\n") == 1


async def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = trio.Path(socket_of(tmp_path))
    await path.write_text("precious")
    argv = ("attach", "--state-dir", str(tmp_path), "--spawn", "--", *SCRIPTED)
    async with command(*argv) as client:
        assert await client.code() == 2
        await client.said(b"is not a socket of ours")

    assert await path.read_text() == "precious"


async def test_a_path_that_stays_owned_and_silent_is_told_of(
    tmp_path: Path, listener: UnixListener
) -> None:
    """Its owner holds the lock and has let go of the socket: it is told that nobody answers."""
    await trio.Path(listener.path).rename(tmp_path / "elsewhere")
    # The last one that it starts may come when the path is free again: it has nobody to serve.
    alone = ("--spawn", "--idle-exit", "0.1")
    argv = ("attach", "--state-dir", str(tmp_path), *alone, "--", *SCRIPTED)
    async with command(*argv, environ={"ACPBRIDGE_SPAWN_WAIT_S": "1.5"}) as client:
        assert await client.code() == 5
        await client.said(b"spawn_wait_s")
    await trio.Path(tmp_path / "elsewhere").rename(listener.path)
