"""What is measured of one running target.

Each measurement fills in named figures, units last, as it gets them: what came before a fault
stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from tests.bench import proc
from tests.bench.client import Updates
from tests.bench.targets import Running

MIB = 1 << 20
SMALL_BYTES = 200
LARGE_BYTES = 10 * 1024
LONG_TURN = 10
"""How many times the short turn's updates the long one has."""
FEW_SESSIONS = 10

Figures: TypeAlias = dict[str, float]


@frozen
class Sizes:
    """How much of everything."""

    round_trips: int = 2_000
    warm_up_trips: int = 100
    prompts: int = 200
    small: int = 50_000
    large: int = 5_000
    frames_mib: tuple[int, ...] = (8, 20)
    starts: int = 3
    """Pairs of starts in one round."""
    stall_mb: int = 205
    """Text that nobody reads, once in large and once in small updates."""
    still_s: float = 1.0
    """An agent that has written nothing for so long is held back and not just slow."""
    linear: int = 100_000
    """Updates of the short turn; the long one has ten times as many."""
    sessions: int = 10_000
    crowd_sessions: int = 1_000
    """Sessions of the daemon that has many clients."""
    reconnects: int = 1_000
    """Clients that come, resume a session of it, and leave."""
    passes: int = 5
    """Comparisons of few sessions with many, and of a short turn with a long one."""
    verify: bool = False
    """Compare every update with what was sent; the client then is what limits."""

    def __str__(self) -> str:
        """All of it in words."""
        frames = " and ".join(map(str, self.frames_mib))
        return (
            f"{self.round_trips:,} round trips; {self.prompts} prompts; "
            f"{self.small:,} updates of 200 bytes, {self.large:,} of 10 KiB; "
            f"frames of {frames} MiB; {self.stall_mb} MB unread; "
            f"turns of {self.linear:,} and {self.linear * LONG_TURN:,} updates; "
            f"{FEW_SESSIONS} and {self.sessions:,} sessions"
        )


QUICK = Sizes(
    round_trips=300,
    prompts=20,
    small=5_000,
    large=500,
    starts=2,
    linear=10_000,
    sessions=1_000,
    crowd_sessions=100,
    reconnects=100,
    passes=2,
)
"""For a look at the bench itself: the figures mean little."""


def round_trip(run: Running, session: str, sizes: Sizes, figures: Figures) -> None:
    """session/set_mode, one after the other."""
    for _ in range(sizes.warm_up_trips):
        run.client.round_trip(session)
    before_s = run.cost().cpu_s
    took = sorted(run.client.round_trip(session) * 1e6 for _ in range(sizes.round_trips))
    figures["trip_cpu_us"] = (run.cost().cpu_s - before_s) / len(took) * 1e6
    figures["trip_p50_us"] = took[len(took) // 2]
    figures["trip_p95_us"] = took[len(took) * 95 // 100]


def prompt(run: Running, session: str, sizes: Sizes, figures: Figures) -> None:
    """Prompts of one update each, one after the other: what a prompt waits for before it goes."""
    one = Updates(1, SMALL_BYTES)
    run.client.turn(session, one, verify=True)
    took = sorted(
        run.client.turn(session, one, verify=False).took_s * 1e3 for _ in range(sizes.prompts)
    )
    figures["prompt_p50_ms"] = took[len(took) // 2]
    figures["sync_ms"] = proc.sync_ms(proc.folder_of(run.pid))


def _stream(
    run: Running, session: str, sizes: Sizes, updates: Updates, name: str, figures: Figures
) -> None:
    """Updates a second, and CPU seconds of 100,000 updates, of one turn."""
    warm_up = Updates(max(1, updates.number // 50), updates.text_bytes, updates.style)
    run.client.turn(session, warm_up, verify=True)
    before_s = run.cost().cpu_s
    took_s = run.client.turn(session, updates, verify=sizes.verify).took_s
    used_s = run.cost().cpu_s - before_s
    figures[f"{name}_per_s"] = updates.number / took_s
    figures[f"{name}_cpu_s_100k"] = used_s / updates.number * 100_000


def small(run: Running, session: str, sizes: Sizes, figures: Figures) -> None:
    """Streams of 200-byte texts."""
    _stream(run, session, sizes, Updates(sizes.small, SMALL_BYTES), "small", figures)


def styles(run: Running, session: str, sizes: Sizes, figures: Figures) -> None:
    """The same with the member order of Hermes, with escapes in the text, and of a tool call."""
    for style in ("hermes", "escaped", "tool"):
        _stream(run, session, sizes, Updates(sizes.small, SMALL_BYTES, style), style, figures)


def large(run: Running, session: str, sizes: Sizes, figures: Figures) -> None:
    """Streams of 10 KiB texts, and the most memory that streams have needed."""
    _stream(run, session, sizes, Updates(sizes.large, LARGE_BYTES), "large", figures)
    figures["stream_peak_mib"] = run.cost().peak_mib


def frame(run: Running, session: str, sizes: Sizes, figures: Figures) -> None:
    """One huge frame each way, compared byte for byte."""
    for mib in sizes.frames_mib:
        figures[f"frame_{mib}_ways"] = 0
        out = run.client.turn(session, Updates(1, mib * MIB), verify=True)
        figures[f"frame_{mib}_out_ms"] = out.took_s * 1e3
        figures[f"frame_{mib}_ways"] = 1
        figures[f"frame_{mib}_in_ms"] = run.client.check(session, mib * MIB) * 1e3
        figures[f"frame_{mib}_ways"] = 2
    figures["frame_peak_mib"] = run.cost().peak_mib


PARTS: dict[str, Callable[[Running, str, Sizes, Figures], None]] = {
    "trip": round_trip,
    "prompt": prompt,
    "small": small,
    "styles": styles,
    "large": large,
    "frame": frame,
}
"""In the order in which a process does them: what needs much memory comes last."""
