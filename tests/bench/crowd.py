"""Many clients of one daemon, in this one process: they join, read, or come and go."""

from __future__ import annotations

import selectors
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from attrs import frozen

from tests.bench.client import Client, PipeWire
from tests.bench.targets import Place

CROWD_CLIENTS = 32
"""Those at one agent: one prompts, one stalls, the others read along."""
DRAIN_MAX_S = 120.0
"""Readers that have not got everything by then have lost it."""


@frozen
class Guest:
    """A client that follows a session."""

    client: Client
    wire: PipeWire


@contextmanager
def joined(place: Place, session: str) -> Iterator[Guest]:
    """Connect, say hello and resume the session; leave at the end."""
    wire = place.connect()
    assert isinstance(wire, PipeWire)
    try:
        client = Client(wire)
        client.initialize()
        client.call("session/resume", {"sessionId": session, "cwd": "/", "mcpServers": []})
        yield Guest(client, wire)
    finally:
        wire.close()


class Drain:
    """Reads from many connections in a thread, and counts the bytes of each."""

    def __init__(self, wires: Sequence[PipeWire]) -> None:
        self._wires = wires
        self._sizes = [0] * len(wires)
        self._wanted_bytes = 0
        self._is_over = threading.Event()
        self._has_all = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def take(self, wanted_bytes: int) -> list[int]:
        """Wait until each has brought so many bytes, or `DRAIN_MAX_S`; how many each has."""
        self._wanted_bytes = wanted_bytes
        self._has_all.wait(DRAIN_MAX_S)
        return list(self._sizes)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for at, wire in enumerate(self._wires):
                selector.register(wire.read_fd, selectors.EVENT_READ, at)
            while not self._is_over.is_set() and selector.get_map():
                for key, _ in selector.select(0.1):
                    self._take(selector, key)
                wanted = self._wanted_bytes
                if wanted and min(self._sizes) >= wanted:
                    self._has_all.set()

    def _take(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        try:
            self._sizes[key.data] += len(self._wires[key.data].read())
        except (EOFError, OSError):
            # Detached: it has what it has.
            selector.unregister(key.fileobj)
