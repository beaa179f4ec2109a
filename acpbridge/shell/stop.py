"""`acpbridge stop`: ask the daemon to end in order, and wait for it.

The request is a line on its socket, so nothing is ever signalled by a number that may be a
stranger's by now. The process that is waited for is held by a pidfd, which is taken before that
process answers: from then on its number means no other one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from acpbridge.errors import DaemonFault
from acpbridge.shell.attach import dial
from acpbridge.shell.daemon_requests import STOP
from acpbridge.shell.unix import peer_pid
from acpbridge.wire import codec
from acpbridge.wire.frame import Frame, peek
from acpbridge.wire.lines import LineDecoder

if TYPE_CHECKING:
    from pathlib import Path

_ANSWER_BYTES_MAX = 64 * 1024
_NOTHING = "nothing is to be stopped, or name the socket that it has with --unix"


@frozen
class Stopped:
    """What a daemon said when it was asked to stop, and has ended since."""

    pid: int
    clients: int
    """Those that it had."""


def stop_daemon(path: Path, *, wait_s: float) -> Stopped:
    """Stop the daemon there, and wait for its end.

    Raises:
        DaemonFault: None listens, it does not answer, or it has not ended after `wait_s`.
    """
    return trio.run(_stop, path, wait_s)


async def _stop(path: Path, wait_s: float) -> Stopped:
    async with await dial(path, _NOTHING) as stream:
        pid = peer_pid(stream.socket)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            # Another system's process, as in a container: the connection's end must do.
            pidfd = -1
        try:
            with trio.move_on_after(wait_s):
                said = await _ask(stream)
                await _ended(stream, pidfd if said.pid == pid else -1)
                return said
        finally:
            if pidfd >= 0:
                os.close(pidfd)
    hint = f"the daemon (process {pid}) has not ended after {wait_s:g} s (stop_wait_s)"
    raise DaemonFault("daemon_still_runs", f"{hint}: kill it")


async def _ask(stream: trio.SocketStream) -> Stopped:
    answers: list[bytes] = []
    decoder = LineDecoder(_ANSWER_BYTES_MAX)
    try:
        await stream.send_all(codec.request(codec.rpc_id(1), STOP, {}) + b"\n")
        while not answers:
            data = await stream.receive_some()
            if not data:
                break
            answers += [line for line in decoder.feed(data) if isinstance(line, bytes)]
    except trio.BrokenResourceError:
        pass
    frame = peek(answers[0], strict=False) if answers else None
    result = frame.result if isinstance(frame, Frame) else None
    if not isinstance(result, dict) or not isinstance(result.get("pid"), int):
        hint = "what listens there does not answer as a daemon: it is ending, or is none of ours"
        raise DaemonFault("daemon_silent", hint)
    return Stopped(result["pid"], int(result.get("clients", 0)))


async def _ended(stream: trio.SocketStream, pidfd: int) -> None:
    """Return when the process is gone; without a pidfd, when it has let go of the connection."""
    if pidfd >= 0:
        await trio.lowlevel.wait_readable(pidfd)
        return
    try:
        while await stream.receive_some():
            pass
    except trio.BrokenResourceError:
        return
