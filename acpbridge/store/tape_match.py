"""Whether a live frame of the client is the one on the tape, and what differs if it is not. Pure.

Frames are compared by method and content. Where a client stands (its folders and servers), who it
is and what it can do is no content: any client may play the recorded one's part. Secrets are taken
out of the live frame first, as they were out of the tape; a text that the tape had cut equals any
text of its length that begins like it.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from attrs import frozen

from acpbridge.store.tape_reader import Regrown
from acpbridge.wire import acp
from acpbridge.wire.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from acpbridge.store.tape_reader import Entry

ANY_PARAMS = frozenset({acp.INITIALIZE, acp.SESSION_NEW})
"""Methods whose params tell only who asks and where."""
SURROUNDINGS = frozenset(
    {"_meta", "additionalDirectories", "cwd", "mcpServers", "messageId", "protocolVersion"}
)
"""Members of params that are no content."""

_TEXT_CHARS_MAX = 200
"""Texts are compared for likeness up to here: that is quadratic."""
_EXCERPT_CHARS = 48
_LABEL_CHARS = 40


@frozen
class Difference:
    """One place where two frames are not the same."""

    path: str
    """As in prompt[0].text, below the params; empty for the params themselves."""
    live: Any
    recorded: Any

    def __str__(self) -> str:
        here, there = _excerpt(self.live, self.recorded), _excerpt(self.recorded, self.live)
        return f"{self.path or 'it'} is {here} here and {there} there"


_ABSENT = object()
"""Stands for a member that is not there; null counts as absent."""


def differences(
    method: str, live: dict[str, Any], recorded: dict[str, Any]
) -> tuple[Difference, ...]:
    """What counts and differs between two params of one method; empty if they match."""
    if method in ANY_PARAMS:
        return ()
    return tuple(
        _compare(
            "",
            {name: member for name, member in live.items() if name not in SURROUNDINGS},
            {name: member for name, member in recorded.items() if name not in SURROUNDINGS},
        )
    )


def is_same(live: dict[str, Any], recorded: dict[str, Any]) -> bool:
    """Whether everything is the same, the surroundings too: the best match of several."""
    return next(_compare("", live, recorded, ignored=frozenset()), None) is None


def _compare(
    path: str, live: Any, recorded: Any, *, ignored: frozenset[str] = frozenset({"_meta"})
) -> Iterator[Difference]:
    if isinstance(live, dict) and isinstance(recorded, dict):
        for name in dict.fromkeys((*recorded, *live)):
            if name not in ignored:
                below = f"{path}.{name}" if path else name
                yield from _compare(
                    below, _member(live, name), _member(recorded, name), ignored=ignored
                )
    elif isinstance(live, list) and isinstance(recorded, list):
        for at in range(max(len(live), len(recorded))):
            one = live[at] if at < len(live) else _ABSENT
            other = recorded[at] if at < len(recorded) else _ABSENT
            yield from _compare(f"{path}[{at}]", one, other, ignored=ignored)
    elif not _equal(live, recorded):
        yield Difference(path, live, recorded)


def _equal(live: Any, recorded: Any) -> bool:
    if isinstance(recorded, Regrown) and isinstance(live, str):
        return recorded.stands_for(live)
    # True == 1 in Python and not in JSON.
    return isinstance(live, bool) == isinstance(recorded, bool) and bool(live == recorded)


def _member(value: dict[str, Any], name: str) -> Any:
    member = value.get(name)
    return _ABSENT if member is None else member


def closest(
    method: str, live: dict[str, Any], candidates: Sequence[Entry]
) -> tuple[Entry, tuple[Difference, ...]] | None:
    """The candidate of this method with the least that differs; the earliest of equal ones."""
    best: tuple[float, Entry, tuple[Difference, ...]] | None = None
    for entry in candidates:
        if entry.method != method:
            continue
        found = differences(method, live, entry.params)
        far = sum(_distance(one) for one in found)
        if best is None or far < best[0]:
            best = far, entry, found
    return None if best is None else best[1:]


def _distance(difference: Difference) -> float:
    """How far apart two values are: below 1 for texts that are alike, 1 for anything else."""
    live, recorded = difference.live, difference.recorded
    if not isinstance(live, str) or not isinstance(recorded, str):
        return 1.0
    alike = SequenceMatcher(None, live[:_TEXT_CHARS_MAX], recorded[:_TEXT_CHARS_MAX])
    return 1.0 - alike.ratio() / 2


def label(entry: Entry) -> str:
    """A recorded line in words: its number, its method, and a prompt's first words."""
    if entry.body is None:
        return f"line {entry.number} (no JSON)"
    if not entry.method:
        return f"line {entry.number} (the answer to the agent's request {entry.id.decode()})"
    text = first_text(entry.params)
    return f"line {entry.number} ({entry.method}{' ' + _cut(text) if text else ''})"


def first_text(params: dict[str, Any]) -> str:
    """The first text of a prompt; empty where there is none."""
    blocks = params.get("prompt")
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return str(block["text"])
    return ""


def _cut(text: str) -> str:
    return _quoted(text if len(text) <= _LABEL_CHARS else text[: _LABEL_CHARS - 1] + "…")


def _quoted(text: str) -> str:
    """In quotes, on one line, whatever is in it."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return f'"{plain}"'


def _excerpt(value: Any, other: Any) -> str:
    """A value for people; of long texts the part around the first character that differs."""
    if not isinstance(value, str):
        shown = "absent" if value is _ABSENT else encode(value).decode("utf-8", "replace")
        return shown if len(shown) <= _EXCERPT_CHARS else shown[: _EXCERPT_CHARS - 1] + "…"
    if len(value) <= _EXCERPT_CHARS:
        return _quoted(value)
    at = 0
    if isinstance(other, str):
        pairs = enumerate(zip(value, other, strict=False))
        shorter = min(len(value), len(other))
        at = next((index for index, (one, two) in pairs if one != two), shorter)
    begin = max(0, min(at - _EXCERPT_CHARS // 2, len(value) - _EXCERPT_CHARS))
    part = value[begin : begin + _EXCERPT_CHARS]
    head, tail = "…" if begin else "", "…" if begin + _EXCERPT_CHARS < len(value) else ""
    return _quoted(f"{head}{part}{tail}")
