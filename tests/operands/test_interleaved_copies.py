"""Copies of loops that start between the steps of a dot by matrix instructions."""

from __future__ import annotations

import pytest

from tests.kernels.dots import Matmul, matmul
from tests.kernels.random_products import product
from tests.kernels.views import names, operations
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf


def _predicated(kernel, gpu_name: str, **options) -> list[scf.IfOp]:
    return [op for op in operations(kernel.tileas(gpu_name, **options), scf.IfOp) if tileas.PREDICATED in op.attributes]


def test_each_copy_starts_in_the_middle_of_its_part():
    module = matmul((64, 128, 64), steps=8).tileas("sm_80")
    (loop,) = operations(module, scf.ForOp)
    inside = [name for name in names(loop) if name in ("dot", "async.tiled_load", "async.commit_group")]
    assert inside == ["dot", "async.tiled_load", "dot", "dot", "async.tiled_load", "async.commit_group", "dot"]


@pytest.mark.parametrize(("tiles", "gpu_name"), [((64, 64, 32), "sm_80"), ((64, 128, 64), "sm_90")])
def test_short_and_asynchronous_dots_keep_their_copies_together(tiles, gpu_name):
    assert not _predicated(matmul(tiles, steps=8), gpu_name)


@pytest.mark.parametrize("options", [{"opt_level": 2}, {"pipeline_strategy": "none"}])
def test_lower_levels_and_loops_without_rings_are_left(options):
    assert not _predicated(matmul((64, 128, 64), steps=8), "sm_80", **options)


_CASES = [
    (gpu_name, element, tiles, steps, stages)
    for gpu_name, element, tiles in (
        ("sm_80", "f16", (64, 128, 64)), ("sm_80", "bf16", (128, 64, 64)), ("sm_86", "i8", (128, 64, 128)),
        ("sm_89", "f8E5M2", (64, 256, 64)), ("sm_120", "f16", (64, 128, 128)),
    )
    for steps in (0, 1, 2, 7)
    for stages in (2, 3, 4)
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("gpu_name", "element", "tiles", "steps", "stages"), _CASES)
def test_products(gpu_name, element, tiles, steps, stages):
    result = Matmul(tiles, element, steps=steps, start="loaded").kernel()
    if steps == 0:
        result = result._replace(expected=result.outputs)
    artifact = result.compiled(gpu_name, unspecialized_pipeline_num_stages=stages)
    for seed in (0, 5):
        result.emulated(artifact, seed)


@pytest.mark.parametrize("sizes", [(64, 128, 200), (100, 136, 328)])
def test_arrays_that_are_no_multiples_of_tiles(sizes):
    kernel = product((64, 128, 64), "f16", sizes)
    assert _predicated(kernel, "sm_80")
    artifact = kernel.compiled("sm_80")
    for seed in (0, 4):
        kernel.emulated(artifact, seed)
