"""`acpbridge replay` as a process: alone, behind the bridge, and from a tape of the bridge's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from acpbridge.store.tape_reader import read_tape
from tests.e2e.bridge import SCRIPTED, bridge
from tests.e2e.tape_client import ACPBRIDGE, BOUND_S, play, started
from tests.shell.clock import quickest_s
from tests.store.taped import (
    FIXTURES,
    HEADER,
    Row,
    chunk,
    done,
    line,
    prompt,
    request,
    write_tape,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process

REPLAY = (*ACPBRIDGE, "replay")
HERMES, CLAUDE, CODEX = (
    FIXTURES / name for name in ("hermes-0.19.0", "claude-agent-acp-0.101.0", "codex-acp-2.6.0")
)
ALONE = (
    HERMES / "mid-turn-prompt.jsonl",
    HERMES / "permission-request.jsonl",
    HERMES / "wedge-recovery.jsonl",
    HERMES / "five-sessions.jsonl",
    HERMES / "big-frames.jsonl",
    CLAUDE / "second-prompt-mid-turn.jsonl",
    CLAUDE / "steer-race-fine.jsonl",
    CODEX / "steer-while-permission-open.jsonl",
    CODEX / "two-sessions.jsonl",
)
BRIDGED = (
    HERMES / "simple-turn.jsonl",
    HERMES / "permission-deny.jsonl",
    CLAUDE / "tool-permission.jsonl",
    CODEX / "simple-turn.jsonl",
)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("tape", ALONE, ids=name_of)
async def test_the_tapes_client_hears_the_tape(tape: Path) -> None:
    agent, expected = await play((*REPLAY, "--fast", "--patience", "30", str(tape)), tape)

    assert expected == agent.lines
    assert f"said {len(expected)} of {len(expected)} lines" in agent.stderr
    assert "0 were not, and 0 of the tape's did not come" in agent.stderr


@pytest.mark.parametrize("tape", BRIDGED, ids=name_of)
async def test_the_same_through_the_bridge(tape: Path) -> None:
    """Turns of one prompt at a time: the bridge changes nothing of them."""
    replay = (*REPLAY, "--fast", "--patience", "30", str(tape))
    agent, expected = await play((*ACPBRIDGE, "run", "--", *replay), tape)

    assert expected == agent.lines
    assert "0 were not, and 0 of the tape's did not come" in agent.stderr


async def test_recorded_speed_and_a_multiple_of_it() -> None:
    """The 15 chunks of the first turn, 0.15 s apart."""
    tape = HERMES / "mid-turn-prompt.jsonl"
    entries = [entry for entry in read_tape(tape).entries if entry.side == "agent"]
    recorded_s = entries[-1].t_s - entries[4].t_s
    for speed in (1.0, 4.0):

        async def play_s(speed: float = speed) -> float:
            agent, _ = await play((*REPLAY, "--speed", str(speed), str(tape)), tape)
            return agent.at_s[-1] - agent.at_s[4]

        most_s = recorded_s / speed + 2.0
        assert recorded_s / speed * 0.9 < await quickest_s(most_s, play_s) < most_s


async def test_a_swallowed_prompt_is_cured_by_the_bridge() -> None:
    """The tape's second prompt was answered in 0.5 ms; here the bridge holds it back."""
    tape = HERMES / "mid-turn-prompt.jsonl"
    prompts = [one.params for one in read_tape(tape).entries if one.method == "session/prompt"]
    async with bridge(*REPLAY, "--speed", "4", str(tape)) as ours:
        await ours.answer(await ours.ask("initialize", protocolVersion=1, clientCapabilities={}))
        await ours.answer(await ours.ask("session/new", cwd="/", mcpServers=[]))
        first = await ours.ask("session/prompt", **prompts[0])
        await ours.until(lambda frame: "A1 " in json.dumps(frame))
        second = await ours.ask("session/prompt", **prompts[1])
        ends = [await ours.answer(first), await ours.answer(second)]
        places = [ours.frames.index(end) for end in ends]
        texts = "".join(ours.texts())
        await ours.close_stdin()
        assert await ours.code() == 0

    assert places == sorted(places)
    assert ["end_turn", "end_turn"] == [end["result"]["stopReason"] for end in ends]
    assert "Queued" not in texts
    assert texts.endswith("A14 B0 B1 B2 ")
    answered = ours.frames[places[0] : places[1]]
    assert "B0 " in json.dumps(answered), "the second prompt's text comes in its own turn"


async def test_a_tape_of_the_bridge_is_replayed(tmp_path: Path) -> None:
    """Recorded by `run --record`, with noise of the agent and a damaged line among it."""
    tape = tmp_path / "t.jsonl"
    noisy = ("sh", "-c", 'printf "warming up\\n{\\"half\\":"; echo; exec "$@"', "sh", *SCRIPTED)
    async with bridge(*noisy, options=("--record", str(tape))) as ours:
        await ours.begin()
        await ours.answer(await ours.prompt("say hello"))
        await ours.answer(await ours.prompt("say --token secret-word"))
        await ours.close_stdin()
        assert await ours.code() == 0
    assert b"secret-word" not in tape.read_bytes()
    agent, expected = await play((*REPLAY, "--fast", str(tape)), tape)

    assert expected == agent.lines
    assert [b"warming up", b'{"half":'] == agent.lines[:2]
    async with bridge(*REPLAY, "--fast", str(tape)) as again:
        await again.begin()
        assert "result" in await again.answer(await again.prompt("say hello"))
        # The secret that was taken out of the tape is matched all the same.
        assert "result" in await again.answer(await again.prompt("say --token secret-word"))
        assert again.texts()[0] == "hello"


async def test_a_mismatch_is_an_error_and_the_replay_goes_on(tmp_path: Path) -> None:
    rows: list[Row] = [
        (0.0, "client", prompt(1, "count to nine")),
        (0.1, "agent", chunk("1 2 3")),
        (0.2, "agent", done(1)),
    ]
    tape = write_tape(tmp_path / "t.jsonl", rows)
    async with started((*REPLAY, "--fast", str(tape))) as agent:
        await agent.send(line(prompt("x", "count to ten")))
        await agent.has(1)
        await agent.send(line(request(8, "session/list")))
        await agent.has(2)
        await agent.send(line(prompt(9, "count to nine")))
        await agent.has(4)
        assert await agent.end() == 0
    wrong, unknown, *rest = [json.loads(one) for one in agent.lines]

    assert ("x", -32602) == (wrong["id"], wrong["error"]["code"])
    assert wrong["error"]["message"] == (
        'the tape does not have this session/prompt; closest is line 2 (session/prompt "count to '
        'nine"): prompt[0].text is "count to ten" here and "count to nine" there'
    )
    assert (8, -32601) == (unknown["id"], unknown["error"]["code"])
    assert ["1 2 3", "end_turn"] == [text_of(frame) for frame in rest]
    assert f"acpbridge replay: {wrong['error']['message']}\n" in agent.stderr


def text_of(frame: dict[str, Any]) -> str:
    if "result" in frame:
        return str(frame["result"]["stopReason"])
    return str(frame["params"]["update"]["content"]["text"])


def test_frames_from_a_file_are_answered_to_the_end() -> None:
    """`acpbridge replay TAPE < frames`: stdin ends at once, and nothing is lost."""
    tape = HERMES / "simple-turn.jsonl"
    entries = read_tape(tape).entries
    frames = b"".join(entry.raw + b"\n" for entry in entries if entry.side == "client")
    finished = subprocess.run(
        [*REPLAY, str(tape)], input=frames, capture_output=True, check=True, timeout=BOUND_S
    )

    assert [e.raw for e in entries if e.side == "agent"] == finished.stdout.splitlines()


@pytest.mark.parametrize(
    ("args", "header", "part"),
    [
        (("--speed", "2", "--fast"), HEADER, "--speed and --fast exclude each other"),
        (("--speed", "0"), HEADER, "--speed is 0; give a number above 0, or --fast"),
        (("--speed", "nan"), HEADER, "--speed is nan; give a number above 0"),
        (("--speed", "inf"), HEADER, "--speed is inf; give a number above 0, or --fast"),
        ((), {**HEADER, "tape": 2}, "is of format 2, and this acpbridge reads format 1"),
        ((), {}, "is no tape: line 1 must be its header"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    args: tuple[str, ...], header: dict[str, Any], part: str, tmp_path: Path
) -> None:
    tape = write_tape(tmp_path / "t.jsonl", [], header)
    finished = subprocess.run(
        [*REPLAY, *args, str(tape)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )

    assert (2, "") == (finished.returncode, finished.stdout)
    assert finished.stderr.startswith("acpbridge: ")
    assert part in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_replay_needs_a_tape() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "acpbridge", "replay"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )

    assert finished.returncode == 2
    assert "Missing argument 'TAPE'" in finished.stderr
