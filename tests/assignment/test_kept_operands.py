"""Dots of warpgroups keep a factor that is loaded before a loop in registers, where both factors take the port."""

from __future__ import annotations

import pytest

from tests.kernels.dots import attention_like
from tests.kernels.gradients import of_queries
from tests.kernels.views import operations
from tileiras.dialects import nv_tileas as tileas


def forms(kernel, **options) -> list[str]:
    """Where each dot takes A: `rs` in registers, `ss` in shared memory."""
    module = kernel.after("tileas-assign-dot-layouts", "sm_90", **options)
    return [op.atom.atom.rpartition("_")[2] for op in operations(module, tileas.DotOp)]


IN_SHARED = {
    "the port is free for a third of the time": attention_like(1, columns=128, depth=64),
    "a thread has no registers for it": attention_like(1, columns=64, depth=256),
    "other CTAs have the registers": attention_like(4, columns=64, depth=128),
    "gradients have the registers": of_queries(2, depth=128),
}


@pytest.mark.parametrize(("columns", "depth"), [(64, 64), (64, 128), (32, 64)])
def test_a_tile_loaded_before_the_loop_stays_in_registers(columns, depth):
    kernel = attention_like(2, columns=columns, depth=depth, halved=True)
    assert forms(kernel) == ["rs", "rs"]
    for strategy in ("unspecialize", "warp-specialize"):
        kernel.emulated(kernel.compiled("sm_90", emit="ptx", pipeline_strategy=strategy))


@pytest.mark.parametrize("name", IN_SHARED)
def test_other_tiles_are_in_shared_memory(name):
    assert forms(IN_SHARED[name])[0] == "ss"
