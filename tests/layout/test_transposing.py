"""Registers through which a tile changes the dimension that is contiguous in shared memory."""

from __future__ import annotations

import pytest

from tileiras.layout.matrix_descriptor import matrix_layout
from tileiras.layout.staging import load_access, store_access
from tileiras.layout.tensor_box import box_layout
from tileiras.layout.transposing import transposing_layout

SHAPES = [(32, 32, 128, 4), (32, 32, 256, 8), (32, 64, 64, 4), (32, 32, 32, 4), (8, 64, 128, 4), (8, 128, 128, 4),
          (8, 128, 256, 8), (8, 128, 256, 4)]  # fmt: skip
"""Bits of an element, K, N and warps."""


@pytest.mark.parametrize(("bits", "k", "n", "warps"), SHAPES)
def test_neither_side_has_bank_conflicts(bits, k, n, warps):
    target, source = matrix_layout((k, n), 0, bits, "k"), box_layout((k, n), 1, bits)
    layout = transposing_layout(1, target, bits, warps)
    least = k * n * bits // (32 * 32 * warps)
    assert load_access(layout, source.bases("offset"), bits).wavefronts(bits) == least
    assert store_access(layout, target.bases("offset"), bits).wavefronts(bits) == least


@pytest.mark.parametrize(("bits", "k", "n", "warps"), SHAPES)
def test_each_element_is_in_one_register(bits, k, n, warps):
    layout = transposing_layout(1, matrix_layout((k, n), 0, bits, "k"), bits, warps)
    assert layout.warps == warps and layout.registers * 32 * warps == k * n
    held = {
        layout.apply(register=r, lane=lane, warp=w)
        for r in range(layout.registers) for lane in range(32) for w in range(warps)
    }  # fmt: skip
    assert len(held) == k * n


def test_threads_without_blocks_have_no_such_layout():
    assert transposing_layout(1, matrix_layout((32, 32), 0, 8, "k"), 8, 8) is None
