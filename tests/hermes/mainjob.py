"""The main job, shown: two prompts to real Hermes, first direct, then through the bridge.

    python -m tests.hermes.mainjob

Installs Hermes with `.ci/hermes` if it is not there, serves the scripted model on loopback (no
key is needed), and prints who answered what when. Exit code 0 only if the direct run shows the
fake completion and the bridged run shows none.
"""

# ruff: noqa: T201 - what it prints is what it is for

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import trio
from attrs import frozen

from tests.hermes.home import ROOT, Home, How, hermes_executable
from tests.hermes.model import ModelServer, start_model
from tests.hermes.peer import AgentGone, Peer
from tests.hermes.record import Seen, is_answer, outcome
from tests.hermes.script import label, script

LONG = script("first", ["say", "Working "], ["gate", "g"], ["say", "… done."])
SHORT = script("second", ["say", "This is the answer to the second prompt."])
RECEIPT = "Queued for the next turn"
SILENCE_S = 2.0
"""How long a second prompt has to stay unanswered before the first turn may end."""

VERBS = {"agent_message_chunk": "says", "user_message_chunk": "echoes"}


@frozen
class Run:
    """What one conversation came to."""

    early: Seen | None
    """The answer to the second prompt, if it came while the first turn still ran."""
    is_honest: bool
    """The second prompt was answered once, after its own text, and the model got it once."""
    has_receipt: bool
    """The client was shown Hermes' receipt as if it were a message."""
    wait_ms: float
    """From the second prompt to its answer."""


async def converse(nursery: trio.Nursery, folder: Path, hermes: Path, how: How) -> Run:
    """Send the second prompt into the first one's turn and print all that comes."""
    model = await start_model(nursery)
    home = Home.make(folder, model.url)
    peer = await Peer.start(nursery, home, [str(hermes), "acp"], how)
    try:
        await peer.initialize()
        session = await peer.new_session()
        first = await peer.prompt(session, LONG)
        await peer.wait_text("Working")
        second = await peer.prompt(session, SHORT)
        early = None
        with trio.move_on_after(SILENCE_S):
            early = await peer.answer(second)
        model.release("g")
        ends = [await peer.answer(first), await peer.answer(second)]
    finally:
        await peer.stop()
    _print_account(peer, model, first.at_s)
    at = {sent.id: peer.frames.index(end) for sent, end in zip((first, second), ends, strict=True)}
    texts = [seen.text for seen in peer.frames[at[first.id] : at[second.id]] if seen.text]
    return Run(
        early=early,
        is_honest=(
            "".join(texts) == "This is the answer to the second prompt."
            and len(peer.answers(second)) == 1
            and model.prompts() == [LONG, SHORT]
        ),
        has_receipt=any(RECEIPT in seen.text for seen in peer.frames),
        wait_ms=(ends[1].at_s - second.at_s) * 1000,
    )


def _print_account(peer: Peer, model: ModelServer, start_s: float) -> None:
    """One line for each prompt, answer, text and model call, in the order of time."""
    lines: list[tuple[float, str]] = []
    for seen in peer.frames:
        text = _line(peer, seen)
        if text is not None and seen.at_s >= start_s:
            lines.append((seen.at_s, text))
    lines += [(asked.at_s, f"model    is asked: {label(asked.text)}") for asked in model.asked]
    for at_s, text in sorted(lines, key=lambda line: line[0]):
        print(f"  {at_s - start_s:7.3f} s  {text}")


def _line(peer: Peer, seen: Seen) -> str | None:
    if seen.sender == "client":
        if seen.body.get("method") != "session/prompt":
            return None
        return f"client   sends the {label(seen.body['params']['prompt'][0]['text'])} prompt"
    for sent in peer.prompts():
        if is_answer(seen, sent):
            return f"agent    ANSWERS the {sent.label} prompt: {outcome(seen.body)}"
    if seen.kind not in VERBS:
        return None
    return f"agent    {VERBS[seen.kind]}: {label(seen.text) or seen.text}"


def judge(direct: Run, bridged: Run) -> list[str]:
    """The reasons why the cure is not shown; empty if it is."""
    reasons = []
    if direct.early is None or direct.early.body.get("result") != {"stopReason": "end_turn"}:
        reasons.append("direct: Hermes did not answer the second prompt early; nothing to cure")
    if bridged.early is not None:
        reasons.append("bridged: the second prompt was answered while the first turn ran")
    if not bridged.is_honest:
        reasons.append("bridged: the second prompt was not answered by its own turn, once")
    if bridged.has_receipt:
        reasons.append(f'bridged: the client was shown "{RECEIPT}"')
    return reasons


async def _main(hermes: Path, folder: Path) -> list[str]:
    runs: list[Run] = []
    hows: tuple[How, How] = ("direct", "bridged")
    for how in hows:
        agent = [hermes.name, "acp"]
        print(f"\n{how}: {' '.join(agent if how == 'direct' else ['acpbridge run --', *agent])}")
        async with trio.open_nursery() as nursery:
            try:
                runs.append(await converse(nursery, folder / how, hermes, how))
            except (AgentGone, TimeoutError) as error:
                return [f"{how}: {error}"]
            finally:
                nursery.cancel_scope.cancel()
    direct, bridged = runs
    print(
        f"\ndirect:  the second prompt was answered after {direct.wait_ms:.1f} ms, by no turn"
        f"\nbridged: it was answered after {bridged.wait_ms:.1f} ms, by its own turn"
    )
    return judge(direct, bridged)


def main() -> int:
    """Install, run, judge."""
    if hermes_executable() is None:
        print("installing Hermes (.ci/hermes) …", flush=True)
        subprocess.run([ROOT / ".ci" / "hermes"], check=True)
    hermes = hermes_executable()
    assert hermes is not None, "installed, but not where home.py looks"
    with tempfile.TemporaryDirectory() as folder:
        reasons = trio.run(_main, hermes, Path(folder))
    for reason in reasons:
        print(f"NOT SHOWN: {reason}")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
