"""Random programs with two dots in a loop, as attention has them, under plans for loops: equal to NumPy, to the bit."""

from __future__ import annotations

import pytest

from bench.plans import PLANS
from tests.kernels.random_loops import RandomChains


@pytest.mark.parametrize("seed", range(6))
def test_random_chains_give_numpys_results(seed):
    RandomChains(seed).kernel().interpreted()


COUNTS_IN_BRANCHES = 107
"""Whose loop overlaps, in a branch since it may run no time, and counts groups of tensor memory behind it."""


@pytest.mark.parametrize(
    "seed, gpu, plan",
    [
        (1, "sm_90", "agents-boxes"), (3, "sm_90", "overlap-boxes"), (5, "sm_120", "agents"), (2, "sm_100", "boxes"),
        (COUNTS_IN_BRANCHES, "sm_100", "overlap"),
    ],
)  # fmt: skip
def test_chains_under_a_plan(seed, gpu, plan):
    chains = RandomChains(seed)
    kernel = chains.kernel()
    kernel.emulated(kernel.compiled(gpu, **PLANS[plan], **chains.strategy), seed)
