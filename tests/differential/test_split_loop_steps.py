"""Loops of products take smaller steps along K where shared memory holds too few stages, and compute the same."""

from __future__ import annotations

import pytest

from tests.kernels.dots import Matmul
from tests.kernels.views import trip_counts

TILES = (64, 128, 256)
"""96 KiB of f16 in a step; an SM of 12.0 has 99 KiB for a CTA."""

PLANS = {
    "ring": {"pipeline_strategy": "unspecialize"},
    "boxes": {"pipeline_strategy": "unspecialize", "tensor_maps": "host"},
    "agents": {"pipeline_strategy": "warp-specialize"},
    "agents and boxes": {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"},
}


def steps(product: Matmul, gpu_name: str = "sm_120", **options) -> list[int | None]:
    return trip_counts(product.kernel().after("tileas-split-loop-steps", gpu_name, **options))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("transposed", [False, True])
def test_results_of_smaller_steps(plan, transposed):
    """Rows, columns and K end within a tile, K in the second part of a step."""
    product = Matmul(TILES, "f16", sizes=(63, 120, 3 * 256 - 40), steps=3, b_by_columns=transposed)
    assert steps(product, **PLANS[plan]) == [3 * 4]
    product.kernel().check("sm_120", **PLANS[plan])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tiles", "element", "gpu_name", "parts"),
    [
        ((64, 128, 128), "f16", "sm_120", 2),
        ((64, 128, 128), "f16", "sm_80", 1),
        ((64, 128, 256), "f8E4M3FN", "sm_89", 2),
        ((64, 64, 128), "tf32", "sm_120", 2),
        ((64, 64, 256), "f16", "sm_120", 2),
        ((64, 64, 256), "f32", "sm_120", 1),
        ((64, 128, 128), "f16", "sm_75", 1),
    ],
)
def test_parts_of_a_step(tiles, element, gpu_name, parts):
    """As many as three stages need; multiply-adds, and loops without copies ahead, are not split."""
    product = Matmul(tiles, element, steps=3)
    assert steps(product, gpu_name) == [3 * parts]
    if parts > 1:
        product.kernel().check(gpu_name)


def test_products_that_a_warpgroup_issues_keep_their_steps():
    tiles = (128, 256, 128)
    assert steps(Matmul(tiles, "f16", steps=3), "sm_90") == [3]
    assert steps(Matmul(tiles, "f16", steps=3), "sm_100") == [3]


def test_stages_that_were_asked_for():
    product = Matmul((64, 128, 128), "f16", steps=3)
    assert steps(product, unspecialized_pipeline_num_stages=2) == [3]
    assert steps(product, unspecialized_pipeline_num_stages=4) == [6]
    assert steps(product, unspecialized_pipeline_num_stages=1) == [3]


def test_computations_on_an_operand_are_split_into_steps():
    product = Matmul((64, 64, 128), "f16", stored="f32", steps=3, sizes=(64, 64, 300))
    operands = []
    for operand, view, rounded in (("a", product.a, product.types[0]), ("b", product.b, product.types[1])):
        place = "%zero, %i" if operand == "a" else "%i, %zero"
        operands += [
            view.load(f"{operand}_0", place),
            f"%{operand}_2 = addf %{operand}_0, %{operand}_0 rounding<nearest_even> : {view.tile}",
            f"%{operand} = ftof %{operand}_2 : {view.tile} -> {rounded}",
        ]
    kernel = product.kernel(product.text(operands), lambda a, b: 4 * (a @ b))
    assert trip_counts(kernel.after("tileas-split-loop-steps", "sm_120")) == [6]
    kernel.check("sm_120")


def test_products_that_are_changed_in_each_step_keep_their_steps():
    product = Matmul((64, 128, 128), "f16", steps=3)
    text = product.text(inner=f"%s = absf %next : {product.types[2]}")
    assert trip_counts(product.kernel(text).after("tileas-split-loop-steps", "sm_120")) == [3]
