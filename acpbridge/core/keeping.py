"""What outlives a run: prompts of earlier runs, prompt keys, the id behind a session's id.

Everything comes from the journal as an event and goes there as an effect. A session that this run
did not open itself is looked up before anything of it is sent (R20, R25); a prompt with a key runs
once, however often it is sent; what was not delivered is told, or sent where the policy says so.
"""

from __future__ import annotations

from typing import assert_never

from acpbridge.core import present, prompts, queue
from acpbridge.core.effects import Adopt, FindKey, Recover, Tell
from acpbridge.core.events import KeptPrompt, KeyFound, Persisted, PersistFailed, Recovered
from acpbridge.core.model import Bridge, Prompt, Session, Stage, Trigger
from acpbridge.wire import acp, codec
from acpbridge.wire.frame import Frame, peek

WORDS_PROMPTS_MAX = 3
"""Kept prompts that a notice quotes; the rest are counted."""


# -- a session from before this run ---------------------------------------------------------
def recover(bridge: Bridge, session: Session) -> None:
    """Ask what is known of a session; until the first answer nothing of it goes to the agent.

    A bridge may have died with something of it since then, so a later load asks, and waits not.
    """
    if not session.looked_up:
        session.looked_up = session.recovering = True
    elif session.recovering:
        return
    bridge.out.append(Recover(session.id))


def disk_said(bridge: Bridge, event: Persisted | PersistFailed | Recovered | KeyFound) -> None:
    """The journal has answered: an intent is durable or not, a question has its answer."""
    match event:
        case Persisted(token):
            queue.persisted(bridge, token)
        case PersistFailed(token, reason):
            if not _lookup_failed(bridge, token, reason):
                queue.persist_failed(bridge, token, reason)
        case Recovered():
            _recovered(bridge, event)
        case KeyFound():
            _key_found(bridge, event)
        case _:
            assert_never(event)


def _recovered(bridge: Bridge, event: Recovered) -> None:
    """The journal has answered: remember the session's tip, tell or send what was kept."""
    if event.kept:
        bridge.note("prompts_recovered", "warning", session=event.session, count=len(event.kept))
    session = bridge.sessions.get(event.session)
    if session is None:
        return
    if event.pid and event.pid != session.holder:
        bridge.note("session_held", "warning", session=session.id, pid=event.pid)
        session.held_by = event.pid
    session.holder = event.pid
    if session.recovering:
        session.recovering = False
        session.settled_before = event.settled
        if event.tip and not session.generation:
            # After a restart the tip is loaded, under the id that the client knows (R25). Later
            # our agent has its own, whatever another bridge's agent has gone over to.
            session.agent_id, session.generation = event.tip, event.generation
            bridge.by_agent_id[event.tip] = session
    known = {one.id for one in session.untold}
    for kept in event.kept:
        is_sent = bridge.policy.undelivered == "send" and not kept.was_cancelled
        wanted = kept.state == "undelivered" and is_sent and kept.content
        if wanted and _adopt(bridge, session, kept):
            continue
        # A look that was on its way while it was told of does not know that.
        if not kept.told and kept.id not in known and (kept.id, kept.state) not in session.told:
            session.untold.append(kept)
    if present.has_open_prompt(session):
        tell(bridge, session)
    bridge.fire(session, Trigger.WANT)


def _adopt(bridge: Bridge, session: Session, kept: KeptPrompt) -> bool:
    """Send an undelivered prompt as one of this run, before any new one; nobody waits for it.

    False where its text is not whole any more: the retention was killed within it.
    """
    own = bridge.own_id()
    params = b'{"sessionId":%b,"prompt":%b}' % (codec.encode(session.id), kept.content)
    frame = peek(codec.request(own, acp.SESSION_PROMPT, codec.verbatim(params)), strict=False)
    if not isinstance(frame, Frame):
        bridge.note("kept_text_damaged", "error", session=session.id, kept=kept.id)
        return False
    prompt = prompts.made(bridge, session, frame)
    prompt.wire_id = own
    prompt.unasked = prompt.recorded = True
    prompt.key, prompt.left = kept.key, kept
    bridge.out.append(Adopt(kept.id, prompt.number, session.id))
    bridge.note("undelivered_sent", "warning", session=session.id, kept=kept.id)
    at = 0
    for item in session.queue:
        if isinstance(item, Prompt) and not item.unasked:
            break
        at += 1
    bridge.enqueue(session, prompt, at)
    return True


def tell(bridge: Bridge, session: Session) -> None:
    """Say in a prompt's turn, in one thought chunk, what was kept from before this run."""
    held_by, session.held_by = session.held_by, 0
    # One that the client is sending again by its key hears of it by its own answer.
    keys = {item.key for item in session.queue if isinstance(item, Prompt)} - {""}
    kept = [one for one in session.untold if one.key not in keys]
    session.untold = [one for one in session.untold if one.key in keys]
    said = [_sentence(state, [one for one in kept if one.state == state]) for state in _SENTENCES]
    if held_by:
        said.append(
            f"Another bridge (process {held_by}) is still at work in this conversation; "
            "what it was given stays with it."
        )
    text = " ".join(filter(None, said))
    if text:
        bridge.note("kept_prompts_told", session=session.id, count=len(kept))
        present.say(bridge, session, text, acp.AGENT_THOUGHT_CHUNK)
    if kept:
        session.told.update((one.id, one.state) for one in kept)
        bridge.out.append(Tell(tuple(one.id for one in kept)))


_SENTENCES = {
    "undelivered": "Not delivered when the bridge last ended: {}. `acpbridge prompts` has it.",
    "unknown": "At the agent when the bridge last ended, so it may have run: {}.",
    "settled": "Answered when nobody was there: {}. `acpbridge prompts` has the answer.",
}


def _sentence(state: str, kept: list[KeptPrompt]) -> str:
    if not kept:
        return ""
    words = [f'"{one.words}" ({one.id})' for one in kept[:WORDS_PROMPTS_MAX]]
    if len(kept) > WORDS_PROMPTS_MAX:
        words.append(f"{len(kept) - WORDS_PROMPTS_MAX} more")
    return _SENTENCES[state].format(", ".join(words))


# -- a prompt with a key --------------------------------------------------------------------
def joins(bridge: Bridge, session: Session, prompt: Prompt) -> bool:
    """Whether a prompt of the same key is open here: then this request shares its answer."""
    if not prompt.key:
        return False
    queued = [item for item in session.queue if isinstance(item, Prompt)]
    for other in (*session.at_agent, *queued):
        if other is not prompt and other.key == prompt.key:
            other.followers += [prompt.wire_id, *prompt.followers]
            bridge.note("prompt_joined", session=session.id, prompt=other.number)
            return True
    return False


def look_up(bridge: Bridge, session: Session, prompt: Prompt) -> None:
    """Ask whether a prompt of this key has run before; until the answer it does not go."""
    token = bridge.next_token(prompt)
    prompt.looking = True
    bridge.lookups[token] = (session, prompt)
    bridge.out.append(FindKey(token, session.id, prompt.key))


def _key_found(bridge: Bridge, event: KeyFound) -> None:
    """The journal says what became of the key: never, something, or an answer."""
    session, prompt = bridge.lookups.pop(event.token, (None, None))
    if session is None or prompt is None or prompt.stage is not Stage.QUEUED:
        return
    prompt.looking = False
    # The journal begins its rows in the order of their numbers, and others have passed it by.
    bridge.prompts += 1
    prompt.number = bridge.prompts
    found = event.prompt
    if joins(bridge, session, prompt):
        # It is one of those that an earlier run has left, and was sent again meanwhile.
        bridge.unqueue(session, prompt)
        prompt.stage = Stage.ENDED
    elif found is None:
        bridge.persist(prompt, session, "accepted")
    elif found.state == "undelivered":
        prompt.recorded = True
        session.untold = [one for one in session.untold if one.id != found.id]
        bridge.out.append(Adopt(found.id, prompt.number, session.id))
    else:
        bridge.unqueue(session, prompt)
        _answer_again(bridge, session, prompt, found)
    bridge.fire(session, Trigger.WANT)


def _lookup_failed(bridge: Bridge, token: int, reason: str) -> bool:
    """The disk cannot tell whether the key has run, so the prompt is not sent (I3)."""
    session, prompt = bridge.lookups.pop(token, (None, None))
    if session is None or prompt is None:
        return False
    if prompt.stage is Stage.QUEUED:
        prompt.looking = False
        bridge.unqueue(session, prompt)
        text = f"Whether this promptKey has run cannot be looked up ({reason}), so it was not sent."
        present.refuse(bridge, session, prompt, "not-durable", text)
        bridge.fire(session, Trigger.WANT)
    return True


def _answer_again(bridge: Bridge, session: Session, prompt: Prompt, found: KeptPrompt) -> None:
    """The key has run, or runs elsewhere: the stored result, or the truth about it."""
    if found.answer:
        bridge.note("stored_answer_given", session=session.id, kept=found.id)
        line = codec.result(prompt.id, codec.verbatim(found.answer))
        present.answer(bridge, session, prompt, line, "stored")
        return
    if found.pid:
        text = (
            f"A message with this promptKey is at work in another bridge (process {found.pid}); "
            "ask again when it has ended."
        )
        present.refuse(bridge, session, prompt, "busy", text)
        return
    text = (
        f"A message with this promptKey has been sent before and is {found.state} (prompt "
        f"{found.id}); it is not sent again. Look at the conversation, or use a new key."
    )
    present.refuse(bridge, session, prompt, "delivery-unknown", text)
