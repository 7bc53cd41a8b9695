"""Loads of tensor memory that return the maximum or minimum of a thread's part of a row, `tcgen05.ld.red`."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import Matmul, attention_like, without_maximum
from tests.kernels.tensor_memory import FENCES, survivors
from tests.kernels.views import Kernel
from tests.machine_code import assemble
from tileiras import Artifact
from tileiras.codegen import toolkit

GPUS = ("sm_103", "sm_107", "sm_110")


def reductions(ptx: str) -> list[str]:
    return re.findall(r"tcgen05\.ld\.red\.sync\.aligned\.32x32b\.(\S+)\.f32", ptx)


def checked(kernel: Kernel, gpu: str, **options) -> Artifact:
    kernel.interpreted()
    artifact = kernel.compiled(gpu, **options)
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)
    return artifact


def of_rows(
    tiles: tuple[int, int, int], combiner: str = "maxf", identity: str = "0xFF800000", nan: bool = False
) -> Kernel:
    """C = A B less the greatest or least element of each row; with `nan` all elements of one column of B are NaN."""
    parts = Matmul(tiles, "f16")
    shape = tiles[0], tiles[1]
    name, *result = combiner.split()
    reduce = {"maxf": np.maximum if result else np.fmax, "minf": np.fmin}[name]
    tail = without_maximum("r", "sum", shape).replace("0xFF800000", identity)
    tail = re.sub(r"maxf (\S+, \S+)", " ".join([name, r"\1", *result]), tail)

    def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = a @ b
        if nan:
            result[:, 5] = np.nan
        return result - reduce.reduce(result, axis=1, keepdims=True)

    kernel = parts.kernel(parts.text(tail=tail), expected)
    if nan:
        kernel.inputs[1][:, 5] = np.nan
    return kernel


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("warps", "words"), [(4, "x128.max"), (8, "x64.max")])
def test_maxima_of_scores(gpu, warps, words):
    kernel = attention_like(1, rows=128, columns=128, depth=64, steps=3, gpu_name=gpu)
    assert reductions(checked(kernel, gpu, num_warps=warps).text) == [words]


def test_chips_without_them_reduce_in_registers():
    kernel = attention_like(1, rows=128, columns=128, depth=64, steps=3, gpu_name="sm_100")
    artifact = checked(kernel, "sm_100", num_warps=4)
    assert "tcgen05.ld" in artifact.text and not reductions(artifact.text)


@pytest.mark.parametrize(
    ("combiner", "identity", "words"), [("maxf", "0xFF800000", "x64.max"), ("minf", "0x7F800000", "x64.min")]
)
def test_greatest_and_least(combiner, identity, words):
    assert reductions(checked(of_rows((128, 64, 64), combiner, identity), "sm_103", num_warps=4).text) == [words]


def test_nan_is_passed_over():
    kernel = of_rows((128, 64, 64), nan=True)
    assert reductions(checked(kernel, "sm_103", num_warps=4).text) == ["x64.max"]
    assert np.isfinite(kernel.expected[0][:, :5]).all()


def test_nan_is_kept_where_the_program_says_so():
    kernel = of_rows((128, 64, 64), "maxf propagate_nan", nan=True)
    assert reductions(checked(kernel, "sm_103", num_warps=4).text) == ["x64.max.NaN"]


def test_synchronization_is_minimal():
    kernel = of_rows((128, 64, 64))
    artifact = kernel.compiled("sm_103", num_warps=4)
    assert reductions(artifact.text)
    assert not survivors(kernel, artifact, FENCES)
