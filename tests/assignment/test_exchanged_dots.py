"""Dots whose transposed result is a factor of another one have their operands exchanged where this costs less."""

from __future__ import annotations

import pytest

from tests.kernels.gradients import of_keys, of_queries
from tests.kernels.views import operations
from tileiras.dialects import nv_tileas as tileas


def exchanged(kernel, **options) -> list[bool]:
    """Of each dot, whether its operands are exchanged."""
    module = kernel.after("tileas-assign-dot-layouts", "sm_90", **options)
    return [op.exchanged is not None for op in operations(module, tileas.DotOp)]


KEPT = {
    "the factor is not transposed": (of_queries(2), {}),
    "the factor is in shared memory": (of_keys(2), {"num_warps": 8}),
}


@pytest.mark.parametrize("sizes", [(64, 64), (128, 64), (64, 128)])
def test_the_dots_of_transposed_factors_are_exchanged(sizes):
    """S and D V^T of S^T D and (S - D V^T)^T Q: their difference is a factor as well."""
    assert exchanged(of_keys(2, *sizes, of_rows=True)) == [True, False, True, False]


@pytest.mark.parametrize("name", KEPT)
def test_other_dots_are_not(name):
    kernel, options = KEPT[name]
    assert not any(exchanged(kernel, **options))


@pytest.mark.parametrize(("sizes", "element"), [((64, 64), "f16"), ((128, 64), "bf16")])
def test_factors_and_numbers_of_rows_stay_in_their_threads(sizes, element):
    """Neither the factors nor the numbers of rows go through shared memory; the results are right."""
    kernel = of_keys(2, *sizes, element=element, of_rows=True)
    module = kernel.after("tileas-remove-layout-conversions", "sm_90")
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    moved = [op.operand for op in operations(loop, tileas.ConvertLayoutOp)]
    assert all(isinstance(value.defining_op, (tileas.TiledLoadOp, *tileas.VIEW_LIKE)) for value in moved)
    assert all(value.type.num_elements > sizes[0] for value in moved), "a number for each row"
    kernel.emulated(kernel.compiled("sm_90", emit="ptx"))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
def test_numbers_of_rows_are_loaded_where_they_are_broadcast(gpu):
    kernel = of_keys(2, of_rows=True)
    module = kernel.after("tileas-remove-layout-conversions", gpu)
    moved = [op.operand for op in operations(module, tileas.ConvertLayoutOp)]
    assert all(value.type.num_elements > 64 for value in moved)
    kernel.emulated(kernel.compiled(gpu, emit="ptx"))
