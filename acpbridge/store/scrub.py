"""Take secrets out of what is about to be written to disk. Pure.

Two looks: by the name of a member (`mcpServers`, `env`, `headers`, and whatever reads like a
token, a secret, a password, a key or an authorization), and by the shape of a text (`--token X`,
`token=X`, `Bearer X`, keys of well-known make). Strings become `<scrubbed>`, lists and objects
keep their form, so that a scrubbed frame still fits the protocol's schema. It errs on the side
of taking too much. What people and agents say in prose, split over chunks, it cannot see.
"""

from __future__ import annotations

import re
from typing import Any

SCRUBBED = "<scrubbed>"

_WHOLE = frozenset({"mcpservers", "env", "headers"})
"""Members whose every value goes, whatever it is called; without case, - and _."""

_NAME = (
    r"token|secret|passw(?:or)?d|passphrase|api[-_ ]?key|private[-_ ]?key"
    r"|authori[sz]ation|credentials?|cookie"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_COUNTED_NAME = re.compile(r"token", re.IGNORECASE)
"""Under such a name a number is a count (`usage.inputTokens`), and tapes live from those."""

_FLAG = re.compile(rf"--?[\w-]*(?:{_NAME})[\w-]*", re.IGNORECASE)

_IN_TEXT = (
    # --token X, --token=X
    re.compile(rf"(--?[\w-]*(?:{_NAME})[\w-]*(?:=|\s+))[^\s\"'\\]+", re.IGNORECASE),
    re.compile(r"(\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE),
    # token=X, "token": "X", also with the quotes escaped, and with a scheme before the X
    re.compile(
        rf"((?:{_NAME})[\\\"']*\s*[:=]\s*[\\\"']*(?:(?:bearer|basic)\s+)?)[^\s\"'\\,;&}}\]]+",
        re.IGNORECASE,
    ),
    # https://user:password@host
    re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)"),
    # Keys of well-known make: OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, JSON web tokens.
    re.compile(
        r"()\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
        r"|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)"
    ),
)
_WHOLE_IN_TEXT = re.compile(
    r"[\"'](?:mcp_?servers|env|headers)\\?[\"']\s*:\s*(?!\[\s*\]|\{\s*\}|null)", re.IGNORECASE
)


def scrub(value: Any) -> Any:
    """A copy of a parsed JSON value without its secrets; equal to it if there are none."""
    if isinstance(value, dict):
        is_secret_pair = _is_secret_pair(value)
        return {
            key: _under(key, member, is_secret=is_secret_pair and key == "value")
            for key, member in value.items()
        }
    if isinstance(value, list):
        return _scrub_list(value)
    if isinstance(value, str):
        return _scrub_string(value)
    return value


def scrub_line(text: str) -> str:
    """The same for a line that is no JSON object; one with whole secret members is dropped."""
    if _WHOLE_IN_TEXT.search(text):
        return f"{SCRUBBED} {len(text)} characters"
    return _scrub_string(text)


def _under(key: str, member: Any, *, is_secret: bool) -> Any:
    plain = key.replace("-", "").replace("_", "").lower()
    if is_secret or plain in _WHOLE:
        return _mask(member, keeps_numbers=False)
    if _SECRET_NAME.search(key):
        return _mask(member, keeps_numbers=_COUNTED_NAME.search(key) is not None)
    return scrub(member)


def _is_secret_pair(value: dict[str, Any]) -> bool:
    """Whether this is {"name": "API_TOKEN", "value": …}, as ACP writes variables and headers."""
    name = value.get("name")
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def _mask(value: Any, *, keeps_numbers: bool) -> Any:
    if isinstance(value, dict):
        return {key: _mask(member, keeps_numbers=keeps_numbers) for key, member in value.items()}
    if isinstance(value, list):
        return [_mask(member, keeps_numbers=keeps_numbers) for member in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if keeps_numbers and not isinstance(value, str):
        return value
    return SCRUBBED


def _scrub_list(items: list[Any]) -> list[Any]:
    scrubbed = []
    is_after_flag = False
    for item in items:
        is_text = isinstance(item, str)
        scrubbed.append(SCRUBBED if is_after_flag and is_text else scrub(item))
        is_after_flag = is_text and _FLAG.fullmatch(item) is not None
    return scrubbed


def _scrub_string(text: str) -> str:
    for pattern in _IN_TEXT:
        text = pattern.sub(rf"\1{SCRUBBED}", text)
    return text
