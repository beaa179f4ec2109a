"""A unix socket that only its owner can reach: one listener a path, told by a held flock.

Beside the socket stands `NAME.lock`. Whoever holds its flock owns the path; the kernel lets go of
it when the owner dies, however it dies, so a socket file under a free lock that refuses
connections is stale. The lock file itself stays: to unlink it would let two owners hold two
locks of one name. A socket is unlinked only by the process that made it.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import os
import socket
import stat
import struct
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import FdStream

from acpbridge.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from acpbridge.config import Settings

PATH_BYTES_MAX = 103
"""What `sun_path` of every system that we know takes: 107 on Linux, 103 on macOS."""
BACKLOG = 64
"""Connections that wait to be accepted; further ones wait in `connect`."""

SOCKET_NAME = "daemon.sock"
"""The daemon's socket, in the state directory."""

_HIDDEN = "s"
"""The socket's name in its private directory, before it is renamed."""
_CREDENTIALS = struct.Struct("3i")
"""struct ucred: pid, uid, gid (unix(7), SO_PEERCRED)."""


class Presence(enum.Enum):
    """What stands at a path."""

    ABSENT = "absent"
    """Nothing."""
    STALE = "stale"
    """A socket file, and nobody listens."""
    LIVE = "live"
    """A process of ours listens."""
    FOREIGN = "foreign"
    """No socket, or one that is not ours to use."""


class AlreadyOwnedFault(UsageFault):
    """Another process owns the path; whoever loses the race connects to it instead."""


def state_folder_of(settings: Settings) -> Path:
    """The state directory, absolute; it need not exist yet."""
    from acpbridge.store.state_dir import usual_state_dir  # noqa: PLC0415 - most are told a place

    return Path.cwd() / (settings.state_dir or usual_state_dir())


def socket_path(settings: Settings) -> Path:
    """Where the daemon of these settings listens, absolute."""
    if settings.unix is not None:
        return Path.cwd() / settings.unix
    return state_folder_of(settings) / SOCKET_NAME


def probe(path: Path) -> Presence:
    """Whether a daemon of this user listens there; never waits, never raises.

    Connects and leaves at once: the daemon sees a client that says nothing. That it is served,
    and not only kept in the backlog, shows the answer to a first message.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return Presence.FOREIGN
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.setblocking(False)
            client.connect(os.fspath(path))
            return Presence.LIVE if peer_uid(client) == os.getuid() else Presence.FOREIGN
    except FileNotFoundError:
        return Presence.ABSENT
    except BlockingIOError:
        # Its backlog is full, so somebody listens; whose it is, the directory's owner tells.
        return Presence.LIVE
    except ConnectionRefusedError:
        return Presence.STALE
    except OSError:
        return Presence.FOREIGN


def peer_uid(connection: socket.socket | trio.socket.SocketType) -> int:
    """The user who connected, or who listens, as the kernel saw it at that time."""
    return _credentials(connection)[1]


def peer_pid(connection: socket.socket | trio.socket.SocketType) -> int:
    """The process that connected, or that listens; its number may be another's by now."""
    return _credentials(connection)[0]


def _credentials(connection: socket.socket | trio.socket.SocketType) -> tuple[int, int]:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return int(pid), int(uid)


class UnixListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections of this user only; fits `trio.serve_listeners`. See `listen`."""

    def __init__(self, path: Path, listener: socket.socket, lock_fd: int) -> None:
        self.path = path
        self.refused_peers = 0
        """Connections of other users, closed before a byte was read."""
        self._socket = trio.socket.from_stdlib_socket(listener)
        self._lock_fd = lock_fd
        self._made = (os.getpid(), *_identity(path))

    async def accept(self) -> trio.SocketStream:
        """The next connection of this user; others are closed and counted.

        Raises:
            OSError: As `trio.serve_listeners` expects it, no descriptor being left among them.
            trio.ClosedResourceError: The listener was closed.
        """
        while True:
            try:
                connection, _ = await self._socket.accept()
            except OSError as error:
                if error.errno == errno.EBADF:
                    raise trio.ClosedResourceError("the listener was closed") from error
                if error.errno != errno.ECONNABORTED:
                    raise
                continue
            if peer_uid(connection) == os.getuid():
                return trio.SocketStream(connection)
            self.refused_peers += 1
            connection.close()

    def close(self) -> None:
        """Unlink the socket if it is still the one made here, stop listening, free the path."""
        if self._lock_fd < 0:
            return
        with suppress(FileNotFoundError):
            if (os.getpid(), *_identity(self.path)) == self._made:
                self.path.unlink()
        self._socket.close()
        os.close(self._lock_fd)
        self._lock_fd = -1

    async def aclose(self) -> None:
        """As `close`."""
        self.close()
        await trio.lowlevel.checkpoint()


def owner_words(path: Path) -> str:
    """What the owner of this path, or the last one, has said; empty where it said nothing."""
    try:
        return _lock_of(path).read_text("utf-8")
    except (OSError, ValueError):
        return ""


def listen(path: Path, words: str = "") -> UnixListener:
    """Own the path and listen on it. Its directory is made, mode 0700, if it is missing.

    The socket appears under its name with mode 0600, listening, in one rename that also takes a
    stale one's place: nobody sees it wider, or there but refusing.

    Args:
        path: Absolute; the directory above is the user's alone.
        words: For whoever finds the path owned, in place of the last owner's: see `owner_words`.

    Raises:
        AlreadyOwnedFault: Another process holds the lock, or listens without one.
        UsageFault: The path, its directory or what stands there cannot be used.
    """
    check_path(path)
    try:
        with ExitStack() as undo:
            _own_directory(path.parent)
            lock_fd = _own_lock(path)
            undo.callback(os.close, lock_fd)
            presence = probe(path)
            if presence is Presence.LIVE:
                raise _taken(path)
            if presence is Presence.FOREIGN:
                hint = f"{path} is not a socket of ours: remove it, or choose another path"
                raise UsageFault("socket_foreign", hint)
            os.ftruncate(lock_fd, 0)
            os.pwrite(lock_fd, words.encode(), 0)
            opened = UnixListener(path, _bound(path), lock_fd)
            undo.pop_all()
            return opened
    except OSError as error:
        hint = f"cannot listen on {path}: {error.strerror or error}; choose another path"
        raise UsageFault("socket_unusable", hint) from error


def check_path(path: Path) -> None:
    """See that a daemon's socket can stand there.

    Raises:
        UsageFault: The path is relative or too long, or this system knows no peer's user.
    """
    if not hasattr(socket, "SO_PEERCRED"):  # pragma: no cover - no Linux
        hint = "this system does not tell who connects to a unix socket: use run, or --ws"
        raise UsageFault("socket_unsupported", hint)
    name_bytes = len(os.fsencode(_private(path) / _HIDDEN))
    if not path.is_absolute() or name_bytes > PATH_BYTES_MAX:
        spare_bytes = name_bytes - len(os.fsencode(path))
        hint = (
            f"no daemon's socket can be {path}: name an absolute path of at most"
            f" {PATH_BYTES_MAX - spare_bytes} bytes"
        )
        raise UsageFault("socket_path_invalid", hint)


def _private(path: Path) -> Path:
    return path.with_name(f".{path.name}")


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _own_directory(directory: Path) -> None:
    """Make it for its owner alone, or see that it is so; one that is wider is not ours to change.

    Raises:
        UsageFault: Others can reach it, or it is no directory of this user.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.getuid():
        hint = (
            f"others can reach the directory {directory}: choose a path in one that is yours alone,"
            " or chmod 700 it if nobody else needs it"
        )
        raise UsageFault("socket_dir_open", hint)


def _taken(path: Path) -> AlreadyOwnedFault:
    hint = (
        f"another daemon has {path}: attach to it, end it with acpbridge stop, or choose another"
        " path with --unix"
    )
    return AlreadyOwnedFault("socket_in_use", hint)


def _own_lock(path: Path) -> int:
    """The descriptor of the socket's lock file, with its flock held until it is closed."""
    fd = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise _taken(path) from error
    except OSError:
        os.close(fd)
        raise
    return fd


def _bound(path: Path) -> socket.socket:
    """A listening socket under this name; to be called with the lock held."""
    private = _private(path)
    hidden = private / _HIDDEN
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with ExitStack() as undo:
            # Only the lock's holder uses this name, so what is there was left by one that died.
            hidden.unlink(missing_ok=True)
            private.mkdir(mode=0o700, exist_ok=True)
            undo.callback(private.rmdir)
            made.setblocking(False)
            # Linux makes the file with its socket's mode, so it is never wider, private or not.
            os.fchmod(made.fileno(), 0o600)
            made.bind(os.fspath(hidden))
            undo.callback(hidden.unlink, missing_ok=True)
            hidden.chmod(0o600)
            made.listen(BACKLOG)
            hidden.rename(path)
    except OSError:
        made.close()
        raise
    return made


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


@contextmanager
def ends(stream: trio.SocketStream) -> Iterator[tuple[FdStream, FdStream]]:
    """(in, out) of a connection as two streams on descriptors, which it closes at the end.

    `Outbox` writes to a descriptor at once, and closes only its own direction's; the peer sees
    the end when the block ends. The stream itself is used up.
    """
    fd = stream.socket.detach()
    incoming = FdStream(fd)
    try:
        outgoing = FdStream(os.dup(fd))
        try:
            yield incoming, outgoing
        finally:
            outgoing.close()
    finally:
        incoming.close()
