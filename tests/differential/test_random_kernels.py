"""Random chains of operations on tiles: compiled against interpreted, equal to the bit under all layouts."""

from __future__ import annotations

import pytest

from tests.kernels.random_tiles import RandomKernel
from tests.kernels.tiles import assert_same, run_both


@pytest.mark.parametrize("seed", range(30))
def test_random_kernel(seed):
    kernel = RandomKernel.of(seed)
    outputs = kernel.outputs()
    target = ("sm_80", "sm_90", "sm_100", "sm_120")[seed % 4]
    expected, actual = run_both(kernel.inputs, "\n".join(kernel.lines), outputs, gpu_name=target)
    for tile, want, got in zip(outputs, expected, actual):
        assert_same(f"kernel {seed}, %{tile.name}", got, want, [])
