"""What a response to the client may say, given what the agent really did (I1, I2, I3, I7)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from tests.sim.frames import Ask, Json, id_text
from tests.sim.violation import must

if TYPE_CHECKING:
    from collections import deque

    from tests.sim.ledger import Ledger
    from tests.sim.toward_client import TowardClient
    from tests.sim.world import World

STOPS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
TAGS = ("shared", "drained", "marked", "inferred")
GAP_S = 0.1 - 1e-6
GAP_MAX_S = 1.0 - 1e-6


class Looker(Protocol):
    """Who looks at the lines of one client."""

    open: dict[str, deque[Ask]]
    closed: set[str]
    last_update_s: dict[str, float]

    @property
    def world(self) -> World:
        """The world of that client."""

    @property
    def books(self) -> Ledger:
        """What was really said."""

    @property
    def codeg(self) -> bool:
        """Whether it is Codeg."""

    def all_seen(self, sid: str, serial: int, what: str, *, by_prompt: bool) -> None:
        """What the agent sent before this was written before it (I6)."""

    def tag(self, name: str) -> None:
        """Count a kind of answer to a prompt."""


def response(view: Looker, line: bytes, frame: Json) -> None:
    """The bridge answers a request of the client."""
    key = id_text(frame.get("id"))
    queue = view.open.get(key)
    must(bool(queue), "I1", f"an answer that nobody waits for: {line.decode()[:300]}")
    assert queue
    ask = queue.popleft()
    if not queue:
        del view.open[key]
    must(ask.id in line, "I7", f"the id {ask.id!r} comes back changed")
    written = view.books.replies.get(line, [])
    by_agent = ask in written
    # The bridge's own word for a cancelled prompt may look like an agent's answer to another.
    may_be_own = ask.cancelled and frame.get("result") == {"stopReason": "cancelled"}
    must(by_agent or not written or may_be_own, "I1", "the answer is that of another request")
    if by_agent:
        written.remove(ask)
    ask.answer = line
    said = _said(frame)
    ask.refused, ask.tag = str(said.get("kind", "")), str(said.get("completion", ""))
    result = frame.get("result")
    ask.unproven = said.get("delivery") == "unproven"
    ask.stop = str(result.get("stopReason", "")) if isinstance(result, dict) else ""
    if by_agent or (ask.reply and _is_worded(view, ask, line)):
        must(ask.reply_serial <= view.books.fed_serial, "I2", "answered before the agent did")
        is_prompt = ask.method == "session/prompt"
        view.all_seen(ask.sid, ask.reply_serial, f"the answer to {ask.n}", by_prompt=is_prompt)
    if ask.method == "session/prompt":
        _prompt(view, ask, frame, by_agent)
    elif not by_agent and not _is_worded(view, ask, line):
        _other(view, ask, frame, line)


def _said(frame: Json) -> Json:
    """What the bridge says about its own answer."""
    for name, member in (("result", "_meta"), ("error", "data")):
        holder = frame.get(name)
        said = holder.get(member) if isinstance(holder, dict) else None
        own = said.get("acpbridge") if isinstance(said, dict) else None
        if isinstance(own, dict):
            return own
    return {}


def _is_worded(view: Looker, ask: Ask, line: bytes) -> bool:
    """Whether this is the agent's answer, in the words that Codeg's profile asks for."""
    if not view.codeg or not ask.reply:
        return False
    result = json.loads(ask.reply).get("result")
    stop = result.get("stopReason") if isinstance(result, dict) else None
    worded = [
        ask.reply.replace(b'"result":null', b'"result":{}'),
        ask.reply.replace(b'"result": null', b'"result": {}'),
    ]
    if stop == "cancelled" or (isinstance(stop, str) and stop not in STOPS):
        worded.append(ask.reply.replace(json.dumps(stop).encode(), b'"end_turn"'))
    return line in worded


def _other(view: Looker, ask: Ask, frame: Json, line: bytes) -> None:
    """A request that is no prompt, not answered in the agent's very words."""
    books, code = view.books, frame.get("error", {}).get("code")
    if ask.refused:
        gone = books.lost or books.deaths or books.stops
        must(ask.refused != "session-lost" or bool(gone), "R25", "lost, and it is not")
        return
    if code == -32800 and ask.cancelled:
        return
    known = {
        "malformed": code in (-32600, -32700),
        "oversize": code == -32057,
        "session/close": frame.get("result") == {},
        "session/delete": frame.get("result") == {},
        "session/list": "sessions" in (frame.get("result") or {}),
        "_session/steering": code == -32601 or _is_cancelling(frame),
    }
    must(known.get(ask.method, False), "I7", f"nobody wrote this answer: {line!r}")


def _is_cancelling(frame: Json) -> bool:
    """R16: the bridge's own answer to a steer of the client behind a cancel."""
    result = frame.get("result") or {}
    return result.get("outcome") == "promptRequired" and bool(_said(frame))


def _prompt(view: Looker, ask: Ask, frame: Json, by_agent: bool) -> None:
    if view.codeg:
        _codeg(view, ask, frame, by_agent)
    view.tag(ask.refused or ask.tag or ("error" if "error" in frame else ask.stop))
    if ask.refused and ask.refused != "agent-error":
        _refusal(view, ask, frame)
        return
    if by_agent or _is_worded(view, ask, ask.answer):
        return
    if ask.refused:
        is_error = ask.too_long or (bool(ask.reply) and "error" in json.loads(ask.reply))
        must(is_error, "I7", "an error of nobody's")
        return
    work = view.books.works.get(ask.n)
    if not ask.tag:
        is_cancel = ask.stop == "cancelled" and ask.cancelled
        must(is_cancel, "I7", f"a made-up answer to {ask.n}")
        unrun = not ask.at_agent and (work is None or not work.ran)
        must(unrun, "I2", f"prompt {ask.n} is at the agent")
        return
    must(ask.tag in TAGS, "R8", f"the tag {ask.tag}")
    assert work is not None
    must(work.received > 0, "I3", f"prompt {ask.n} never reached an agent")
    must(not ask.unproven or ask.steered, "R14", f"prompt {ask.n} is unproven and was no steer")
    if ask.unproven:
        return
    if ask.tag == "inferred" or ask.stop == "cancelled" or work.excuse:
        return
    must(work.ran > 0, "I3", f"prompt {ask.n} is completed ({ask.tag}) and never ran")
    must(work.ended, "I2", f"prompt {ask.n} is completed ({ask.tag}) while its work goes on")
    must(work.end_serial <= view.books.fed_serial, "I2", "completed before its end was heard")
    view.all_seen(ask.sid, work.end_serial, f"the completion of {ask.n}", by_prompt=True)


def _wish(ask: Ask) -> str:
    meta = json.loads(ask.template)["params"]["_meta"]
    return str(meta.get("acpbridge", {}).get("midturn"))


def _refusal(view: Looker, ask: Ask, frame: Json) -> None:
    """A refusal must be true."""
    books, mix = view.books, view.world.mix
    work = books.works.get(ask.n)
    words = frame.get("error", {}).get("message", "")
    must("not sent" not in words or work is None or not work.ran, "I3", f"prompt {ask.n} ran")
    gone = bool(books.deaths or books.stops or view.world.toward_agent.closing)
    kept = mix.traits["load"] or mix.traits["resume"]
    evicted = view.world.bridge.counters.get("session_forgotten")
    lost = ask.sid in books.lost or ask.sid not in books.alias or bool(evicted)
    because = {
        "busy": "reject" in (mix.policy["midturn"], _wish(ask)),
        "queue-full": not ask.final,
        "not-durable": ask.denied,
        "agent-exited": gone and not ask.final,
        "session-lost": lost or (gone and not (kept and ask.final)),
        "wedged": ask.cancelled or not mix.policy["restart"],
        "delivery-unknown": ask.written > 0,
        "frame-too-large": ask.too_long,
    }
    must(bool(because.get(ask.refused)), "I3", f"prompt {ask.n} is refused: {ask.refused}: {words}")


def _codeg(view: Looker, ask: Ask, frame: Json, by_agent: bool) -> None:
    """What ends Codeg's connection, or its row (knowledge of its source)."""
    now_s = view.world.clock.now_s
    must("error" not in frame, "codeg", "a prompt is answered with an error")
    must(ask.stop in STOPS, "codeg", f"a stop reason that Codeg does not know: {ask.stop}")
    must(ask.stop != "cancelled" or ask.cancelled, "codeg", "cancelled, and nobody asked")
    if ask.stop == "end_turn" and not ask.cancelled:
        must(ask.saw_output, "codeg", "an end_turn without any output")
    since_s = now_s - view.last_update_s.get(ask.sid, -1e9)
    waited = not by_agent or now_s - ask.replied_s >= GAP_MAX_S
    agent = view.world.agent
    waited = waited or ask.sid in view.closed or agent is None or agent.dead
    waited = waited or view.world.mix.has("reuse")
    must(since_s >= GAP_S or waited, "codeg", f"an answer {since_s:.4f} s behind an update")


# -- when all is over -------------------------------------------------------------------------
def at_the_end(view: TowardClient) -> None:
    """I3: every text ran once, unless its client knows why not. I6: nothing was lost unsaid."""
    each_ran_once(view)
    _none_lost(view)
    books, world = view.books, view.world
    if world.exit_code is None and not (books.deaths or books.stops or world.toward_agent.closing):
        must(not books.notes, "I6", f"notifications {sorted(books.notes)} never reached the agent")


def each_ran_once(view: Looker) -> None:
    """I3: what is answered as if it had run, ran."""
    for ask in view.books.asks.values():
        if ask.method != "session/prompt" or not ask.answer or ask.refused or ask.cancelled:
            continue
        if ask.stop in ("cancelled", "refusal") or ask.tag == "inferred" or ask.unproven:
            continue
        work = view.books.works[ask.n]
        is_said = "error" in json.loads(ask.answer) or work.excuse
        must(work.ran == 1 or bool(is_said), "I3", f"{ask.n} is answered and ran {work.ran}x")


def _none_lost(view: TowardClient) -> None:
    """I6: what was not shown is a receipt, hidden history, or withheld and counted."""
    unshown = [said for row in view.unseen.values() for said in row]
    settled = [said for said in unshown if said.posed and (said.posed.answers or said.posed.over)]
    bare = [said.serial for said in unshown if not said.content and said not in settled]
    must(not bare, "I6", f"frames {bare} were never shown")
    counters = view.world.bridge.counters
    if counters.get("session_forgotten") or view.closed:
        return
    skipped = [view.by_serial[serial] for serial in view.skipped]
    kinds = ("live", "replay")
    sessions = view.world.bridge.sessions.values()
    # A receipt that a flood has freed from its hold is withheld as any other chunk.
    withheld = {line for one in sessions for line in one.withheld.lines}
    hidden = {
        one.serial
        for one in unshown + skipped
        if (one.content and one.what in kinds) or (one.what == "receipt" and one.line in withheld)
    }
    names = ("cancelled_work_withheld", "echo_withheld", "resume_content_withheld")
    counted = sum(len(one.late.lines) + one.late.dropped for one in sessions)
    counted += sum(counters.get(name, 0) for name in names)
    text = f"{len(hidden)} content frames not shown, {counted} counted: {sorted(hidden)[:20]}"
    must(len(hidden) == counted, "I6", text)
