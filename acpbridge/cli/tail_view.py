"""How `acpbridge tail` looks. Pure: frames in, text for a terminal out.

Text streams as it comes; everything else is one line of its own. What an agent or a client says
never reaches the terminal raw: what a terminal would obey is spelled out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from acpbridge.cli.journal import cell, plain
from acpbridge.wire import acp
from acpbridge.wire.frame import Kind

if TYPE_CHECKING:
    from acpbridge.cli.demo_view import Style, Tone
    from acpbridge.wire.frame import Frame

TITLES_MAX = 256
"""Titles of tool calls, and questions, that are remembered for their end."""
CELL_CHARS_MAX = 200
"""Of a title, a question or a fault so much is shown."""
TURN_ENDED = "_acpbridge/turn_ended"

_SAYING, _THINKING = "saying", "thinking"
_ENDS = frozenset({"completed", "failed"})
_RULE_WIDTH = 40


@define
class View:
    """What the terminal shows now, as far as the next frame depends on it."""

    style: Style
    _open: str = field(default="", init=False)
    """`_SAYING` or `_THINKING` while a text is being streamed, which the next chunk goes on."""
    _is_mid_line: bool = field(default=False, init=False)
    _titles: dict[str, str] = field(factory=dict, init=False)
    _questions: dict[bytes, str] = field(factory=dict, init=False)

    def show(self, frame: Frame) -> str:
        """The text to write for this frame; empty for what nobody needs to see."""
        if frame.kind is Kind.REQUEST:
            return self._asked(frame)
        if frame.kind is not Kind.NOTIFICATION:
            return ""
        if frame.method == TURN_ENDED:
            return self._ended(frame.params)
        if frame.method == acp.CANCEL_REQUEST:
            return self._resolved(frame)
        return self._updated(frame) if frame.method == acp.SESSION_UPDATE else ""

    def say(self, words: str) -> str:
        """A line of our own."""
        return self._line(f"-- {cell(words)}", "dim")

    def close(self) -> str:
        """What ends the text that is being streamed."""
        is_mid_line, self._is_mid_line, self._open = self._is_mid_line, False, ""
        return "\n" if is_mid_line else ""

    def _updated(self, frame: Frame) -> str:
        match frame.variant:
            case acp.AGENT_MESSAGE_CHUNK:
                return self._stream(_SAYING, _text(frame), "")
            case acp.AGENT_THOUGHT_CHUNK:
                return self._stream(_THINKING, _text(frame), "dim")
            case acp.USER_MESSAGE_CHUNK:
                lines = plain(_text(frame)).split("\n")
                return "".join(self._line(f"> {line}", "mine") for line in lines)
            case acp.TOOL_CALL | acp.TOOL_CALL_UPDATE:
                return self._tool(frame)
            case acp.PLAN:
                return self._plan(frame.update.get("entries"))
            case _:
                return ""

    def _stream(self, what: str, text: str, tone: Tone) -> str:
        if not text:
            return ""
        begin = "" if self._open == what else self.close()
        self._open = what
        self._is_mid_line = not text.endswith("\n")
        lines = plain(text).split("\n")
        # Painted line by line: a colour that is left open runs into the terminal's next prompt.
        return begin + "\n".join(self.style.paint(line, tone) for line in lines)

    def _tool(self, frame: Frame) -> str:
        update = frame.update
        call, status = update.get("toolCallId"), str(update.get("status"))
        title = _short(update.get("title"))
        if isinstance(call, str):
            title = title or self._titles.pop(call, "")
            self._titles[call] = title
            if len(self._titles) > TITLES_MAX:
                del self._titles[next(iter(self._titles))]
        if frame.variant == acp.TOOL_CALL and status not in _ENDS:
            return self._line(f"[tool] {title}", "head")
        if status not in _ENDS:
            return ""
        return self._line(f"[tool] {title}: {status}", "bad" if status == "failed" else "head")

    def _plan(self, entries: Any) -> str:
        found = _objects(entries)
        done = sum(one.get("status") == "completed" for one in found)
        at_work = (one.get("content") for one in found if one.get("status") == "in_progress")
        words = f"[plan] {done} of {len(found)} done. {_short(next(at_work, ''))}"
        return self._line(words.rstrip(), "head")

    def _asked(self, frame: Frame) -> str:
        params = frame.params
        if frame.method == acp.REQUEST_PERMISSION:
            call, options = params.get("toolCall"), params.get("options")
            title = _short(call.get("title")) if isinstance(call, dict) else ""
            if not title and isinstance(call, dict):
                title = self._titles.get(str(call.get("toolCallId")), "")
            names = [_short(one.get("name")) for one in _objects(options)]
            words = f"[permission] {title}: {' | '.join(names)}"
        elif frame.method == acp.ELICITATION_CREATE:
            words = f"[question] {_short(params.get('message'))}"
        else:
            return ""
        self._questions[frame.id] = words
        if len(self._questions) > TITLES_MAX:
            del self._questions[next(iter(self._questions))]
        return self._line(words, "head")

    def _resolved(self, frame: Frame) -> str:
        from acpbridge.wire.scan import find  # noqa: PLC0415 - once a question

        span = find(frame.raw, "params", "requestId")
        words = self._questions.pop(frame.raw[span[0] : span[1]], "") if span else ""
        return self._line(f"{words.partition(':')[0]}: resolved", "dim") if words else ""

    def _ended(self, params: dict[str, Any]) -> str:
        result, error = params.get("result"), params.get("error")
        words = "the turn has ended"
        if isinstance(result, dict):
            words = _short(result.get("stopReason")) or words
        elif isinstance(error, dict):
            words = f"error: {_short(error.get('message'))}"
        dash = "─" if self.style.has_unicode else "-"
        rule = f"{dash * 2} {words} "
        return self._line(rule + dash * max(_RULE_WIDTH - len(rule), 2), "dim")

    def _line(self, words: str, tone: Tone) -> str:
        return f"{self.close()}{self.style.paint(words, tone)}\n"


def _text(frame: Frame) -> str:
    if frame.text:
        return frame.text
    content = frame.update.get("content")
    kind = content.get("type") if isinstance(content, dict) else None
    return "" if kind in (None, "text") else f"[{_short(kind)}]"


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _short(value: Any) -> str:
    """One line of it, if it is a text."""
    if not isinstance(value, str):
        return ""
    return cell(value if len(value) <= CELL_CHARS_MAX else value[: CELL_CHARS_MAX - 1] + "…")
