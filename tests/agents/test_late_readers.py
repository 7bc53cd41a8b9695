"""Agents keep the stages of pipes as long as they are read: by dots in loops of an iteration, and by large dots, of
which later passes make loops over K."""

from __future__ import annotations

import numpy as np
import pytest

from bench.plans import PLANS
from tests.kernels.dots import dot
from tests.kernels.views import ONE, Kernel, View, entry, tile_type, whole_numbers, zeros

STEPS = 4


def twice(m: int, n: int, k: int) -> Kernel:
    """A B by tensor cores and W B by multiply-adds, which overlap: the stage of W is read while another iteration's
    first dot is under way."""
    a, w = (View(name, (m, k), "f32", (m, k * STEPS)) for name in ("a", "w"))
    b, c = View("b", (k, n), "f32", (k * STEPS, n)), View("c", (m, n), "f32")
    rounded = tile_type((m, k), "tf32"), tile_type((k, n), "tf32")
    body = [
        ONE, zeros("none", c.tile), f"%steps = constant <i32: {STEPS}> : tile<i32>",
        "%sum = for %i in (%zero to %steps, step %one) : tile<i32>", f"iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("x", "%zero, %i"), b.load("y", "%i, %zero"),
        f"%xr = ftof %x : {a.tile} -> {rounded[0]}", f"%yr = ftof %y : {b.tile} -> {rounded[1]}",
        dot("fresh", "xr", "yr", "none", (*rounded, c.tile)), f"%part = addf %acc, %fresh : {c.tile}",
        w.load("z", "%zero, %i"), dot("next", "z", "y", "part", (w.tile, b.tile, c.tile)),
        f"continue %next : {c.tile}", "}", c.store("sum"),
    ]  # fmt: skip
    left, right, below = (whole_numbers(view.shape, "f32", seed) for seed, view in enumerate((a, w, b)))
    return Kernel(entry([a, w, b, c], body), (left, right, below), (np.zeros(c.shape, np.float32),),
                  ((left + right) @ below,))  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", ["agents", "agents-boxes", "light"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_a_stage_is_given_back_behind_the_loop_that_reads_it(gpu, plan):
    kernel = twice(64, 64, 32)
    artifact = kernel.compiled(gpu, **PLANS[plan])
    assert "mbarrier" in artifact.text and '.pragma "nounroll"' in artifact.text
    kernel.emulated(artifact, 1)


def within(m: int, n: int, k: int) -> Kernel:
    """Each tile of A by all tiles of B, in a loop whose number of iterations only the loop itself finds out."""
    a, b = View("a", (m, k), "f16", (m, k * STEPS)), View("b", (k, n), "f16", (k * STEPS, n))
    c = View("c", (m, n), "f32")
    body = [
        ONE, zeros("none", c.tile), f"%steps = constant <i32: {STEPS}> : tile<i32>",
        "%sum = for %i in (%zero to %steps, step %one) : tile<i32>", f"iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("x", "%zero, %i"),
        f"%inner = loop iter_values(%j = %zero, %before = %acc) : tile<i32>, {c.tile} -> {c.tile} {{",
        "%ends = cmpi greater_than_or_equal %j, %steps, signed : tile<i32> -> tile<i1>",
        "if %ends {", f"break %before : {c.tile}", "}",
        b.load("y", "%j, %zero"), dot("next", "x", "y", "before", (a.tile, b.tile, c.tile)),
        "%more = addi %j, %one : tile<i32>", f"continue %more, %next : tile<i32>, {c.tile}", "}",
        f"continue %inner : {c.tile}", "}", c.store("sum"),
    ]  # fmt: skip
    left, right = (whole_numbers(view.shape, "f16", seed) for seed, view in enumerate((a, b)))
    wanted = sum(np.float32(left[:, at : at + k]) for at in range(0, k * STEPS, k)) @ np.sum(
        np.float32(right).reshape(STEPS, k, n), axis=0
    )
    return Kernel(entry([a, b, c], body), (left, right), (np.zeros(c.shape, np.float32),), (wanted,))


@pytest.mark.parametrize("gpu, tile", [("sm_90", (64, 128, 16)), ("sm_100", (128, 64, 16)), ("sm_120", (64, 64, 16))])
def test_a_stage_is_released_after_a_loop_with_its_dots(gpu, tile):
    kernel = within(*tile)
    artifact = kernel.compiled(gpu, **PLANS["agents-boxes"])
    assert "mbarrier" in artifact.text
    for seed in (None, 1):
        kernel.emulated(artifact, seed)
