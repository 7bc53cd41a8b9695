"""Loads of indices run one iteration ahead in registers, of those whose addresses are computed from them."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.schedule.loop_schedules import schedules
from tileiras.sim import emulate

SOURCE = """
cuda_tile.module @m {
  entry @k(%index: tile<ptr<i32>>, %counts: tile<ptr<i32>>, %steps: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %ones = constant <i32: 1> : tile<WIDTHxi32>
    %size = constant <i32: WIDTH> : tile<i32>
    %lanes = iota : tile<WIDTHxi32>
    %start = make_token : token
    %index0 = reshape %index : tile<ptr<i32>> -> tile<1xptr<i32>>
    %from = broadcast %index0 : tile<1xptr<i32>> -> tile<WIDTHxptr<i32>>
    %counts0 = reshape %counts : tile<ptr<i32>> -> tile<1xptr<i32>>
    %all = broadcast %counts0 : tile<1xptr<i32>> -> tile<WIDTHxptr<i32>>
    %end = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%before = %start) -> (token) {
      %first = muli %i, %size : tile<i32>
      %f0 = reshape %first : tile<i32> -> tile<1xi32>
      %f = broadcast %f0 : tile<1xi32> -> tile<WIDTHxi32>
      %at = addi %f, %lanes : tile<WIDTHxi32>
      %place = offset %from, %at : tile<WIDTHxptr<i32>>, tile<WIDTHxi32> -> tile<WIDTHxptr<i32>>
      %k, %t = load_ptr_tko weak %place ORDERED : tile<WIDTHxptr<i32>> -> tile<WIDTHxi32>, token
      %to = offset %all, %k : tile<WIDTHxptr<i32>>, tile<WIDTHxi32> -> tile<WIDTHxptr<i32>>
      %count, %u = load_ptr_tko weak %to token = %before : tile<WIDTHxptr<i32>> -> tile<WIDTHxi32>, token
      %more = addi %count, %ones : tile<WIDTHxi32>
      %after = store_ptr_tko weak %to, %more token = %u : tile<WIDTHxptr<i32>>, tile<WIDTHxi32> -> token
      continue %after : token
    }
    return
  }
}
"""


def source(width: int = 1, ordered: bool = False) -> bytes:
    """Counts of places; `ordered`: the loads of places follow the stores of counts."""
    return SOURCE.replace("WIDTH", str(width)).replace("ORDERED", "token = %before" if ordered else "").encode()


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("width", [1, 64])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_any_number_of_steps(gpu, width, steps):
    (kernel,) = tileiras.compile(source(width), gpu_name=gpu, emit="ptx").kernels
    generator = np.random.default_rng(steps)
    index = np.array([generator.permutation(64)[:width] for _ in range(8)], np.int32)
    counts = np.zeros(64, np.int32)
    emulate(kernel.artifacts[".ptx"].decode(), "k", 1, [index, counts, steps], metadata=kernel.metadata, seed=steps)
    np.testing.assert_array_equal(counts, np.bincount(index[:steps].ravel(), minlength=64))


def test_only_unordered_indices_run_ahead():
    assert schedules(source(), "sm_90") == ["prefetch"]
    assert schedules(source(ordered=True), "sm_90") == ["serial"]


def test_indices_without_registers_stay():
    assert set(schedules(source(16384), "sm_90", num_warps=4)) == {"serial"}
