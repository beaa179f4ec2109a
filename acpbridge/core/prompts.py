"""Small things that every part of a turn says or asks about a prompt."""

from __future__ import annotations

from typing import Any

from acpbridge.core import work
from acpbridge.core.model import (
    NEVER,
    AgentState,
    Bridge,
    Pending,
    Phase,
    Prompt,
    Session,
    Stage,
    Trigger,
)
from acpbridge.core.policy import MIDTURN
from acpbridge.core.requests import release_steers
from acpbridge.wire import acp, codec, splice
from acpbridge.wire.frame import Frame
from acpbridge.wire.look import member

KEY_CHARS_MAX = 256
"""A `promptKey` that is longer is none."""


def made(bridge: Bridge, session: Session, frame: Frame) -> Prompt:
    """A prompt of ours from a client's `session/prompt` frame."""
    line = frame.raw
    texts = _texts(frame.params.get("prompt"))
    taken = _plainly(bridge.agent.plain_commands, texts)
    for (at, words), (_, plain) in zip(texts, taken, strict=True):
        if plain != words:
            line = splice.with_value(line, ("params", "prompt", at, "text"), codec.encode(plain))
    text = "\n".join(words for _, words in taken).strip() or bridge.agent.echo_without_text
    command = _command(text)
    if bridge.agent.argument_meta_keys and isinstance(frame.params.get("_meta"), dict):
        line = splice.without_members(line, ("params", "_meta"), bridge.agent.argument_meta_keys)
    bridge.prompts += 1
    return Prompt(
        number=bridge.prompts,
        frame=frame,
        id=frame.id,
        line=line,
        text=text,
        command=command in bridge.agent.commands or command in session.commands,
        accepted_s=bridge.now,
        client=bridge.speaker,
        midturn=_midturn(bridge, frame),
        key=_key(bridge, frame),
    )


def _key(bridge: Bridge, frame: Frame) -> str:
    """Its `promptKey`: text by which the client names the message, however often it sends it."""
    key = member(frame.params, "_meta", "acpbridge", "promptKey")
    if isinstance(key, str) and len(key) <= KEY_CHARS_MAX:
        return key
    if key is not None:
        bridge.note("unusable_prompt_key", "warning", session=frame.session)
    return ""


def _midturn(bridge: Bridge, frame: Frame) -> str:
    """What is to become of it where a turn runs: `_meta.acpbridge.midturn`, or the policy (R2)."""
    wish = member(frame.params, "_meta", "acpbridge", "midturn")
    if wish in MIDTURN:
        return str(wish)
    if wish is not None:
        bridge.note("unknown_midturn", "warning", session=frame.session)
    return bridge.policy.midturn


def _texts(blocks: Any) -> list[tuple[int, str]]:
    """(index, text) of each text block."""
    if not isinstance(blocks, list):
        return []
    found = []
    for at, block in enumerate(blocks):
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str):
            found.append((at, text))
    return found


def _plainly(plain_commands: frozenset[str], texts: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The texts as the agent gets them: `/queue x` is taken as x, and `/queue /queue x` too (R3).

    Hermes runs an idle `/queue x` only after the next turn, and loses `/steer x`.
    """
    taken = list(texts)
    for at, (block, words) in enumerate(texts):
        plain = words.lstrip()
        others = any(more.strip() for _, more in texts[at + 1 :])
        while (command := _command(plain)) in plain_commands:
            rest = plain[len(command) + 1 :].lstrip()
            if not rest and not others:
                break
            plain = rest
            taken[at] = (block, plain)
        if plain:
            break
    return taken


def _command(text: str) -> str:
    """The name of the slash command that a text begins with, without the slash, or ""."""
    words = text.split(None, 1)
    return words[0][1:] if words and text.startswith("/") else ""


def is_slashed(prompt: Prompt) -> bool:
    """Whether one of its text blocks begins with a slash (R3).

    claude-agent-acp 0.101.0 runs the last text block as a command, whatever stands before it.
    """
    texts = [prompt.text, *(words for _, words in _texts(prompt.frame.params.get("prompt")))]
    return any(words.lstrip().startswith("/") for words in texts)


def echo_text(frame: Frame) -> str:
    """The text of a `user_message_chunk`."""
    content = frame.update.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else ""


def expect_answer(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """Register the request under its wire id."""
    bridge.pending[prompt.wire_id] = Pending(
        method=acp.SESSION_PROMPT, id=prompt.id, session=session.id, prompt=prompt
    )


def settle_or_stay(bridge: Bridge, session: Session) -> None:
    """Set the phase by what of ours is still at the agent; with nothing left, Idle and on."""
    stages = {prompt.stage for prompt in session.bound()}
    if Stage.WRITTEN in stages or Stage.SENDING in stages:
        if session.phase not in (Phase.CANCELLING, Phase.WEDGED):
            session.phase = Phase.RUNNING
        return
    if stages:
        session.phase = Phase.HELD
        work.owner_gone(bridge, session)
        release_steers(bridge, session)
        return
    settle(bridge, session)


def settle(bridge: Bridge, session: Session) -> None:
    """The session is Idle: no turn runs, and the next prompt may go."""
    session.phase = Phase.IDLE
    session.turn = None
    session.cancel_due = session.request_cancelled = False
    bridge.settled = True
    for name in ("quiet", "marker", "settle", "trail", "wait_max", "cancel"):
        bridge.disarm(name, session)
    release_steers(bridge, session)
    bridge.fire(session, Trigger.WANT)


def why_waiting(bridge: Bridge, session: Session, prompt: Prompt) -> str:
    """What a prompt waits for, in a sentence for people."""
    if prompt.stage is Stage.KEPT:
        return "The agent keeps this message for after its running turn; waiting for its answer."
    if prompt.alone_s != NEVER:
        return "The agent has taken this message; waiting for what comes of it."
    if prompt.stage is Stage.JOINED:
        return "The agent has put this message into its running turn; waiting for that turn's end."
    if bridge.agent_state not in (AgentState.FRESH, AgentState.READY):
        return "The agent is being started again; this message goes to it as soon as it is back."
    by_phase = {
        Phase.OWNERLESS: "The agent is busy with work of its own; this message goes to it when "
        f"that has ended, or in {bridge.policy.oob_wait_max_s:.0f} s.",
        Phase.CANCELLING: "Waiting for the cancelled turn to end; this message goes next.",
        Phase.WEDGED: "The session is being recovered; this message goes to it afterwards.",
        Phase.LOST: "The session is being loaded again; this message goes to it afterwards.",
        Phase.HELD: "Waiting for the agent to end a turn; this message goes next.",
    }
    if session.phase in by_phase:
        return by_phase[session.phase]
    if session.id in bridge.starved:
        return (
            f"The agent runs {bridge.agent.turns_max} turns at once and all are taken; "
            "this message goes to it when one ends."
        )
    if session.paused:
        return (
            f"It waits because {session.paused}: choose it again, write on, or cancel, and this "
            "message goes."
        )
    if session.recovering or prompt.looking:
        return "What is recorded of this conversation is being looked up; this message goes next."
    if prompt.busy_until_s > bridge.now:
        return "The agent refuses messages as busy at the moment; trying again."
    if session.loading:
        return "Waiting for the session to be loaded; this message goes to it afterwards."
    return "Waiting for the turn before; this message goes next."
