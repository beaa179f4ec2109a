"""Play a tape's agent: what it says now, given what the client has sent. Pure: time is told.

Lines of the agent go out in the order of the tape. Each needs certain lines of the client
(`tape_causes`) and comes with its recorded delay behind them. Where the tape has another line of
the client first, it is waited for: at most `patience_s` by what does not need it, without an end
by what does. A client may thus leave lines out, or send them in another order; it never gets an
answer to what it did not send.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from attrs import frozen

from acpbridge.store.scrub import scrub
from acpbridge.store.tape_causes import find_causes
from acpbridge.store.tape_match import closest, differences, is_same, label
from acpbridge.wire import acp, codec
from acpbridge.wire.ids import NO_ID, NULL_ID, RpcId
from acpbridge.wire.look import Unreadable, look
from acpbridge.wire.scan import find
from acpbridge.wire.splice import with_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from acpbridge.store.tape_reader import Recording

MISMATCH_KIND = "tape-mismatch"
"""`error.data.acpbridge.kind` of the answer to what the tape does not have."""

_NEVER = math.inf
_LOADS = frozenset({acp.SESSION_LOAD, acp.SESSION_RESUME})


@frozen
class Taken:
    """What one line of the client comes to, beside what it lets the agent say."""

    answers: tuple[bytes, ...] = ()
    """Lines to write at once: errors for what the tape does not have."""
    notes: tuple[str, ...] = ()
    """For people."""


@frozen
class Said:
    """What the agent says now."""

    lines: tuple[bytes, ...]
    again_s: float
    """When to ask again; infinity for not before the client's next line."""
    notes: tuple[str, ...] = ()


class Player:
    """One agent process of a tape.

    Args:
        recording: The tape.
        speed: How many times faster than recorded; infinity for without waits.
        patience_s: How long a line waits for lines of the client that stand before it and that
            it does not need.
        began_s: The time now.
    """

    def __init__(
        self, recording: Recording, *, speed: float, patience_s: float, began_s: float
    ) -> None:
        self._entries = recording.entries
        self._speed = speed
        self._patience_s = patience_s
        self._causes = find_causes(recording.entries)
        self._needed_by: dict[int, list[int]] = {}
        self._missing = [0] * len(self._entries)
        self._due_s: dict[int, float] = {}
        self._ready: dict[str, list[int]] = {}
        """By session: a heap of the lines that have all they need."""
        self._open = [index for index, one in enumerate(self._entries) if one.side == "client"]
        """The client's lines that may still be matched, in order."""
        self._matched: set[int] = set()
        self._gate = 0
        """No line of the client before this place is waited for."""
        self._live_ids: dict[int, RpcId] = {}
        self._response_to: dict[int, int] = {}
        """The first response to each request of the client that has one."""
        self._unanswered: set[int] = set()
        """Requests of the client whose response is on the tape and was not said yet."""
        self._asked: dict[bytes, int] = {}
        """The agent's requests that were said and are not answered, by id."""
        self._live_names: dict[str, str] = {}
        """Recorded session ids that the client has its own name for."""
        self._moved_s = began_s
        self._is_hurrying = False
        self._told: set[int] = set()
        self.spoken = 0
        """Lines of the agent that were said."""
        self.mismatches = 0
        """Lines of the client that the tape does not have."""
        for index, request in self._causes.responses.items():
            self._response_to.setdefault(request, index)
        for index, needs in enumerate(self._causes.needs):
            if self._entries[index].side == "agent":
                self._missing[index] = len(needs)
                for one in needs:
                    self._needed_by.setdefault(one, []).append(index)
                if not needs:
                    self._wait_for_turn(index, began_s + self._entries[index].t_s / speed)

    # -- the client ------------------------------------------------------------------------------
    def take(self, line: bytes, now_s: float) -> Taken:
        """Take in one line of the client."""
        try:
            body = look(line)
        except Unreadable:
            body = None
        if not isinstance(body, dict):
            return self._take_noise(line, now_s)
        method = body.get("method")
        span = find(line, "id") if "id" in body else None
        rpc_id = NO_ID if span is None else RpcId(line[span[0] : span[1]])
        if isinstance(method, str):
            params = body.get("params")
            return self._take_call(
                method, rpc_id, params if isinstance(params, dict) else {}, now_s
            )
        return self._take_answer(rpc_id, body, now_s)

    def _take_call(self, method: str, rpc_id: RpcId, params: dict[str, Any], now_s: float) -> Taken:
        live = self._recorded_names(method, params)
        found = self._find(method, rpc_id != NO_ID, live)
        if found is None:
            return self._refused(method, rpc_id, live)
        entry = self._entries[found]
        self._live_ids[found] = rpc_id
        if method in _LOADS and isinstance(params.get("sessionId"), str):
            self._live_names[entry.session] = params["sessionId"]
        self._match(found, now_s)
        if not entry.is_request:
            return Taken()
        if found not in self._response_to:
            return Taken(notes=(f"the tape has no answer to its {label(entry)}",))
        self._unanswered.add(found)
        return Taken()

    def _recorded_names(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The params with the ids and secrets of the tape in place of the live ones."""
        live: dict[str, Any] = scrub(params)
        session = params.get("sessionId")
        for recorded, name in self._live_names.items():
            if name == session:
                live["sessionId"] = recorded
        if method == acp.CANCEL_REQUEST and "requestId" in params:
            mine = codec.encode(params["requestId"])
            for index, rpc_id in self._live_ids.items():
                if rpc_id == mine:
                    live["requestId"] = look(self._entries[index].id)
        return live

    def _find(self, method: str, is_request: bool, live: dict[str, Any]) -> int | None:
        """The first of the client's lines left that is this one; an exact one before others."""
        alike = None
        is_new = method in _LOADS and self._is_unknown(live.get("sessionId"))
        for index in self._open:
            entry = self._entries[index]
            if entry.method != method or entry.is_request != is_request:
                continue
            wanted = entry.params
            if is_new:
                wanted = {**wanted, "sessionId": live["sessionId"]}
            if is_same(live, wanted):
                return index
            if alike is None and not differences(method, live, wanted):
                alike = index
        return alike

    def _is_unknown(self, session: Any) -> bool:
        """Whether the client brings a session id that is not on the tape."""
        return isinstance(session, str) and all(
            session not in (entry.session, entry.result.get("sessionId")) for entry in self._entries
        )

    def _refused(self, method: str, rpc_id: RpcId, live: dict[str, Any]) -> Taken:
        """The answer to what the tape does not have: what is closest, and what differs."""
        self.mismatches += 1
        unsent = [self._entries[index] for index in self._open]
        sent = [self._entries[index] for index in sorted(self._matched)]
        found = closest(method, live, [*unsent, *sent])
        text = f"the tape does not have this {method}"
        number = None
        if found is not None:
            entry, different = found
            number = entry.number
            what = "; ".join(map(str, different)) or "that one was sent already"
            if not different and entry in unsent:
                what = "that one is a notification" if rpc_id != NO_ID else "that one is a request"
            text += f"; closest is {label(entry)}: {what}"
        elif unsent:
            number = unsent[0].number
            text += f": the method differs; the tape has {label(unsent[0])} next"
        else:
            text += ": everything on it was sent"
        if rpc_id == NO_ID:
            return Taken(notes=(text,))
        code = acp.METHOD_NOT_FOUND if found is None else acp.INVALID_PARAMS
        kind = {"kind": MISMATCH_KIND} | ({} if number is None else {"line": number})
        return Taken((codec.error(rpc_id, code, text, {"acpbridge": kind}),), (text,))

    def _take_answer(self, rpc_id: RpcId, body: dict[str, Any], now_s: float) -> Taken:
        """A response of the client: its place is known by the id, whatever it says."""
        asked = self._asked.pop(rpc_id, None)
        if asked is None:
            self.mismatches += 1
            return Taken(notes=(f"an answer to no open request of the agent, id {_text(rpc_id)}",))
        found = self._causes.answers.get(asked)
        entry = self._entries[asked]
        if found is None:
            self.mismatches += 1
            return Taken(notes=(f"the tape has no answer to the agent's {label(entry)}",))
        recorded = self._entries[found]
        self._match(found, now_s)
        different = differences("", scrub(_outcome(body)), _outcome(recorded.body or {}))
        if not different:
            return Taken()
        self.mismatches += 1
        what = "; ".join(map(str, different))
        return Taken(
            notes=(f"another answer than {label(recorded)}: {what}; the tape goes on with its own",)
        )

    def _take_noise(self, line: bytes, now_s: float) -> Taken:
        for index in self._open:
            entry = self._entries[index]
            if entry.body is None and entry.raw == line:
                self._match(index, now_s)
                return Taken()
        self.mismatches += 1
        text = "a line that is no JSON object, which the tape does not have"
        return Taken((codec.error(NULL_ID, acp.PARSE_ERROR, text),), (text,))

    def _match(self, found: int, now_s: float) -> None:
        self._open.remove(found)
        self._matched.add(found)
        self._moved_s = now_s
        for index in self._needed_by.get(found, ()):
            delay_s = (self._entries[index].t_s - self._entries[found].t_s) / self._speed
            due_s = max(self._due_s.get(index, now_s), now_s + max(delay_s, 0.0))
            self._due_s[index] = due_s
            self._missing[index] -= 1
            if not self._missing[index]:
                self._wait_for_turn(index, due_s)

    # -- the agent -------------------------------------------------------------------------------
    def _wait_for_turn(self, index: int, due_s: float) -> None:
        self._due_s[index] = due_s
        heapq.heappush(self._ready.setdefault(self._causes.streams[index], []), index)

    def hurry(self) -> None:
        """The client sends nothing more: say what has all it needs, and wait for nothing."""
        self._is_hurrying = True

    def speak(self, now_s: float, lines_max: int) -> Said:
        """Say what is due, at most `lines_max` lines."""
        lines: list[bytes] = []
        notes: list[str] = []
        again_s = now_s
        while len(lines) < lines_max:
            index, again_s = self._next(now_s)
            if index < 0 or again_s > now_s:
                break
            notes.extend(self._pass_gates(index))
            stream = self._ready[self._causes.streams[index]]
            heapq.heappop(stream)
            if not stream:
                del self._ready[self._causes.streams[index]]
            lines.append(self._say(index))
            self._moved_s = now_s
        if again_s == _NEVER:
            again_s, told = self._stuck(now_s)
            notes.extend(told)
        return Said(tuple(lines), again_s, tuple(notes))

    def _next(self, now_s: float) -> tuple[int, float]:
        """(the line to say next, when); (-1, infinity) where every line needs the client."""
        gate = self._first_gate()
        best, best_s = -1, _NEVER
        for stream in self._ready.values():
            index = stream[0]
            at_s = self._due_s[index]
            if self._is_hurrying:
                at_s = now_s
            elif gate < index:
                at_s = max(at_s, self._moved_s) + self._patience_s
            # Of what is due the tape's order counts, else what is due first.
            if (max(at_s, now_s), index) < (max(best_s, now_s), best):
                best, best_s = index, at_s
        return best, best_s

    def _first_gate(self) -> int:
        """The first line of the client that is still waited for; past the end if there is none."""
        at = bisect_left(self._open, self._gate)
        return self._open[at] if at < len(self._open) else len(self._entries)

    def _pass_gates(self, index: int) -> Iterable[str]:
        passed = [one for one in self._open if self._gate <= one < index]
        if passed:
            self._gate = index
            if not self._is_hurrying:
                yield f"goes on without the client's {label(self._entries[passed[0]])}"

    def _say(self, index: int) -> bytes:
        entry = self._entries[index]
        self.spoken += 1
        raw = entry.raw
        request = self._causes.responses.get(index)
        if request is not None:
            self._unanswered.discard(request)
            live_id = self._live_ids.get(request, NO_ID)
            if live_id not in (NO_ID, entry.id):
                raw = with_id(raw, live_id)
        elif entry.is_request:
            self._asked[entry.id] = index
        for recorded, name in self._live_names.items():
            if recorded != name:
                raw = raw.replace(codec.encode(recorded), codec.encode(name))
        return raw

    def _stuck(self, now_s: float) -> tuple[float, Sequence[str]]:
        """What the client waits for and what that waits for, once it has waited for a while."""
        needs = self._causes.needs
        lacking = {
            one
            for request in self._unanswered
            for one in needs[self._response_to[request]]
            if one not in self._matched and one not in self._told
        }
        if not lacking or self._is_hurrying:
            return _NEVER, ()
        if now_s < self._moved_s + self._patience_s:
            return self._moved_s + self._patience_s, ()
        self._told |= lacking
        return _NEVER, [
            f"waits for the client's {label(self._entries[one])}" for one in sorted(lacking)
        ]

    def summary(self) -> str:
        """What was played, in one sentence."""
        agent = sum(entry.side == "agent" for entry in self._entries)
        return (
            f"said {self.spoken} of {agent} lines; of the client's lines "
            f"{len(self._matched)} were on the tape, {self.mismatches} were not, "
            f"and {len(self._open)} of the tape's did not come"
        )


def _outcome(response: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in response.items() if name in {"result", "error"}}


def _text(rpc_id: RpcId) -> str:
    return rpc_id.decode("utf-8", "replace") or "absent"
