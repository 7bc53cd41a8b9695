"""Columns and groups of products into tensor memory where iterations overlap: the first product of the next iteration
stands before the loop, the last one behind it."""

from __future__ import annotations

import re

import pytest

from tests.agents.chained_attention import GPU, attention, with_unknown_steps
from tests.kernels.dots import attention_in_two_loops
from tests.kernels.views import Kernel, operations
from tileiras.dialects import nv_tileas as tileas
from tileiras.layout.accumulators import is_of_tensor_memory
from tileiras.schedule.materialize.tensor_buffers import columns_taken

OVERLAPPED = {"pipeline_strategy": "unspecialize", "v2_opt_level": 3}


def _attention(steps: int) -> Kernel:
    return with_unknown_steps(attention(2, steps, rows=128, columns=128, depth=32), steps)


def _two_loops() -> Kernel:
    return attention_in_two_loops(3, 2, 2, rows=128, columns=64, depth=32, gpu_name=GPU)


@pytest.mark.parametrize(("kernel", "count", "taken"), [(_attention(6), 4, 224), (_two_loops(), 8, 192)])
def test_columns_that_are_free_again_are_counted_once(kernel, count, taken):
    """Accumulators of 128 (64) columns for scores and of 32, and 64 (32) for operands that threads store, reserved
    until the end of the block: in the second of two loops, those of the first one and of the product behind it as
    well."""
    module = kernel.after("tileas-unspecialized-pipeline", GPU, **OVERLAPPED)
    dots = [op for op in operations(module, tileas.DOTS) if is_of_tensor_memory(op)]
    assert len(dots) == count
    assert columns_taken(dots) == taken
    text = kernel.compiled(GPU, emit="tileas", **OVERLAPPED).text
    match = re.search(r"tensor_memory.reserve {columns = (\d+)", text)
    assert match is not None and int(match[1]) <= 256


def test_a_group_that_nothing_waits_for_ends_with_the_next_one():
    """Its mbarrier would be used again without its phase having been waited for, which the parity of a later one is
    taken for: both products of an iteration are one group."""
    kernel = _attention(6)
    text = kernel.compiled(GPU, emit="tileas", **OVERLAPPED).text
    assert text.count("tensor_memory.dot") == 4 and text.count("tensor_memory.commit") == 3
    artifact = kernel.compiled(GPU, emit="ptx", **OVERLAPPED)
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
