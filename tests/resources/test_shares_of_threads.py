"""Tiles that cannot be cut are refused at once where a thread would have more elements than anything could hold."""

from __future__ import annotations

import pytest

import tileiras
from tests.kernels.views import ONE, View, entry
from tests.kernels.views import tile_type as tile
from tileiras.resources.limits import MOST_ELEMENTS

COLUMNS = 64


def ordered(rows: int) -> str:
    """A load with an order is executed as a whole."""
    x, y = View("x", (rows, COLUMNS), "f32"), View("y", (rows, COLUMNS), "f32")
    return entry([x, y], [x.load("a", order="relaxed device"), y.store("a")])


def in_order(rows: int) -> str:
    """Two stores of a matrix that one follows the other: slices of them would be stored in turns."""
    x, y = View("x", (rows, COLUMNS), "f32"), View("y", (rows, COLUMNS), "f32", (rows, 2 * COLUMNS))
    kind = x.tile
    first = y.store("a", "%zero, %zero").replace("%end_y", "%end")
    return entry(
        [x, y],
        [ONE, x.load("a"), first, f"%b = mulf %a, %a : {kind}", y.store("b", "%zero, %one", token="%end")],
    )


def joined(rows: int) -> str:
    x, y = View("x", (rows, COLUMNS), "f32"), View("y", (2 * rows, COLUMNS), "f32")
    kind, both = tile((rows, COLUMNS), "f32"), y.tile
    return entry(
        [x, y],
        [
            x.load("a"),
            f"%b = mulf %a, %a : {kind}",
            f"%c = cat %a, %b dim = 0 : {kind}, {kind} -> {both}",
            y.store("c"),
        ],
    )


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
@pytest.mark.parametrize("make", [ordered, in_order, joined])
@pytest.mark.parametrize("rows", [1 << 16, 1 << 17])
def test_whole_tiles_that_no_thread_can_hold(make, rows, gpu):
    text = make(rows)
    with pytest.raises(tileiras.CompileError) as refused:
        tileiras.compile(text, gpu_name=gpu)
    (error,) = (d for d in refused.value.diagnostics if str(rows) in d.message)
    assert refused.value.code == 5
    line = text.splitlines()[error.position.line - 1]
    assert "load_view_tko" in line and str(rows) in line


@pytest.mark.parametrize("warps", [1, 8])
def test_the_limit_is_one_of_threads(warps):
    rows = MOST_ELEMENTS * 32 * warps // COLUMNS
    text = f"leaves each of {32 * warps} threads {2 * MOST_ELEMENTS} elements"
    with pytest.raises(tileiras.CompileError, match=text):
        tileiras.compile(ordered(2 * rows), gpu_name="sm_90", num_warps=warps)
    tileiras.compile(ordered(rows), gpu_name="sm_90", num_warps=warps, emit="tileas")


@pytest.mark.parametrize("count", [1 << 20, 1 << 24])
def test_tiles_that_are_cut_have_no_limit(count):
    x, y = (View(name, (count // COLUMNS, COLUMNS), "f32") for name in "xy")
    body = [x.load("a"), f"%b = mulf %a, %a : {x.tile}", y.store("b")]
    assert tileiras.compile(entry([x, y], body), gpu_name="sm_90").text.count("\n") < 1000
