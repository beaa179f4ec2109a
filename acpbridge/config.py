"""What one run is told: defaults, then a TOML file, then the environment, then options.

Every number and choice of `Policy` and `Limits` is a TOML key and an environment variable
(`ACPBRIDGE_` and the key in capitals). All mistakes are told at once, each with where it stands,
what was found and what is expected; a key that nobody knows is refused with the closest one.

The kinds are few and flat, so they are read by hand: importing cattrs takes about 40 ms.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from attrs import evolve, field, fields, frozen

from acpbridge.core.policy import (
    MIB,
    MIDTURN,
    ON_DISCONNECT,
    ON_SILENT_RECEIPT,
    ORPHAN,
    UNDELIVERED,
    Policy,
)
from acpbridge.errors import UsageFault
from acpbridge.profiles import AGENTS, CLIENTS, AgentProfile, ClientProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LOG_LEVELS = ("debug", "info", "warning", "error")

ENV_PREFIX = "ACPBRIDGE_"
ENV_CONFIG = "ACPBRIDGE_CONFIG"
"""The variable that names the TOML file."""


@frozen
class Limits:
    """The numbers of the shell: buffers, and the bounded end of a process."""

    agent_eof_s: float = 3.0
    """An agent whose stdin was closed gets this long to exit before SIGTERM."""
    agent_term_s: float = 3.0
    """A process group that got SIGTERM gets this long before SIGKILL."""
    pipe_tail_s: float = 2.0
    """A descendant that holds the agent's stdout open delays its end by at most this."""
    flush_max_s: float = 2.0
    """At the end, what still waits for the client is written for at most this long."""
    last_words_s: float = 0.1
    """When the agent is gone for good, what the client sends in this time is still refused."""
    outbox_high_bytes: int = 8 * MIB
    """The other side is not read while this much waits to be written to this one."""
    outbox_hard_bytes: int = 64 * MIB
    """With this much waiting for the client, the client itself is not read either."""
    write_bytes_max: int = MIB
    """One write joins whole lines up to this size."""
    stderr_bytes_max: int = 2 * MIB
    """Log lines and agent stderr that wait for a slow stderr; past that they are dropped."""
    stderr_tail_bytes: int = 1024
    """The end of the agent's stderr that is kept to explain its death."""
    tape_bytes_max: int = 64 * MIB
    """Frames that wait for the tape's disk; past that the recording ends, and says so."""
    journal: bool = True
    """Whether prompts are durable before they are sent; false: nothing outlives the process."""
    journal_gather_s: float = 0.05
    """Transitions that nobody waits for gather this long for one commit of the journal."""
    journal_days_max: float = 30.0
    """Prompts that ended are forgotten after this many days."""
    journal_bytes_max: int = 256 * MIB
    """Past this size of the journal the oldest prompts that ended are forgotten first."""
    client_wait_max_s: float = 1.0
    """A client of the daemon that is behind holds the agent up for this long in all, until it has
    caught up; then it is left behind."""
    client_bytes_max: int = 8 * MIB
    """A client of the daemon for which more than this waits is detached: it reads too slowly."""
    connections_max: int = 128
    """Connections of a listener at a time, also those that say nothing; more are closed at once."""
    message_bytes_max: int = 64 * MIB
    """A WebSocket message of more closes its connection with 1009."""
    head_bytes_max: int = 16 * 1024
    """An HTTP request whose head is longer is refused with 431."""
    handshake_s: float = 10.0
    """Whoever connects by HTTP has this long to send a request, and to take its answer."""
    ping_interval_s: float = 20.0
    """A WebSocket client is pinged this long after it answered the last ping."""
    pong_wait_s: float = 60.0
    """One that says nothing for this long after a ping is lost: it is detached."""
    close_wait_s: float = 2.0
    """The goodbye of a connection takes at most this long."""
    spawn_wait_s: float = 10.0
    """`attach --spawn` waits this long for a daemon that can be used."""
    stop_wait_s: float = 15.0
    """`stop` waits this long for the daemon to end."""


@frozen
class Settings:
    """Everything that one run needs to know."""

    policy: Policy = field(factory=Policy)
    limits: Limits = field(factory=Limits)
    agent: AgentProfile | None = None
    """None: chosen from the agent's `agentInfo`."""
    client: ClientProfile | None = None
    """None: chosen from the client's `clientInfo`."""
    record: Path | None = None
    log_level: str = "info"
    log_file: Path | None = None
    state_dir: Path | None = None
    unix: Path | None = None
    """The daemon's socket; None: `daemon.sock` in the state directory."""
    ws: str | None = None
    """Where the daemon listens for WebSockets; None: nowhere."""
    token_file: Path | None = None
    behind_tls_proxy: bool = False
    """Something else ends TLS before the WebSocket listener."""


@frozen
class _Key:
    """One key: its kind as the field's annotation spells it, and its choices."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()


_CHOICES = {
    "midturn": MIDTURN,
    "on_disconnect": ON_DISCONNECT,
    "undelivered": UNDELIVERED,
    "on_silent_receipt": ON_SILENT_RECEIPT,
    "orphan": ORPHAN,
}
_OWN_KEYS = (
    _Key("agent_profile", "str", tuple(AGENTS)),
    _Key("client_profile", "str", tuple(CLIENTS)),
    _Key("log_level", "str", LOG_LEVELS),
    _Key("record", "path"),
    _Key("log_file", "path"),
    _Key("state_dir", "path"),
    _Key("unix", "path"),
    _Key("ws", "text"),
    _Key("token_file", "path"),
    _Key("behind_tls_proxy", "bool"),
)


def _keys_of(cls: type[Policy | Limits]) -> tuple[_Key, ...]:
    return tuple(
        _Key(item.name, str(item.type), _CHOICES.get(item.name, ())) for item in fields(cls)
    )


_POLICY_KEYS = _keys_of(Policy)
_LIMIT_KEYS = _keys_of(Limits)
KEYS = {key.name: key for key in (*_POLICY_KEYS, *_LIMIT_KEYS, *_OWN_KEYS)}
"""Every key that a TOML file and the environment know, besides the tables."""

_TABLES = ("agent", "client")
"""Each extends the profile that `agent_profile` or `client_profile` names."""
_KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def load_settings(
    *, options: Mapping[str, Any], environ: Mapping[str, str], config: str | None = None
) -> Settings:
    """Put the four sources together; later ones win.

    Args:
        options: Key to value, as the command line gave them; None means not given.
        environ: The process's environment.
        config: `--config`; without it `ACPBRIDGE_CONFIG` names the file, if anything does.

    Raises:
        UsageFault: With every mistake of every source, one a line.
    """
    faults: list[str] = []
    values: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    path = config or environ.get(ENV_CONFIG) or ""
    if path:
        document = _read_toml(Path(path).expanduser(), faults)
        tables = {name: document.pop(name) for name in _TABLES if name in document}
        for key, value in document.items():
            _take(values, f"{path}: {key}", key, value, faults)
    for name, text in environ.items():
        if name.startswith(ENV_PREFIX) and name != ENV_CONFIG:
            _take(values, name, name.removeprefix(ENV_PREFIX).lower(), text, faults)
    for key, value in options.items():
        if value is not None:
            _take(values, f"--{key.removesuffix('_s').replace('_', '-')}", key, value, faults)
    profiles = {
        name: _profile(name, values.pop(f"{name}_profile", None), tables.get(name), path, faults)
        for name in _TABLES
    }
    if faults:
        raise UsageFault("config_invalid", "\n".join(faults))
    policy = {key.name: values.pop(key.name) for key in _POLICY_KEYS if key.name in values}
    limits = {key.name: values.pop(key.name) for key in _LIMIT_KEYS if key.name in values}
    return Settings(policy=Policy(**policy), limits=Limits(**limits), **profiles, **values)


def _read_toml(path: Path, faults: list[str]) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most starts have no file

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        faults.append(f"{path}: {error.strerror}; name a file that can be read")
    except ValueError as error:
        faults.append(f"{path}: no TOML in UTF-8: {error}")
    return {}


def _take(values: dict[str, Any], where: str, name: str, found: Any, faults: list[str]) -> None:
    key = KEYS.get(name)
    if key is None:
        is_variable = where.startswith(ENV_PREFIX)
        closest = _closest(name, KEYS, _variable if is_variable else str)
        faults.append(f"{where}: unknown key{closest}")
        return
    value, expected = _coerced(key, found)
    if expected:
        faults.append(f"{where} = {_shown(found)}: expected {expected}")
    else:
        values[name] = value


def _variable(key: str) -> str:
    return f"{ENV_PREFIX}{key.upper()}"


def _closest(name: str, known: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """What to say of a key that nobody knows; the prefix of a variable makes nothing alike."""
    from difflib import get_close_matches  # noqa: PLC0415 - most starts have no fault

    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {spelled(close[0])}?" if close else "; the README lists the keys"


def _shown(found: Any) -> str:
    return f'"{found}"' if isinstance(found, str) else str(found)


def _coerced(key: _Key, found: Any) -> tuple[Any, str]:
    """(value, "") or (None, what is expected); texts come from the environment."""
    match key.kind:
        case "float":
            number = _number(found, float)
            is_fit = number is not None and math.isfinite(number) and number >= 0
            unit = "seconds, " if key.name.endswith("_s") else ""
            return (float(number), "") if is_fit else (None, f"{unit}a number of 0 or more")
        case "int":
            number = _number(found, int)
            is_fit = number is not None and number >= 1
            return (number, "") if is_fit else (None, "a whole number of 1 or more")
        case "bool":
            if isinstance(found, bool):
                return found, ""
            text = found.lower() if isinstance(found, str) else ""
            return (text in _TRUE, "") if text in _TRUE | _FALSE else (None, "true or false")
        case "path":
            is_fit = isinstance(found, str) and found != ""
            return (Path(found).expanduser(), "") if is_fit else (None, "the name of a file")
        case "text":
            is_fit = isinstance(found, str) and found != ""
            return (found, "") if is_fit else (None, "a text")
        case _:
            expected = "one of " + ", ".join(key.choices)
            return (found, "") if found in key.choices else (None, expected)


def _number(found: Any, kind: type[int | float]) -> Any:
    """The number that a TOML value or a text stands for; None for anything else."""
    if isinstance(found, str):
        try:
            return kind(found)
        except ValueError:
            return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if kind is float or isinstance(found, int) else None


def _profile(table: str, name: str | None, found: Any, path: str, faults: list[str]) -> Any:
    """The named profile with the configured table put into it; None where nothing is said."""
    known: Mapping[str, AgentProfile | ClientProfile] = AGENTS if table == "agent" else CLIENTS
    if found is None:
        return None if name is None else known[name]
    where = f"{path}: [{table}]"
    if not isinstance(found, dict):
        faults.append(f"{path}: {table} = {_shown(found)}: expected a table")
        return None
    if name is None:
        faults.append(f"{where} extends a profile: name it with {table}_profile")
        return None
    return _extended(known[name], found, where, faults)


def _extended(
    profile: AgentProfile | ClientProfile, table: dict[str, Any], where: str, faults: list[str]
) -> AgentProfile | ClientProfile:
    """Lists are appended to what the profile has, other values replace it."""
    hints = get_type_hints(type(profile))
    known = {item.name for item in fields(type(profile))} - {"name"}
    changes: dict[str, Any] = {}
    for key, found in table.items():
        if key not in known:
            faults.append(f"{where} {key}: unknown key{_closest(key, known)}")
            continue
        value, expected = _structured(hints[key], found)
        if not expected and key.startswith("receipts_"):
            expected = _pattern_fault(value)
        if expected:
            faults.append(f"{where} {key} = {_shown(found)}: expected {expected}")
        elif isinstance(value, tuple):
            changes[key] = (*getattr(profile, key), *value)
        elif isinstance(value, frozenset):
            changes[key] = getattr(profile, key) | value
        else:
            changes[key] = value
    return evolve(profile, **changes)


def _structured(hint: Any, found: Any) -> tuple[Any, str]:
    """(value, "") or (None, what is expected) for a profile field of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        expected = "one of " + ", ".join(f'"{choice}"' for choice in arguments)
        return (found, "") if found in arguments else (None, expected)
    if origin is None:
        is_number = hint is float and isinstance(found, int) and not isinstance(found, bool)
        is_fit = type(found) is hint or is_number
        return (hint(found), "") if is_fit else (None, f"a {_KINDS[hint]}")
    if not isinstance(found, list):
        return None, "a list"
    is_row = origin is tuple and Ellipsis not in arguments
    if is_row and len(found) != len(arguments):
        return None, f"{len(arguments)} values"
    kinds = arguments if is_row else (arguments[0],) * len(found)
    items = [_structured(kind, item) for kind, item in zip(kinds, found, strict=True)]
    expected = next((fault for _, fault in items if fault), "")
    if expected:
        return None, f"a list, each {expected}"
    return origin(value for value, _ in items), ""


def _pattern_fault(patterns: Iterable[str]) -> str:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            return f"regular expressions: {error}"
    return ""
