"""Products of batches of one are executed as those of matrices are, and match the program."""

from __future__ import annotations

import pytest

from tests.kernels.batches import product
from tests.kernels.views import Kernel, names, operations
from tileiras.dialects import nv_tileas, scf

ATOMS = {"sm_80": "m16n8k", "sm_90": "wgmma", "sm_100": "tcgen05", "sm_120": "m16n8k"}


def ranks(kernel: Kernel, gpu_name: str, **options) -> tuple[list[int], list[list[int]]]:
    """Of the results of dots, and of the tiles that loops carry."""
    module = kernel.after("convert-tileaa-to-tileas", gpu_name, **options)
    dots = [op.result.type.rank for op in operations(module, nv_tileas.DotOp)]
    return dots, [[arg.type.rank for arg in loop.iter_args] for loop in operations(module, scf.ForOp)]


@pytest.mark.parametrize("gpu_name", ATOMS)
@pytest.mark.parametrize("start", ["zeros", "loaded"])
def test_a_loop_carries_a_matrix(gpu_name, start):
    kernel = product(start=start)
    assert ranks(kernel, gpu_name) == ([2], [[2]])
    text = kernel.check(gpu_name, emit="ptx").text
    assert ATOMS[gpu_name] in text


@pytest.mark.sampled(6)
@pytest.mark.parametrize("plan", ["unspecialize", "warp-specialize"])
@pytest.mark.parametrize("tensor_maps", ["none", "host"])
@pytest.mark.parametrize(("gpu_name", "element"), [("sm_90", "f16"), ("sm_100", "f16"), ("sm_100", "f8E4M3FN")])
def test_under_every_plan(gpu_name, element, plan, tensor_maps):
    tiles = (1, 128, 64, 64)
    kernel = product(tiles, element)
    kernel.check(gpu_name, pipeline_strategy=plan, tensor_maps=tensor_maps)


def test_the_accumulator_stays_in_tensor_memory():
    """It is loaded once, behind the loop, and the loop carries no tile."""
    module = product((1, 128, 64, 64)).tileas("sm_100")
    loops = operations(module, scf.ForOp)
    assert all(not arg.type.name.endswith("tensor") for loop in loops for arg in loop.iter_args)
    inside = {name for loop in loops for name in names(loop)}
    assert "tensor_memory.dot" in inside and "tensor_memory.load" not in inside


@pytest.mark.parametrize("gpu_name", ATOMS)
def test_computations_of_a_loop_on_a_sum_have_the_batch(gpu_name):
    kernel = product(per_step=2)
    assert ranks(kernel, gpu_name) == ([2], [[3]])
    kernel.check(gpu_name)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_batches_of_several_stay_where_warps_multiply(gpu_name):
    kernel = product((2, 64, 64, 32))
    assert ranks(kernel, gpu_name) == ([3], [[3]])
    assert ATOMS[gpu_name] in kernel.check(gpu_name).text
