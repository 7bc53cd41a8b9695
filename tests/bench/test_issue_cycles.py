"""Instructions that a warp issues beside the products of its warpgroup."""

import pytest

from bench.issue_cycles import BAR, main_loop, measured
from bench.plans import PLANS
from tests.machine_code import needs_tools


@pytest.mark.sampled(2)
@needs_tools
@pytest.mark.parametrize("element", ["f16", "f8E4M3FN"])
@pytest.mark.parametrize("tiles", [(128, 128, 64), (128, 256, 64), (256, 128, 64)])
def test_warps_that_only_multiply_issue_little(tiles, element):
    found = measured(tiles, element, PLANS["agents-boxes"])
    assert found is not None and found.instructions > 10
    assert found.share <= BAR


def test_no_products_no_loop():
    assert main_loop([]) is None
