"""Tables of what was measured, as text; all of it is medians over the rounds of one run."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.judge import judge, ratios, values
from tests.bench.measure import Sizes
from tests.bench.rounds import Results
from tests.bench.targets import BARE, BATCH, RAW

COLUMNS = {
    "start_ms": ("start ms", "{:.0f}"),
    "trip_p50_us": ("trip p50 us", "{:.0f}"),
    "trip_p95_us": ("p95 us", "{:.0f}"),
    "trip_cpu_us": ("CPU us/trip", "{:.0f}"),
    "prompt_p50_ms": ("prompt p50 ms", "{:.2f}"),
    "sync_ms": ("disk sync ms", "{:.2f}"),
    "small_per_s": ("200 B /s", "{:,.0f}"),
    "small_cpu_s_100k": ("CPU s/100k", "{:.3f}"),
    "hermes_per_s": ("Hermes /s", "{:,.0f}"),
    "escaped_per_s": ("escaped /s", "{:,.0f}"),
    "tool_per_s": ("tool /s", "{:,.0f}"),
    "large_per_s": ("10 KiB /s", "{:,.0f}"),
    "large_cpu_s_100k": ("CPU s/100k", "{:.2f}"),
    "frame_8_out_ms": ("8 MiB out ms", "{:.0f}"),
    "frame_8_in_ms": ("in ms", "{:.0f}"),
    "frame_20_out_ms": ("20 MiB out ms", "{:.0f}"),
    "frame_20_in_ms": ("in ms", "{:.0f}"),
    "idle_mib": ("idle MiB", "{:.1f}"),
    "stream_peak_mib": ("streams MiB", "{:.1f}"),
    "frame_peak_mib": ("frames MiB", "{:.0f}"),
}
RATIOS = {
    "trip_p50_us": "trip p50",
    "trip_cpu_us": "CPU/trip",
    "small_per_s": "200 B rate",
    "small_cpu_s_100k": "CPU/200 B",
    "hermes_per_s": "Hermes rate",
    "escaped_per_s": "escaped rate",
    "tool_per_s": "tool rate",
    "large_per_s": "10 KiB rate",
    "large_cpu_s_100k": "CPU/10 KiB",
}
_NAME_CHARS = 21
_OWN_LOAD = 1
"""What the bench's own processes may add to a load of one for each core."""


def report(results: Results, sizes: Sizes) -> str:
    """The whole report."""
    lines = [*_machine(results), "", f"{len(results.rounds)} rounds, interleaved", f"{sizes}", ""]
    lines += ["Medians", "", *_medians(results), ""]
    for base in (BARE.name, RAW.name, BATCH.name):
        rows = list(_ratios(results, base))
        if len(rows) > 1:
            lines += [f"Ratios to the {base}: medians of each round's", "", *rows, ""]
    if results.alone:
        lines += ["acpbridge alone, each pass", ""]
        for name, passes in results.alone.items():
            lines += [f"  {name:<22}" + "".join(f"{value:>9.4g}" for value in passes)]
        lines += [""]
    lines += [f"{name}: not installed" for name in results.missing]
    lines += [f"FAULT {fault}" for fault in results.faults]
    return "\n".join([*lines, "Goals", "", *(f"  {verdict}" for verdict in judge(results))])


def _machine(results: Results) -> Iterator[str]:
    """The machine, and what a figure of it is worth."""
    cores = len(os.sched_getaffinity(0))
    yield f"{cores} of {os.cpu_count()} cores ({_processor()}), {platform.platform()}"
    yield f"Python {platform.python_version()}"
    yield "Only ratios of one run count: absolute figures are those of this machine in this minute."
    loads = results.loads or [os.getloadavg()[0]]
    yield f"Load average {min(loads):.1f} to {max(loads):.1f}; the bench itself makes about 2."
    if max(loads) > cores + _OWN_LOAD:
        yield "THE MACHINE WAS BUSY WITH SOMETHING ELSE: measure again when it is not."


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _names(results: Results) -> list[str]:
    seen: dict[str, None] = {}
    for figures in results.rounds:
        seen |= dict.fromkeys(figures)
    return list(seen)


def _medians(results: Results) -> Iterator[str]:
    rows = {
        name: {figure: _median(values(results, figure, name)) for figure in COLUMNS}
        for name in _names(results)
    }
    shown = [figure for figure in COLUMNS if any(row[figure] is not None for row in rows.values())]
    yield from _table(
        [COLUMNS[figure][0] for figure in shown],
        {name: [_cell(row[f], COLUMNS[f][1]) for f in shown] for name, row in rows.items()},
    )


def _ratios(results: Results, base: str) -> Iterator[str]:
    rows = {
        name: {figure: _median(ratios(results, figure, name, base)) for figure in RATIOS}
        for name in _names(results)
        if name != base
    }
    shown = [figure for figure in RATIOS if any(row[figure] is not None for row in rows.values())]
    yield from _table(
        [RATIOS[figure] for figure in shown],
        {name: [_cell(row[f], "{:.3f}") for f in shown] for name, row in rows.items()},
    )


def _median(numbers: Sequence[float]) -> float | None:
    return statistics.median(numbers) if numbers else None


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _table(heads: Sequence[str], rows: dict[str, list[str]]) -> Iterator[str]:
    if not heads:
        return
    widths = [
        max(len(head), *(len(cells[at]) for cells in rows.values()), 7)
        for at, head in enumerate(heads)
    ]

    def line(name: str, cells: Sequence[str]) -> str:
        padded = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]
        return f"  {name:<{_NAME_CHARS}}" + "  ".join(padded)

    yield line("", heads)
    for name, cells in rows.items():
        yield line(name, cells)
