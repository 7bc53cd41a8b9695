"""Rows of a tile block's next share are loaded one iteration ahead, in registers."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.schedule.loop_schedules import schedules
from tileiras.sim import emulate

SOURCE = """
cuda_tile.module @m {
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %rows: tile<i32>, %length: tile<i32>) {
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %size = constant <i32: WIDTH> : tile<i32>
    %i = iota : tile<WIDTHxi32>
    %l0 = reshape %length : tile<i32> -> tile<1xi32>
    %l = broadcast %l0 : tile<1xi32> -> tile<WIDTHxi32>
    %in = cmpi less_than %i, %l, signed : tile<WIDTHxi32> -> tile<WIDTHxi1>
    %below = constant <f32: -1.0> : tile<WIDTHxf32>
    %x0 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x0 : tile<1xptr<f32>> -> tile<WIDTHxptr<f32>>
    %y0 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ys = broadcast %y0 : tile<1xptr<f32>> -> tile<WIDTHxptr<f32>>
    for %row in (%bx to %rows, step %STEP) : tile<i32> {
      %first = muli %row, %size : tile<i32>
      %f0 = reshape %first : tile<i32> -> tile<1xi32>
      %f = broadcast %f0 : tile<1xi32> -> tile<WIDTHxi32>
      %at = addi %f, %i : tile<WIDTHxi32>
      %from = offset %xs, %at : tile<WIDTHxptr<f32>>, tile<WIDTHxi32> -> tile<WIDTHxptr<f32>>
      %v, %t = load_ptr_tko weak %from, %in, %below
        : tile<WIDTHxptr<f32>>, tile<WIDTHxi1>, tile<WIDTHxf32> -> tile<WIDTHxf32>, token
      %sum = reduce %v dim=0 identities=[0.0 : f32] : tile<WIDTHxf32> -> tile<f32>
        (%a: tile<f32>, %b: tile<f32>) {
          %c = addf %a, %b : tile<f32>
          yield %c : tile<f32>
        }
      %s0 = reshape %sum : tile<f32> -> tile<1xf32>
      %s = broadcast %s0 : tile<1xf32> -> tile<WIDTHxf32>
      %w = addf %v, %s : tile<WIDTHxf32>
      %to = offset %ys, %at : tile<WIDTHxptr<f32>>, tile<WIDTHxi32> -> tile<WIDTHxptr<f32>>
      %u = store_ptr_tko weak %to, %w, %in
        : tile<WIDTHxptr<f32>>, tile<WIDTHxf32>, tile<WIDTHxi1> -> token
    }
    return
  }
}
"""


def source(width: int = 128, step: str = "nx") -> bytes:
    return SOURCE.replace("WIDTH", str(width)).replace("STEP", step).encode()


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7])
def test_any_number_of_rows(gpu, rows):
    (kernel,) = tileiras.compile(source(), gpu_name=gpu, emit="ptx").kernels
    x = np.random.default_rng(rows).integers(-8, 8, (8, 128)).astype(np.float32)
    y, length = np.full_like(x, 5), 100
    emulate(kernel.artifacts[".ptx"].decode(), "k", 2, [x, y, rows, length], metadata=kernel.metadata, seed=rows)
    inside = np.where(np.arange(128) < length, x, -1)
    expected = np.full_like(x, 5)
    expected[:rows, :length] = (inside + inside.sum(1, keepdims=True))[:rows, :length]
    np.testing.assert_array_equal(y, expected)


def test_only_shares_of_a_grid_run_ahead():
    assert schedules(source(), "sm_90") == ["prefetch"]
    assert schedules(source(step="size"), "sm_90") == ["serial"]


def test_rows_without_registers_for_another_one_stay():
    assert schedules(source(width=8192), "sm_90", num_warps=4) == ["serial"]
