"""The number of warps of a tile block follows from its tiles, and from how often their elements are exchanged."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.gradients import of_keys
from tests.kernels.views import ONE, Kernel, View, entry, reduced, whole_numbers, zeros

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


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("rows", "depth", "warps"), [(128, 128, 8), (64, 128, 4), (128, 64, 4)])
def test_accumulators_held_together_take_more_warps(rows, depth, warps, gpu):
    """Of the gradients of keys and values, and of scores of both kinds, a thread of four warps has no registers."""
    artifact = tileiras.compile(of_keys(2, rows, 64, depth).text, gpu_name=gpu, emit="tileas")
    assert f"numWarps = {warps}," in artifact.text


def test_an_occupancy_hint_keeps_registers_for_another_cta():
    text = of_keys(2, 128, 64, 128).text
    hinted = text.replace(") {", ") optimization_hints=<default = {occupancy = 2}> {", 1)
    assert "numWarps = 4," in tileiras.compile(hinted, gpu_name="sm_90", emit="tileas").text


@pytest.mark.slow
def test_gradients_of_keys_with_more_warps_are_right():
    of_keys(2, 128, 64, 128).check("sm_90")
