"""Kernels like attention in a loop over tiles of their queries, as persistent kernels have."""

from __future__ import annotations

import re

import numpy as np

from .dots import last_of_attention
from .views import Kernel, whole_numbers

_OF_TILES = re.compile(r"%[tv]_[qoml]\b")
"""Views with one tile per round."""


def of_tiles(kernel: Kernel, count: int, *, least: int | None = None, way: str = "counted") -> Kernel:
    """A loop of `count` rounds around a kernel of `attention_like` or `attention_in_two_loops`, halved: round t has row
    tile t of Q, of O and of the row statistics.

    `least`: round t has t steps fewer than the kernel, which has one loop, but at least this number; without it each
    round has as many steps as the kernel.  `way`: the loop has a counter (`counted`), or each round computes whether
    another one follows (`uncounted`).
    """
    lines = kernel.text.split("\n")
    rows = kernel.inputs[0].shape[0]
    begin = next(number for number, line in enumerate(lines) if line.strip().startswith("%q, "))
    end = next(number for number, line in enumerate(lines) if line.strip() == "return")
    for number, line in enumerate(lines):
        if _OF_TILES.search(line):
            line = line.replace(f"tensor_view<{rows}x", f"tensor_view<{rows * count}x")
            lines[number] = line.replace(f"shape = [{rows},", f"shape = [{rows * count},").replace("[%zero,", "[%t,")
    most, inner = _steps(kernel), lines[begin:end]
    if least is not None:
        inner = [f"%least = constant <i32: {least}> : tile<i32>", "%rest = subi %steps, %t : tile<i32>",
                 "%own = maxi %rest, %least signed : tile<i32>",
                 *(line.replace("(%zero to %steps", "(%zero to %own") for line in inner)]  # fmt: skip
    head = [f"%count = constant <i32: {count}> : tile<i32>", *_BEGIN[way]]
    text = "\n".join([*lines[:begin], *head, *inner, *_END[way], *lines[end:]])
    queries = whole_numbers((rows * count, kernel.inputs[0].shape[1]), "f16", 5, 3)
    items = []
    for tile in range(count):
        steps = most if least is None else max(least, most - tile)
        own = queries[tile * rows : (tile + 1) * rows]
        items.append(last_of_attention(own, *kernel.inputs[1:], steps, most))
    wanted = tuple(np.concatenate(parts).astype(np.float32) for parts in zip(*items))
    return Kernel(text, (queries, *kernel.inputs[1:]), tuple(map(np.zeros_like, wanted)), wanted)


_BEGIN = {
    "counted": ["for %t in (%zero to %count, step %one) : tile<i32> {"],
    "uncounted": [
        "loop iter_values(%t = %zero) : tile<i32> {",
        "%ends = cmpi greater_than_or_equal %t, %count, signed : tile<i32> -> tile<i1>", "if %ends {", "break", "}",
    ],
}  # fmt: skip
_END = {"counted": ["continue", "}"], "uncounted": ["%u = addi %t, %one : tile<i32>", "continue %u : tile<i32>", "}"]}


def _steps(kernel: Kernel) -> int:
    match = re.search(r"%steps = constant <i32: (\d+)>", kernel.text)
    assert match is not None
    return int(match[1])
