"""Kernels like attention whose products an agent on sm_100 issues, and the synchronization of its warps."""

from __future__ import annotations

import re

import numpy as np

from tests.agents.running import SPECIALIZED
from tests.kernels.dots import attention_in_two_loops, attention_like
from tests.kernels.views import Kernel

GPU = "sm_100"


def attention(ctas: int = 2, steps: int = 4, rows: int = 64, columns: int = 64, depth: int = 64) -> Kernel:
    return attention_like(ctas, rows=rows, columns=columns, depth=depth, steps=steps, gpu_name=GPU, halved=True)


def two_loops(first: int, second: int, rows: int = 64, ctas: int = 1) -> Kernel:
    return attention_in_two_loops(first, second, ctas, rows=rows, columns=64, depth=64, gpu_name=GPU)


def agents(kernel: Kernel, **options) -> str:
    """The warps of each agent, as they are in the end."""
    text = kernel.compiled(GPU, emit="tileas", **{**SPECIALIZED, **options}).text
    match = re.search(r"num_warps = \[([^]]*)]", text)
    return "" if match is None else match[1]


def with_unknown_steps(kernel: Kernel, steps: int) -> Kernel:
    """A kernel of one step or more, changed to `steps` steps, a number known only at launch."""
    constant = f"%steps = constant <i32: {max(steps, 1)}> : tile<i32>"
    unknown = "%bx, %by, %bz = get_tile_block_id : tile<i32>\n    %more = constant <i32: {}> : tile<i32>\n" \
              "    %steps = addi %bx, %more : tile<i32>"  # fmt: skip
    assert kernel.text.count(constant) == 1
    nothing = [np.zeros_like(kernel.expected[0]), *(np.full_like(kernel.expected[1], x) for x in (-10000.0, 3.0))]
    wanted = kernel.expected if steps else tuple(nothing)
    return kernel._replace(text=kernel.text.replace(constant, unknown.format(steps)), expected=wanted)


def rounds(kernel: Kernel, count: int) -> Kernel:
    """A loop around a kernel, whose rounds all do the same."""
    lines = kernel.text.split("\n")
    begin = next(number for number, line in enumerate(lines) if line.strip().startswith("%q, "))
    end = next(number for number, line in enumerate(lines) if line.strip() == "return")
    loop = [f"%rounds = constant <i32: {count}> : tile<i32>", "for %t in (%zero to %rounds, step %one) : tile<i32> {"]
    text = "\n".join([*lines[:begin], *loop, *lines[begin:end], "continue", "}", *lines[end:]])
    return kernel._replace(text=text)


ORDERS = re.compile(r"tcgen05\.(?:commit|fence::|alloc|dealloc|wait)[^;]*;")
