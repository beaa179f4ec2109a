"""Real unix sockets in a directory of the test's own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import trio

from acpbridge.shell.outbox import Outbox
from acpbridge.shell.stdio import receive
from acpbridge.shell.unix import (
    AlreadyOwnedFault,
    Presence,
    UnixListener,
    ends,
    listen,
    owner_words,
    probe,
)
from tests.shell.clients import read_to_end, read_until
from tests.shell.places import listener, make, path, remove, stale_socket

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["listener", "path"]


async def test_lines_go_both_ways_over_two_descriptors(
    path: Path, listener: UnixListener, nursery: trio.Nursery
) -> None:
    """As the front reads and an outbox writes; the peer sees the end when the block ends."""
    client = await trio.open_unix_socket(path)
    async with client:
        await client.send_all(b"one\n")
        with ends(await listener.accept()) as (incoming, outgoing):
            outbox = Outbox(high_bytes=100, piece_bytes_max=100)
            nursery.start_soon(outbox.run, outgoing)
            assert b"one\n" == await receive(incoming)
            outbox.put(b"two")
            outbox.flush()
            await outbox.drained()
            await client.send_eof()
            assert b"" == await receive(incoming)
            outbox.put(b"last")
            outbox.end()
            await outbox.drained()
        assert b"two\nlast\n" == await read_to_end(client)


async def test_it_serves_as_a_trio_listener(listener: UnixListener, path: Path) -> None:
    async def greet(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"hello")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, greet, [listener])
        async with await trio.open_unix_socket(path) as client:
            assert b"hello" == await read_to_end(client)
        nursery.cancel_scope.cancel()


async def test_a_new_socket_takes_a_stale_ones_place_in_one_step(path: Path) -> None:
    """Who looks finds the old one refusing or the new one listening, and never nothing."""
    stale_socket(path)
    is_over = threading.Event()
    seen: set[Presence] = set()

    def look() -> None:
        while not is_over.is_set():
            seen.add(probe(path))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(50):
            opened = listen(path)
            # As after a kill: the socket file stays, its lock is free.
            opened._socket.close()
            os.close(opened._lock_fd)
    finally:
        is_over.set()
        watcher.join()

    assert seen <= {Presence.STALE, Presence.LIVE}


async def test_the_probe_tells_live_from_stale_from_foreign(path: Path) -> None:
    assert Presence.ABSENT is probe(path)
    opened = listen(path)
    assert Presence.LIVE is probe(path)
    opened.close()
    assert Presence.ABSENT is probe(path)
    stale_socket(path)
    assert Presence.STALE is probe(path)
    remove(path)
    make(path, "file")
    assert Presence.FOREIGN is probe(path)
    remove(path)
    make(path, "link")
    assert Presence.FOREIGN is probe(path)


async def test_a_full_backlog_is_a_live_daemon(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))

        assert Presence.LIVE is probe(path)


async def test_a_second_owner_is_told_to_attach(path: Path, listener: UnixListener) -> None:
    with pytest.raises(AlreadyOwnedFault) as caught:
        listen(path)

    assert caught.value.hint.startswith(f"another daemon has {path}: attach to it")
    assert "attach" in caught.value.hint
    assert Presence.LIVE is probe(path)
    # The lock alone tells: an owner that is just starting has no socket yet.
    remove(path)
    with pytest.raises(AlreadyOwnedFault):
        listen(path)


async def test_an_owner_s_words_are_never_the_last_owner_s(path: Path) -> None:
    """They stand there before anybody can find its socket."""
    listen(path, "the first, with more to say").close()
    assert owner_words(path) == "the first, with more to say"
    with closing(listen(path, "the second")):
        assert owner_words(path) == "the second"
        with pytest.raises(AlreadyOwnedFault):
            listen(path, "the loser")
        assert owner_words(path) == "the second"


async def test_a_listener_without_our_lock_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        with pytest.raises(AlreadyOwnedFault):
            listen(path)

        assert Presence.LIVE is probe(path)
    remove(path)
    listen(path).close()


async def test_a_stale_socket_and_a_half_made_one_are_replaced(path: Path) -> None:
    stale_socket(path)
    private = path.with_name(".d.sock")
    private.mkdir(mode=0o700)
    stale_socket(private / "s")
    opened = listen(path)

    assert Presence.LIVE is probe(path)
    assert not private.exists()
    opened.close()


async def test_an_owner_that_is_killed_leaves_the_path_free(path: Path) -> None:
    code = (
        "import sys, trio, pathlib\n"
        "from acpbridge.shell.unix import listen\n"
        "async def main():\n"
        "    found = listen(pathlib.Path(sys.argv[1]))\n"
        "    print('ready', flush=True)\n"
        "    await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    owner = await trio.lowlevel.open_process(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    with trio.fail_after(20):
        await read_until(owner.stdout, b"ready\n")
        with pytest.raises(AlreadyOwnedFault):
            listen(path)
        assert Presence.LIVE is probe(path)
        owner.kill()
        await owner.wait()
    await owner.stdout.aclose()
    assert Presence.STALE is probe(path)
    opened = listen(path)

    assert Presence.LIVE is probe(path)
    opened.close()


async def test_only_who_made_the_socket_unlinks_it(path: Path) -> None:
    """Field case 128: a daemon that goes late removes the socket of the one after it."""
    late = listen(path)
    remove(path)
    stale_socket(path)
    late.close()
    late.close()

    assert Presence.STALE is probe(path)


async def test_a_closed_listener_says_so(listener: UnixListener, nursery: trio.Nursery) -> None:
    await listener.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await listener.accept()
