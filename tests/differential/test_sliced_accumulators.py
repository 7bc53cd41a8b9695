"""Accumulators larger than the registers of any number of warpgroups: the product is cut along its longer side, or
along N where each result needs whole columns, with a remark and unchanged results."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import Matmul
from tests.kernels.reasons import stated
from tests.kernels.views import reduced, tile_type
from tests.machine_code import assemble


def without_largest_of_column(shape: tuple[int, int]) -> str:
    """%r = %sum less the maxima of its columns."""
    whole, row, line = tile_type(shape, "f32"), tile_type((1, shape[1]), "f32"), tile_type(shape[1:], "f32")
    return "\n".join(
        [
            reduced("most", "sum", shape, 0, "maxf", "0xFF800000"),
            f"%line = reshape %most : {line} -> {row}",
            f"%all = broadcast %line : {row} -> {whole}",
            f"%r = subf %sum, %all : {whole}",
        ]
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tiles", "by_columns", "slices", "part"),
    [
        ((512, 128, 64), False, 2, "256x128"),
        ((128, 512, 64), False, 2, "128x256"),
        ((256, 256, 64), False, 2, "128x256"),
        ((512, 128, 64), True, 2, "512x64"),
        ((64, 1024, 64), True, 2, "64x512"),
    ],
)
def test_products_are_cut(tiles, by_columns, slices, part, ptxas):
    rows, columns, _ = tiles
    product = Matmul(tiles, steps=3)
    text = product.text(tail=without_largest_of_column((rows, columns)) if by_columns else "")
    kernel = product.kernel(text, (lambda a, b: a @ b - (a @ b).max(0)) if by_columns else lambda a, b: a @ b)
    artifact = kernel.compiled("sm_90", num_warps=8)
    result = stated(artifact.diagnostics, "slices.tile")
    assert any(each.startswith(f"slices.tile shape={rows}x{columns} parts={slices} ") for each in result)
    module = kernel.compiled("sm_90", num_warps=8, emit="tileas").text
    assert re.findall(r"in_flight<tensor<(\w+)xf32", module)[0] == part and "wgmma" in artifact.text
    assemble(artifact.text, "sm_90")
    for seed in (None, 1):
        kernel.emulated(artifact, seed)
