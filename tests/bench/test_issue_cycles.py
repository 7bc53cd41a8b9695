"""Instructions that a warp issues beside the products of its warpgroup."""

import pytest

from bench.issue_cycles import BAR, main_loop, measured
from bench.plans import PLANS
from tests.machine_code import needs_tools

THREADS = 256
"""Threads of the two warpgroups that multiply."""
FEW = 16
"""Instructions by which loops differ otherwise: narrower products have descriptors and waits of their own."""
WAIT = 4
"""Cycles of the product of 8 columns by which ptxas waits for others."""
TILES = [(128, 128, 64), (128, 256, 64), (256, 128, 64)]


@pytest.mark.sampled(2)
@needs_tools
@pytest.mark.parametrize("element", ["f16", "f8E4M3FN"])
@pytest.mark.parametrize("tiles", TILES)
def test_warps_that_only_multiply_issue_little(tiles, element):
    result = measured(tiles, element, PLANS["agents-boxes"])
    assert result is not None and result.instructions > 10
    assert result.share <= BAR


@pytest.mark.sampled(2)
@needs_tools
@pytest.mark.parametrize("tiles", TILES)
def test_promoted_sums_issue_an_addition_for_each_accumulator(tiles):
    plan = PLANS["agents-boxes"]
    fast, promoted = (measured(tiles, "f8E4M3FN", plan, promoted=each) for each in (False, True))
    assert fast is not None and promoted is not None
    additions = tiles[0] * tiles[1] // THREADS
    assert promoted.tensor_cycles <= fast.tensor_cycles + WAIT
    assert promoted.instructions <= fast.instructions + additions + FEW


def test_no_products_no_loop():
    assert main_loop([]) is None
