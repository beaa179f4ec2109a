"""`attach --spawn`: start the daemon if it is not there, apart from whoever asked for it.

The daemon gets a session of its own and init for a parent, so that a client that ends its agent's
process group, or its process tree, does not end it. Who is the owner is decided by the lock of
the path alone: whoever loses that race becomes a client. No trio here: a process forks before it
has threads.
"""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from acpbridge.errors import AgentFault, DaemonFault, UsageFault
from acpbridge.shell.ready import READY, TAKEN, told
from acpbridge.shell.unix import Presence, owner_words, probe
from acpbridge.store.state_dir import prepare_state_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SPAWNED_IDLE_EXIT_S = 600.0
"""What `idle_exit_s` is for a daemon that nobody has started by hand, unless it is told."""
LOG_NAME = "daemon.log"
LOG_BYTES_MAX = 8 * 1024 * 1024
"""A log that is longer is set aside when a daemon is started, in place of the one before."""

_LOOK_S = 0.02
"""Between two looks at a path that another process is about to listen on."""
_TAKEN_S = 1.0
"""A path that stays silent for this long under somebody's lock is tried again."""


def agent_digest(argv: Sequence[str]) -> str:
    """What tells one agent's command from another's, without saying it: 64 hexadecimal digits.

    The same name found elsewhere, by another PATH or from another directory, is another agent.
    """
    found = os.path.abspath(shutil.which(argv[0]) or argv[0])  # noqa: PTH100 - as it is called
    words = "\0".join((found, *argv[1:]))
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()


def ensure_daemon(
    path: Path, agent: Sequence[str], options: Sequence[str], *, state_dir: Path, wait_s: float
) -> None:
    """Return once a daemon of this agent listens there; start one if there is none.

    Args:
        path: The socket, absolute.
        agent: The agent's command.
        options: Of `serve`, besides those that say where.
        state_dir: Where its log is; made if it is missing.
        wait_s: At most.

    Raises:
        AcpBridgeError: What the daemon says why it cannot start; or it says nothing in time; or
            the daemon there is another agent's.
    """
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        presence = probe(path)
        if presence is Presence.FOREIGN:
            hint = f"{path} is not a socket of ours: remove it, or choose another path"
            raise UsageFault("socket_foreign", hint)
        if presence is Presence.LIVE:
            _check_agent(path, agent)
            return
        word = _start(path, agent, options, prepare_state_dir(state_dir), deadline_s)
        if word == TAKEN:
            _wait_for(path, min(deadline_s, time.monotonic() + _TAKEN_S))
    hint = f"no daemon answered on {path} within {wait_s:g} s (spawn_wait_s)"
    raise DaemonFault("daemon_not_ready", hint)


def _check_agent(path: Path, agent: Sequence[str]) -> None:
    if owner_words(path) not in {"", agent_digest(agent)}:
        hint = (
            f"the daemon on {path} keeps another agent, or the same by another command:"
            " choose another path with --unix, or attach without --spawn"
        )
        raise UsageFault("daemon_of_another_agent", hint)


def _wait_for(path: Path, deadline_s: float) -> None:
    """Wait for another process to listen."""
    while probe(path) is not Presence.LIVE and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)


def _start(
    path: Path, agent: Sequence[str], options: Sequence[str], folder: Path, deadline_s: float
) -> str:
    """Start it, and hear what it says; returns READY or TAKEN, or "" when it is too late."""
    ours, theirs = os.pipe()
    try:
        try:
            # -P: a folder of our name in the directory that we stand in is not us.
            argv = [sys.executable, "-P", "-m", "acpbridge", "serve", "--unix", str(path)]
            argv += ["--state-dir", str(folder), "--ready-fd", str(theirs), *options, "--", *agent]
            _start_apart(argv, folder / LOG_NAME, theirs)
        finally:
            os.close(theirs)
        line = _line(ours, deadline_s)
    finally:
        os.close(ours)
    said = told(line)
    if said.fault is not None:
        raise said.fault
    if said.word not in {READY, TAKEN} and time.monotonic() < deadline_s:
        hint = f"the daemon ended before it was ready: see {folder / LOG_NAME}"
        raise DaemonFault("daemon_not_ready", hint)
    return said.word


def _start_apart(argv: Sequence[str], log: Path, ready_fd: int) -> None:
    """Start a process that has neither our session nor us as its parent."""
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_name(f"{log.name}.1"))
    log_fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        pid = os.fork()
        if pid == 0:  # pragma: no cover - its coverage ends with it
            code = 1
            try:
                subprocess.Popen(  # noqa: S603 - our own command, and the user's agent
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log_fd,
                    pass_fds=(ready_fd,),
                    start_new_session=True,
                )
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(log_fd)
    if status:
        raise AgentFault("daemon_not_started", f"cannot start {argv[0]}: see {log}")


def _line(fd: int, deadline_s: float) -> str:
    """What comes on the pipe up to the first line's end, or until it is closed, or too late."""
    found = b""
    while not found.endswith(b"\n"):
        ready, _, _ = select.select((fd,), (), (), max(deadline_s - time.monotonic(), 0))
        piece = os.read(fd, 4096) if ready else b""
        if not piece:
            break
        found += piece
    return found.decode("utf-8", "replace")
