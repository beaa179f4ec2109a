"""Options of `serve` and `attach` that contradict each other, or of which nothing would come."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from acpbridge.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_USE = " means something only with {}: add or drop it (option_without_use)"
WITH_WS = NO_USE.format("--ws")
WITH_SPAWN = NO_USE.format("--spawn")


@pytest.fixture(autouse=True)
def collected_again() -> Iterator[None]:
    """`serve` spares its own process the collector; ours would miss what other tests left open."""
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("attach --spawn", "--spawn starts an agent: name it, as in:"),
        ("attach -- agent", "attach alone starts no agent: leave agent away, or say --spawn"),
        ("attach --spawn --ws ws://127.0.0.1:1/acp -- agent", "say only one of --spawn and --ws"),
        ("attach --idle-exit 5", f"--idle-exit{WITH_SPAWN}"),
        ("attach --idle-exit 0", f"--idle-exit{WITH_SPAWN}"),
        ("attach --token-file t", f"--token-file{WITH_WS}"),
        ("attach --spawn --token-file t -- agent", f"--token-file{WITH_WS}"),
        ("attach --unix u --ws ws://127.0.0.1:1/acp", "--unix and --ws are two ways to one daemon"),
        ("serve", "name the agent to keep, as in:"),
        ("serve --token-file t -- agent", f"--token-file{WITH_WS}"),
        ("serve --allow-origin https://a.example -- agent", f"--allow-origin{WITH_WS}"),
        ("serve --allow-host a.example:1 -- agent", f"--allow-host{WITH_WS}"),
        ("serve --behind-tls-proxy -- agent", f"--behind-tls-proxy{WITH_WS}"),
    ],
)
def test_it_is_refused_and_says_why(words: str, said: str) -> None:
    """What only stands beside something else was ignored once, as if it had been heard."""
    done = CliRunner().invoke(main, words.split())

    assert 2 == done.exit_code
    assert done.output.startswith("acpbridge: ")
    assert said in done.output


def test_a_file_for_all_commands_may_say_them(tmp_path: Path) -> None:
    """One configuration serves both ends: what is the WebSocket's there refuses no unix client."""
    config = tmp_path / "acpbridge.toml"
    config.write_text('token_file = "t"\nidle_exit_s = 5\n')
    words = ["attach", "--config", str(config), "--unix", str(tmp_path / "none.sock")]
    done = CliRunner().invoke(main, words)

    assert 5 == done.exit_code, done.output
    assert "option_without_use" not in done.output
