"""The stated order of a reduction, evaluated in NumPy, gives the bits of its code."""

import numpy as np
import pytest

import tileiras
from tests.kernels.summed import in_order, row_sums
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import parse_module
from tileiras.layout.encoding import layout_of
from tileiras.layout.reduction_order import CombinedStep, reduction_steps, tree_of
from tileiras.sim import emulate
from tileiras.targets import target

CASES = [
    # rows and columns of a tile, GPU, warps
    (4, 256, "sm_90", 4), (1, 1024, "sm_90", 8), (16, 64, "sm_80", 4), (1, 2048, "sm_80", 4),
    (1, 512, "sm_100", 1), (1, 2048, "sm_100", 1), (1, 2048, "sm_100", 4), (8, 32, "sm_120", 2),
]  # fmt: skip


@pytest.mark.parametrize("rows, columns, gpu, warps", CASES)
def test_bits_are_those_of_the_order(rows, columns, gpu, warps):
    text = row_sums(rows, columns)
    module = parse_module(tileiras.compile(text, gpu_name=gpu, num_warps=warps, emit="tileas").text, "k.mlir")
    (op,) = [op for op in module.walk() if isinstance(op, tileas.ReduceOp)]
    steps = reduction_steps(op, layout_of(op.inputs[0].type), target(gpu))
    assert np.prod([step.elements for step in steps]) == columns
    x = np.random.default_rng(columns).standard_normal((rows, columns)).astype(np.float32)
    out = np.zeros(rows, np.float32)
    artifact = tileiras.compile(text, gpu_name=gpu, num_warps=warps)
    emulate(artifact.text, "k", 1, [x, out, rows, columns], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(out.view(np.uint32), [in_order(steps, row).view(np.uint32) for row in x])


def test_who_holds_elements_does_not_matter():
    of_threads = [CombinedStep("thread", (), (1, 2)), CombinedStep("lane", (), (4, 8))]
    of_lanes = [CombinedStep("lane", (), (1, 2, 4)), CombinedStep("warp", (), (8,))]
    assert tree_of(of_threads) == tree_of(of_lanes)
    assert tree_of(of_threads) != tree_of([CombinedStep("lane", (), (2, 1, 4, 8))])
    assert tree_of(of_threads) != tree_of([CombinedStep("thread", (2,), (1,)), CombinedStep("lane", (), (4, 8))])
