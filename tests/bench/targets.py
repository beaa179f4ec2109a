"""What stands between client and agent: nothing, acpbridge, bare pipes of ours, other programs."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import frozen

from tests.bench import proc
from tests.bench.client import Client, PipeWire, Wire
from tests.bench.websocket import WebSocketWire, connect

AGENT = "benchagent"
"""The compiled agent's name, by which it is left out of what a bridge costs."""
LIMIT_S = 300.0
"""A target that has not done its work by then is killed."""
# -P: the modules beside pipes.py are not to be imported by name.
_PIPES = (sys.executable, "-P", str(Path(__file__).resolve().with_name("pipes.py")))
_RETRY_S = 0.002


class Missing(Exception):
    """A program that this target needs is not installed; the text says which."""


@frozen
class Target:
    """One way from client to agent."""

    name: str
    argv: tuple[str, ...]
    """`{agent}`, `{port}`, `{socket}` and `{token}` (a file) are replaced."""
    needs: str = ""
    """A program on PATH."""
    variables: tuple[tuple[str, str], ...] = ()
    """What its environment says beside ours."""

    path: str = "/"
    """Where it serves its WebSocket."""

    def asks_for(self, what: str) -> bool:
        """Whether its command names this; a filter between pipes names nothing but the agent."""
        return any(f"{{{what}}}" in word for word in self.argv)

    @property
    def is_missing(self) -> bool:
        """Whether it cannot be measured here."""
        return bool(self.needs) and shutil.which(self.needs) is None


def _bridge() -> str:
    """The `acpbridge` of this interpreter's environment."""
    return str(Path(sys.executable).with_name("acpbridge"))


BARE = Target("bare agent", ("{agent}",))
RAW = Target("raw trio pipe", (*_PIPES, "raw", "{agent}"))
BATCH = Target("trio+orjson batch", (*_PIPES, "batch", "{agent}"))
BRIDGE = Target("acpbridge run", (_bridge(), "run", "--", "{agent}"))
UNRECORDED = Target(
    "acpbridge, no journal", BRIDGE.argv, variables=(("ACPBRIDGE_JOURNAL", "false"),)
)
SOCAT = Target("socat", ("socat", "-b262144", "-", "EXEC:{agent}"), needs="socat")
WEBSOCKETD = Target(
    "websocketd",
    ("websocketd", "--address=127.0.0.1", "--port={port}", "{agent}"),
    needs="websocketd",
)
_SERVE = (_bridge(), "serve", "--unix", "{socket}")
UNIX = Target("acpbridge, unix", (*_SERVE, "--", "{agent}"))
WEBSOCKET = Target(
    "acpbridge, WebSocket",
    (*_SERVE, "--ws", "127.0.0.1:{port}", "--token-file", "{token}", "--", "{agent}"),
    path="/acp",
)
TARGETS = (BARE, RAW, BATCH, BRIDGE, UNRECORDED, UNIX, WEBSOCKET, SOCAT, WEBSOCKETD)


def compile_agent(folder: Path) -> Path:
    """Compile agent.c into the folder.

    Raises:
        Missing: There is no `cc`.
        subprocess.CalledProcessError: The compiler says no.
    """
    cc = shutil.which("cc")
    if cc is None:
        raise Missing("no C compiler: install gcc or clang, so that cc is on PATH")
    program = folder / AGENT
    source = Path(__file__).with_name("agent.c")
    subprocess.run([cc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    return program


class Place:
    """Where a target listens, if it does."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self.listens = target.asks_for("port") or target.asks_for("socket")
        self._port = _free_port() if target.asks_for("port") else 0
        # Named by what no other target of this bench has; its own folder, as a socket's must be.
        self._folder = Path(tempfile.mkdtemp(prefix="s", dir=folder)) if self.listens else folder
        self._token = secrets.token_hex(16) if target.asks_for("token") else ""
        if self._token:
            token_file = self._folder / "token"
            token_file.touch(0o600)
            token_file.write_text(self._token, "ascii")

    def words(self) -> dict[str, object]:
        """What its command is told."""
        return {
            "port": self._port,
            "socket": self._folder / "socket",
            "token": self._folder / "token",
        }

    def connect(self) -> Wire:
        """One more connection.

        Raises:
            OSError: Nobody listens there, yet.
        """
        if self._port:
            return WebSocketWire(connect("127.0.0.1", self._port, self._target.path, self._token))
        plug = socket.socket(socket.AF_UNIX)
        try:
            plug.connect(str(self._folder / "socket"))
        except OSError:
            plug.close()
            raise
        fd = plug.detach()
        return PipeWire(fd, os.dup(fd))


@frozen
class Running:
    """A target that has answered `initialize`."""

    client: Client
    pid: int
    start_ms: float
    """From before its process was made until `initialize` was answered."""
    place: Place
    """Where further clients may connect, if it is a server."""

    def cost(self) -> proc.Cost:
        """What it has cost so far, the agent left out."""
        return proc.cost(self.pid, without=AGENT)

    def agent(self) -> int:
        """The agent's process.

        Raises:
            ProcessLookupError: It is gone.
        """
        for pid in proc.tree(self.pid):
            if proc.name(pid) == AGENT:
                return pid
        raise ProcessLookupError("no agent runs")


@contextmanager
def running(target: Target, agent: Path, *, limit_s: float = LIMIT_S) -> Iterator[Running]:
    """Start the target, say hello, and kill all of it at the end, or after `limit_s`."""
    begin_s = time.perf_counter()
    place = Place(target, agent.parent)
    argv = [word.format(agent=agent, **place.words()) for word in target.argv]
    process = subprocess.Popen(
        argv,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=agent.parent,
        env={**environment(agent.parent), **dict(target.variables)},
    )
    watchdog = threading.Timer(limit_s, _kill, [process.pid])
    watchdog.daemon = True
    watchdog.start()
    wire: Wire | None = None
    try:
        wire = _wire(process, place)
        client = Client(wire)
        client.initialize()
        yield Running(client, process.pid, (time.perf_counter() - begin_s) * 1e3, place)
    finally:
        watchdog.cancel()
        watchdog.join()
        _kill(process.pid)
        process.wait()
        if wire is not None:
            wire.close()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def environment(home: Path) -> dict[str, str]:
    """Ours, without what would configure a bridge; what it keeps, it keeps in `home`."""
    # An installed program has its bytecode: the first start may write it.
    theirs = ("ACPBRIDGE_", "XDG_", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(theirs)}
    return {**kept, "HOME": str(home)}


def _wire(process: subprocess.Popen[bytes], place: Place) -> Wire:
    assert process.stdin is not None
    assert process.stdout is not None
    if not place.listens:
        return PipeWire(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
    while True:
        try:
            return place.connect()
        except (ConnectionRefusedError, FileNotFoundError):
            # It does not listen yet: try again soon, but not if it is gone.
            with suppress(subprocess.TimeoutExpired):
                raise EOFError(f"exit status {process.wait(_RETRY_S)}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _kill(root: int) -> None:
    """Kill a tree; agents may have a session of their own, so their group is not enough."""
    for pid in proc.tree(root):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
