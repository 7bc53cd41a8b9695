"""Random programs with dots in loops, split into agents that load and that compute: equal to NumPy, to the bit, in an
order of warps that the seed gives."""

from __future__ import annotations

import pytest

from tests.kernels.random_loops import RandomLoops

COMPUTED_OPERAND = 28, 45
"""Seeds whose first dot reads a tile that each iteration computes, and whose second one adds to it."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", [*range(12), *COMPUTED_OPERAND])
def test_random_loops(seed):
    loops = RandomLoops(seed)
    kernel = loops.kernel()
    artifact = kernel.compiled(loops.gpu, emit="ptx", **loops.strategy)
    kernel.emulated(artifact, seed)


@pytest.mark.parametrize("seed", [12, 13, 14, 15, *COMPUTED_OPERAND])
def test_the_same_loops_with_one_agent(seed):
    loops = RandomLoops(seed)
    kernel = loops.kernel()
    artifact = kernel.compiled(
        loops.gpu, emit="ptx", **{**loops.strategy, "pipeline_strategy": "unspecialize"}
    )
    kernel.emulated(artifact, seed)
