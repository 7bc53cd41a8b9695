"""Accesses through pointers in parts have the effect of the whole access, in fewer registers."""

from __future__ import annotations

import pytest

from tests.kernels.rows import exchanged
from tests.kernels.views import Kernel, operations
from tileiras.codegen import ptxas
from tileiras.dialects import nv_tileas as tileas


def parts(kernel: Kernel, gpu_name: str, **options) -> list[int]:
    """In how many parts the load and the store are made."""
    accesses = operations(kernel.tileas(gpu_name, **options), (tileas.LoadOp, tileas.StoreOp))
    return [op.attributes[tileas.PARTS].value if tileas.PARTS in op.attributes else 1 for op in accesses]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("warps", [1, 2, 4])
def test_exchanged_elements_in_parts_are_right(gpu_name, warps):
    kernel = exchanged()
    assert all(count > 1 for count in parts(kernel, gpu_name, num_warps=warps))
    kernel.check(gpu_name, emit="ptx", num_warps=warps)


def test_few_elements_are_moved_as_a_whole():
    kernel = exchanged(16)
    assert parts(kernel, "sm_90", num_warps=4) == [1, 1]
    kernel.check("sm_90", emit="ptx", num_warps=4)


def test_addresses_of_a_part_come_behind_the_stores_of_another():
    text = exchanged().compiled("sm_90", emit="ptx", num_warps=1).text
    ptxas.assemble(text, "sm_90")
    runs = text.split("st.global")[1:-1]
    assert sum("add.s64" in run for run in runs) == parts(exchanged(), "sm_90", num_warps=1)[1] - 1
