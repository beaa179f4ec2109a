"""Prompts on a tape that were answered before they had run, and what became of them. Pure.

A tape (fixtures/README.md) has both sides' frames, so more can be said than from a log: what the
agent's "I have your message" was, and when the real answer came. Judging is in `prompts.py`; this
is the bookkeeping: sessions, open requests, load windows, echoes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from attrs import define, field

from acpbridge.core.policy import Policy
from acpbridge.profiles import AGENTS
from acpbridge.store.diagnosis.bursts import Bursts
from acpbridge.store.diagnosis.finding import SWALLOWED_MS, Finding, Mark, span
from acpbridge.store.diagnosis.prompts import (
    Prompt,
    is_echo_of,
    json_id,
    judge,
    read_prompt,
    receipt_kind,
)
from acpbridge.wire import acp
from acpbridge.wire.look import member

PROMPTS_MAX = 4_096
"""Prompts of one session that are open, or that await their real answer."""
SESSIONS_MAX = 16_384

_NS = 1_000_000_000
_LOAD_TAIL_S = Policy().load_tail_s
_OPENINGS = frozenset({acp.SESSION_NEW, acp.SESSION_LOAD, acp.SESSION_RESUME, acp.SESSION_FORK})
_ENDINGS = frozenset({acp.SESSION_CANCEL, acp.SESSION_CLOSE, acp.SESSION_DELETE})
_CHUNKS = frozenset({acp.AGENT_MESSAGE_CHUNK, acp.AGENT_THOUGHT_CHUNK})
_TOOLS = frozenset({acp.TOOL_CALL, acp.TOOL_CALL_UPDATE})
_SNAPSHOTS = tuple(prefix for one in AGENTS.values() for prefix in one.snapshot_call_prefixes)
_PROVENANCES = tuple(one.provenance for one in AGENTS.values() if one.provenance)
_FROM_AGENT = re.compile(r'"from":\s*"agent"')
_IN_SESSION = re.compile(r'"sessionId":\s*"([^"\\]+)"')
_HEAD_BYTES = 4_096


@define(eq=False)
class _Session:
    open: list[Prompt] = field(factory=list)
    awaited: list[Prompt] = field(factory=list)
    """Answered too early, in the order of their answers."""
    running: Prompt | None = None
    """The awaited prompt whose echo came last."""
    commands: frozenset[str] = frozenset()
    loads: set[str] = field(factory=set)
    """Ids of open requests that open the session."""
    quiet_until_s: float = -1.0
    """Until then what comes is a load's (design, "load window")."""
    own: str = ""
    """The agent's own id of it, where it says so (Hermes)."""


@define(eq=False)
class TapeReader:
    """Reads the lines of one tape behind its header."""

    file: str
    stuck_s: float
    prompts: int = 0
    running: int = 0
    """Prompts that were still young when the recording ended."""
    damaged: int = 0
    """Lines that could not be read."""
    _sessions: dict[str, _Session] = field(factory=dict)
    _by_id: dict[str, Prompt] = field(factory=dict)
    """Open prompts."""
    _openings: dict[str, str] = field(factory=dict)
    """Open requests that open a session: id to session id, "" for a new one."""
    _bursts: Bursts = field(factory=Bursts)
    _last_s: float = 0.0

    def read(self, number: int, line: bytes) -> Iterable[Finding]:
        """Take one line."""
        try:
            row = orjson.loads(line)
            at_s, side, frame = float(row["t"]), row["from"], row.get("frame")
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
            self._read_damaged(line)
            return ()
        self._last_s = at_s
        if not isinstance(frame, dict):
            return ()
        if "__elided__" in frame:
            self._read_head(str(frame.get("head")), is_agent=side == "agent")
            return ()
        method = frame.get("method")
        if side == "client":
            return self._client(method, frame, at_s, Mark(self.file, number))
        if method == acp.SESSION_UPDATE:
            return self._update(frame, at_s, number)
        return self._response(frame, at_s, Mark(self.file, number)) if method is None else ()

    def end(self) -> Iterator[Finding]:
        """The tape is over: what is awaited has not come."""
        for session in self._sessions.values():
            yield from _give_up(session)
            for prompt in session.open:
                age_s = self._last_s - prompt.at_s
                if age_s < self.stuck_s:
                    self.running += 1
                else:
                    says = f"the send has no answer by the end of the tape, {span(age_s)} later"
                    yield _stuck(prompt, says)
        self._sessions.clear()
        self._by_id.clear()
        yield from self._bursts.end()

    def _read_damaged(self, line: bytes) -> None:
        self.damaged += 1
        head = line[:_HEAD_BYTES].decode("utf-8", "replace")
        self._read_head(head, is_agent=_FROM_AGENT.search(head) is not None)

    def _read_head(self, head: str, *, is_agent: bool) -> None:
        """A frame that was too long to be kept whole is still work of its session."""
        found = _IN_SESSION.search(head) if is_agent else None
        if found is not None:
            for prompt in self._session(found[1]).open:
                prompt.worked = True

    def _session(self, id_: str) -> _Session:
        session = self._sessions.get(id_)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                forgotten = self._sessions.pop(next(iter(self._sessions)))
                for prompt in forgotten.open:
                    self._by_id.pop(prompt.id, None)
            session = self._sessions[id_] = _Session()
        return session

    # -- the client ----------------------------------------------------------------------------
    def _client(
        self, method: Any, frame: dict[str, Any], at_s: float, mark: Mark
    ) -> Iterator[Finding]:
        params = frame.get("params")
        params = params if isinstance(params, dict) else {}
        name = str(params.get("sessionId", ""))
        if method == acp.SESSION_PROMPT and "id" in frame:
            yield from self._prompt(json_id(frame["id"]), params, at_s, mark)
        elif method == acp.INITIALIZE:
            yield from self._restart(mark)
        elif method in _ENDINGS:
            for prompt in self._session(name).open:
                prompt.cancelled = True
        elif method == acp.CANCEL_REQUEST:
            asked = self._by_id.get(json_id(params.get("requestId")))
            if asked is not None:
                asked.cancelled = True
        elif method in _OPENINGS and "id" in frame:
            id_ = json_id(frame["id"])
            self._openings[id_] = name
            self._session(name).loads.add(id_)

    def _prompt(
        self, id_: str, params: dict[str, Any], at_s: float, mark: Mark
    ) -> Iterator[Finding]:
        self.prompts += 1
        session = self._session(str(params.get("sessionId", "")))
        session.quiet_until_s = -1.0
        if not session.open:
            # What comes from now on is this prompt's: nothing more can be told of those before.
            for awaited in [one for one in session.awaited if one.awaits == "work"]:
                session.awaited.remove(awaited)
                yield awaited.never_came()
        prompt = read_prompt(id_, at_s, params, mark, session.commands)
        session.open.append(prompt)
        self._by_id[id_] = prompt
        if len(session.open) > PROMPTS_MAX:
            self._by_id.pop(session.open.pop(0).id, None)

    def _restart(self, mark: Mark) -> Iterator[Finding]:
        """A second `initialize` is a second agent process: nothing of the first goes on."""
        for session in self._sessions.values():
            yield from _give_up(session)
            for prompt in session.open:
                yield _stuck(prompt, "the send has no answer; the agent was started again", mark)
            session.open.clear()
            session.loads.clear()
        self._by_id.clear()
        self._openings.clear()

    # -- the agent -----------------------------------------------------------------------------
    def _response(self, frame: dict[str, Any], at_s: float, mark: Mark) -> Iterator[Finding]:
        id_ = json_id(frame.get("id"))
        result = frame.get("result")
        prompt = self._by_id.pop(id_, None)
        if prompt is not None:
            yield from self._answered(prompt, result, at_s, mark)
        elif id_ in self._openings:
            name = self._openings.pop(id_)
            self._session(name).loads.discard(id_)
            opened = result.get("sessionId") if isinstance(result, dict) else None
            session = self._session(str(opened or name))
            session.quiet_until_s = at_s + _LOAD_TAIL_S
            session.own = _own_id(result) or session.own

    def _answered(self, prompt: Prompt, result: Any, at_s: float, mark: Mark) -> Iterator[Finding]:
        session = self._session(prompt.session)
        if prompt in session.open:
            session.open.remove(prompt)
        if not session.open:
            # A drained queue is part of a prompt's turn, and that has ended.
            session.running = None
        finding = judge(prompt, result, at_s, mark)
        if finding is None:
            return
        for other in session.open:
            # One receipt is one prompt's, whoever else was open.
            if other.receipt == prompt.receipt:
                other.receipt = None
        prompt.finding, prompt.answered_s = finding, at_s
        is_over = finding.facts["stop_reason"] != acp.END_TURN
        if is_over or len(session.awaited) >= PROMPTS_MAX:
            yield prompt.never_came()
        else:
            session.awaited.append(prompt)
        if finding.facts["duration_ms"] < SWALLOWED_MS:
            ns = int(prompt.at_s * _NS)
            yield from self._bursts.add(prompt.session, ns, finding.at, finding.marks)

    def _update(self, frame: dict[str, Any], at_s: float, number: int) -> Iterable[Finding]:
        params = frame.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(params, dict) or not isinstance(update, dict):
            return ()
        name = str(params.get("sessionId", ""))
        session = self._session(name)
        variant = update.get("sessionUpdate")
        if variant == acp.AVAILABLE_COMMANDS_UPDATE:
            session.commands = _commands(update)
        elif variant == acp.SESSION_INFO_UPDATE:
            return _rotation(session, name, update, at_s, Mark(self.file, number))
        elif session.loads or at_s < session.quiet_until_s:
            return ()
        elif variant in _CHUNKS:
            return self._chunk(session, update, at_s, number)
        elif variant == acp.USER_MESSAGE_CHUNK:
            _echo(session, _text(update), Mark(self.file, number))
        elif variant == acp.PLAN or (variant in _TOOLS and not _is_snapshot(update)):
            return self._work(session, at_s, number)
        return ()

    def _chunk(
        self, session: _Session, update: dict[str, Any], at_s: float, number: int
    ) -> Iterable[Finding]:
        text = _text(update)
        kind = receipt_kind(text)
        if kind:
            for prompt in session.open:
                prompt.receipt = (kind, Mark(self.file, number))
            return ()
        if text or _is_other_content(update):
            return self._work(session, at_s, number)
        return ()

    def _work(self, session: _Session, at_s: float, number: int) -> Iterable[Finding]:
        """Output of the session: it belongs to what is open, and may be an awaited answer."""
        for prompt in session.open:
            prompt.worked = True
        return _answers(session, at_s, Mark(self.file, number)) if session.awaited else ()


def _answers(session: _Session, at_s: float, mark: Mark) -> Iterator[Finding]:
    """What this output is the real answer of."""
    for prompt in session.awaited[:]:
        if prompt.awaits == "echo":
            has_come = prompt is session.running
        else:
            # Where another prompt is open, only a redirect is known to be part of its turn.
            has_come = not session.open or prompt.receipt is not None
        if has_come:
            session.awaited.remove(prompt)
            yield prompt.came(at_s, mark)


def _echo(session: _Session, text: str, mark: Mark) -> None:
    for prompt in session.awaited:
        if prompt.awaits == "echo" and prompt.echo is None and is_echo_of(text, prompt):
            prompt.echo = mark
            session.running = prompt
            return


def _give_up(session: _Session) -> Iterator[Finding]:
    for prompt in session.awaited:
        yield prompt.never_came()
    session.awaited.clear()
    session.running = None


def _rotation(
    session: _Session, name: str, update: dict[str, Any], at_s: float, mark: Mark
) -> Iterator[Finding]:
    before, own = session.own, _own_id(update)
    session.own = own or before
    if own and before and own != before and session.open:
        says = (
            f"the agent's own id of the session became {own} (it was {before}) while a prompt was "
            "open; a restarted agent knows the whole conversation only by the new one"
        )
        marks = (session.open[0].mark, mark)
        yield Finding("rotated", f"{at_s:.4f} s", name, says, marks, {"became": own})


def _stuck(prompt: Prompt, says: str, *more: Mark) -> Finding:
    at = f"{prompt.at_s:.4f} s"
    return Finding("stuck", at, prompt.session, says, (prompt.mark, *more))


def _text(update: dict[str, Any]) -> str:
    content = update.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else ""


def _is_other_content(update: dict[str, Any]) -> bool:
    content = update.get("content")
    return isinstance(content, dict) and content.get("type") != "text"


def _is_snapshot(update: dict[str, Any]) -> bool:
    return str(update.get("toolCallId", "")).startswith(_SNAPSHOTS)


def _commands(update: dict[str, Any]) -> frozenset[str]:
    listed = update.get("availableCommands")
    listed = listed if isinstance(listed, list) else []
    return frozenset(str(one.get("name", "")) for one in listed if isinstance(one, dict))


def _own_id(holder: Any) -> str:
    """The agent's own session id in a result or an update, where a profile says it stands."""
    for path in _PROVENANCES:
        own = member(holder, *path, "currentHermesSessionId")
        if isinstance(own, str):
            return own
    return ""
