"""Swallowed sends that come close together, counted as they pass. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from acpbridge.store.diagnosis.finding import BURST_S, MARKS_MAX, Finding, Mark, span

_NS = 1_000_000_000
GROUPS_MAX = 4096
"""Sessions whose last swallowed send is remembered; past that the old ones are closed."""


@define(eq=False)
class _Group:
    at: str
    first_ns: int
    last_ns: int
    count: int = 1
    marks: list[Mark] = field(factory=list)


@define(eq=False)
class Bursts:
    """Groups swallowed sends of a session that are at most `BURST_S` apart."""

    _groups: dict[str, _Group] = field(factory=dict)

    def add(self, session: str, ns: int, at: str, marks: tuple[Mark, ...]) -> Iterator[Finding]:
        """Count one swallowed send; a group that it closes is given back if it is a burst."""
        group = self._groups.get(session)
        if group is not None and 0 <= ns - group.last_ns <= BURST_S * _NS:
            group.count += 1
            group.last_ns = ns
            group.marks.extend(marks[: MARKS_MAX - len(group.marks)])
            return
        if len(self._groups) >= GROUPS_MAX:
            yield from self.end(before_ns=ns)
        yield from self._close(session)
        self._groups[session] = _Group(at, ns, ns, marks=list(marks))

    def end(self, before_ns: int | None = None) -> Iterator[Finding]:
        """Close all groups, or those that are over by a time."""
        for session, group in list(self._groups.items()):
            if before_ns is None or before_ns - group.last_ns > BURST_S * _NS:
                yield from self._close(session)

    def _close(self, session: str) -> Iterator[Finding]:
        group = self._groups.pop(session, None)
        if group is None or group.count < 2:
            return
        within_s = (group.last_ns - group.first_ns) / _NS
        yield Finding(
            "burst",
            group.at,
            session,
            f"{group.count} swallowed sends within {span(within_s)}",
            tuple(group.marks),
            {"sends": group.count, "within_s": round(within_s, 6)},
        )
