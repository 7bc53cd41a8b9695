"""Products of small tiles whose stages boxes fill: each stage begins where the swizzle of its boxes does."""

from __future__ import annotations

import pytest

from tests.kernels.random_products import drawn, product, scaled_product
from tests.kernels.views import operations
from tileiras.dialects import nv_tileas as tileas

BOX = "cp.async.bulk.tensor"

PRODUCTS = {
    "rows of 64 bytes, 8 of them": ("sm_90", {}, lambda: product((64, 8, 32), "bf16", (125, 8, 96), b_by_columns=True)),
    "the same, by the device": (
        "sm_90", {"tensor_maps": "device"}, lambda: product((64, 8, 64), "f8E4M3FN", (64, 13, 192), b_by_columns=True),
    ),
    "in rings of 3": (
        "sm_90", {"unspecialized_pipeline_num_stages": 3, "pipeline_strategy": "unspecialize"},
        lambda: product((64, 8, 16), "tf32", (64, 8, 80), b_by_columns=True),
    ),
    "halves of 2 CTAs": (
        "sm_100", {"num_ctas": 2}, lambda: product((16, 64, 32), "bf16", (16, 64, 96), b_by_columns=True),
    ),
    "quarters of 4 CTAs": (
        "sm_103", {"num_ctas": 4}, lambda: product((32, 64, 64), "f8E5M2", (29, 64, 256), b_by_columns=True),
    ),
    "scales of a run": ("sm_120", {}, lambda: scaled_product((16, 64, 32), "f8E5M2", (16, 64, 96))),
    "scales of 4 runs": ("sm_120", {}, lambda: scaled_product((32, 128, 128), "f8E4M3FN", (32, 128, 384))),
    "scales for tensor memory": (
        "sm_100", {"num_ctas": 2, "tensor_maps": "device"},
        lambda: scaled_product((16, 64, 128), "f8E5M2", (16, 64, 384)),
    ),
    "scales of f4": (
        "sm_120", {}, lambda: scaled_product((16, 64, 128), "f4E2M1FN", (16, 64, 384), 16, "f8E4M3FN", True),
    ),
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_small_stages_are_right(name):
    gpu, options, build = PRODUCTS[name]
    kernel = build()
    artifact = kernel.compiled(gpu, **{"tensor_maps": "host", **options})
    assert BOX in artifact.text
    for seed in (None, 1):
        kernel.emulated(artifact, seed)


def test_only_stages_of_boxes_are_padded():
    kernel = scaled_product((16, 64, 128), "f8E4M3FN", (16, 64, 512))
    padded = {}
    for maps in ("host", "none"):
        types = [op.result.type for op in operations(kernel.tileas("sm_120", tensor_maps=maps), tileas.AllocTensorOp)]
        padded[maps] = [type for type in types if type.stage_bytes > type.tile_bytes]
    assert {type.alignment for type in padded["host"]} == {512} and not padded["none"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(1000, 1016))
def test_drawn_products_are_right(seed):
    _check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1016, 1400))
def test_more_drawn_products_are_right(seed):
    _check(seed)


def _check(seed: int) -> None:
    kernel, gpu_name, options = drawn(seed)
    kernel.emulated(kernel.compiled(gpu_name, **options))
