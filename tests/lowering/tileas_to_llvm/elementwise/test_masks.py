"""Masks of the numbers of elements: constants of registers are compared, and warps skip masks that hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate

MASKED = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>, %first0: tile<i32>, %end0: tile<i32>) {{
    %first = assume bounded<0, {most}>, %first0 : tile<i32>
    %end = assume bounded<0, ?>, %end0 : tile<i32>
    %iota = iota : tile<1024xi32>
    %f1 = reshape %first : tile<i32> -> tile<1xi32>
    %f = broadcast %f1 : tile<1xi32> -> tile<1024xi32>
    %number = addi %f, %iota : tile<1024xi32>
    %e1 = reshape %end : tile<i32> -> tile<1xi32>
    %e = broadcast %e1 : tile<1xi32> -> tile<1024xi32>
    %mask = cmpi {predicate} %{lhs}, %{rhs}, signed : tile<1024xi32> -> tile<1024xi1>
    %one = constant <i32: 1> : tile<1024xi32>
    %zero = constant <i32: 0> : tile<1024xi32>
    %r = select %mask, %one, %zero : tile<1024xi1>, tile<1024xi32>
    %q1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %qb = broadcast %q1 : tile<1xptr<i32>> -> tile<1024xptr<i32>>
    %q = offset %qb, %iota : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xptr<i32>>
    %t = store_ptr_tko weak %q, %r : tile<1024xptr<i32>>, tile<1024xi32> -> token
    return
  }}
}}
"""
PREDICATES = {"less_than": np.less, "greater_than_or_equal": np.greater_equal, "equal": np.equal}


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("swapped", [False, True])
def test_masks_compare_constants_of_registers(predicate, swapped):
    """The number plus a constant is compared without an addition for each register, unless the sum may wrap."""
    lhs, rhs = ("e", "number") if swapped else ("number", "e")
    added = []
    for most in (2**31 - 1024, 2**31 - 1):
        text = tileiras.compile(MASKED.format(predicate=predicate, lhs=lhs, rhs=rhs, most=most), gpu_name="sm_90").text
        added.append(len(re.findall(r"\b(?:add|or|sub)\.[sb]32", text)))
        for first, end in [(0, 0), (0, 1024), (0, 517), (7, 517), (3000, 3001), (2**31 - 1024, 2**31 - 3)]:
            out = np.full(1024, -1, np.int32)
            emulate(text, "k", 1, [out, first, end])
            sides = [first + np.arange(1024, dtype=np.int64), np.full(1024, end)]
            assert np.array_equal(out, PREDICATES[predicate](*(reversed(sides) if swapped else sides)))
    assert added[0] + 3 <= added[1]


LOOP = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %end0: tile<i32>, %steps: tile<i32>) {{
    %end = assume bounded<0, ?>, %end0 : tile<i32>
    %iota = iota : tile<8192xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %p1 : tile<1xptr<f32>> -> tile<8192xptr<f32>>
    %at = offset %pb, %iota : tile<8192xptr<f32>>, tile<8192xi32> -> tile<8192xptr<f32>>
    %x, %t0 = load_ptr_tko weak %at : tile<8192xptr<f32>> -> tile<8192xf32>, token
    %e1 = reshape %end : tile<i32> -> tile<1xi32>
    %e = broadcast %e1 : tile<1xi32> -> tile<8192xi32>
    %none = constant <f32: 0.0> : tile<8192xf32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: 8192> : tile<i32>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%a = %none) -> (tile<8192xf32>) {{
      %few = andi %i, %one : tile<i32>
      %first = muli %few, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %f = broadcast %f1 : tile<1xi32> -> tile<8192xi32>
      %number = addi %f, %iota : tile<8192xi32>
      %mask = cmpi {predicate} %number, %e, signed : tile<8192xi32> -> tile<8192xi1>
      %y = select %mask, %x, %none : tile<8192xi1>, tile<8192xf32>
      %next = addf %a, %y rounding<nearest_even> : tile<8192xf32>
      continue %next : tile<8192xf32>
    }}
    %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qb = broadcast %q1 : tile<1xptr<f32>> -> tile<8192xptr<f32>>
    %to = offset %qb, %iota : tile<8192xptr<f32>>, tile<8192xi32> -> tile<8192xptr<f32>>
    %t1 = store_ptr_tko weak %to, %sum : tile<8192xptr<f32>>, tile<8192xf32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("predicate", ["less_than", "greater_than_or_equal"])
def test_warps_skip_masks_that_hold_for_their_elements(predicate):
    text = tileiras.compile(LOOP.format(predicate=predicate), gpu_name="sm_90", source_name="k.mlir").text
    assert "vote.sync.all" in text
    source = np.arange(1, 8193, dtype=np.float32)
    for end in (0, 1, 517, 8191, 8192, 8193, 12000, 16383, 16384, 20000):
        out = np.full(8192, np.nan, np.float32)
        emulate(text, "k", 1, [source, out, end, 3])
        expected = np.zeros(8192, np.float32)
        for first in (0, 8192, 0):
            expected += np.where(PREDICATES[predicate](first + np.arange(8192), end), source, 0)
        np.testing.assert_array_equal(out, expected)
