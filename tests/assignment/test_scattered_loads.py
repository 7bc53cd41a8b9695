"""Loads of rows that are no multiples of a vector: their number bounds the elements of a thread, and decides whether
lanes have neighbouring elements or vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.rows import pointers
from tests.kernels.views import ONE, Kernel, View, entry, operations, tile_type, whole_numbers, zeros
from tileiras.dialects import nv_tileaa as aa
from tileiras.layout.encoding import layout_of

SINGLE, PAIRS = (49, 61), (14, 22)
"""Elements of a row, and from a row to the next: no neighbours are known, or pairs of them."""


def sum_of_rows(
    count: int, in_loop: int = 0, vectors: int = 0, tile: int = 256, pitch: tuple[int, int] = SINGLE
) -> Kernel:
    """The sum of `count` tiles whose elements are parts of rows, the last `in_loop` of which are loaded in a loop, and
    of `vectors` tiles without gaps."""
    width, step = pitch
    rows = [View(f"x{n}", (1,), "f32", (-(-tile // width) * step,)) for n in range(count)]
    whole = [View(f"y{n}", (tile,), "f32") for n in range(vectors)]
    out = View("out", (tile,), "f32")
    index, numbers, start = tile_type((tile,), "i32"), out.tile, count - in_loop
    body = [
        f"%lane = iota : {index}", f"%width = constant <i32: {width}> : {index}",
        f"%gap = constant <i32: {step - width}> : {index}", f"%row = divi %lane, %width signed : {index}",
        f"%gaps = muli %row, %gap : {index}", f"%place = addi %lane, %gaps : {index}", ONE, zeros("sum_0", numbers),
        "%blocks, %blocks_y, %blocks_z = get_num_tile_blocks : tile<i32>",
    ]  # fmt: skip
    for n, view in enumerate([*rows, *whole]):
        if n == start and in_loop:
            loop = "%all = for %i in (%zero to %blocks, step %one) : tile<i32> iter_values"
            body.append(f"{loop}(%before = %sum_{n}) -> ({numbers}) {{")
        if n < count:
            body += pointers(f"at_{n}", view.name, "f32", "place", (tile,))
            loaded = f"{tile_type((tile,), 'ptr<f32>')} -> {numbers}, token"
            body.append(f"%x_{n}, %k_{n} = load_ptr_tko weak %at_{n} : {loaded}")
        else:
            body.append(view.load(f"x_{n}"))
        partial = "before" if n == start and in_loop else f"sum_{n}"
        body.append(f"%sum_{n + 1} = addf %{partial}, %x_{n} : {numbers}")
    if in_loop:
        body += [f"continue %sum_{count} : {numbers}", "}"]
    body.append(out.store("all" if in_loop else f"sum_{count + vectors}"))
    inputs = [whole_numbers(view.shape, seed=n) for n, view in enumerate([*rows, *whole])]
    places = np.arange(tile) + np.arange(tile) // width * (step - width)
    wanted = sum([each[places] for each in inputs[:count]] + inputs[count:])
    return Kernel(entry([*rows, *whole, out], body), tuple(inputs), (np.zeros(tile, np.float32),), (wanted,))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("count", "warps"), [(6, 1), (7, 2), (13, 4), (25, 8)])
def test_a_thread_gathers_48_elements_at_once_at_most(count, warps, gpu):
    artifact = sum_of_rows(count).check(gpu, emit="ptx")
    assert artifact.kernels[0].metadata["block"] == [32 * warps, 1, 1]


@pytest.mark.parametrize(("count", "warps"), [(12, 1), (13, 2), (25, 4)])
def test_neighbours_that_one_access_loads_are_one(count, warps):
    artifact = sum_of_rows(count, pitch=PAIRS).check("sm_90", emit="ptx")
    assert artifact.kernels[0].metadata["block"] == [32 * warps, 1, 1]


def test_loads_inside_and_outside_of_a_loop_are_not_at_once():
    artifact = sum_of_rows(12, in_loop=6).check("sm_90", emit="ptx")
    assert artifact.kernels[0].metadata["block"] == [32, 1, 1]


@pytest.mark.parametrize(("count", "vectors", "together"), [(3, 0, 4), (4, 0, 1), (4, 1, 4), (12, 2, 1)])
def test_lanes_have_neighbours_where_loads_by_elements_prevail(count, vectors, together):
    """Elements that are neighbours in a thread; the store is an access by vectors."""
    kernel = sum_of_rows(count, vectors=vectors)
    stored = operations(kernel.tileas("sm_90"), aa.TiledStoreOp)[0]
    lanes = layout_of(stored.data.type).bases("lane")
    assert lanes[0] == together
    kernel.check("sm_90", emit="ptx")
