"""One bridge over stdio: `acpbridge run`.

A stop signal or the client's EOF is an event for the core; when it asks to finish, what still
waits for the client has `flush_max_s` to go out.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from acpbridge.core import hub
from acpbridge.core.bridge import start
from acpbridge.core.events import ClientClosed
from acpbridge.shell.driver import Core
from acpbridge.shell.house import House
from acpbridge.shell.outbox import Outbox
from acpbridge.shell.stdio import check_stdio, hung_up, own_stdio, read
from acpbridge.shell.surroundings import journaling_of, surroundings
from acpbridge.wire.lines import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.abc import ReceiveStream, SendStream

    from acpbridge.config import Settings
    from acpbridge.shell.journaling import Journaling
    from acpbridge.shell.surroundings import Surroundings

StateT = TypeVar("StateT")

_LOOKS = 2
"""How often it is asked, after a client's bytes were worked on, whether anything has come since,
before the process may sleep. A quick agent answers in less time than a wake-up takes: these looks
cost what they save, and its answer leaves 15 us earlier (bench: round trip)."""


def serve_stdio(settings: Settings, argv: Sequence[str]) -> int:
    """Run the bridge to its end in this process; returns the exit code.

    Raises:
        AcpBridgeError: Nothing was started: a file, a directory or a stream cannot be used.
    """
    check_stdio()
    nonce = secrets.token_hex(4)
    journaling = journaling_of(settings, nonce)
    bridge = start(settings.policy, settings.agent, settings.client, nonce)
    core = Core(hub.open_hub(bridge, is_shared=False), hub.begin, hub.step)
    return trio.run(run_stdio, settings, argv, core, journaling)


async def run_stdio(
    settings: Settings,
    argv: Sequence[str],
    core: Core[StateT],
    journaling: Journaling | None = None,
) -> int:
    """Run one agent behind our own stdin and stdout; returns the exit code.

    Raises:
        UsageFault: The log file or the tape cannot be written.
    """
    with own_stdio() as (stdin, stdout):
        async with surroundings(settings) as around:
            front = Front(settings, argv, core, around=around, journaling=journaling)
            return await front.serve(stdin, stdout)


class Front(House[StateT], Generic[StateT]):
    """The tasks of one run."""

    def __init__(
        self,
        settings: Settings,
        argv: Sequence[str],
        core: Core[StateT],
        *,
        around: Surroundings,
        journaling: Journaling | None = None,
    ) -> None:
        limits = settings.limits
        super().__init__(
            settings,
            argv,
            core,
            client=Outbox(
                high_bytes=limits.outbox_high_bytes, piece_bytes_max=limits.write_bytes_max
            ),
            around=around,
            journaling=journaling,
        )
        self._is_client_open = True

    async def serve(self, stdin: ReceiveStream, stdout: SendStream) -> int:
        """Serve until the core asks to finish; then flush, end what lives, and return."""
        driver = self._driver
        async with self._lit() as nursery:
            nursery.start_soon(self._write_client, stdout)
            driver.begin()
            nursery.start_soon(self._read_client, stdin)
            await driver.finished.wait()
            if driver.exit_code and self._is_client_open:
                # The client learns of our end by EOF; what it writes until then is not left open.
                with trio.move_on_after(self._limits.last_words_s):
                    await trio.sleep_forever()
            with trio.move_on_after(self._limits.flush_max_s):
                await self._client.drained()
        return driver.exit_code

    async def _read_client(self, stdin: ReceiveStream) -> None:
        decoder = LineDecoder(self._settings.policy.line_bytes_max)
        driver, limits, gone = self._driver, self._limits, self._client_closed
        high_bytes, hard_bytes = limits.outbox_high_bytes, limits.outbox_hard_bytes

        hang_up = None
        if isinstance(stdin, trio.lowlevel.FdStream):
            hang_up = partial(hung_up, stdin.fileno())
        while data := await read(stdin):
            driver.take_client(decoder.feed(data))
            for _ in range(_LOOKS):
                await trio.lowlevel.checkpoint()
            if driver.agent is not None and not driver.agent.outbox.has_room(high_bytes):
                await self._room(driver.agent.outbox, high_bytes, hang_up, gone)
            # Requests make answers: past the hard bound the client must read before it writes.
            if not self._client.has_room(hard_bytes):
                await self._room(self._client, hard_bytes, hang_up, gone)
        driver.take_client(decoder.end())
        self._client_closed()

    async def _write_client(self, stdout: SendStream) -> None:
        await self._client.run(stdout)
        self._client_closed()

    def _client_closed(self) -> None:
        if self._is_client_open:
            self._is_client_open = False
            self._driver.feed(ClientClosed())
