"""Operands of a product that are gathered element by element are computed by enough warps."""

from __future__ import annotations

import pytest

from tests.kernels.dots import of_gathered
from tests.kernels.views import operations
from tileiras.dialects import nv_tileas as tileas


@pytest.mark.parametrize(("depth", "warps"), [(32, 8), (16, 4)])
def test_a_thread_has_sixteen_elements_at_most(depth, warps):
    kernel = of_gathered(depth=depth)
    assert f"numWarps = {warps}" in kernel.compiled("sm_90", emit="tileas").text
    kernel.check("sm_90", emit="ptx")


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100", "sm_120"])
def test_on_every_target(gpu_name):
    of_gathered().check(gpu_name, emit="ptx")


def test_a_result_scattered_in_unknown_order_keeps_its_layout():
    """No layout has more of its elements together than another one."""
    kernel = of_gathered(scattered=True)
    moved = operations(kernel.tileas("sm_90"), tileas.ConvertLayoutOp)
    assert [op for op in moved if op.result.type.shape == (128, 16)] == []
    kernel.check("sm_90", emit="ptx")
