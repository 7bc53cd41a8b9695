"""Products of batches of one are executed as those of matrices are, and compute what the program says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.dots import dot
from tests.kernels.views import DTYPES, ONE, Kernel, View, entry, names, operations, whole_numbers, zeros
from tileiras.dialects import nv_tileas, scf

ATOMS = {"sm_80": "m16n8k", "sm_90": "wgmma", "sm_100": "tcgen05", "sm_120": "m16n8k"}


def product(tiles=(1, 64, 64, 32), element="f16", steps=3, start="zeros", per_step=0) -> Kernel:
    """C[1] = A[1] @ B[1] by tiles, of arrays of three matrices that end within a tile; each step adds a number."""
    batch, m, n, k = tiles
    sizes = m - 3, n - 8, k * steps - 8
    shapes = [(3, sizes[0], sizes[2]), (3, sizes[2], sizes[1]), (3, sizes[0], sizes[1])]
    a, b = (
        View(name, tile, element, shape, padding="zero")
        for name, tile, shape in (("a", (batch, m, k), shapes[0]), ("b", (batch, k, n), shapes[1]))
    )
    c = View("c", (batch, m, n), "f32", shapes[2], padding="zero")
    body = [
        ONE,
        f"%steps = constant <i32: {steps}> : tile<i32>",
        zeros("c", c.tile) if start == "zeros" else c.load("c", "%one, %zero, %zero"),
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> ({c.tile}) {{",
        a.load("a", "%one, %zero, %i"),
        b.load("b", "%one, %i, %zero"),
        dot("next", "a", "b", "acc", (a.tile, b.tile, c.tile)),
        f"%more = constant <f32: {per_step}.0> : {c.tile}" if per_step else "",
        f"%s = addf %next, %more rounding<nearest_even> : {c.tile}" if per_step else "",
        f"continue {'%s' if per_step else '%next'} : {c.tile}",
        "}",
        c.store("sum", "%one, %zero, %zero", token="%k_c" if start != "zeros" else ""),
    ]
    left, right = (whole_numbers(shape, element, seed) for seed, shape in enumerate(shapes[:2], 1))
    before = whole_numbers(shapes[2], "f32", 3)
    after = before.copy()
    found = left[1].astype(np.float64) @ right[1].astype(np.float64)
    after[1] = found + per_step * steps + (before[1] if start == "loaded" else 0)
    return Kernel(entry([a, b, c], body), (left, right), (before,), (after.astype(DTYPES["f32"]),))


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
def test_what_the_loop_computes_of_a_sum_has_the_batch(gpu_name):
    kernel = product(per_step=2)
    assert ranks(kernel, gpu_name) == ([2], [[3]])
    kernel.check(gpu_name)


def test_batches_of_several_stay():
    tiles = (2, 64, 64, 32)
    assert ranks(product(tiles), "sm_100") == ([3], [[3]])
