"""Profile of a launch by line of the source: instructions, accesses with their sectors and wavefronts, stalls.

The emulator executes some CTAs of the grid, or all of a small one, and records every access; stalls come from the
clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileiras.report.alignment import Places, of_ptx
from tileiras.sim.emulator.launch.emulation import launch_shapes
from tileiras.sim.emulator.launch.recording import Copy
from tileiras.sim.estimate.events import BANKS, SECTOR, Access, Recording, sectors_of
from tileiras.sim.estimate.recorder import record
from tileiras.sim.estimate.result import Estimate
from tileiras.sim.memory import Journal
from tileiras.support.named_tuple import NamedTuple

FORMAT = 1
"""Version of a profile's JSON."""

NOWHERE = ("", 0)
"""The place of instructions without a source line in the PTX."""

MOST_CTAS = 16
"""Most CTAs that are executed: of a larger grid the first, the last, and some between."""


class Accesses(NamedTuple):
    """Accesses of warps to one memory."""

    count: int
    widths: dict[int, int]
    """Bytes per thread -> number of accesses; if a thread issues a TMA copy of a box, it accesses the whole box."""
    units: int
    """Sectors of 32 bytes of global memory, wavefronts of shared memory."""
    least: int
    """The units for the same bytes if they were contiguous and without conflicts."""


class LineProfile(NamedTuple):
    """Activity of the profiled warps at a line."""

    file: str
    """`PTX` if the PTX has no source lines; empty for the rest, which has no line."""
    line: int
    instructions: int
    """PTX instructions that warps execute."""
    memory: Accesses
    """Global memory, including asynchronous copies of threads and of the TMA unit."""
    shared: Accesses
    """Shared memory, without the writes of asynchronous copies."""
    stalls: float | None
    """Share of the total time of all warps in an estimate; None without one."""
    reasons: dict[str, float]


class Profile(NamedTuple):
    """A launch by line, the most instructions first; with an estimate, the longest stalls first."""

    entry: str
    grid: tuple[int, ...]
    ctas: int
    """Of the grid."""
    recorded: int
    """CTAs that were executed."""
    lines: tuple[LineProfile, ...]

    def to_json(self) -> dict[str, Any]:
        lines = [
            {**line._asdict(), "memory": line.memory._asdict(), "shared": line.shared._asdict()} for line in self.lines
        ]
        return {"format": FORMAT, **self._asdict(), "grid": list(self.grid), "lines": lines}


class _Row:
    """Accumulator of a line."""

    def __init__(self) -> None:
        self.instructions = 0
        self.widths: dict[str, Counter[int]] = {"memory": Counter(), "shared": Counter()}
        self.units: Counter[str] = Counter()
        self.least: Counter[str] = Counter()

    def add(self, memory: str, width: int, units: int, least: int) -> None:
        self.widths[memory][width] += 1
        self.units[memory] += units
        self.least[memory] += least

    def accesses(self, memory: str) -> Accesses:
        widths = self.widths[memory]
        return Accesses(sum(widths.values()), dict(sorted(widths.items())), self.units[memory], self.least[memory])


def profile(
    ptx: str,
    entry: str,
    grid: int | Sequence[int],
    args: Sequence[Any],
    metadata: Mapping[str, Any] | None = None,
    estimate: Estimate | None = None,
) -> Profile:
    """Profile a launch; arguments are those of `tileiras.sim.emulate`, and arrays keep their contents.

    Raises the errors of `tileiras.sim.emulate`.
    """
    axes = (grid,) if isinstance(grid, int) else tuple(grid)
    shape, _, cluster = launch_shapes(ptx, entry, axes, metadata, args)
    members = int(np.prod(cluster))
    clusters = int(np.prod(shape)) // members
    clusters_run = _spread(clusters, max(1, MOST_CTAS // members))
    blocks = [each * members + member for each in clusters_run for member in range(members)]
    with Journal() as journal:
        recording = record(ptx, entry, axes, args, metadata, blocks=blocks, multiply=True, journal=journal)
    rows = _rows(recording, _source_of(ptx))
    waiting = {(row.file, row.line): row for row in estimate.by_source()} if estimate is not None else {}
    for place in waiting:
        rows.setdefault((place[0] or "", place[1]), _Row())
    lines = []
    for (file, line), row in rows.items():
        stall = waiting.get((file, line))
        share = None if estimate is None else stall.share if stall is not None else 0.0
        lines.append(
            LineProfile(file, line, row.instructions, row.accesses("memory"), row.accesses("shared"), share,
                        dict(stall.reasons) if stall is not None else {})
        )  # fmt: skip
    lines.sort(key=lambda each: (-(each.stalls or 0.0), -each.instructions, each.file, each.line))
    return Profile(entry, axes, clusters * members, len(blocks), tuple(lines))


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of `count` numbers, evenly spread from the first to the last."""
    if count <= most:
        return list(range(count))
    if most == 1:
        return [0]
    return sorted({number * (count - 1) // (most - 1) for number in range(most)})


def _source_of(ptx: str) -> dict[int, tuple[str, int]]:
    """Line of the PTX -> innermost line of the source; the PTX line itself if the PTX has no source lines."""
    places = Places("", None)
    rows = of_ptx(ptx, places)
    if not places.found:
        return {number: ("PTX", number) for number, _ in enumerate(rows, 1)}
    result = {number: places.found[row[0]] for number, row in enumerate(rows, 1) if row}
    return {number: (place.file, place.line) for number, place in result.items()}


def _rows(recording: Recording, source: Mapping[int, tuple[str, int]]) -> dict[tuple[str, int], _Row]:
    rows: dict[tuple[str, int], _Row] = {}
    visits: Counter[int] = Counter()
    for cluster in recording.clusters:
        for warp in cluster.warps:
            visits.update(warp.visits)
            for events in warp.events.values():
                for event in events:
                    _count(rows.setdefault(source.get(event.line, NOWHERE), _Row()), event.operation)
    for number, count in visits.items():
        for line in recording.blocks[number].lines:
            rows.setdefault(source.get(line, NOWHERE), _Row()).instructions += count
    return rows


def _count(row: _Row, operation: object) -> None:
    """Add an event of a warp to the counts of its line."""
    if isinstance(operation, Access):
        if operation.space == "global":
            unique = np.unique(operation.addresses).size * operation.size
            row.add("memory", operation.size, operation.sectors.size, -(-unique // SECTOR))
        elif operation.space == "shared":
            phases = operation.lanes // (BANKS * 4 // max(4, operation.size))
            row.add("shared", operation.size, operation.wavefronts, np.unique(phases).size)
    elif isinstance(operation, Copy) and operation.addresses is not None and operation.addresses.size:
        addresses = operation.addresses.view(np.int64)
        unique = np.unique(addresses).size * operation.element
        # A thread copies its element, the TMA unit the whole request of a thread.
        width = operation.bytes if operation.kind in ("bulk", "tensor") else operation.element
        row.add("memory", width, sectors_of(addresses, operation.element).size, -(-unique // SECTOR))


# ---- the table ---------------------------------------------------------------------------------------------------

_HEAD = ("line", "instr", "waits", "global", "sectors", "shared", "wavefr.", "source")


def table(result: Profile, width: int, sources: Mapping[str, Sequence[str]], most: int = 40) -> str:
    """The profile as text of at most `width` columns; `sources`: lines of the readable files."""
    total = sum(line.instructions for line in result.lines) or 1
    rows = [_HEAD]
    for each in result.lines[:most]:
        text = sources.get(each.file, ())
        where = f"{each.file.rpartition('/')[2]}:{each.line}" if each.line else "no line"
        rows.append((
            where, f"{each.instructions / total:.1%}",
            "" if each.stalls is None else f"{each.stalls:.1%}", _widths(each.memory), _units(each.memory),
            _widths(each.shared), _units(each.shared),
            text[each.line - 1].strip() if 0 < each.line <= len(text) else "",
        ))  # fmt: skip
    columns = [column for column in range(len(_HEAD)) if column == 0 or any(row[column] for row in rows[1:])]
    widths = {column: max(len(row[column]) for row in rows) for column in columns}
    last = len(_HEAD) - 1
    # Columns are dropped from the right until the rest fits, the source's text first.
    while columns[1:] and sum(widths[column] + 2 for column in columns if column != last) - 2 > width:
        columns.remove(next(column for column in reversed(columns) if column != 0))
    lines = []
    for row in rows:
        cells = [row[column].ljust(widths[column]) if column in (0, last) else row[column].rjust(widths[column])
                 for column in columns]  # fmt: skip
        lines.append("  ".join(cells)[:width].rstrip())
    of = "" if result.recorded == result.ctas else f", {result.recorded} of {result.ctas} CTAs"
    lines.insert(0, f"{result.entry}: {total} warp instructions{of}"[:width])
    if len(result.lines) > most:
        lines.append(f"and {len(result.lines) - most} further lines")
    return "\n".join(lines)


def _widths(accesses: Accesses) -> str:
    """`64x16B 8x4B`."""
    return " ".join(f"{count}x{width}B" for width, count in sorted(accesses.widths.items(), reverse=True))


def _units(accesses: Accesses) -> str:
    """`512`, or `1024/512` where the least are fewer."""
    if not accesses.count:
        return ""
    return str(accesses.units) if accesses.units <= accesses.least else f"{accesses.units}/{accesses.least}"
