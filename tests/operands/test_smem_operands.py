"""Operands of dots that go straight to shared memory: those that every iteration needs, where registers are short, and
large ones that are loaded where they are used."""

from __future__ import annotations

import pytest

from tests.kernels.dots import chained, matmul
from tests.kernels.views import buffers
from tileiras.dialects.nv_tileas import AsyncTiledLoadOp


def repeated(depth: int, steps: int):
    """C = A B_0 + ... + A B_n with A of 64 x `depth`."""
    return matmul((64, 64, depth), steps=steps, a_outside=True)


@pytest.mark.parametrize(
    ("depth", "gpu_name", "resident"),
    [(128, "sm_80", True), (128, "sm_90", True), (32, "sm_90", False), (128, "sm_75", False)],
)
def test_only_with_few_registers_and_asynchronous_copies(depth, gpu_name, resident):
    # A thread of one warp holds 128 elements of C, and 256 of A where that is 128 columns wide.
    module = repeated(depth, 2).tileas(gpu_name, num_warps=1)
    assert buffers(module).count(((64, depth), 1)) == resident


def test_a_dot_with_a_resident_operand_computes_the_same():
    assert "ldmatrix" in repeated(128, 3).check("sm_80", num_warps=1).text


@pytest.mark.parametrize(
    ("gpu_name", "element", "depth", "stages", "directly"),
    [("sm_90", "f16", 512, 2, 1), ("sm_120", "f32", 256, 0, 1), ("sm_80", "f32", 256, 0, 2)],
)
def test_copies_not_ahead_are_placed_at_their_use(gpu_name, element, depth, stages, directly):
    # Each operand takes 64 KiB: two stages of one leave room for the other on sm_90; sm_120 has room for one, sm_80
    # for both.
    kernel = matmul((64, 64, depth), element, steps=2)
    result = sorted(count for _, count in buffers(kernel.tileas(gpu_name, num_warps=8), AsyncTiledLoadOp))
    assert result == [1] * directly + [stages] * (stages > 0)
    kernel.check(gpu_name, num_warps=8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("gpu_name", "tiles", "sizes", "copied"),
    [
        ("sm_80", (64, 64, 256, 128), (64, 64, 256, 128), True),
        ("sm_120", (64, 64, 256, 128), (60, 64, 200, 128), True),
        ("sm_89", (64, 64, 256, 128), (64, 8, 256, 104), True),
        # Shared memory does not hold 128 KiB.
        ("sm_120", (64, 64, 256, 256), (64, 64, 256, 256), False),
        # No copy fills it by itself.
        ("sm_75", (64, 64, 256, 128), (64, 64, 256, 128), False),
        # A step at a time comes through shared memory.
        ("sm_80", (64, 64, 128, 128), (64, 64, 128, 128), False),
    ],
)
def test_a_large_operand_beside_a_computed_one_goes_to_smem(gpu_name, tiles, sizes, copied):
    kernel = chained(tiles, sizes)
    assert buffers(kernel.tileas(gpu_name)).count((tiles[2:], 1)) == copied
    kernel.check(gpu_name)
