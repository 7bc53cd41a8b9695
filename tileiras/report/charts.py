"""The drawings of a report: the arena, registers along the code, the timeline, the roofline, waiting by line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from tileiras.report.model import Area, Kernel, Memory, Roofline, StallAt, Timing
from tileiras.report.svg import Drawing
from tileiras.support.named_tuple import NamedTuple

WIDTH = 960.0
LEFT = 90.0
"""Room for labels beside the drawing."""
LEGEND, LEGEND_ROW = 5, 16.0
"""Names of a legend per row, and the height of a row."""
MOST_PIPES, PIPE_ROW = 8, 36.0
"""Pipes below a timeline, and the height of each."""
COLOURS = 8
"""Classes `c0` to `c7` of the page's style."""
KINDS = {"ring": "c0", "buffer": "c1", "scratch": "c2", "mbarriers": "c3"}


def attribute(places: Sequence[int]) -> str:
    """Places as an attribute of an element of the page."""
    return " ".join(map(str, places))


class _Block(NamedTuple):
    """An area of a memory over a range of lines of `tileas`."""

    first: int
    last: int
    at: int
    size: int
    colour: str
    title: str
    places: tuple[int, ...]


def arena(memory: Memory) -> str:
    """Bytes of shared memory downwards, lines of `tileas` to the right."""
    blocks = [_Block(area.first, area.last, area.offset, area.bytes, KINDS[area.kind], title_of(area), area.places)
              for area in memory.areas]  # fmt: skip
    return _over_lines(blocks, max(memory.total, 1), _last_line(memory), "B",
                       f"Arena of shared memory: {memory.total} bytes")  # fmt: skip


def tensor_memory(memory: Memory) -> str:
    """Columns of tensor memory downwards, as many as the CTA allocates, lines of `tileas` to the right."""
    blocks = []
    for number, each in enumerate(memory.tensor):
        where = f"columns {each.column} to {each.column + each.columns}; lines {each.first} to {each.last}"
        blocks.append(_Block(each.first, each.last, each.column, each.columns, f"c{number % COLOURS}",
                             f"{each.what}; {where}", each.places))  # fmt: skip
    return _over_lines(blocks, max(memory.tensor_columns, 1), _last_line(memory), "",
                       f"Tensor memory: {memory.tensor_columns} columns")  # fmt: skip


def _last_line(memory: Memory) -> int:
    """Last line of `tileas`, so that both memories have one axis."""
    return max([area.last for area in memory.areas] + [tile.last for tile in memory.tensor], default=1)


def _over_lines(blocks: Sequence[_Block], top: int, last: int, unit: str, label: str) -> str:
    """Blocks of a memory of `top` units over the lines up to `last`."""
    height, bottom = 240.0, 30.0
    drawing = Drawing(WIDTH, height + bottom, f"{label} over {last} lines of tileas")
    across, down = (WIDTH - LEFT - 10) / max(last, 1), (height - 10) / top
    for step in range(5):
        y = 5 + step * (height - 10) / 4
        drawing.line(LEFT, y, WIDTH - 10, y, "grid")
        drawing.text(LEFT - 6, y + 4, f"{top * step // 4} {unit}".rstrip(), "end")
    for block in blocks:
        drawing.rect(
            LEFT + (block.first - 1) * across, 5 + block.at * down, max(2.0, (block.last - block.first + 1) * across),
            max(1.0, block.size * down), block.colour, block.title, attribute(block.places),
        )  # fmt: skip
    drawing.text(LEFT, height + 18, "line 1 of tileas")
    drawing.text(WIDTH - 10, height + 18, f"line {last}", "end")
    return drawing.markup()


def title_of(area: Area) -> str:
    where = f"bytes {area.offset} to {area.offset + area.bytes}; lines {area.first} to {area.last}"
    return f"{area.kind}: {area.what}; {where}"


def registers(kernel: Kernel) -> str:
    """General registers in use at each instruction, with the number allocated to a thread."""
    assert kernel.memory is not None
    result, height, bottom = kernel.memory.registers, 160.0, 24.0
    most = max([count for _, count in result] + [kernel.memory.allocated, 1])
    peak = max((count for _, count in result), default=0)
    drawing = Drawing(WIDTH, height + bottom, f"Registers in use along the machine code: at most {peak} of "
                      f"{kernel.memory.allocated}")  # fmt: skip
    across, down = (WIDTH - LEFT - 10) / max(len(result), 1), (height - 10) / most
    level = kernel.levels.get("sass")
    for number, (line, count) in enumerate(result):
        text = level.text.split("\n", line)[line - 1].strip() if level is not None and number % 8 == 0 else ""
        places = level.places[line - 1] if level is not None else ()
        drawing.rect(LEFT + number * across, height - 5 - count * down, across, count * down, "c4",
                     f"line {line}: {count} registers {text}".rstrip(), attribute(places))  # fmt: skip
    y = height - 5 - kernel.memory.allocated * down
    drawing.line(LEFT, y, WIDTH - 10, y, "limit")
    drawing.text(LEFT - 6, y + 4, f"{kernel.memory.allocated} allocated", "end")
    drawing.text(LEFT - 6, height - 2, "0", "end")
    drawing.text(LEFT, height + 16, "first instruction")
    drawing.text(WIDTH - 10, height + 16, f"{len(result)} instructions", "end")
    return drawing.markup()


def _legend(drawing: Drawing, kinds: dict[str, str], origin: float, y: float) -> None:
    """Draw the names of the colours, in rows of LEGEND."""
    for number, (label, kind) in enumerate(kinds.items()):
        x, row = origin + number % LEGEND * (WIDTH - origin) / LEGEND, y + number // LEGEND * LEGEND_ROW
        drawing.rect(x, row, 10, 10, kind)
        drawing.text(x + 14, row + 9, label)


def _kinds(names: Iterable[str]) -> dict[str, str]:
    """Assign a colour to each name, in order."""
    return {name: f"c{number % COLOURS}" for number, name in enumerate(dict.fromkeys(names))}


def timeline(timing: Timing) -> str:
    """Tracks below each other, then fill levels of pipes; time to the right."""
    row, origin = 18.0, 240.0
    pipes = timing.estimate["pipes"][:MOST_PIPES]
    kinds = _kinds(span[2] for track in timing.tracks for span in track["spans"])
    ends = [span[0] + span[1] for track in timing.tracks for span in track["spans"]]
    end = max([*ends, *(pipe["levels"][-1][0] for pipe in pipes)], default=1.0)
    rows = row * len(timing.tracks)
    bottom = rows + PIPE_ROW * len(pipes)
    height = bottom + 28 + LEGEND_ROW * (len(kinds) // LEGEND + 1)
    drawing = Drawing(WIDTH, height, f"Timeline of the simulated time, {end:.4g} microseconds")
    across = (WIDTH - origin - 10) / max(end, 1e-9)
    for number, track in enumerate(timing.tracks):
        y = number * row
        drawing.text(origin - 6, y + 13, track["name"][:38], "end")
        for start, length, label in track["spans"]:
            drawing.rect(origin + start * across, y + 2, length * across, row - 4, kinds[label],
                         f"{track['name']}: {label}, {start:.4g} to {start + length:.4g} us")  # fmt: skip
    for number, pipe in enumerate(pipes):
        _level(drawing, pipe, origin, rows + number * PIPE_ROW, across)
    drawing.text(origin, bottom + 14, "0 us")
    drawing.text(WIDTH - 10, bottom + 14, f"{end:.4g} us", "end")
    _legend(drawing, kinds, origin, bottom + 22)
    return drawing.markup()


def _level(drawing: Drawing, pipe: dict[str, Any], origin: float, top: float, across: float) -> None:
    """Full stages of a pipe (`Estimate.pipes`) as a step line between none and all of them; ``across``: units of the
    drawing a microsecond."""
    height = PIPE_ROW - 10

    def y_of(level: int) -> float:
        return top + 5 + height * (1 - level / pipe["stages"])

    levels = pipe["levels"]
    drawing.text(origin - 6, top + 15, f"pipe at byte {pipe['offset']}, CTA {pipe['cluster']}.{pipe['cta']}", "end")
    drawing.text(origin - 6, top + 28, f"{pipe['full']:.3g} of {pipe['stages']} stages full on average", "end")
    for level in (0, pipe["stages"]):
        drawing.line(origin, y_of(level), WIDTH - 10, y_of(level), "grid")
    points = [(origin + levels[0][0] * across, y_of(levels[0][1]))]
    for (_, before), (at, level) in pairwise(levels):
        points += [(origin + at * across, y_of(before)), (origin + at * across, y_of(level))]
    drawing.polyline(points, "level")


def roofline(roof: Roofline) -> str:
    """Work for a byte of DRAM to the right, from a thousandth of the ridge point to a thousand times, throughput
    upwards, both logarithmic and in shares of the peaks."""
    from math import log10

    size, height, origin, decades = 420.0, 260.0, 60.0, 3

    def x_of(ratio: float) -> float:
        power = min(max(log10(max(ratio, 1e-9)), -decades), decades)
        return origin + (power + decades) / (2 * decades) * (size - origin - 10)

    def y_of(share: float) -> float:
        return 10 + -max(log10(max(share, 1e-9)), -decades) / decades * (height - 50)

    label = f"Roofline: {roof.compute:.0%} of the peak of {roof.unit}, {roof.dram:.0%} of DRAM's"
    drawing = Drawing(size, height, label)
    for decade in range(decades + 1):
        y = y_of(10.0**-decade)
        drawing.line(origin, y, size - 10, y, "grid")
        drawing.text(origin - 6, y + 4, f"{100 * 10.0**-decade:g}%", "end")
    drawing.polyline([(x_of(10.0**-decades), y_of(10.0**-decades)), (x_of(1), y_of(1)), (x_of(10.0**decades), y_of(1))],
                     "roof")  # fmt: skip
    if roof.compute and roof.dram:
        drawing.circle(x_of(roof.compute / roof.dram), y_of(roof.compute), 5, "point", label)
    drawing.text(origin, height - 24, "bound by memory")
    drawing.text(size - 10, height - 24, "bound by " + roof.unit, "end")
    drawing.text(origin, height - 8, "work for a byte of DRAM, ridge point in the middle")
    return drawing.markup()


def stalls(rows: Sequence[StallAt], most: int = 20) -> str:
    """Stalls by line of the source, a bar per line with its reasons."""
    row, origin = 20.0, 200.0
    bars = rows[:most]
    kinds = _kinds(reason for each in bars for reason in each.reasons)
    height = row * len(bars) + 8 + LEGEND_ROW * (len(kinds) // LEGEND + 1)
    drawing = Drawing(WIDTH, height, "Stalls by source line")
    largest = max((each.share for each in bars), default=1.0)
    for number, each in enumerate(bars):
        x, y = origin, number * row
        drawing.text(origin - 6, y + 14, f"{each.file.rpartition('/')[2]}:{each.line}"[:30], "end")
        for reason, share in each.reasons.items():
            width = share / largest * (WIDTH - origin - 60)
            drawing.rect(x, y + 3, width, row - 6, kinds[reason], f"{reason}: {share:.1%} of the warps' time",
                         attribute(each.places))  # fmt: skip
            x += width
        drawing.text(x + 4, y + 14, f"{each.share:.1%}")
    _legend(drawing, kinds, origin, row * len(bars) + 6)
    return drawing.markup()
