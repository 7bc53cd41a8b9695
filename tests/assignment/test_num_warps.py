"""The number of warps of a tile block follows from its tiles, and from how often their elements are exchanged."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.views import ONE, Kernel, View, entry, reduced, tile_type, whole_numbers, zeros

STEPS, COLUMNS = 3, 1024


def sum_of_tiles(step: str, inside: bool) -> Kernel:
    """The sum of three tiles: each is reduced in the loop, or their sum behind it."""
    x = View("x", (1, COLUMNS), "f32", (STEPS, COLUMNS))
    y = View("y", (1,), "f32")
    carried = y.tile if inside else x.tile
    added = [reduced("sum", "x", (1, COLUMNS), 1), f"%a_2 = addf %a_1, %sum : {carried}"]
    body = [
        ONE, f"%steps = constant <i32: {STEPS}> : tile<i32>", zeros("a_0", carried),
        "%blocks, %blocks_y, %blocks_z = get_num_tile_blocks : tile<i32>",
        f"%a = for %i in (%zero to %steps, step %{step}) : tile<i32> iter_values(%a_1 = %a_0) -> ({carried}) {{",
        x.load("x", "%i, %zero"), *(added if inside else [f"%a_2 = addf %a_1, %x : {carried}"]),
        f"continue %a_2 : {carried}", "}",
        *([] if inside else [reduced("sum", "a", (1, COLUMNS), 1)]), y.store("a" if inside else "sum"),
    ]  # fmt: skip
    values = whole_numbers((STEPS, COLUMNS))
    return Kernel(entry([x, y], body), (values,), (np.zeros(1, np.float32),), (values.sum().reshape(1),))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
@pytest.mark.parametrize(("step", "inside", "warps"), [("one", True, 2), ("one", False, 4), ("blocks", True, 4)])
def test_threads_that_exchange_in_each_iteration_are_fewer(step, inside, warps, gpu):
    """In a loop over the tiles of a persistent kernel, more warps hide the latency of its loads."""
    artifact = sum_of_tiles(step, inside).check(gpu, emit="ptx")
    assert artifact.kernels[0].metadata["block"] == [32 * warps, 1, 1]


ROWS, HEAD = 64, 128


def gradient(takes_both: bool, occupancy: int = 1) -> Kernel:
    """A product that a loop adds up, of the elementwise product of two products, or of the first one."""
    x, dy, out = (View(name, (ROWS, HEAD), element) for name, element in (("x", "f16"), ("dy", "f16"), ("out", "f32")))
    k, v = (View(name, (HEAD, ROWS), "f16", (HEAD, 2 * ROWS)) for name in "kv")
    w = View("w", (ROWS, HEAD), "f16", (2 * ROWS, HEAD))
    square = tile_type((ROWS, ROWS), "f32")
    body = [
        ONE, "%two = constant <i32: 2> : tile<i32>", zeros("start", out.tile), zeros("none", square),
        x.load("x"), dy.load("dy"),
        f"%sum = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%a = %start) -> ({out.tile}) {{",
        *(view.load(view.name, at) for view, at in ((k, "%zero, %i"), (v, "%zero, %i"), (w, "%i, %zero"))),
        f"%s = mmaf %x, %k, %none : {x.tile}, {k.tile}, {square}",
        f"%p = mmaf %dy, %v, %none : {dy.tile}, {v.tile}, {square}",
        f"%both = mulf %s, %{'p' if takes_both else 's'} : {square}",
        f"%g = ftof %both : {square} -> {tile_type((ROWS, ROWS), 'f16')}",
        f"%b = mmaf %g, %w, %a : {tile_type((ROWS, ROWS), 'f16')}, {w.tile}, {out.tile}",
        f"continue %b : {out.tile}", "}", out.store("sum"),
    ]  # fmt: skip
    views = [x, dy, k, v, w, out]
    inputs = tuple(whole_numbers(view.shape, "f16", seed, 1) for seed, view in enumerate(views[:-1]))
    left, right, *others = (each.astype(np.float32) for each in inputs)
    scores = left @ others[0]
    result = (scores * (right @ others[1] if takes_both else scores)) @ others[2]
    hints = f"default = {{occupancy = {occupancy}}}"
    return Kernel(entry(views, body, hints), inputs, (np.zeros((ROWS, HEAD), np.float32),), (result,))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("takes_both", "occupancy", "warps"), [(True, 1, 8), (False, 1, 4), (True, 2, 4)])
def test_accumulators_held_together_take_more_warps(takes_both, occupancy, warps, gpu):
    """A thread of four warps has no registers for all of them; another CTA needs the registers of four more."""
    artifact = tileiras.compile(gradient(takes_both, occupancy).text, gpu_name=gpu, emit="tileas")
    assert f"numWarps = {warps}," in artifact.text


@pytest.mark.slow
def test_a_gradient_of_scores_is_right():
    gradient(takes_both=True).check("sm_90")
