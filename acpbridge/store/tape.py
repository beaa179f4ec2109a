"""A tape: what both sides of a bridge wrote, with the secrets taken out.

Line 1 says what was recorded: {"tape":1,"agent","version","scenario","recorded"}. Each further
line is {"t": seconds, "from": "client" or "agent", "frame": …}, or "line" with the text in place
of "frame" where it is no JSON object that survives parsing and writing (duplicate keys, numbers
beyond a double, text that is no UTF-8, which is kept as surrogate escapes).

Agent and version are known once initialize is answered, so the first lines are held back until
then, or until there are `HELD_LINES_MAX` of them, or the tape ends.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import orjson

from acpbridge.errors import UsageFault
from acpbridge.store.scrub import scrub, scrub_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HELD_LINES_MAX = 64
"""Lines that wait for the header."""

_NAMES_MAX = 1000
"""Tapes beside each other that were asked for under one name."""


class Tape:
    """An open tape file. Its methods block: call them from a thread.

    Args:
        fd: A file that was just opened for writing; closed by `close`.
        path: Its name, for people.
        scenario: What the header calls it.
        recorded: The day, as YYYY-MM-DD.
    """

    def __init__(self, fd: int, path: Path, *, scenario: str, recorded: str) -> None:
        self._file = os.fdopen(fd, "wb")
        self.path = path
        self._header = {
            "tape": 1,
            "agent": "unknown",
            "version": "unknown",
            "scenario": scenario,
            "recorded": recorded,
        }
        self._held: list[bytes] | None = []

    def write(self, entries: Iterable[tuple[float, str, bytes]]) -> None:
        """Scrub and write (seconds since the start, side, line) entries, in order.

        Raises:
            OSError: The disk refused them; the file may end in half a line.
        """
        for at_s, side, line in entries:
            kind, text, value = _body(line)
            self._put(b'{"t":%.4f,"from":"%s","%s":%s}\n' % (at_s, side.encode(), kind, text))
            if self._held is not None and side == "agent" and _names_agent(value):
                self._header.update(_agent_of(value["result"]))
                self._release()
        self._file.flush()

    def close(self) -> None:
        """Write what is held and close the file.

        Raises:
            OSError: The disk refused it.
        """
        try:
            self._release()
        finally:
            self._file.close()

    def _put(self, line: bytes) -> None:
        if self._held is None:
            self._file.write(line)
            return
        self._held.append(line)
        if len(self._held) >= HELD_LINES_MAX:
            self._release()

    def _release(self) -> None:
        if self._held is not None:
            self._file.write(orjson.dumps(self._header) + b"\n")
            self._file.writelines(self._held)
            self._held = None


def open_tape(path: Path, *, recorded: str) -> Tape:
    """Create a tape that only its owner can read; one that is there is never written over.

    Clients start an agent command several times (probes), so where `path` is taken, `name.2.ext`
    and so on is used; `Tape.path` says which.

    Raises:
        UsageFault: The file cannot be created.
    """
    if path.is_dir():
        raise UsageFault("tape_unusable", f"{path} is a directory; name a file with --record")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for number in range(1, _NAMES_MAX + 1):
        name = path if number == 1 else path.with_suffix(f".{number}{path.suffix}")
        try:
            fd = os.open(name, flags, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            hint = f"cannot create the tape {name}: {error.strerror}; choose another --record"
            raise UsageFault("tape_unusable", hint) from error
        return Tape(fd, name, scenario=path.stem, recorded=recorded)
    hint = f"there are {_NAMES_MAX} tapes called {path}; move them away or choose another --record"
    raise UsageFault("tape_unusable", hint)


def _body(line: bytes) -> tuple[bytes, bytes, Any]:
    """(member name, JSON text, parsed value or None) of one recorded line."""
    try:
        value = orjson.loads(line)
        if isinstance(value, dict):
            scrubbed = scrub(value)
            if scrubbed != value:
                return b"frame", orjson.dumps(scrubbed), scrubbed
            if _survives(line, value):
                return b"frame", line, value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        # No JSON, or nested so deeply (254 for orjson) that a reader could not write it either.
        pass
    text = scrub_line(line.decode("utf-8", "surrogateescape"))
    return b"line", json.dumps(text).encode("ascii"), None


class _Literal(str):
    """A number as it was written: 0.1000 is not 0.1."""

    __slots__ = ()


def _survives(line: bytes, value: dict[str, Any]) -> bool:
    """Whether parsing and writing keeps every member and every digit; spaces may change."""
    written = orjson.dumps(value)
    return written == line or _exact(written) == _exact(line)


def _exact(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=tuple, parse_int=_Literal, parse_float=_Literal)


def _names_agent(value: Any) -> bool:
    result = value.get("result") if isinstance(value, dict) else None
    return isinstance(result, dict) and "protocolVersion" in result


def _agent_of(result: dict[str, Any]) -> dict[str, str]:
    info = result.get("agentInfo")
    if not isinstance(info, dict):
        return {}
    found = {"agent": info.get("name"), "version": info.get("version")}
    return {key: value for key, value in found.items() if isinstance(value, str)}
