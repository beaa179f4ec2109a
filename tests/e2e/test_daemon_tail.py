"""A person watches: `acpbridge tail` beside a client, through the end of a daemon and back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trio

from tests.e2e.bridge import BOUND_S, BridgeProcess, command
from tests.e2e.daemon import attached, daemon

pytestmark = pytest.mark.process


async def until_shown(ours: BridgeProcess, words: str) -> None:
    with trio.fail_after(BOUND_S):
        while words not in ours.text:
            assert await ours.read_text(), (ours.text, ours.stderr)


async def test_a_watcher_sees_what_was_and_what_comes(tmp_path: Path) -> None:
    """Both prompts, once each; over the death of the daemon it goes on with the next one."""
    async with daemon(tmp_path) as ours, attached(tmp_path) as client:
        await client.begin()
        await client.answer(await client.prompt("say first"))
        async with command("tail", "--state-dir", str(tmp_path)) as watcher:
            await until_shown(watcher, "> say first\nfirst\n── end_turn ──")
            await client.answer(await client.prompt("say \x1b[31msecond"))
            await until_shown(watcher, "> say \\x1b[31msecond\n\\x1b[31msecond\n── end_turn ──")
            ours.process.kill()
            await until_shown(watcher, "-- the daemon has gone: waiting for it\n")
            async with daemon(tmp_path), attached(tmp_path) as other:
                await other.begin()
                await other.answer(await other.prompt("say third"))
                await until_shown(watcher, "-- the daemon was started anew\n")
                await until_shown(watcher, "> say third\nthird\n── end_turn ──")
                watcher.process.send_signal(signal.SIGINT)

                assert await watcher.code() == 0
        assert watcher.text.count("first") == 2
        assert b"" == watcher.stderr


async def test_once_shows_what_there_is_and_ends(tmp_path: Path) -> None:
    async with daemon(tmp_path):
        async with command("tail", "--state-dir", str(tmp_path), "--once") as early:
            assert await early.code() == 2
            await early.said(b"no session yet")
        async with attached(tmp_path) as client:
            await client.begin()
            await client.answer(await client.prompt("say hello"))
            argv = ("tail", "s-1", "--state-dir", str(tmp_path), "--once")
            async with command(*argv) as watcher:
                assert await watcher.code() == 0
                while await watcher.read_text():
                    pass

    assert watcher.text.startswith("> say hello\nhello\n── end_turn ──")


async def test_a_session_that_is_not_there_is_told_of_and_is_not_the_newest(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path), attached(tmp_path) as client:
        await client.begin()
        await client.answer(await client.prompt("say hello"))
        async with command("tail", "--state-dir", str(tmp_path), "--once", "typo") as watcher:
            assert await watcher.code() == 2
            await watcher.said(b"the daemon has no session typo: name another")
        async with command("tail", "--state-dir", str(tmp_path), "typo") as waiting:
            await until_shown(waiting, "-- the daemon has no session typo yet: waiting for it\n")
            async with command("tail", "--state-dir", str(tmp_path), "--once") as watcher:
                await until_shown(watcher, "> say hello\nhello\n── end_turn ──")
                assert await watcher.code() == 0


async def test_without_a_daemon_it_says_so(tmp_path: Path) -> None:
    async with command("tail", "--state-dir", str(tmp_path)) as watcher:
        assert await watcher.code() == 5
        await watcher.said(b"no daemon listens")
