"""Dots of f8 whose instruction sums in 13 fraction bits add their sums to the accumulator in f32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.dots import Matmul, converted, fast, matmul
from tests.kernels.random_products import product
from tests.kernels.views import Kernel, operations
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.async_dots import AsyncDotOp
from tileiras.sim import emulate

DOTS = (tileas.DotOp, AsyncDotOp)


def _of_normals(kernel: Kernel) -> tuple[Kernel, np.ndarray]:
    """The kernel on numbers whose sums are not exact, and the magnitude of each result's terms."""
    generator = np.random.default_rng(5)
    a, b = (generator.standard_normal(each.shape).astype(ml_dtypes.float8_e4m3fn) for each in kernel.inputs)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64).T
    expected = (wide_a @ wide_b).astype(np.float32)
    return kernel._replace(inputs=(a, b), expected=(expected,)), np.abs(wide_a) @ np.abs(wide_b)


def _error(kernel: Kernel, gpu_name: str) -> float:
    """The largest error of a result, as a share of the magnitude of its terms."""
    kernel, magnitude = _of_normals(kernel)
    artifact = kernel.compiled(gpu_name)
    out = kernel.outputs[0].copy()
    arguments = [each.view(np.uint8) for each in kernel.inputs]
    emulate(artifact.text, "k", 1, [*arguments, out], metadata=artifact.kernels[0].metadata)
    return float((np.abs(out - kernel.expected[0]) / magnitude).max())


@pytest.mark.parametrize(("gpu_name", "tiles"), [("sm_90", (64, 64, 128)), ("sm_89", (32, 32, 128))])
def test_promotion_bounds_the_error_of_long_sums(gpu_name, tiles):
    kernel = matmul(tiles, "f8E4M3FN", steps=24, b_by_columns=True)
    promoted, unpromoted = _error(kernel, gpu_name), _error(fast(kernel), gpu_name)
    assert promoted < 2.0**-13
    assert unpromoted > 4 * promoted


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_other_sums_are_left_to_the_instruction(gpu_name):
    elements = ["f16"] if gpu_name == "sm_80" else ["f16", "f8E4M3FN"]
    for element in elements:
        kernel = matmul((64, 64, 128), element, steps=4, b_by_columns=True)
        if gpu_name == "sm_90" and element != "f16":
            kernel = fast(kernel)
        assert all(getattr(op, "promoted", None) is None for op in operations(kernel.tileas(gpu_name), DOTS))


def test_halves_of_f16_sum_in_f32():
    kernel = matmul((16, 16, 64), "f8E4M3FN", steps=2)
    (dot,) = operations(kernel.tileas("sm_90"), DOTS)
    assert dot.atom.atom.startswith("mma_m16n8k32") and dot.promoted is None


def test_an_accumulator_in_f16_is_left_to_the_instruction():
    kernel = matmul((64, 64, 128), "f8E4M3FN", "f16", steps=2, b_by_columns=True)
    assert all(op.promoted is None for op in operations(kernel.tileas("sm_90"), DOTS))


@pytest.mark.parametrize(("depth", "sums"), [(32, 1), (128, 1), (256, 2)])
def test_a_sum_has_128_products_at_most(depth, sums):
    kernel = matmul((64, 32, depth), "f8E4M3FN", steps=8, start="loaded", b_by_columns=True)
    ptx = kernel.check("sm_90").text
    assert ptx.count("wgmma.mma_async") == depth // 32
    assert ptx.count("add.rn.f32") == 16 * sums


def test_sums_of_wide_tiles_take_narrower_instructions():
    kernel = matmul((128, 256, 128), "f8E4M3FN", steps=64, b_by_columns=True)
    (dot,) = operations(kernel.tileas("sm_90"), AsyncDotOp)
    assert "m64n128k32" in dot.atom.atom
    (dot,) = operations(fast(kernel).tileas("sm_90"), AsyncDotOp)
    assert "m64n256k32" in dot.atom.atom


_CASES = [
    ("sm_90", tiles, element, maps, strategy, steps)
    for tiles in ((64, 16, 32), (128, 64, 128), (32, 128, 64), (64, 256, 256))
    for element in ("f8E4M3FN", "f8E5M2")
    for maps, strategy in (("none", "auto"), ("host", "auto"), ("device", "warp-specialize"), ("none", "unspecialize"))
    for steps in (None, 0, 1, 5)
] + [("sm_89", tiles, "f8E5M2", "none", "auto", steps) for tiles in ((16, 8, 32), (64, 64, 256)) for steps in (None, 3)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("gpu_name", "tiles", "element", "maps", "strategy", "steps"), _CASES)
def test_products_of_whole_numbers(gpu_name, tiles, element, maps, strategy, steps):
    start = "loaded" if sum(tiles) % 3 else "zeros"
    kernel = Matmul(tiles, element, steps=steps, start=start, b_by_columns=True).kernel()
    if steps == 0:
        kernel = kernel._replace(expected=kernel.outputs)
    artifact = kernel.compiled(gpu_name, tensor_maps=maps, pipeline_strategy=strategy)
    for seed in (0, 3):
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("num_ctas", [1, 2])
def test_clusters_promote_too(num_ctas):
    kernel = product((128, 64, 128), "f8E4M3FN", (256, 128, 640), b_by_columns=True)
    artifact = kernel.compiled("sm_90", tensor_maps="host", num_ctas=num_ctas)
    assert artifact.text.count("add.rn.f32") > 0
    kernel.emulated(artifact, 1)


def test_an_operand_in_registers():
    kernel = converted((64, 64, 64), "a", "f16", "f8E4M3FN", steps=3, b_by_columns=True)
    assert "_rs" in operations(kernel.tileas("sm_90"), AsyncDotOp)[0].atom.atom
    kernel.check("sm_90")
