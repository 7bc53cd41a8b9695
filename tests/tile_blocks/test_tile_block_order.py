"""Tile blocks with more work start first: which those are, and that each block's work is done once."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import tileiras
from tests.kernels.reasons import stated
from tileiras.sim import emulate
from tileiras.sim.estimate.sampling import block_order
from tileiras.tile_blocks.order import GROUP

KERNEL = """cuda_tile.module @m {
  entry @k(%out: tile<ptr<i32>>, %few: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    BOUNDS
    %sum = for %i in (%lower to %upper, step %step) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      %more = addi %s, %i : tile<i32>
      continue %more : tile<i32>
    }
    %row = muli %z, %ny : tile<i32>
    %row_y = addi %row, %y : tile<i32>
    %place = muli %row_y, %nx : tile<i32>
    %number = addi %place, %x : tile<i32>
    %large = constant <i32: 100000> : tile<i32>
    %name = muli %number, %large : tile<i32>
    %value = addi %name, %sum : tile<i32>
    %p = offset %out, %number : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    STORE
    return
  }
}
"""
STORE = "%t = store_ptr_tko weak %p, %value : tile<ptr<i32>>, tile<i32> -> token"
UPDATE = "%old, %t = atomic_rmw_tko relaxed device %p, add, %value : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
DEFAULT = {"lower": "%lower = addi %zero, %zero : tile<i32>", "step": "%step = addi %one, %zero : tile<i32>"}


def text(upper: str, store: str = STORE, **bounds: str) -> str:
    lines = {**DEFAULT, **bounds, "upper": f"%upper = {upper} : tile<i32>"}
    return KERNEL.replace("BOUNDS", "\n    ".join(lines.values())).replace("STORE", store)


def compiled(source: str, **options) -> tileiras.Artifact:
    return tileiras.compile(source, gpu_name="sm_80", emit="ptx", source_name="kernel.mlir", **options)


def ran(made: tileiras.Artifact, grid, blocks=None) -> np.ndarray:
    out = np.full(np.prod(grid), -1, np.int32)
    (kernel,) = made.kernels
    emulate(made.text, "k", grid, [out, 5], kernel.metadata, blocks=blocks)
    return out


def wanted(grid, upper) -> np.ndarray:
    columns, rows = grid[0], grid[1] * grid[2]
    sums = [sum(range(upper(n % columns, n // columns % grid[1]))) for n in range(columns * rows)]
    return np.arange(columns * rows) * 100000 + sums


GROWING = {
    "x": ("addi %x, %two", lambda x, y: x + 2),
    "a quotient": ("divi %x, %two signed rounding<positive_inf>", lambda x, y: -(-x // 2)),
    "the smaller of two": ("mini %x, %eight signed", lambda x, y: min(x, 8)),
}


@pytest.mark.parametrize("name", sorted(GROWING))
@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 1, 1), (200, 4, 1), (5, 3, 2), (GROUP + 1, 2, 1), (150, 3, 3)])
def test_rows_whose_loops_grow_along_x(name, grid):
    upper, number = GROWING[name]
    result = compiled(text(upper))
    assert result.kernels[0].metadata["block_group"] == GROUP
    assert (ran(result, grid) == wanted(grid, number)).all()


@pytest.mark.parametrize("grid", [(5, 3, 2), (200, 4, 1), (150, 3, 3), (GROUP + 1, 2, 1)])
def test_the_order_is_the_one_that_the_estimate_has(grid):
    result = compiled(text("addi %x, %two"))
    order = block_order(grid, result.kernels[0].metadata["block_group"])
    assert sorted(order) == list(range(np.prod(grid)))
    for started in sorted({0, 1, grid[0] - 1, grid[0], len(order) // 2, len(order) - 1} & set(range(len(order)))):
        (does,) = np.flatnonzero(ran(result, grid, blocks=[started]) >= 0)
        assert does == order[started]


def test_the_longest_blocks_of_all_rows_of_a_group_come_first():
    columns = block_order((64, 32, 1), GROUP) % 64
    assert (columns[:8] == 63).all() and (columns[8:16] == 62).all() and columns[511] == 0 and columns[512] == 63


HINTS = "optimization_hints=<sm_80 = {occupancy = 2}>"
LARGE = """%numbers = iota : tile<16384xi32>
    %sum, %kept = for %i in (%lower to %upper, step %step) : tile<i32>
        iter_values(%s = %zero, %n = %numbers) -> (tile<i32>, tile<16384xi32>) {
      %more = addi %s, %i : tile<i32>
      %squares = muli %n, %n : tile<16384xi32>
      continue %more, %squares : tile<i32>, tile<16384xi32>
    }
    %any = reduce %kept dim=0 identities=[0 : i32] : tile<16384xi32> -> tile<i32>
      (%a: tile<i32>, %b: tile<i32>) {
        %or = ori %a, %b : tile<i32>
        yield %or : tile<i32>
      }
    %nothing = muli %any, %zero : tile<i32>"""
"""The loop beside a tile that leaves an SM no room for two CTAs without a hint; the tile adds nothing."""


def hinted(source: str) -> str:
    return source.replace("tile<i32>) {", f"tile<i32>) {HINTS} {{", 1)


def test_groups_grow_with_the_ctas_of_an_sm():
    loop = re.search(r"%sum = for .*?\n    }", KERNEL, re.DOTALL)[0]
    source = text("mini %x, %eight signed").replace(loop, LARGE)
    source = source.replace("%value = addi %name, %sum", "%more = addi %sum, %nothing : tile<i32>\n"
                            "    %value = addi %name, %more")  # fmt: skip
    assert compiled(source).kernels[0].metadata["block_group"] == GROUP
    result = compiled(hinted(source))
    assert result.kernels[0].metadata["block_group"] == 2 * GROUP
    grid = (200, 4, 2)
    order, blocks = block_order(grid, 2 * GROUP), [0, 5, 1000, 1599]
    all_wanted = wanted(grid, lambda x, y: min(x, 8))
    for block in blocks:
        out = ran(result, grid, blocks=[block])
        (does,) = np.flatnonzero(out >= 0)
        assert does == order[block] and out[does] == all_wanted[does]


def test_a_needless_hint_leaves_the_groups_as_they_are():
    source = text("addi %x, %two")
    assert compiled(hinted(source)).text == compiled(source).text


def test_rows_themselves_start_from_the_end():
    result = compiled(text("addi %y, %two"))
    assert "block_group" not in result.kernels[0].metadata
    assert (ran(result, (3, 4, 2)) == wanted((3, 4, 2), lambda x, y: y + 2)).all()
    assert np.flatnonzero(ran(result, (3, 4, 1), blocks=[0]) >= 0).tolist() == [9]


LEFT = {
    "work that shrinks": text("subi %eight, %x"),
    "as many iterations everywhere": text("addi %few, %two"),
    "persistent": text("addi %eight, %few", lower="%lower = addi %x, %zero : tile<i32>",
                       step="%step = addi %nx, %zero : tile<i32>"),
    "a diagonal": text("addi %x, %two", lower="%lower = addi %x, %zero : tile<i32>"),
    "a remainder": text("remi %x, %two signed"),
    "a product of unknown sign": text("muli %x, %few"),
    "a step of unknown sign": text("addi %x, %two", step="%step = addi %few, %zero : tile<i32>"),
    "tile blocks that may wait for each other": text("addi %x, %two", UPDATE),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LEFT))
def test_other_orders_stay(name):
    result = compiled(LEFT[name])
    assert "block_group" not in result.kernels[0].metadata
    started = ran(result, (3, 2, 1), blocks=[0])
    assert np.flatnonzero(started != -1).tolist() == [0]


def test_clusters_are_counted_as_tile_blocks():
    hints = "optimization_hints=<sm_90 = {num_cta_in_cga = 2}>"
    source = text("addi %x, %two").replace("tile<i32>) {", f"tile<i32>) {hints} {{", 1)
    result = tileiras.compile(source, gpu_name="sm_90", emit="ptx", source_name="kernel.mlir")
    out = np.full(30, -1, np.int32)
    emulate(result.text, "k", (5, 3, 2), [out, 5], result.kernels[0].metadata)
    assert result.kernels[0].metadata["cluster"] == [2, 1, 1]
    assert (out == wanted((5, 3, 2), lambda x, y: x + 2)).all()


def test_nothing_changes_where_nothing_is_scheduled():
    assert "block_group" not in compiled(text("addi %x, %two"), opt_level=0).kernels[0].metadata


def test_a_remark_says_so():
    result = compiled(text("addi %x, %two"))
    assert stated(result.diagnostics, "kernel.longest-first") == ["kernel.longest-first axis=x"]
    assert json.loads(result.kernels[0].artifacts[".json"])["kernels"][0]["block_group"] == GROUP
