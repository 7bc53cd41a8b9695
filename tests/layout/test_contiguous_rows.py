"""Rows of a warpgroup's A in the order in which threads read vectors along them."""

from __future__ import annotations

import pytest

from tileiras.layout import warpgroup_layouts
from tileiras.layout.contiguous_rows import contiguous_rows, with_rows
from tileiras.layout.staging import load_access
from tileiras.layout.tensor_box import box_layout
from tileiras.targets import mma_atom

SHAPES = [(64, 8, 1), (64, 32, 1), (128, 32, 1), (128, 32, 2), (256, 16, 1), (256, 32, 2), (128, 64, 2)]
"""Rows, columns and warpgroups."""


def fragment(m, k, groups):
    layout, _ = warpgroup_layouts(mma_atom("wgmma_m64n128k8_f32_tf32_tf32_rs"), m, 128, k, (groups, 1))
    return layout


@pytest.mark.parametrize(("m", "k", "groups"), SHAPES)
def test_reads_are_vectors_without_bank_conflicts(m, k, groups):
    layout = fragment(m, k, groups)
    turned = with_rows(layout, contiguous_rows(layout, 32)).permute((1, 0))
    access = load_access(turned, box_layout((k, m), 1, 32).bases("offset"), 32)
    assert access.wavefronts(32) == layout.registers
    assert {len(each) for each in access.registers} == {min(4, m // (32 * groups))}


@pytest.mark.parametrize(("m", "k", "groups"), SHAPES)
def test_each_row_has_one_place(m, k, groups):
    layout = fragment(m, k, groups)
    rows = contiguous_rows(layout, 32)
    assert sorted(rows) == list(range(m.bit_length() - 1))
    other = with_rows(layout, rows)
    assert other.is_surjective and other.coordinate_columns("lane", 1) == layout.coordinate_columns("lane", 1)
