"""Dots whose operands do not fit in registers become loops over K, with unchanged results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.dots import Matmul, without_maximum
from tests.kernels.views import trip_counts


def check(product, gpu_name, trips, text=None, expected=np.matmul, **options):
    """The loops over K after slicing have so many iterations, and the results are those of NumPy."""
    kernel = product.kernel(text, expected)
    assert trip_counts(kernel.after("tileas-slice-dots", gpu_name, **options)) == trips
    kernel.check(gpu_name, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tiles", "element", "gpu_name", "steps"),
    [
        ((64, 64, 512), "f16", "sm_75", 4),
        ((64, 64, 512), "f16", "sm_80", 4),
        ((16, 16, 1024), "bf16", "sm_90", 4),
        ((32, 32, 512), "tf32", "sm_100", 8),
        ((64, 64, 256), "f32", "sm_120", 8),
        ((64, 128, 64), "f64", "sm_80", 4),
        ((16, 16, 256), "f64", "sm_120", 16),
        ((16, 16, 2048), "i8", "sm_120", 4),
        ((64, 64, 1024), "f8E4M3FN", "sm_120", 4),
        ((64, 64, 64), "f16", "sm_80", None),
    ],
)
def test_dots_of_large_operands_are_sliced(tiles, element, gpu_name, steps):
    check(Matmul(tiles, element), gpu_name, [steps] if steps else [])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("sizes", "element", "gpu_name"),
    [((33, 64, 509), "f16", "sm_80"), ((64, 40, 72), "bf16", "sm_90"), ((60, 61, 1), "f16", "sm_75")],
)
def test_edges_of_every_dimension(sizes, element, gpu_name, transposed):
    check(Matmul((64, 64, 512), element, sizes=sizes, b_by_columns=transposed), gpu_name, [4])


def test_computations_on_an_operand_are_sliced_with_it():
    product = Matmul((64, 64, 256), "f16", stored="f32")
    operands = []
    for operand, view, rounded in (("a", product.a, product.types[0]), ("b", product.b, product.types[1])):
        operands += [
            view.load(f"{operand}_0"),
            f"%{operand}_2 = addf %{operand}_0, %{operand}_0 rounding<nearest_even> : {view.tile}",
            f"%{operand} = ftof %{operand}_2 : {view.tile} -> {rounded}",
        ]
    check(product, "sm_80", [8], product.text(operands), lambda a, b: 4 * (a @ b))


def test_dots_of_one_operand_are_sliced_together():
    """With the first dot as the other's accumulator, that one has a loop of its own."""
    product = Matmul((64, 64, 512))
    first, result = product.multiply, product.c.tile
    second = first.replace("%next", "%twice").replace("%acc", "%next")
    both = f"{first}\n{second}\n%sum_of_both = addf %next, %twice rounding<nearest_even> : {result}"
    text = product.text(multiply=both, store=[product.c.store("sum_of_both")])
    check(product, "sm_80", [4, 4], text, lambda a, b: 3 * (a @ b))


def test_a_tile_times_itself_turned():
    product = Matmul((64, 64, 512))
    turned = f"%b = permute %a [1, 0] : {product.types[0]} -> {product.types[1]}"
    check(product, "sm_90", [4], product.text([product.load_a, turned]), lambda a, b: a @ a.T)


def test_a_tile_times_itself_stays_whole():
    """Its rows and its columns would be sliced at a time."""
    product = Matmul((128, 128, 128))
    text = product.text([product.load_a], product.multiply.replace("%b", "%a"))
    check(product, "sm_80", [], text, lambda a, b: a @ a, num_warps=4)


def test_rows_of_an_operand_are_reduced_in_a_loop_before():
    """Reductions of whole rows are complete before the dot begins, and load the operand again."""
    product = Matmul((64, 64, 512), "f32")
    operands = [product.a.load("x"), without_maximum("a", "x", (64, 512)), product.load_b]
    check(product, "sm_90", [8, 8], product.text(operands), lambda a, b: (a - a.max(1, keepdims=True)) @ b)


@pytest.mark.slow
def test_a_store_after_the_loads_stays_behind_them():
    """C is written where A was read."""
    product = Matmul((64, 64, 512), "f32")
    store = ["%both = join_tokens %k_a, %k_b : token", product.c.store("next", token="%both")]
    check(product, "sm_90", [8], product.text(store=store))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("gpu_name", "steps"), [("sm_75", [2, 4]), ("sm_80", [8]), ("sm_90", [2]), ("sm_120", [8])])
def test_dots_in_loops_are_sliced_if_operands_exceed_smem(gpu_name, steps):
    """Of 128 KiB: sm_75 has no copies that fill it by themselves; where warps multiply, the loop itself takes smaller
    steps already (`tileas-split-loop-steps`)."""
    check(Matmul((64, 64, 512), steps=2), gpu_name, steps)
