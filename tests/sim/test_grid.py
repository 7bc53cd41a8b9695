"""The grid of a run: one number or up to three, in both simulators."""

import numpy as np
import pytest

from tileiras.sim import emulate, interpret
from tileiras.sim.errors import ArgumentMismatch

COUNT_BLOCKS = """cuda_tile.module @m {
entry @k(%p: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %old, %t = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  return
}
}
"""

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 1
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  red.relaxed.gpu.global.add.u32 [%rd1], 1;
  ret;
}
"""

RUNS = {"interpret": lambda *args: interpret(COUNT_BLOCKS, *args), "emulate": lambda *args: emulate(PTX, *args)}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("grid, blocks", [(3, 3), (np.int64(3), 3), ((2, 3), 6), ([np.int32(2), 1, 2], 4)])
def test_tile_blocks_of_a_grid(run, grid, blocks):
    count = np.zeros(1, np.int32)
    run("k", grid, [count])
    assert count[0] == blocks


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("grid", [0, (), (1, 0), (1, 1, 1, 1), 1.5, "3"])
def test_an_invalid_grid_is_reported(run, grid):
    with pytest.raises(ArgumentMismatch, match="one to three"):
        run("k", grid, [np.zeros(1, np.int32)])
