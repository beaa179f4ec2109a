"""Whom a unix socket keeps out: by modes, by owner, by the kernel's word."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from acpbridge.errors import DaemonFault, UsageFault
from acpbridge.shell.attach import dial
from acpbridge.shell.unix import (
    PATH_BYTES_MAX,
    UnixListener,
    listen,
    peer_uid,
)
from tests.shell.places import NOBODY, listener, make, mode, names, path, reachable, widen

__all__ = ["listener", "path"]


async def test_directory_socket_and_lock_are_the_users_alone(path: Path) -> None:
    """Even where the user's umask lets everybody in."""
    umask = os.umask(0)
    try:
        with_listener = listen(path)
    finally:
        os.umask(umask)

    assert (0o700, 0o600) == (mode(path.parent), mode(path))
    assert 0o600 == mode(path.with_name("d.sock.lock"))
    assert {"d.sock", "d.sock.lock"} == names(path.parent)
    with_listener.close()


WATCHED = """
import os, pathlib, stat, sys, trio
from acpbridge.shell.unix import Presence, listen, probe

path = pathlib.Path(sys.argv[1])
seen = set()

def look(event, _):
    if event.split(".")[0] in {"os", "socket", "fcntl", "pathlib"}:
        for name in (path, path.with_name(".d.sock") / "s"):
            try:
                seen.add(stat.S_IMODE(os.lstat(name).st_mode))
            except OSError:
                continue

async def main():
    opened = listen(path)
    assert Presence.LIVE is probe(path)
    opened.close()

os.umask(0)
sys.addaudithook(look)
trio.run(main)
print(*map(oct, sorted(seen)))
"""


async def test_the_socket_is_never_wider_at_any_step(path: Path) -> None:
    """Python tells each step before it is taken; this looks at the modes in between."""
    done = await trio.run_process(
        [sys.executable, "-c", WATCHED, str(path)], capture_stdout=True, check=True
    )

    assert b"0o600" == done.stdout.strip()


@pytest.mark.parametrize("made", ["file", "folder", "link"])
async def test_what_is_no_socket_is_never_replaced(path: Path, made: str) -> None:
    make(path, made)
    with pytest.raises(UsageFault) as caught:
        listen(path)

    assert "socket_foreign" == caught.value.code
    assert {"d.sock", "d.sock.lock"} == names(path.parent)


@pytest.mark.parametrize("wide", [0o755, 0o710, 0o701, 0o777])
async def test_a_directory_that_others_reach_is_refused_not_changed(path: Path, wide: int) -> None:
    path.parent.mkdir()
    path.parent.chmod(wide)
    with pytest.raises(UsageFault) as caught:
        listen(path)

    assert "socket_dir_open" == caught.value.code
    assert f"reach the directory {path.parent}: choose a path" in caught.value.hint
    assert wide == mode(path.parent)


async def test_a_path_that_cannot_be_bound_is_told_with_its_limit(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    room = PATH_BYTES_MAX - len(os.fsencode(folder)) - len("/./s")
    if room < 1:
        pytest.skip("the temporary directory has a long name")
    listen(folder / ("x" * room)).close()
    with pytest.raises(UsageFault) as caught:
        listen(folder / ("x" * (room + 1)))

    assert "socket_path_invalid" == caught.value.code
    assert f"at most {PATH_BYTES_MAX - 3} bytes" in caught.value.hint


async def test_who_joins_by_a_path_that_none_can_have_is_told_so(tmp_path: Path) -> None:
    """No daemon is missing there: to start one would not help."""
    with pytest.raises(UsageFault) as caught:
        await dial(tmp_path / ("x" * PATH_BYTES_MAX))

    assert "socket_path_invalid" == caught.value.code


async def test_a_path_must_be_absolute_and_its_place_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageFault):
        listen(tmp_path.relative_to("/") / "d.sock")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageFault) as caught:
        listen(tmp_path / "file" / "d.sock")

    assert "socket_unusable" == caught.value.code


async def test_a_lock_that_is_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.with_name("d.sock.lock").symlink_to(tmp_path / "target")
    with pytest.raises(UsageFault):
        listen(path)

    assert not (tmp_path / "target").exists()


async def test_the_peers_user_is_the_kernels_word() -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert os.getuid() == peer_uid(left)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_refused_even_where_the_files_would_let_it_in(
    path: Path, listener: UnixListener
) -> None:
    """The modes are opened for the test: the uid alone must keep it out."""
    widen(path)
    code = (
        "import os, socket\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.connect('d.sock')\n"
        "try:\n"
        "    s.sendall(b'let me in')\n"
        "    print(s.recv(10))\n"
        "except OSError as error:\n"
        "    print(type(error).__name__)\n"
    )
    async with trio.open_nursery() as nursery:
        accepted: list[trio.SocketStream] = []

        async def accept() -> None:
            accepted.append(await listener.accept())

        nursery.start_soon(accept)
        # It enters its working directory while it is root: those above stay closed to nobody.
        done = await trio.run_process(
            [sys.executable, "-c", code],
            cwd=path.parent,
            capture_stdout=True,
        )
        assert done.stdout.strip() in {b"b''", b"BrokenPipeError", b"ConnectionResetError"}
        assert [] == accepted
        async with await trio.open_unix_socket(path):
            with trio.fail_after(10):
                while not accepted:
                    await trio.lowlevel.checkpoint()
    await accepted[0].aclose()

    assert 1 == listener.refused_peers


LISTEN = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as listener:
    os.setuid(int(sys.argv[2]))
    os.chdir("/tmp")
    listener.bind(sys.argv[1])
    listener.listen()
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_nobody_talks_to_another_user_s_socket() -> None:
    """It would get every prompt of who attaches, where no daemon has the path."""
    folder = reachable(0o777)
    theirs = folder / "s.sock"
    argv = [sys.executable, "-c", LISTEN, str(theirs), str(NOBODY)]
    pipe = subprocess.PIPE
    try:
        async with trio.open_nursery() as nursery:
            start = partial(trio.run_process, argv, stdin=pipe, stdout=pipe)
            process: trio.Process = await nursery.start(start)
            assert process.stdin is not None
            assert process.stdout is not None
            async with process.stdin:
                assert (await process.stdout.receive_some()).startswith(b"there")
                with pytest.raises(DaemonFault, match="another user"):
                    await dial(theirs)
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of somebody else")
async def test_a_directory_of_another_user_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.chown(path.parent, NOBODY, NOBODY)
    with pytest.raises(UsageFault) as caught:
        listen(path)

    assert "socket_dir_open" == caught.value.code
