"""How the results of multiply-adds are shared out over threads."""

from itertools import product

import pytest

from tileiras.assignment.dot_plans import fma_block

SIZES = [1 << n for n in range(8)]


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
def test_no_element_is_computed_twice_where_there_are_enough(num_warps):
    for m, n in product(SIZES, SIZES):
        if m * n >= 32 * num_warps:
            rows, columns = fma_block(m, n, num_warps).share(m, n)
            assert rows * columns * 32 * num_warps == m * n, (m, n)


@pytest.mark.parametrize(
    ("m", "n", "num_warps", "share"),
    [(128, 128, 8, (8, 8)), (64, 64, 4, (8, 4)), (256, 64, 8, (8, 8)), (16, 256, 4, (4, 8)), (4, 512, 2, (4, 8))],
)
def test_shares_are_as_square_as_the_result_allows(m, n, num_warps, share):
    assert fma_block(m, n, num_warps).share(m, n) == share
