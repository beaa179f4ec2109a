"""What agents do with a steer: take it, refuse it, start a turn for it, lie, fall silent, die.

The truth about the text stands in its `Work`; what the agent says of it is another matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.frames import Json, Work
from tests.sim.turns import Chat

if TYPE_CHECKING:
    from tests.sim.agent import Agent

ODD_WORDS = ("failed", "queued", "", None, 7)
OLD_VERSIONS = {"claude": "0.64.2", "codex": "2.3.0"}
"""Builds that do not know the opt-in; claude's loses the owner besides and must not be steered."""


def advert(agent: Agent) -> Json:
    """What the initialize result says of steering."""
    kind = agent.mix.traits["steers"]
    if kind == "lookalike":
        return {"_meta": {"steering": {"supported": "true"}}}
    return {"_meta": {"steering": {"supported": True}}} if kind else {}


def info(agent: Agent) -> Json:
    """Who it is: an old build says so."""
    if agent.mix.traits["steers"] != "old":
        return agent.info
    return {**agent.info, "version": OLD_VERSIONS.get(agent.mix.profile, "0.1.0")}


def take(agent: Agent, id_: str, params: Json) -> None:
    """A `_session/steering` request."""
    chat = agent.chats.get(str(params.get("sessionId")))
    blocks = params.get("prompt")
    if agent.mix.traits["steers"] in ("", "lookalike"):
        agent.fail(id_, -32601, "method not found")
    elif not isinstance(blocks, list) or not blocks:
        agent.fail(id_, -32602, "no prompt")
    elif chat is None or chat.closed:
        agent.books.is_lost(str(params.get("sessionId")))
        agent.fail(id_, -32002, "no such session")
    else:
        text = "\n".join(block.get("text", "") for block in blocks).strip()
        work = agent.books.received(text)
        _take(agent, chat, id_, work, opts_in=_opts_in(params))


def _opts_in(params: Json) -> bool:
    meta = params.get("_meta") or {}
    return (meta.get("steering") or {}).get("idleBehavior") == "promptRequired"


def _take(agent: Agent, chat: Chat, id_: str, work: Work, *, opts_in: bool) -> None:
    chance, mix = agent.chance, agent.mix
    wicked = not agent.kind and chance.random() < 0.4
    if wicked and mix.has("steer_dies"):
        agent.world.dies("killed by a steer")
    if agent.dead:
        return
    if wicked and mix.has("steer_silent") and agent.books.is_bridges_steer(id_):
        outcome = _truly(agent, chat, work, opts_in) if chance.random() < 0.7 else "failed"
        if chance.random() < 0.5:
            agent.later(chance.random() * 40.0, lambda: agent.reply(id_, {"outcome": outcome}))
    elif wicked and mix.has("steer_lies"):
        _lie(agent, chat, id_, work)
    else:
        outcome = _truly(agent, chat, work, opts_in)
        wait_s = chance.random() * chance.choice((0.0, 0.005, 0.05, 4.0))
        agent.later(wait_s, lambda: agent.reply(id_, {"outcome": outcome}))


def _lie(agent: Agent, chat: Chat, id_: str, work: Work) -> None:
    """A word that says nothing, whatever was done; or `injected`, and nothing was."""
    if agent.chance.random() < 0.3:
        work.excuse = "an agent that lies about a steer"
        agent.reply(id_, {"outcome": "injected"})
        return
    if agent.chance.random() < 0.5:
        _truly(agent, chat, work, opts_in=False)
    if agent.chance.random() < 0.3:
        agent.fail(id_, agent.chance.choice((-32603, -32000, -32099)), "no words")
    else:
        agent.reply(id_, {"outcome": agent.chance.choice(ODD_WORDS)})


def _truly(agent: Agent, chat: Chat, work: Work, opts_in: bool) -> str:
    """Do it, and return what an honest agent says of it."""
    turn, chance = chat.turn, agent.chance
    if turn is not None and not turn.over and not (turn.doomed and chance.random() < 0.5):
        if turn.owner and chance.random() < 0.1:
            # Codex: the turn is over under it, and its answer comes a moment later.
            turn.plan.clear()
            return _idle(agent, chat, work, opts_in, ending=True)
        agent.books.runs(work, chat.record)
        turn.works.append(work)
        if chance.random() < 0.8:
            for _ in range(chance.randint(1, 3)):
                turn.plan.append((chance.random() * 0.5, "chunk"))
        return "injected"
    return _idle(agent, chat, work, opts_in, ending=turn is not None)


def _idle(agent: Agent, chat: Chat, work: Work, opts_in: bool, *, ending: bool) -> str:
    """No turn runs: refuse it, or start one that nobody owns."""
    knows = agent.mix.traits["steers"] != "old"
    if ending or (knows and opts_in):
        return "promptRequired"
    agent.books.ownerless.add(agent.books.alias.get(chat.sid, chat.sid))
    agent.begin(chat, "", [work])
    return "startedNewTurn"
