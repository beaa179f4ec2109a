"""What on a tape came because of what: for each line of the agent, the client's lines it needs.

A tape is one order of things, and a client that plays its part in another order, or leaves a part
out (a bridge that queues, for one), must not get answers to what it never sent. The rules look at
nothing but the protocol and the tape:

- a response belongs to its request; after a cancel, or after the client's answer to a request of
  the agent, to that too;
- the updates of a session belong to the prompt whose turn runs in it, else to what moved it last;
- what comes between a request into a running turn and its immediate answer belongs to that request
  (a receipt), and what a load replays to the load;
- a user message that repeats an earlier prompt's text begins that prompt's own part (an echo);
- what names no session belongs to the client's last line before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from acpbridge.wire import acp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acpbridge.store.tape_reader import Entry

IMMEDIATE_S = 0.05
"""A request into a running turn that is answered within this time is answered aside, and not by a
turn (Hermes: 1 ms; steers of claude and codex: 2 ms)."""

_REPLAYS = frozenset({acp.SESSION_LOAD, acp.SESSION_RESUME})


@define
class _Session:
    """What moves one session, by the index of the client's line; -1 is nothing."""

    mover: int = -1
    running: int = -1
    """The prompt whose response ends what runs."""
    moved_by: int = -1
    """The last cancel, or answer to the agent, since that prompt."""
    aside: int = -1
    """A request into the running turn, until its immediate response."""
    replaying: int = -1
    waiting: list[int] = field(factory=list)
    """Open prompts into the running turn, in order."""
    echoable: dict[str, int] = field(factory=dict)
    """The prompts into a running turn by their text, until they are echoed."""

    def owner(self) -> int:
        """The line that an update belongs to."""
        for index in (self.aside, self.replaying):
            if index >= 0:
                return index
        return self.mover


@define
class Causes:
    """The result: everything by index into the tape's entries."""

    needs: list[tuple[int, ...]] = field(factory=list)
    """For each line of the agent the client's lines that must have come; empty for the client's
    own lines and for what the agent said by itself."""
    streams: list[str] = field(factory=list)
    """The session whose order each line keeps; empty for what belongs to none."""
    responses: dict[int, int] = field(factory=dict)
    """The request of the client that each response of the agent answers."""
    answers: dict[int, int] = field(factory=dict)
    """The client's answer to each request of the agent that has one."""


def find_causes(entries: Sequence[Entry]) -> Causes:
    """Sort a whole tape by cause; linear."""
    finder = _Finder(entries)
    for index, entry in enumerate(entries):
        if entry.side == "client":
            needs: tuple[int, ...] = ()
            stream = finder.client(index, entry)
        else:
            needs, stream = finder.agent(index, entry)
        finder.causes.needs.append(tuple(dict.fromkeys(one for one in needs if one >= 0)))
        finder.causes.streams.append(stream)
    return finder.causes


class _Finder:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self.causes = Causes()
        self._entries = entries
        self._sessions: dict[str, _Session] = {}
        self._last_client = -1
        self._stream = ""
        self._answered_s = _answer_times(entries)
        self._requests: dict[bytes, int] = {}
        self._asked: dict[bytes, int] = {}

    def client(self, index: int, entry: Entry) -> str:
        self._last_client = index
        if entry.is_response:
            asked = self._asked.get(entry.id, -1)
            if asked < 0:
                return ""
            self.causes.answers.setdefault(asked, index)
            name = self._entries[asked].session
            self._move(self._session(name), index)
            return name
        if entry.is_request:
            self._requests[entry.id] = index
        if entry.method == acp.INITIALIZE:
            # A second one begins a new agent process on the same tape: nothing runs in it.
            self._sessions.clear()
        if entry.session:
            self._client_in(self._session(entry.session), index, entry)
        return entry.session

    def _client_in(self, session: _Session, index: int, entry: Entry) -> None:
        answered_s = self._answered_s.get(index)
        is_aside = answered_s is not None and answered_s - entry.t_s <= IMMEDIATE_S
        if not entry.is_request:
            self._move(session, index)
        elif entry.method in _REPLAYS:
            session.replaying = index
        elif session.running < 0:
            session.mover = index
            if entry.method == acp.SESSION_PROMPT:
                session.running, session.moved_by = index, -1
        else:
            if is_aside:
                session.aside = index
            if entry.method == acp.SESSION_PROMPT:
                session.echoable[_text_of(entry.params.get("prompt"))] = index
                session.waiting.append(index)

    def _move(self, session: _Session, index: int) -> None:
        """A cancel, or an answer to the agent: it moves what runs, and nothing if nothing does."""
        if session.running >= 0:
            session.mover = session.moved_by = index

    def agent(self, index: int, entry: Entry) -> tuple[tuple[int, ...], str]:
        if entry.is_response:
            return self._response(index, entry)
        if entry.is_request:
            self._asked[entry.id] = index
        if entry.body is None:
            # Noise has no session: it stays where it stood, behind the agent's line before it.
            before = self.causes.needs[index - 1] if index else ()
            is_agents = index > 0 and self._entries[index - 1].side == "agent"
            return (before if is_agents else (self._last_client,)), self._stream
        self._stream = entry.session
        if not entry.session:
            return (self._last_client,), ""
        session = self._session(entry.session)
        update = entry.params.get("update")
        if isinstance(update, dict) and update.get("sessionUpdate") == acp.USER_MESSAGE_CHUNK:
            self._echo(session, update)
        return (session.owner() if session.owner() >= 0 else self._last_client,), entry.session

    def _echo(self, session: _Session, update: dict[str, Any]) -> None:
        if session.replaying >= 0:
            return
        prompt = session.echoable.pop(_text_of([update.get("content")]), -1)
        if prompt >= 0:
            session.mover = prompt

    def _response(self, index: int, entry: Entry) -> tuple[tuple[int, ...], str]:
        request = self._requests.get(entry.id, -1)
        if request < 0:
            # An answer to nobody, as to a line that was no JSON.
            return (self._last_client,), self._stream
        self.causes.responses[index] = request
        name = self._entries[request].session
        made = entry.result.get("sessionId")
        if isinstance(made, str) and made and not name:
            name = made
            self._session(name).mover = request
        elif isinstance(made, str) and made:
            self._session(made).mover = request
        self._stream = name
        if not name:
            return (request,), ""
        session = self._session(name)
        needs = self._ended(session, request)
        return needs, name

    def _ended(self, session: _Session, request: int) -> tuple[int, ...]:
        """Take in that a request was answered; returns what its response needs."""
        if request in session.waiting:
            session.waiting.remove(request)
        if request == session.aside:
            session.aside = -1
        if request == session.replaying:
            session.replaying = -1
            if session.running < 0:
                session.mover = request
        if request != session.running:
            return (request,)
        needs = (request, session.moved_by)
        session.running, session.moved_by = -1, -1
        if session.waiting:
            session.running = session.mover = session.waiting[0]
            del session.waiting[0]
        return needs

    def _session(self, name: str) -> _Session:
        return self._sessions.setdefault(name, _Session())


def _answer_times(entries: Sequence[Entry]) -> dict[int, float]:
    """When each request of the client got its first response, by the request's index."""
    requests: dict[bytes, int] = {}
    answered: dict[int, float] = {}
    for index, entry in enumerate(entries):
        if entry.side == "client" and entry.is_request:
            requests[entry.id] = index
        elif entry.side == "agent" and entry.is_response and entry.id in requests:
            answered.setdefault(requests[entry.id], entry.t_s)
    return answered


def _text_of(blocks: Any) -> str:
    """The texts of content blocks, joined and stripped, as an echo repeats them."""
    if not isinstance(blocks, list):
        return ""
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
