"""What of a `session/prompt` is kept, and how it reads for people. Pure.

Kept are the bytes of `params.prompt` as the client sent them, never anything beside it. Should a
block carry a `_meta` of its own, that member is cut out, for nobody can tell what is in it.
"""

from __future__ import annotations

import re
from typing import Any

from acpbridge.wire import scan, splice
from acpbridge.wire.look import Unreadable, look

FIRST_WORDS_CHARS_MAX = 80

_META = frozenset({"_meta"})
_SPELLED = re.compile(rb"\\u00(?:5[fF]|6[15dD]|74)")
"""An escape that stands for a letter of "_meta"."""


def content_of(raw: bytes) -> bytes:
    """The JSON of `params.prompt` in the line of a `session/prompt`; b"" where it has none."""
    span = scan.find(raw, "params", "prompt")
    if span is None:
        return b""
    content = raw[span[0] : span[1]]
    # A large text is not parsed for its line feeds and quotes, which are escapes too.
    if b"_meta" not in content and (b"\\u00" not in content or not _SPELLED.search(content)):
        return content
    return _without_meta(content, (), _parsed(content))


def text_of(content: bytes) -> str:
    """The text blocks, joined with newlines; of another block its kind, in brackets."""
    blocks = _parsed(content)
    if not isinstance(blocks, list):
        return ""
    return "\n".join(_block_text(block) for block in blocks)


def first_words(content: bytes) -> str:
    """The first words on one line, fit for a list."""
    words = " ".join(text_of(content)[: 4 * FIRST_WORDS_CHARS_MAX].split())
    if len(words) <= FIRST_WORDS_CHARS_MAX:
        return words
    return words[: FIRST_WORDS_CHARS_MAX - 1] + "…"


def _parsed(content: bytes) -> Any:
    try:
        return look(content)
    except Unreadable:
        return None


def _without_meta(raw: bytes, path: tuple[str | int, ...], value: Any) -> bytes:
    """`raw` without the `_meta` members at and below `path`, whose parsed value is `value`."""
    if isinstance(value, dict):
        if "_meta" in value:
            raw = splice.without_members(raw, path, _META)
        inside = [(key, member) for key, member in value.items() if key != "_meta"]
        for key, member in inside:
            raw = _without_meta(raw, (*path, key), member)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            raw = _without_meta(raw, (*path, index), member)
    return raw


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    text = block.get("text")
    if block.get("type") == "text" and isinstance(text, str):
        return text
    resource = block.get("resource")
    named = resource if isinstance(resource, dict) else block
    name = next((named[key] for key in ("uri", "name", "mimeType") if named.get(key)), "")
    return f"[{block.get('type', 'block')} {name}]".replace(" ]", "]")
